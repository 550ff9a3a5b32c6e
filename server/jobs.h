/* The registry of jobs that are not over: starting, running, stopping, or ended with their import
 * still going on. A job that is finished lives in the store alone and leaves the registry, so
 * memory follows the live jobs only. Loop thread.
 *
 * What is known of a live job comes from three sides: the control socket (status, records), the
 * store's row (a fold of the imported journal), and the spec. bh_jobs_view puts them together. */
#ifndef BH_SERVER_JOBS_H
#define BH_SERVER_JOBS_H

#include "api/problem.h"
#include "api/view.h"
#include "core/model/status.h"
#include "server/app.h"

#define BH_JOB_MAX_WAITING  32
#define BH_JOB_MAX_WARNINGS 4

struct bh_link;
struct bh_external_put;

struct bh_job {
    struct bh_job *previous, *next; /* newest first */
    struct bh_app *app;
    char id[BH_JOB_ID_SIZE];
    struct bh_job_spec *spec; /* owned */
    int dirfd;                /* run directory; -1 not made yet */
    enum bh_job_state state;
    bool has_status;
    struct bh_status status; /* last one seen */
    struct bh_store_job row; /* last one read, zeroed before */
    struct bh_anchor anchor; /* of the journal; wall.us 0 = not seen */
    struct bh_wall started_at;
    struct bh_wall peak_at;
    uint64_t event_sequence; /* of the last record that changes what a client sees */
    char recorder_reason[160];
    struct bh_wall checkpoint_at;
    struct bh_observed checkpoint_bytes;
    struct bh_view_process waiting[BH_JOB_MAX_WAITING];
    size_t waiting_count;
    char warnings[BH_JOB_MAX_WARNINGS][200];
    const char *warning_list[BH_JOB_MAX_WARNINGS];
    size_t warning_count;
    uint64_t out_bytes, err_bytes; /* of the logs, as last announced */

    /* supervision */
    struct bh_link *link; /* NULL = not connected */
    uint64_t sampled_ms;  /* loop time of the last sample event */
    uint64_t recorder_ms; /* and of the last recorder event */
    bool adopt_tried;
    bool busy;       /* a helper process or a directory job works on it */
    bool stop_asked; /* a stop was sent: repeating it does nothing */

    struct bh_external_put *put; /* a report that waits for the import (external.h) */

    /* import (feed.h) */
    bool dirty, importing, ended, over;
    unsigned import_failures;
    uint64_t import_after_ms; /* loop time of the next try */
};

int bh_jobs_new(struct bh_app *app, struct bh_jobs **ret_jobs);
/* Closes descriptors and links; jobs go on running. */
void bh_jobs_close(struct bh_jobs *jobs);
void bh_jobs_free(struct bh_jobs *jobs);

/* Adds a job; takes spec. dirfd -1 or the run directory, taken. */
int bh_jobs_add(struct bh_jobs *jobs, struct bh_job_spec *spec, int dirfd, struct bh_job **ret_job);
/* Takes it out and frees it. Not while it is importing or busy. */
void bh_jobs_remove(struct bh_job *job);
struct bh_job *bh_jobs_first(const struct bh_jobs *jobs);
/* By id or name; NULL. */
struct bh_job *bh_jobs_find(const struct bh_jobs *jobs, const char *id_or_name);
struct bh_job *bh_jobs_find_name(const struct bh_jobs *jobs, const char *name);
unsigned bh_jobs_count(const struct bh_jobs *jobs);

void bh_jobs_warn(struct bh_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void bh_jobs_view(const struct bh_job *job, struct bh_job_view *ret_view);
/* View of a job that is in the store only; spec and row must outlive it. */
void bh_jobs_view_row(const struct bh_store_job *row, const struct bh_job_spec *spec,
                      struct bh_job_view *ret_view);

/* Something a client sees has changed: tells the hub and the waiting requests. */
void bh_jobs_changed(struct bh_job *job);
/* A status or record arrived. */
void bh_jobs_take_status(struct bh_job *job, const struct bh_status *status);
void bh_jobs_take_record(struct bh_job *job, const struct bh_record *record);
/* The event log grew to so many events, of which so many were lost in all. */
void bh_jobs_take_drain(struct bh_job *job, uint64_t events, uint64_t lost);
/* The import is complete: publishes the end and removes the job. */
void bh_jobs_finish(struct bh_job *job);
/* The start failed: row, event, removal. */
void bh_jobs_fail(struct bh_job *job, int error, const char *sentence);

/* ---- long polls ----------------------------------------------------------------------------- */

/* Answers the call with the job at its next change, or after wait_ns. */
int bh_jobs_wait(struct bh_job *job, struct bh_call *call, uint64_t wait_ns);
/* Answers every waiting call now (server exit). */
void bh_jobs_release_waiting(struct bh_jobs *jobs);

#endif
