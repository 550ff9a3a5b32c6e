#include "server/trace_rows.h"

#include <stdio.h>

static int seek(void *context, uint64_t number, bool defining_only)
{
    struct bh_trace_rows *rows = context;

    /* the two ways use two statements: one left in the middle would pin the connection's snapshot,
     * and rows written from then on by others would never be seen */
    bh_trace_rows_done(rows);
    return bh_db_bind(rows->db,
                      defining_only ? BH_TRACE_SQL_SEGMENTS_DEFINING : BH_TRACE_SQL_SEGMENTS,
                      &rows->statement, NULL, "ii", rows->key, (int64_t)number);
}

static int next(void *context, const unsigned char **ret_data, size_t *ret_length)
{
    struct bh_trace_rows *rows = context;
    int result;

    if (!rows->statement)
        return 0;
    result = bh_db_step(rows->db, rows->statement, NULL);
    if (result <= 0) {
        rows->statement = NULL;
        return result;
    }
    *ret_data = sqlite3_column_blob(rows->statement, 0);
    *ret_length = (size_t)sqlite3_column_bytes(rows->statement, 0);
    return *ret_data ? 1 : BH_E_NOMEM;
}

static int locate(void *context, uint64_t sequence, uint64_t *ret_number)
{
    struct bh_trace_rows *rows = context;
    sqlite3_stmt *statement;
    /* sequences are far below 2^63; "the end" may be asked for as the greatest number */
    int64_t bound = sequence > INT64_MAX ? INT64_MAX : (int64_t)sequence;
    int result =
        bh_db_bind(rows->db, BH_TRACE_SQL_SEGMENT_LOCATE, &statement, NULL, "ii", rows->key, bound);

    if (result >= 0)
        result = bh_db_step(rows->db, statement, NULL);
    if (result < 0)
        return result;
    *ret_number = result == 1 ? (uint64_t)sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    return 0;
}

void bh_trace_rows_init(struct bh_trace_rows *rows, struct bh_db *db, int64_t key, const char *id,
                        struct bh_anchor anchor, uint64_t segments)
{
    *rows = (struct bh_trace_rows){.db = db, .key = key, .segments = segments};
    rows->source = (struct bh_trace_source){
        .context = rows,
        .header.anchor = anchor,
        .seek = seek,
        .next = next,
        .locate = locate,
    };
    snprintf(rows->source.header.run_id, sizeof rows->source.header.run_id, "%s", id);
}

void bh_trace_rows_done(struct bh_trace_rows *rows)
{
    if (rows->statement)
        sqlite3_reset(rows->statement);
    rows->statement = NULL;
}

/* One blob of a bound statement: 1 and it is appended, 0 when there is no row. */
static int take_blob(struct bh_trace_rows *rows, sqlite3_stmt *statement, int result,
                     struct bh_bytes *ret_bytes)
{
    if (result >= 0)
        result = bh_db_step(rows->db, statement, NULL);
    if (result <= 0)
        return result;
    result = bh_db_column_bytes(statement, 0, ret_bytes);
    sqlite3_reset(statement);
    return result < 0 ? result : 1;
}

static int level_get(void *context, unsigned series, unsigned level, uint64_t index,
                     struct bh_bytes *ret_bytes)
{
    struct bh_trace_rows *rows = context;
    sqlite3_stmt *statement = NULL;
    int result = bh_db_bind(rows->db, BH_TRACE_SQL_LEVEL_GET, &statement, NULL, "iiii", rows->key,
                            (int64_t)series, (int64_t)level, (int64_t)index);

    result = take_blob(rows, statement, result, ret_bytes);
    if (result == 0)
        return BH_E_NOT_FOUND;
    return result < 0 ? result : 0;
}

struct bh_level_store bh_trace_rows_levels(struct bh_trace_rows *rows)
{
    return (struct bh_level_store){.context = rows, .get = level_get};
}

static int by_sequence(void *context, uint64_t sequence, struct bh_bytes *ret_blob)
{
    struct bh_trace_rows *rows = context;
    sqlite3_stmt *statement = NULL;
    int64_t bound = sequence > INT64_MAX ? INT64_MAX : (int64_t)sequence;
    int result = bh_db_bind(rows->db, BH_TRACE_SQL_KEYFRAME_BY_SEQUENCE, &statement, NULL, "ii",
                            rows->key, bound);

    return take_blob(rows, statement, result, ret_blob);
}

static int by_time(void *context, int64_t at_us, struct bh_bytes *ret_blob)
{
    struct bh_trace_rows *rows = context;
    sqlite3_stmt *statement = NULL;
    int result = bh_db_bind(rows->db, BH_TRACE_SQL_KEYFRAME_BY_TIME, &statement, NULL, "ii",
                            rows->key, at_us);

    return take_blob(rows, statement, result, ret_blob);
}

struct bh_keyframe_store bh_trace_rows_keyframes(struct bh_trace_rows *rows)
{
    return (struct bh_keyframe_store){
        .context = rows,
        .by_sequence = by_sequence,
        .by_time = by_time,
    };
}
