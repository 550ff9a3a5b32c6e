#include "server/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "server/import_events.h"
#include "server/import_internal.h"

static const char *const texts[] = {
#define BH_STATEMENT(name, text) [BH_TRACE_SQL_##name] = text,
#include "server/trace_statements.def"
#undef BH_STATEMENT
#define BH_STATEMENT(name, text) [BH_IMPORT_SQL_##name] = text,
#include "server/import_statements.def"
#undef BH_STATEMENT
};

int bh_import_open(const char *database_path, struct bh_import **ret_import, struct bh_diag *diag)
{
    struct bh_import *import = calloc(1, sizeof *import);
    int result;

    if (!import)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    result = bh_db_open(database_path, BH_DB_WRITE, texts, BH_IMPORT_SQL_COUNT, &import->db, diag);
    if (result >= 0)
        result = bh_db_exec(&import->db, bh_job_row_view, diag);
    if (result < 0) {
        bh_import_close(import);
        return result;
    }
    *ret_import = import;
    return 0;
}

static void job_free(struct bh_import_job *job)
{
    if (!job)
        return;
    bh_ingest_free(job->ingest);
    bh_series_free(job->charge);
    free(job);
}

void bh_import_close(struct bh_import *import)
{
    if (!import)
        return;
    for (size_t i = 0; i < BH_IMPORT_KEPT; i++)
        job_free(import->jobs[i]);
    if (import->db.handle)
        bh_db_close(&import->db);
    bh_bytes_done(&import->buffer);
    free(import);
}

void bh_import_forget(struct bh_import *import, const char *id)
{
    for (size_t i = 0; i < BH_IMPORT_KEPT; i++) {
        if (!import->jobs[i] || strcmp(import->jobs[i]->row.id, id) != 0)
            continue;
        job_free(import->jobs[i]);
        import->jobs[i] = NULL;
    }
}

/* ---- loading ---- */

static int load_place(struct bh_import *import, struct bh_import_job *job, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result =
        bh_db_bind(&import->db, BH_IMPORT_SQL_PLACE_LOAD, &statement, diag, "i", job->row.key);

    if (result >= 0)
        result = bh_db_step(&import->db, statement, diag);
    if (result <= 0)
        return result < 0 ? result : bh_err_set(diag, BH_E_NOT_FOUND, "id", "The job is gone");
    job->place.journal_offset = (uint64_t)sqlite3_column_int64(statement, 0);
    job->place.records = (uint64_t)sqlite3_column_int64(statement, 1);
    job->place.events_offset = (uint64_t)sqlite3_column_int64(statement, 2);
    job->place.segments = (uint64_t)sqlite3_column_int64(statement, 3);
    job->place.trace_mono_ns = (uint64_t)sqlite3_column_int64(statement, 4);
    job->place.trace_wall_us = sqlite3_column_int64(statement, 5);
    job->place.trace_events = (uint64_t)sqlite3_column_int64(statement, 6);
    job->place.peak_sequence = (uint64_t)sqlite3_column_int64(statement, 7);
    job->place.began_us = sqlite3_column_int64(statement, 8);
    job->place.event_us = sqlite3_column_int64(statement, 9);
    sqlite3_reset(statement);
    return 0;
}

static int load_row(struct bh_import *import, const char *id, struct bh_store_job *ret_row,
                    struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&import->db, BH_IMPORT_SQL_JOB_LOAD, &statement, diag, "t", id);

    if (result >= 0)
        result = bh_db_step(&import->db, statement, diag);
    if (result <= 0)
        return result < 0 ? result
                          : bh_err_set(diag, BH_E_NOT_FOUND, "id", "There is no job with this id");
    bh_job_row_read(statement, ret_row);
    sqlite3_reset(statement);
    return 0;
}

static int load_state(struct bh_import *import, const char *id, struct bh_import_job *job,
                      struct bh_diag *diag)
{
    int result = load_row(import, id, &job->row, diag);

    if (result >= 0)
        result = load_place(import, job, diag);
    return result;
}

static bool is_damage(int error)
{
    return error == BH_E_CHECKSUM || error == BH_E_MALFORMED || error == BH_E_VERSION ||
           error == BH_E_TRUNCATED;
}

/* Brings the running state back. What cannot be continued (blobs of another version, a damaged one)
 * is imported again from the run directory. */
static int restore_job(struct bh_import *import, const char *id, struct bh_import_job *job,
                       struct bh_diag *diag)
{
    int result;

    if (job->place.events_offset == 0)
        return 0;
    result = bh_import_events_restore(import, job, diag);
    if (!is_damage(result))
        return result;
    bh_ingest_free(job->ingest);
    job->ingest = NULL;
    result = bh_import_restart(import, job->row.key, diag);
    return result < 0 ? result : load_state(import, id, job, diag);
}

static int load_job(struct bh_import *import, const char *id, int dirfd,
                    struct bh_import_job **ret_job, struct bh_diag *diag)
{
    struct bh_import_job *job = calloc(1, sizeof *job);
    bool restarted = false;
    int result;

    if (!job)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    result = load_state(import, id, job, diag);
    if (result >= 0 && !job->row.import_complete)
        result = bh_import_check(import, job, dirfd, &restarted, diag);
    if (result >= 0 && restarted)
        result = load_state(import, id, job, diag);
    if (result >= 0 && !job->row.import_complete)
        result = restore_job(import, id, job, diag);
    if (result < 0) {
        job_free(job);
        return result;
    }
    *ret_job = job;
    return 0;
}

/* The free place, or the one whose job was not stepped for the longest time. */
static size_t place_for(const struct bh_import *import)
{
    size_t best = 0;

    for (size_t i = 0; i < BH_IMPORT_KEPT; i++) {
        if (!import->jobs[i])
            return i;
        if (import->jobs[i]->used < import->jobs[best]->used)
            best = i;
    }
    return best;
}

static int find_job(struct bh_import *import, const char *id, int dirfd,
                    struct bh_import_job **ret_job, struct bh_diag *diag)
{
    struct bh_import_job *job = NULL;

    for (size_t i = 0; i < BH_IMPORT_KEPT && !job; i++) {
        if (import->jobs[i] && strcmp(import->jobs[i]->row.id, id) == 0)
            job = import->jobs[i];
    }
    if (!job) {
        size_t place;
        int result = load_job(import, id, dirfd, &job, diag);
        if (result < 0)
            return result;
        place = place_for(import);
        job_free(import->jobs[place]);
        import->jobs[place] = job;
    }
    job->used = ++import->steps;
    *ret_job = job;
    return 0;
}

/* ---- files ---- */

int bh_import_read(struct bh_import *import, int dirfd, const char *name, uint64_t offset,
                   uint32_t budget, bool *ret_end, struct bh_diag *diag)
{
    BH_SCOPED_FD int fd = -1;
    size_t length = 0;
    int result = bh_io_open(dirfd, name, O_RDONLY, &fd, diag);

    bh_bytes_clear(&import->buffer);
    *ret_end = true;
    if (result == BH_E_NOT_FOUND)
        return 0;
    if (result < 0)
        return result;
    /* one byte more than the budget tells whether something follows */
    if (!bh_bytes_reserve(&import->buffer, (size_t)budget + 1))
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    result = bh_io_pread(fd, import->buffer.data, (size_t)budget + 1, offset, &length);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "%s cannot be read", name);
    *ret_end = length <= budget;
    import->buffer.length = *ret_end ? length : budget;
    return 0;
}

/* ---- a step ---- */

/* What one step found in the files, before anything is stored. */
struct found {
    struct bh_store_job row;
    struct bh_import_place place;
    struct bh_import_records records;
    struct bh_import_events events;
    bool more;
    int damage; /* first damaged file's error, 0 none */
    struct bh_diag damage_diag;
};

static int note_damage(struct found *found, int result, const struct bh_diag *why,
                       struct bh_diag *diag)
{
    if (result >= 0)
        return 0;
    if (is_damage(result)) {
        if (found->damage == 0) {
            found->damage = result;
            found->damage_diag = *why;
        }
        return 0;
    }
    if (diag)
        *diag = *why;
    return result;
}

static int find_new(struct bh_import *import, struct bh_import_job *job, int dirfd, uint32_t budget,
                    struct found *found, struct bh_diag *diag)
{
    struct bh_diag why = {0};
    bool more_records = false, more_events = false;
    int result = bh_import_journal_read(import, job, dirfd, budget, &found->row, &found->records,
                                        &more_records, &why);

    result = note_damage(found, result, &why, diag);
    if (result < 0)
        return result;
    found->place.journal_offset = found->records.end_offset;
    found->place.records += found->records.count;
    result = bh_import_events_read(import, job, dirfd, budget, &found->row, &found->place,
                                   &found->events, &more_events, &why);
    found->more = more_records || more_events;
    return note_damage(found, result, &why, diag);
}

/* Another import (or a rebuild) may have worked on the job meanwhile: then nothing of ours fits. */
static int check_place(struct bh_import *import, const struct bh_import_job *job,
                       struct bh_diag *diag)
{
    struct bh_import_job now = {.row.key = job->row.key};
    int result = load_place(import, &now, diag);

    if (result < 0)
        return result;
    if (memcmp(&now.place, &job->place, sizeof now.place) != 0)
        return bh_err_set(diag, BH_E_BUSY, NULL, "The job was imported by someone else meanwhile");
    return 0;
}

int bh_import_row_store(struct bh_import *import, const struct bh_store_job *row,
                        const struct bh_import_place *place, struct bh_diag *diag)
{
    sqlite3_stmt *statement;
    int result = bh_db_bind(&import->db, BH_IMPORT_SQL_JOB_UPDATE, &statement, diag, "");

    if (result >= 0)
        result = bh_job_row_bind(&import->db, statement, row, diag);
    if (result >= 0)
        result = bh_db_step(&import->db, statement, diag);
    if (result < 0)
        return result;
    return bh_db_run(&import->db, BH_IMPORT_SQL_PLACE_STORE, diag, "iiiiiiiiiii", row->key,
                     (int64_t)place->journal_offset, (int64_t)place->records,
                     (int64_t)place->events_offset, (int64_t)place->segments,
                     (int64_t)place->trace_mono_ns, place->trace_wall_us,
                     (int64_t)place->trace_events, (int64_t)place->peak_sequence, place->began_us,
                     place->event_us);
}

static int store_found(struct bh_import *import, struct bh_import_job *job, struct found *found,
                       struct bh_diag *diag)
{
    int result = check_place(import, job, diag);

    if (result >= 0)
        result = bh_import_journal_store(import, job, &found->records, diag);
    if (result >= 0)
        result = bh_import_charge_store(import, job, &found->records, diag);
    if (result >= 0)
        result = bh_import_events_store(import, job, &found->events, diag);
    if (result >= 0)
        result = bh_import_row_store(import, &found->row, &found->place, diag);
    return result;
}

static int commit_found(struct bh_import *import, struct bh_import_job *job, struct found *found,
                        struct bh_diag *diag)
{
    int result;

    if (memcmp(&found->place, &job->place, sizeof found->place) == 0)
        return 0;                        /* nothing new: no transaction */
    job->row.anchor = found->row.anchor; /* the same ever after: given by the files' headers */
    result = bh_db_begin(&import->db, true, diag);
    if (result >= 0)
        result = bh_db_end(&import->db, store_found(import, job, found, diag), diag);
    if (result < 0)
        return result;
    job->row = found->row;
    job->place = found->place;
    return 0;
}

static void fill_step(const struct bh_import_job *job, const struct found *found,
                      const struct bh_store_job *before, struct bh_import_step *ret_step)
{
    *ret_step = (struct bh_import_step){
        .more = found->more,
        .complete = job->row.import_complete,
        .new_records = found->records.count,
        .new_events = job->row.event_sequence - before->event_sequence,
        .journal_sequence = job->row.journal_sequence,
        .event_sequence = job->row.event_sequence,
    };
}

static int step_job(struct bh_import *import, struct bh_import_job *job, int dirfd, bool ended,
                    uint32_t budget, struct found *found, struct bh_import_step *ret_step,
                    struct bh_diag *diag)
{
    struct bh_store_job before = job->row;
    int result;

    found->row = job->row;
    found->place = job->place;
    result = find_new(import, job, dirfd, budget, found, diag);
    if (result >= 0)
        result = commit_found(import, job, found, diag);
    if (result >= 0 && ended && !found->more)
        result = bh_import_complete(import, job, dirfd, found->damage == 0, &job->row, diag);
    if (result < 0) {
        /* the running state may be ahead of the database now: it comes back from there */
        bh_import_forget(import, before.id);
        return result;
    }
    fill_step(job, found, &before, ret_step);
    if (job->row.import_complete)
        bh_import_forget(import, before.id);
    if (found->damage < 0 && !ret_step->complete) {
        if (diag)
            *diag = found->damage_diag;
        return found->damage;
    }
    return 0;
}

int bh_import_step(struct bh_import *import, const char *id, int dirfd, bool ended,
                   uint32_t budget_bytes, struct bh_import_step *ret_step, struct bh_diag *diag)
{
    struct bh_import_job *job;
    struct found found = {0};
    int result = find_job(import, id, dirfd, &job, diag);

    if (result < 0)
        return result;
    if (job->row.import_complete) {
        *ret_step = (struct bh_import_step){.complete = true,
                                            .journal_sequence = job->row.journal_sequence,
                                            .event_sequence = job->row.event_sequence};
        bh_import_forget(import, id);
        return 0;
    }
    result = step_job(import, job, dirfd, ended, budget_bytes ? budget_bytes : BH_IMPORT_BUDGET,
                      &found, ret_step, diag);
    bh_import_records_done(&found.records);
    bh_import_events_done(&found.events);
    return result;
}
