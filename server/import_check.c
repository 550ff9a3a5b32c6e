/* After a power cut a run directory may hold less than the database: the last writes to its files
 * were lost, and what adoption wrote since lies where other bytes were imported from. The run
 * directory is the truth, so such a job is imported again from the start. */
#include <fcntl.h>
#include <string.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/wire/journal.h"
#include "server/import_internal.h"

/* Whether the file has these bytes right before offset. A file that is gone counts as the same:
 * there is nothing better than the database then. */
static int ends_with(int dirfd, const char *name, uint64_t offset, const void *data, size_t length,
                     bool *ret_same, struct bh_diag *diag)
{
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    BH_SCOPED_FD int fd = -1;
    size_t got = 0;
    int result = bh_io_open(dirfd, name, O_RDONLY, &fd, diag);

    BH_BUG_ON(length > sizeof bytes);
    if (result == BH_E_NOT_FOUND) {
        *ret_same = true;
        return 0;
    }
    if (result >= 0)
        result = bh_io_pread(fd, bytes, length, offset - length, &got);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "%s cannot be read", name);
    *ret_same = got == length && memcmp(bytes, data, length) == 0;
    return 0;
}

/* The last row of a kind as a blob in import->buffer; its length is 0 when there is none. */
static int last_blob(struct bh_import *import, int64_t key, enum bh_import_sql sql,
                     struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&import->db, sql, &statement, diag, "i", key);

    bh_bytes_clear(&import->buffer);
    if (result >= 0)
        result = bh_db_step(&import->db, statement, diag);
    if (result <= 0)
        return result;
    result = bh_db_column_bytes(statement, 0, &import->buffer);
    sqlite3_reset(statement);
    return result;
}

static int same_journal(struct bh_import *import, const struct bh_import_job *job, int dirfd,
                        bool *ret_same, struct bh_diag *diag)
{
    uint64_t offset = job->place.journal_offset;
    int result = last_blob(import, job->row.key, BH_IMPORT_SQL_LAST_RECORD, diag);

    if (result < 0 || import->buffer.length == 0)
        return result;
    if (import->buffer.length > offset || import->buffer.length > BH_JOURNAL_MAX_RECORD) {
        *ret_same = false;
        return 0;
    }
    return ends_with(dirfd, BH_JOURNAL_FILE_NAME, offset, import->buffer.data,
                     import->buffer.length, ret_same, diag);
}

static int same_events(struct bh_import *import, const struct bh_import_job *job, int dirfd,
                       bool *ret_same, struct bh_diag *diag)
{
    uint64_t offset = job->place.events_offset;
    size_t length;
    int result = last_blob(import, job->row.key, BH_IMPORT_SQL_LAST_SEGMENT, diag);

    length = import->buffer.length;
    if (result < 0 || length == 0)
        return result;
    if (length < BH_EVLOG_HEADER_BYTES || length > offset) {
        *ret_same = false;
        return 0;
    }
    /* its header has the checksum of the rest */
    return ends_with(dirfd, BH_EVLOG_FILE_NAME, offset - length + BH_EVLOG_HEADER_BYTES,
                     import->buffer.data, BH_EVLOG_HEADER_BYTES, ret_same, diag);
}

int bh_import_restart(struct bh_import *import, int64_t key, struct bh_diag *diag)
{
    static const enum bh_import_sql parts[] = {
        BH_IMPORT_SQL_RESTART_RECORDS,     BH_IMPORT_SQL_RESTART_SEGMENTS,
        BH_IMPORT_SQL_RESTART_DEFINITIONS, BH_IMPORT_SQL_RESTART_LEVELS,
        BH_IMPORT_SQL_RESTART_KEYFRAMES,   BH_IMPORT_SQL_RESTART_LOSSES,
        BH_IMPORT_SQL_RESTART_MARKS,       BH_IMPORT_SQL_RESTART_JOB,
    };
    int result = bh_db_begin(&import->db, true, diag);

    if (result < 0)
        return result;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && result >= 0; i++)
        result = bh_db_run(&import->db, parts[i], diag, "i", key);
    return bh_db_end(&import->db, result, diag);
}

int bh_import_check(struct bh_import *import, const struct bh_import_job *job, int dirfd,
                    bool *ret_restarted, struct bh_diag *diag)
{
    bool same = true;
    int result = same_journal(import, job, dirfd, &same, diag);

    if (result >= 0 && same)
        result = same_events(import, job, dirfd, &same, diag);
    if (result >= 0 && !same)
        result = bh_import_restart(import, job->row.key, diag);
    if (result < 0)
        return result;
    *ret_restarted = !same;
    return 0;
}
