/* Rebuilding rows from run directories. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/base/text.h"
#include "core/wire/journal.h"
#include "core/wire/spec_file.h"
#include "server/import_internal.h"

static int by_name(const void *left, const void *right)
{
    return memcmp(left, right, BH_JOB_ID_SIZE);
}

/* All names below jobs_fd that look like an id, oldest first, BH_JOB_ID_SIZE bytes each. */
static int list_ids(int jobs_fd, struct bh_bytes *ret_ids, struct bh_diag *diag)
{
    int fd = openat(jobs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!folder) {
        int error = errno;
        if (fd >= 0)
            (void)close(fd);
        return bh_err_sys(diag, error, "The folder of jobs cannot be read");
    }
    while ((entry = readdir(folder))) {
        if (bh_text_is_job_id(entry->d_name))
            bh_bytes_append(ret_ids, entry->d_name, BH_JOB_ID_SIZE);
    }
    (void)closedir(folder);
    if (ret_ids->failed)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    if (ret_ids->length > 0)
        qsort(ret_ids->data, ret_ids->length / BH_JOB_ID_SIZE, BH_JOB_ID_SIZE, by_name);
    return 0;
}

static int insert_spec(struct bh_import *import, const struct bh_job_spec *spec,
                       struct bh_diag *diag)
{
    int result = bh_db_begin(&import->db, true, diag);

    if (result < 0)
        return result;
    result = bh_job_row_insert(&import->db, BH_IMPORT_SQL_JOB_INSERT, BH_IMPORT_SQL_LABEL_INSERT,
                               spec, diag);
    return bh_db_end(&import->db, result, diag);
}

/* The row out of spec.bin. BH_E_NOT_FOUND, MALFORMED …: no readable spec. BH_E_EXISTS: known. */
static int insert_row(struct bh_import *import, const char *id, int dirfd, struct bh_diag *diag)
{
    struct bh_bytes bytes = {0};
    struct bh_job_spec *spec = NULL;
    int result = bh_io_read_file(dirfd, BH_SPEC_FILE_NAME,
                                 BH_SPEC_MAX_BYTES + BH_SPEC_FILE_HEADER_BYTES, &bytes, diag);

    if (result >= 0)
        result = bh_spec_file_decode(bytes.data, bytes.length, &spec, diag);
    if (result >= 0 && strcmp(spec->id, id) != 0)
        result = bh_err_set(diag, BH_E_MALFORMED, NULL, "The spec is another job's");
    if (result >= 0)
        result = insert_spec(import, spec, diag);
    bh_spec_file_free(spec);
    bh_bytes_done(&bytes);
    return result;
}

static bool journal_is_complete(int dirfd)
{
    BH_SCOPED_FD int fd = -1;
    struct bh_journal_reader *reader;
    struct bh_record record;
    bool complete;

    if (bh_io_open(dirfd, BH_JOURNAL_FILE_NAME, O_RDONLY, &fd, NULL) < 0 ||
        bh_journal_reader_new(fd, &reader, NULL) < 0)
        return false;
    while (bh_journal_reader_next(reader, &record) == 1)
        continue;
    complete = bh_journal_reader_end(reader) == BH_JOURNAL_COMPLETE;
    bh_journal_reader_free(reader);
    return complete;
}

static bool ended_by_files(int dirfd)
{
    return faccessat(dirfd, "report.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
           journal_is_complete(dirfd);
}

/* All steps of one job. A damaged file ends it there: what came before is kept. */
static int import_all(struct bh_import *import, const char *id, int dirfd, bool ended,
                      uint64_t *ret_events, struct bh_diag *diag)
{
    struct bh_import_step step = {.more = true};
    int result = 0;

    while (step.more && result >= 0)
        result = bh_import_step(import, id, dirfd, ended, 0, &step, diag);
    *ret_events = step.event_sequence;
    if (result == BH_E_MALFORMED || result == BH_E_CHECKSUM || result == BH_E_VERSION)
        result = 0;
    return result;
}

enum known {
    UNKNOWN,
    UNFINISHED, /* a rebuild that was killed, or a job of the last server */
    DONE,
};

static int look_up(struct bh_import *import, const char *id, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&import->db, BH_IMPORT_SQL_KNOWN, &statement, diag, "t", id);

    if (result >= 0)
        result = bh_db_step(&import->db, statement, diag);
    if (result <= 0)
        return result < 0 ? result : (int)UNKNOWN;
    result = sqlite3_column_int(statement, 0) ? (int)DONE : (int)UNFINISHED;
    sqlite3_reset(statement);
    return result;
}

static int reindex_one(struct bh_import *import, int jobs_fd, const char *id,
                       bool (*is_ended)(void *user, int dirfd), void *user,
                       struct bh_reindex_result *totals, struct bh_diag *diag)
{
    BH_SCOPED_FD int dirfd = -1;
    uint64_t events = 0;
    int known = look_up(import, id, diag), result = known;

    if (known < 0 || known == (int)DONE)
        return known < 0 ? known : 0;
    result = bh_io_open_dir(jobs_fd, id, &dirfd, diag);
    if (result >= 0 && known == (int)UNKNOWN)
        result = insert_row(import, id, dirfd, diag);
    if (result == BH_E_NOSPACE || result == BH_E_BUSY || result == BH_E_IO || result == BH_E_NOMEM)
        return result;
    if (result < 0) {
        totals->skipped++;
        return 0;
    }
    result = import_all(import, id, dirfd, is_ended ? is_ended(user, dirfd) : ended_by_files(dirfd),
                        &events, diag);
    totals->events += events;
    totals->jobs++;
    return result;
}

int bh_reindex(struct bh_import *import, int jobs_fd, bool (*is_ended)(void *user, int dirfd),
               int (*visit)(void *user, const char *id, uint32_t number, uint32_t total),
               void *user, struct bh_reindex_result *ret_result, struct bh_diag *diag)
{
    struct bh_reindex_result totals = {0};
    struct bh_bytes ids = {0};
    uint32_t total;
    int result = list_ids(jobs_fd, &ids, diag);

    total = (uint32_t)(ids.length / BH_JOB_ID_SIZE);
    for (uint32_t i = 0; i < total && result >= 0; i++) {
        const char *id = (const char *)ids.data + (size_t)i * BH_JOB_ID_SIZE;
        result = reindex_one(import, jobs_fd, id, is_ended, user, &totals, diag);
        if (result >= 0 && visit)
            result = visit(user, id, i + 1, total);
    }
    bh_bytes_done(&ids);
    if (result < 0)
        return result;
    *ret_result = totals;
    return 0;
}
