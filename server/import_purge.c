/* Removing deleted jobs: run directory first, rows afterwards, so that a kill at any instant leaves
 * something the next call finishes. */
#include <errno.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/base/text.h"
#include "core/wire/spec_file.h"
#include "server/import_internal.h"

/* The spec goes first: a directory without one is no job to a rebuild, so that a kill in between
 * and a lost database together cannot bring half a job back. */
static int remove_directory(int jobs_fd, const char *id, struct bh_diag *diag)
{
    BH_SCOPED_FD int dirfd = -1;
    int result;

    if (!bh_text_is_job_id(id)) /* a damaged row must not name another path */
        return bh_err_set(diag, BH_E_MALFORMED, NULL, "A deleted row has no proper id");
    result = bh_io_open_dir(jobs_fd, id, &dirfd, diag);
    if (result == BH_E_NOT_FOUND)
        return 0;
    if (result < 0)
        return result;
    if (unlinkat(dirfd, BH_SPEC_FILE_NAME, 0) < 0 && errno != ENOENT)
        return bh_err_sys(diag, errno, "The run directory cannot be removed");
    return bh_io_remove_tree(jobs_fd, id, diag);
}

/* One short transaction's worth of rows; *ret_left says whether the job's row is still there. */
static int remove_rows(struct bh_import *import, int64_t key, bool *ret_left, struct bh_diag *diag)
{
    static const enum bh_import_sql parts[] = {
        BH_IMPORT_SQL_PURGE_SEGMENTS, BH_IMPORT_SQL_PURGE_KEYFRAMES, BH_IMPORT_SQL_PURGE_LEVELS,
        BH_IMPORT_SQL_PURGE_RECORDS, BH_IMPORT_SQL_PURGE_JOB};
    int result = bh_db_begin(&import->db, true, diag);

    if (result < 0)
        return result;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        result = bh_db_run(&import->db, parts[i], diag, "i", key);
        if (result != 0) {
            *ret_left = parts[i] != BH_IMPORT_SQL_PURGE_JOB;
            break;
        }
    }
    result = bh_db_end(&import->db, result, diag);
    if (result >= 0)
        result = bh_db_exec(&import->db, "PRAGMA incremental_vacuum(1024)", diag);
    return result;
}

/* The next deleted job: 1, or 0 when there is none. */
static int next_deleted(struct bh_import *import, int64_t *ret_key, char ret_id[BH_JOB_ID_SIZE],
                        struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&import->db, BH_IMPORT_SQL_DELETED, &statement, diag, "");

    if (result >= 0)
        result = bh_db_step(&import->db, statement, diag);
    if (result == 1) {
        *ret_key = sqlite3_column_int64(statement, 0);
        bh_db_column_text(statement, 1, ret_id, BH_JOB_ID_SIZE);
        sqlite3_reset(statement);
    }
    return result;
}

int bh_import_purge(struct bh_import *import, int jobs_fd, bool *ret_more, struct bh_diag *diag)
{
    char id[BH_JOB_ID_SIZE];
    bool left = true;
    int64_t key = 0;
    int result = 0;

    *ret_more = false;
    result = next_deleted(import, &key, id, diag);
    if (result <= 0)
        return result;
    bh_import_forget(import, id);
    result = remove_directory(jobs_fd, id, diag);
    for (int round = 0; round < 8 && result >= 0 && left; round++)
        result = remove_rows(import, key, &left, diag);
    *ret_more = true;
    return result < 0 ? result : 0;
}
