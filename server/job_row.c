#include "server/job_row.h"

#include "server/spec_row.h"

#define BH_COLUMN_OWN(column, member, type) #column ","
#define BH_COLUMN_OWN_TEXT(column, member)  #column ","
#define BH_COLUMN_INT(column, member, type) #column ","
#define BH_COLUMN_TEXT(column, member)      #column ","
#define BH_COLUMN_OBSERVED(column, member)  #column "_status," #column ","
const char bh_job_row_view[] = "CREATE TEMP VIEW job_row AS SELECT "
#include "server/job_columns.def"
                               "deleted FROM main.job WHERE deleted=0";
#undef BH_COLUMN_OWN
#undef BH_COLUMN_OWN_TEXT
#undef BH_COLUMN_INT
#undef BH_COLUMN_TEXT
#undef BH_COLUMN_OBSERVED

#define BH_COLUMN_OWN(column, member, type)
#define BH_COLUMN_OWN_TEXT(column, member)
#define BH_COLUMN_INT(column, member, type) #column "=?,"
#define BH_COLUMN_TEXT(column, member)      #column "=?,"
#define BH_COLUMN_OBSERVED(column, member)  #column "_status=?," #column "=?,"
const char bh_job_row_update[] = "UPDATE job SET "
#include "server/job_columns.def"
                                 "deleted=deleted WHERE key=?";
#undef BH_COLUMN_OWN
#undef BH_COLUMN_OWN_TEXT
#undef BH_COLUMN_INT
#undef BH_COLUMN_TEXT
#undef BH_COLUMN_OBSERVED

#define BH_COLUMN_OWN(column, member, type)                                                        \
    job.member = (type)sqlite3_column_int64(statement, at++);
#define BH_COLUMN_OWN_TEXT(column, member)                                                         \
    bh_db_column_text(statement, at++, job.member, sizeof job.member);
#define BH_COLUMN_INT(column, member, type) BH_COLUMN_OWN(column, member, type)
#define BH_COLUMN_TEXT(column, member)      BH_COLUMN_OWN_TEXT(column, member)
#define BH_COLUMN_OBSERVED(column, member)                                                         \
    job.member.status = (enum bh_value_status)sqlite3_column_int64(statement, at++);               \
    job.member.value = (uint64_t)sqlite3_column_int64(statement, at++);
void bh_job_row_read(sqlite3_stmt *statement, struct bh_store_job *ret_job)
{
    struct bh_store_job job = {0};
    int at = 0;

#include "server/job_columns.def"
    *ret_job = job;
}
#undef BH_COLUMN_OWN
#undef BH_COLUMN_OWN_TEXT
#undef BH_COLUMN_INT
#undef BH_COLUMN_TEXT
#undef BH_COLUMN_OBSERVED

#define BH_COLUMN_OWN(column, member, type)
#define BH_COLUMN_OWN_TEXT(column, member)
#define BH_COLUMN_INT(column, member, type)                                                        \
    code |= sqlite3_bind_int64(statement, at++, (int64_t)job->member);
#define BH_COLUMN_TEXT(column, member)                                                             \
    code |= sqlite3_bind_text(statement, at++, job->member, -1, SQLITE_STATIC);
#define BH_COLUMN_OBSERVED(column, member)                                                         \
    code |= sqlite3_bind_int64(statement, at++, (int64_t)job->member.status);                      \
    code |= sqlite3_bind_int64(statement, at++, (int64_t)job->member.value);
int bh_job_row_bind(struct bh_db *db, sqlite3_stmt *statement, const struct bh_store_job *job,
                    struct bh_diag *diag)
{
    int at = 1, code = SQLITE_OK;

#include "server/job_columns.def"
    code |= sqlite3_bind_int64(statement, at, job->key);
    return code == SQLITE_OK ? 0 : bh_db_error(db->handle, code, "bind", diag);
}
#undef BH_COLUMN_OWN
#undef BH_COLUMN_OWN_TEXT
#undef BH_COLUMN_INT
#undef BH_COLUMN_TEXT
#undef BH_COLUMN_OBSERVED

static int insert_rows(struct bh_db *db, size_t insert, size_t label,
                       const struct bh_job_spec *spec, const struct bh_bytes *blob,
                       struct bh_diag *diag)
{
    int64_t key;
    int result = bh_db_run(db, insert, diag, "ttdiiiiiib", spec->id, spec->name ? spec->name : "",
                           (int)spec->mode, (int64_t)spec->external, spec->created_at.us,
                           (int64_t)spec->limit_bytes, (int64_t)spec->warning_bytes,
                           (int64_t)spec->recovery_bytes, (int64_t)spec->emergency_bytes,
                           blob->data, blob->length);

    if (result < 0)
        return result;
    key = sqlite3_last_insert_rowid(db->handle);
    for (size_t i = 0; i < spec->label_count; i++) {
        result = bh_db_run(db, label, diag, "itt", key, spec->labels[i].key, spec->labels[i].value);
        if (result < 0)
            return result;
    }
    return 0;
}

int bh_job_row_insert(struct bh_db *db, size_t insert, size_t label, const struct bh_job_spec *spec,
                      struct bh_diag *diag)
{
    struct bh_bytes blob = {0};
    int result = bh_spec_row_encode(spec, &blob, diag);

    if (result >= 0)
        result = insert_rows(db, insert, label, spec, &blob, diag);
    bh_bytes_done(&blob);
    return result;
}
