/* report.json and reclamation.json. */
#include "core/base/io.h"
#include "server/import_internal.h"

#define REPORT_MAX_BYTES (64u << 20) /* two million samples; a real one is below 2 MiB */

static int store_reclamation(struct bh_import *import, int64_t key, int dirfd, struct bh_diag *diag)
{
    struct bh_bytes bytes = {0};
    int result = bh_io_read_file(dirfd, "reclamation.json", REPORT_MAX_BYTES, &bytes, diag);

    if (result >= 0)
        result = bh_db_run(&import->db, BH_IMPORT_SQL_RECLAMATION_STORE, diag, "ib", key,
                           bytes.data, bytes.length);
    bh_bytes_done(&bytes);
    return result < 0 ? result : 0;
}

int bh_import_report_read(int dirfd, struct bh_bytes *ret_report, struct bh_diag *diag)
{
    return bh_io_read_file(dirfd, "report.json", REPORT_MAX_BYTES, ret_report, diag);
}

static int key_of(struct bh_import *import, const char *id, int64_t *ret_key, struct bh_diag *diag)
{
    struct bh_store_job row;
    sqlite3_stmt *statement;
    int result = bh_db_bind(&import->db, BH_IMPORT_SQL_JOB_LOAD, &statement, diag, "t", id);

    if (result >= 0)
        result = bh_db_step(&import->db, statement, diag);
    if (result <= 0)
        return result < 0 ? result
                          : bh_err_set(diag, BH_E_NOT_FOUND, "id", "There is no job with this id");
    bh_job_row_read(statement, &row);
    sqlite3_reset(statement);
    *ret_key = row.key;
    return 0;
}

int bh_import_reclamation(struct bh_import *import, const char *id, int dirfd, struct bh_diag *diag)
{
    int64_t key = 0;
    int result = key_of(import, id, &key, diag);

    if (result < 0)
        return result;
    return store_reclamation(import, key, dirfd, diag);
}
