/* Reports and journal records, as the loop reads them. */
#include "core/wire/journal.h"
#include "server/store_internal.h"

/* What a job without a servable report answers. */
static int no_report(enum bh_store_report state, const char *reason, struct bh_diag *diag)
{
    if (state == BH_STORE_REPORT_SUPPRESSED)
        return bh_err_set(diag, BH_E_REPORT_SUPPRESSED, NULL, "%s",
                          *reason ? reason : "The report was lost");
    return bh_err_set(diag, BH_E_REPORT_NOT_READY, NULL,
                      "The report is written when the job has ended");
}

int bh_store_report_get(struct bh_store *store, const char *id, struct bh_bytes *ret_report,
                        struct bh_diag *diag)
{
    enum bh_store_report state;
    sqlite3_stmt *statement;
    char reason[160];
    int result = bh_db_bind(&store->db, BH_STORE_SQL_REPORT_GET, &statement, diag, "t", id);

    if (result >= 0)
        result = bh_db_step(&store->db, statement, diag);
    if (result < 0)
        return result;
    if (result == 0)
        return bh_err_set(diag, BH_E_NOT_FOUND, "id", "There is no job with this id");
    state = (enum bh_store_report)sqlite3_column_int(statement, 0);
    bh_db_column_text(statement, 1, reason, sizeof reason);
    if (state == BH_STORE_REPORT_READY)
        result = bh_db_column_bytes(statement, 2, ret_report);
    else
        result = no_report(state, reason, diag);
    sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

int bh_store_reclamation_get(struct bh_store *store, const char *id, struct bh_bytes *ret_bytes,
                             struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&store->db, BH_STORE_SQL_RECLAMATION_GET, &statement, diag, "t", id);

    if (result >= 0)
        result = bh_db_step(&store->db, statement, diag);
    if (result < 0)
        return result;
    if (result == 0)
        return bh_err_set(diag, BH_E_NOT_FOUND, NULL, "The readings after the end are pending");
    result = bh_db_column_bytes(statement, 0, ret_bytes);
    sqlite3_reset(statement);
    return result;
}

int bh_store_report_put(struct bh_store *store, const char *id, const void *data, size_t length,
                        enum bh_outcome_kind outcome, enum bh_cause cause, const char *sentence,
                        struct bh_wall ended_at, struct bh_diag *diag)
{
    enum bh_job_state state;
    int64_t key;
    int result = bh_store_key(store, id, &key, &state, diag);

    if (result < 0)
        return result;
    if (state == BH_JOB_FINISHED || state == BH_JOB_FAILED_TO_START)
        return bh_err_set(diag, BH_E_WRONG_STATE, NULL, "The job has ended already");
    result = bh_store_durable(store, true, diag);
    if (result >= 0)
        result = bh_db_begin(&store->db, true, diag);
    if (result < 0)
        return result;
    result = bh_db_run(&store->db, BH_STORE_SQL_REPORT_PUT, diag, "ib", key, data, length);
    if (result >= 0)
        result = bh_db_run(&store->db, BH_STORE_SQL_REPORT_ENDS_JOB, diag, "iddtii", key,
                           (int)outcome, (int)cause, sentence, ended_at.us, (int64_t)length);
    result = bh_db_end(&store->db, result, diag);
    (void)bh_store_durable(store, false, NULL);
    return result < 0 ? result : 0;
}

int bh_store_report_suppress(struct bh_store *store, const char *id, const char *reason,
                             struct bh_diag *diag)
{
    int result = bh_db_run(&store->db, BH_STORE_SQL_REPORT_SUPPRESS, diag, "tt", id, reason);

    if (result == 0)
        return bh_err_set(diag, BH_E_NOT_FOUND, "id", "There is no job with this id");
    return result < 0 ? result : 0;
}

#define FEW_KINDS 4

static int bind_records(struct bh_store *store, int64_t key, uint64_t kinds, uint64_t after,
                        uint32_t limit, sqlite3_stmt **ret_statement, struct bh_diag *diag)
{
    int few[FEW_KINDS] = {-1, -1, -1, -1}, count = 0;

    for (int kind = 0; kind < 64; kind++) {
        if (!((kinds >> kind) & 1))
            continue;
        if (count < FEW_KINDS)
            few[count] = kind;
        count++;
    }
    if (count > FEW_KINDS)
        return bh_db_bind(&store->db, BH_STORE_SQL_RECORDS, ret_statement, diag, "iiii", key,
                          (int64_t)after, (int64_t)kinds, (int64_t)limit);
    return bh_db_bind(&store->db, BH_STORE_SQL_RECORDS_OF, ret_statement, diag, "iiiidddd", key,
                      (int64_t)after, (int64_t)kinds, (int64_t)limit, few[0], few[1], few[2],
                      few[3]);
}

int bh_store_records(struct bh_store *store, const char *id, uint64_t kinds, uint64_t after,
                     uint32_t limit, int (*visit)(void *user, const struct bh_record *record),
                     void *user, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    enum bh_job_state state;
    int64_t key;
    int result = bh_store_key(store, id, &key, &state, diag);

    if (result >= 0)
        result = bind_records(store, key, kinds, after, limit, &statement, diag);
    if (result < 0)
        return result;
    while ((result = bh_db_step(&store->db, statement, diag)) == 1) {
        struct bh_record record;
        result = bh_record_decode(sqlite3_column_blob(statement, 0),
                                  (size_t)sqlite3_column_bytes(statement, 0), id, &record);
        /* checked before it was stored: anything else is a damaged database */
        if (result <= 0)
            result = bh_err_set(diag, BH_E_MALFORMED, NULL, "A stored record is damaged");
        else
            result = visit(user, &record);
        if (result < 0)
            break;
    }
    sqlite3_reset(statement);
    return result < 0 ? result : 0;
}
