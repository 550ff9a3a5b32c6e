#include "server/trace.h"

#include <stdlib.h>

#include "server/trace_internal.h"

static const char *const texts[] = {
#define BH_STATEMENT(name, text) [BH_TRACE_SQL_##name] = text,
#include "server/trace_statements.def"
#undef BH_STATEMENT
#define BH_STATEMENT(name, text) [BH_READ_SQL_##name] = text,
#include "server/trace_own_statements.def"
#undef BH_STATEMENT
};

int bh_trace_open(const char *database_path, struct bh_trace **ret_trace, struct bh_diag *diag)
{
    struct bh_trace *trace = calloc(1, sizeof *trace);
    int result;

    if (!trace)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    result = bh_db_open(database_path, BH_DB_READ, texts, BH_READ_SQL_COUNT, &trace->db, diag);
    if (result < 0) {
        free(trace);
        return result;
    }
    *ret_trace = trace;
    return 0;
}

void bh_trace_close(struct bh_trace *trace)
{
    if (!trace)
        return;
    bh_dictionary_free(trace->dictionary);
    bh_db_close(&trace->db);
    free(trace);
}

static struct bh_wall wall(sqlite3_stmt *statement, int column)
{
    return (struct bh_wall){sqlite3_column_int64(statement, column)};
}

static uint64_t number(sqlite3_stmt *statement, int column)
{
    return (uint64_t)sqlite3_column_int64(statement, column);
}

static void read_job(struct bh_trace *trace, sqlite3_stmt *statement, struct bh_trace_job *job)
{
    struct bh_anchor anchor = {{number(statement, 4)}, wall(statement, 5)};

    *job = (struct bh_trace_job){
        .key = sqlite3_column_int64(statement, 0),
        .journal_anchor = {{number(statement, 2)}, wall(statement, 3)},
        .started_at = wall(statement, 6),
        .ended_at = wall(statement, 7),
        .finished = sqlite3_column_int(statement, 8) == BH_JOB_FINISHED ||
                    sqlite3_column_int(statement, 8) == BH_JOB_FAILED_TO_START,
        .peak = {(enum bh_value_status)sqlite3_column_int(statement, 9), number(statement, 10)},
        .peak_at = wall(statement, 11),
        .limit_crossed_at = wall(statement, 12),
        .limit_crossed_bytes = number(statement, 13),
        .limit_bytes = number(statement, 14),
        .warning_bytes = number(statement, 15),
        .recovery_bytes = number(statement, 16),
        .emergency_bytes = number(statement, 17),
        .segments = number(statement, 18),
        .peak_sequence = number(statement, 19),
        .began_at = wall(statement, 20),
        .last_at = wall(statement, 21),
        .mode = (enum bh_mode)sqlite3_column_int(statement, 22),
        .events = number(statement, 23),
        .event_sequence = number(statement, 24),
    };
    bh_db_column_text(statement, 1, job->id, sizeof job->id);
    bh_trace_rows_init(&job->rows, &trace->db, job->key, job->id, anchor, job->segments);
}

int bh_trace_begin(struct bh_trace *trace, const char *id, struct bh_trace_job *ret_job,
                   struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_begin(&trace->db, false, diag);

    if (result < 0)
        return result;
    result = bh_db_bind(&trace->db, BH_READ_SQL_JOB, &statement, diag, "t", id);
    if (result >= 0)
        result = bh_db_step(&trace->db, statement, diag);
    if (result == 1) {
        read_job(trace, statement, ret_job);
        sqlite3_reset(statement);
        return 0;
    }
    if (result == 0)
        result = bh_err_set(diag, BH_E_NOT_FOUND, "id", "There is no job with this id");
    return bh_db_end(&trace->db, result, NULL);
}

int bh_trace_end(struct bh_trace *trace, struct bh_trace_job *job, int result)
{
    bh_trace_rows_done(&job->rows);
    return bh_db_end(&trace->db, result, NULL);
}

int bh_trace_dictionary(struct bh_trace *trace, struct bh_trace_job *job,
                        const struct bh_dictionary **ret_dictionary, struct bh_diag *diag)
{
    int result = 0;

    if (trace->dictionary && trace->dictionary_key == job->key &&
        trace->dictionary_segments == job->segments) {
        *ret_dictionary = trace->dictionary;
        return 0;
    }
    bh_dictionary_free(trace->dictionary);
    trace->dictionary = NULL;
    result = bh_dictionary_new(&trace->dictionary);
    if (result >= 0 && job->segments > 0)
        result = bh_dictionary_load(trace->dictionary, &job->rows.source);
    if (result < 0) {
        bh_dictionary_free(trace->dictionary);
        trace->dictionary = NULL;
        return bh_err_set(diag, result, NULL, "The trace's names cannot be read");
    }
    trace->dictionary_key = job->key;
    trace->dictionary_segments = job->segments;
    *ret_dictionary = trace->dictionary;
    return 0;
}
