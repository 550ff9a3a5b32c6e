/* supervise.h: finding out what became of a job that is not connected. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/scoped.h"
#include "core/wire/journal.h"
#include "core/wire/spec_file.h"
#include "core/wire/status_file.h"
#include "server/feed.h"
#include "server/sup_link.h"
#include "server/sup_spawn.h"
#include "server/supervise.h"

bool bh_supervise_locked(int dirfd)
{
    BH_SCOPED_FD int fd = openat(dirfd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    if (flock(fd, LOCK_SH | LOCK_NB) < 0)
        return errno == EWOULDBLOCK;
    (void)flock(fd, LOCK_UN);
    return false;
}

static bool exists(int dirfd, const char *name)
{
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

void bh_supervise_ended(struct bh_job *job)
{
    if (job->ended)
        return;
    job->ended = true;
    if (job->state != BH_JOB_STOPPING) {
        job->state = BH_JOB_STOPPING;
        bh_jobs_changed(job);
    }
    bh_feed_want(job->app->feed, job);
}

static void on_adopted(void *user, struct bh_job *job, int status, const char *text)
{
    (void)user;
    (void)text; /* it logs on its own stderr what it did; the report says the rest */
    if (status != 0)
        bh_log(BH_LOG_WARNING,
               "job %s: its supervisor is gone and adopt ended with status %d; going "
               "on with what its journal has",
               job->id, status);
    bh_supervise_look(job);
}

/* The lock is free and nobody wrote the report. */
static void adopt(struct bh_job *job)
{
    struct bh_diag diag = {0};
    job->adopt_tried = true;
    bh_log(BH_LOG_WARNING, "job %s: its supervisor is gone; adopting it", job->id);
    if (bh_helper_run(job, "adopt", on_adopted, NULL, &diag) < 0) {
        bh_log(BH_LOG_ERROR, "job %s: %s", job->id, diag.detail);
        bh_supervise_ended(job);
    }
}

void bh_supervise_read_anchor(struct bh_job *job)
{
    unsigned char bytes[BH_JOURNAL_HEADER_BYTES];
    struct bh_journal_header header;
    size_t length = 0;
    int fd = -1;
    if (job->anchor.wall.us ||
        bh_io_open(job->dirfd, BH_JOURNAL_FILE_NAME, O_RDONLY, &fd, NULL) < 0)
        return;
    if (bh_io_pread(fd, bytes, sizeof bytes, 0, &length) >= 0 &&
        bh_journal_header_decode(bytes, length, &header) >= 0)
        job->anchor = header.anchor;
    (void)close(fd);
}

static void read_status(struct bh_job *job)
{
    struct bh_bytes bytes = {0};
    struct bh_status status;
    if (bh_io_read_file(job->dirfd, BH_STATUS_FILE_NAME, 4096, &bytes, NULL) >= 0 &&
        bh_status_file_decode(bytes.data, bytes.length, &status) >= 0)
        bh_jobs_take_status(job, &status);
    bh_bytes_done(&bytes);
}

static void on_linked(void *user, struct bh_job *job, int result)
{
    (void)user;
    if (result >= 0)
        bh_supervise_read_anchor(job); /* or the next status does: the scribe writes it soon */
}

void bh_supervise_look(struct bh_job *job)
{
    if (job->ended || job->busy || job->link || job->spec->external || job->dirfd < 0)
        return;
    if (job->importing) { /* it may be removed here, and the import still looks at it */
        bh_feed_look_later(job->app->feed, job);
        return;
    }
    bh_supervise_read_anchor(job);
    if (!job->has_status)
        read_status(job);
    if (!bh_supervise_locked(job->dirfd)) {
        bool report = exists(job->dirfd, "report.json");
        if (!report && !exists(job->dirfd, BH_JOURNAL_FILE_NAME) && job->state == BH_JOB_STARTING)
            bh_jobs_fail(job, BH_E_SUPERVISOR_START,
                         "The server ended before the program was started. Launch it again.");
        else if (report || job->adopt_tried)
            bh_supervise_ended(job);
        else
            adopt(job);
        return;
    }
    /* a refused connection comes back here through the timer: the scribe is finishing */
    if (exists(job->dirfd, "ctl.sock") && bh_link_open(job, on_linked, NULL) >= 0)
        return;
    bh_feed_look_later(job->app->feed, job);
}

/* ---- start of a job ------------------------------------------------------------------------- */

struct start {
    void (*on_started)(void *user, struct bh_job *job, int result, const struct bh_diag *diag);
    void *user;
};

static void on_first_link(void *user, struct bh_job *job, int result)
{
    struct start *start = user;
    struct bh_diag none = {0};
    (void)result; /* without a connection the job may be over already: what status.bin says then */
    bh_supervise_read_anchor(job);
    if (result < 0)
        read_status(job);
    start->on_started(start->user, job, BH_OK, &none);
    free(start);
}

static void on_verdict(void *user, struct bh_job *job, int status, const char *text)
{
    struct start *start = user;
    struct bh_diag diag = {0};
    int result = bh_helper_verdict(status, text, job->spec, &diag);
    if (result >= 0 && job->state == BH_JOB_STARTING) {
        job->state = BH_JOB_RUNNING;
        /* should its directory vanish: nothing else would know then that it ran */
        (void)bh_store_job_set_state(job->app->store, job->id, BH_JOB_RUNNING, NULL);
    }
    if (result >= 0 && bh_link_open(job, on_first_link, start) >= 0)
        return;
    start->on_started(start->user, job, result, &diag);
    free(start);
}

void bh_supervise_start(struct bh_job *job,
                        void (*on_started)(void *user, struct bh_job *job, int result,
                                           const struct bh_diag *diag),
                        void *user)
{
    struct bh_diag diag = {0};
    struct start *start = calloc(1, sizeof *start);
    int result = start ? BH_OK : BH_E_NOMEM;
    if (start) {
        *start = (struct start){on_started, user};
        result = bh_helper_run(job, "start", on_verdict, start, &diag);
    }
    if (result < 0) {
        free(start);
        on_started(user, job, result, &diag);
    }
}

/* ---- start of the server -------------------------------------------------------------------- */

struct adoption {
    struct bh_app *app;
    char (*ids)[BH_JOB_ID_SIZE];
    size_t count, capacity;
};

static int collect(void *user, const struct bh_store_job *row)
{
    struct adoption *adoption = user;
    if (adoption->count == adoption->capacity) {
        size_t capacity = adoption->capacity ? adoption->capacity * 2 : 64;
        void *grown = realloc(adoption->ids, capacity * sizeof *adoption->ids);
        if (!grown)
            return BH_E_NOMEM;
        adoption->ids = grown;
        adoption->capacity = capacity;
    }
    memcpy(adoption->ids[adoption->count++], row->id, BH_JOB_ID_SIZE);
    return BH_OK;
}

/* Puts one unfinished job back into the registry. */
static int adopt_one(struct bh_app *app, const char *id, struct bh_diag *diag)
{
    struct bh_bytes bytes = {0};
    struct bh_job_spec *spec = NULL;
    struct bh_job *job = NULL;
    int dirfd = -1;
    int result = bh_io_open_dir(app->jobs_fd, id, &dirfd, diag);
    if (result >= 0)
        result = bh_io_read_file(dirfd, BH_SPEC_FILE_NAME, BH_SPEC_MAX_BYTES + 4096, &bytes, diag);
    if (result >= 0)
        result = bh_spec_file_decode(bytes.data, bytes.length, &spec, diag);
    if (result >= 0)
        result = bh_jobs_add(app->jobs, spec, dirfd, &job);
    bh_bytes_done(&bytes);
    if (result < 0) {
        if (dirfd >= 0)
            (void)close(dirfd);
        bh_spec_file_free(spec);
        return result;
    }
    (void)bh_store_job_get(app->store, id, &job->row, NULL);
    job->state = job->row.state;
    job->started_at = job->row.started_at;
    job->peak_at = job->row.peak_at;
    job->anchor = job->row.anchor;
    job->event_sequence = job->row.journal_sequence;
    memcpy(job->recorder_reason, job->row.recorder_reason, sizeof job->recorder_reason);
    if (spec->external)
        job->state = BH_JOB_RUNNING;
    else
        bh_supervise_look(job);
    return BH_OK;
}

/* Its run directory is gone or cannot be read. */
static void give_up(struct bh_app *app, const char *id)
{
    struct bh_store_job row = {0};
    bool ran = bh_store_job_get(app->store, id, &row, NULL) >= 0 && row.state != BH_JOB_STARTING;
    if (ran)
        (void)bh_store_job_lose(app->store, id,
                                "It ran, and its run directory is gone or cannot be read: how it "
                                "ended, or whether it still runs, is not known.",
                                bh_clock_wall(), NULL);
    else
        (void)bh_store_job_fail(app->store, id, BH_E_SUPERVISOR_LOST,
                                "Its run directory is gone or cannot be read.", bh_clock_wall(),
                                NULL);
}

int bh_supervise_adopt_all(struct bh_app *app, struct bh_diag *diag)
{
    struct adoption adoption = {.app = app};
    struct bh_store_filter filter = {.state = -1, .limit = 1000, .unfinished = true};
    char before[BH_JOB_ID_SIZE];
    size_t seen;
    int result;
    do {
        seen = adoption.count;
        result = bh_store_job_list(app->store, &filter, collect, &adoption, diag);
        if (adoption.count)
            memcpy(before, adoption.ids[adoption.count - 1], sizeof before);
        filter.before_id = before;
    } while (result >= 0 && adoption.count - seen == filter.limit);
    /* oldest first, so that the registry ends up newest first */
    for (size_t i = adoption.count; result >= 0 && i-- > 0;) {
        struct bh_diag why = {0};
        if (adopt_one(app, adoption.ids[i], &why) >= 0)
            continue;
        bh_log(BH_LOG_WARNING, "job %s cannot be found again: %s; marking it as over",
               adoption.ids[i], why.detail);
        give_up(app, adoption.ids[i]);
    }
    free(adoption.ids);
    return result;
}
