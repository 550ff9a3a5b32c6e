#include "server/jobs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/reply.h"
#include "api/view_json.h"
#include "core/base/log.h"
#include "core/model/policy.h"
#include "core/wire/spec_file.h"
#include "server/jobs_wait.h"
#include "server/metrics.h"
#include "server/sup_link.h"

struct bh_jobs {
    struct bh_app *app;
    struct bh_job *first;
    unsigned count;
    struct bh_waiters waiters;
};

int bh_jobs_new(struct bh_app *app, struct bh_jobs **ret_jobs)
{
    struct bh_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return BH_E_NOMEM;
    jobs->app = app;
    bh_waiters_init(&jobs->waiters, app);
    *ret_jobs = jobs;
    return BH_OK;
}

int bh_jobs_add(struct bh_jobs *jobs, struct bh_job_spec *spec, int dirfd, struct bh_job **ret_job)
{
    struct bh_job *job = calloc(1, sizeof *job);
    if (!job)
        return BH_E_NOMEM;
    job->app = jobs->app;
    job->spec = spec;
    job->dirfd = dirfd;
    (void)snprintf(job->id, sizeof job->id, "%s", spec->id);
    for (size_t i = 0; i < BH_JOB_MAX_WARNINGS; i++)
        job->warning_list[i] = job->warnings[i];
    job->next = jobs->first;
    if (job->next)
        job->next->previous = job;
    jobs->first = job;
    jobs->count++;
    *ret_job = job;
    return BH_OK;
}

static void free_job(struct bh_job *job)
{
    if (job->link)
        bh_link_close(job->link);
    if (job->dirfd >= 0)
        (void)close(job->dirfd);
    bh_spec_file_free(job->spec);
    free(job);
}

void bh_jobs_remove(struct bh_job *job)
{
    struct bh_jobs *jobs = job->app->jobs;
    BH_BUG_ON(job->importing || job->busy);
    if (job->previous)
        job->previous->next = job->next;
    else
        jobs->first = job->next;
    if (job->next)
        job->next->previous = job->previous;
    jobs->count--;
    free_job(job);
}

void bh_jobs_close(struct bh_jobs *jobs)
{
    for (struct bh_job *job = jobs->first; job; job = job->next) {
        if (job->link)
            bh_link_close(job->link);
        job->link = NULL;
    }
    bh_waiters_close(&jobs->waiters);
}

void bh_jobs_free(struct bh_jobs *jobs)
{
    if (!jobs)
        return;
    while (jobs->first) {
        struct bh_job *job = jobs->first;
        jobs->first = job->next;
        free_job(job);
    }
    free(jobs);
}

struct bh_job *bh_jobs_first(const struct bh_jobs *jobs)
{
    return jobs->first;
}

unsigned bh_jobs_count(const struct bh_jobs *jobs)
{
    return jobs->count;
}

struct bh_job *bh_jobs_find_name(const struct bh_jobs *jobs, const char *name)
{
    for (struct bh_job *job = jobs->first; job; job = job->next) {
        if (job->spec->name && !job->over && strcmp(job->spec->name, name) == 0)
            return job;
    }
    return NULL;
}

struct bh_job *bh_jobs_find(const struct bh_jobs *jobs, const char *id_or_name)
{
    for (struct bh_job *job = jobs->first; job; job = job->next) {
        if (strcmp(job->id, id_or_name) == 0)
            return job;
    }
    return bh_jobs_find_name(jobs, id_or_name);
}

void bh_jobs_warn(struct bh_job *job, const char *format, ...)
{
    if (job->warning_count == BH_JOB_MAX_WARNINGS)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(job->warnings[job->warning_count++], sizeof job->warnings[0], format, args);
    va_end(args);
}

/* ---- views -------------------------------------------------------------------------------------
 */

/* How a job ended that never ran; the row has the error, an outcome only comes from a report. */
static void view_failed_start(const struct bh_store_job *row, struct bh_job_view *view)
{
    if (row->error == BH_E_LAUNCH_NOT_FOUND)
        view->outcome = BH_OUTCOME_LAUNCH_NOT_FOUND;
    else if (row->error == BH_E_LAUNCH_NOT_EXECUTABLE || row->error == BH_E_LAUNCH_CWD ||
             row->error == BH_E_LAUNCH_TOO_LONG)
        view->outcome = BH_OUTCOME_LAUNCH_NOT_EXECUTABLE;
    else
        view->outcome = BH_OUTCOME_SUPERVISOR_FAILURE;
    view->cause = BH_CAUSE_UNKNOWN;
    view->exit_code = bh_err_exit(row->error);
}

void bh_jobs_view_row(const struct bh_store_job *row, const struct bh_job_spec *spec,
                      struct bh_job_view *ret_view)
{
    *ret_view = (struct bh_job_view){
        .spec = spec,
        .id = row->id,
        .state = row->state,
        .policy_state = row->policy_state,
        .mode = row->mode,
        .boundary = row->boundary,
        .created_at = row->created_at,
        .started_at = row->started_at,
        .ended_at = row->ended_at,
        .anchor = row->anchor,
        .limit_bytes = row->limit_bytes,
        .warning_bytes = row->warning_bytes,
        .recovery_bytes = row->recovery_bytes,
        .emergency_bytes = row->emergency_bytes,
        .limits_revision = row->limits_revision,
        .charge = row->charge,
        .peak_charge = row->peak,
        .peak_at = row->peak_at,
        .active = row->active,
        .reserved = row->reserved,
        .recorder = row->recorder,
        .recorder_reason = row->recorder_reason,
        .events = row->events,
        .lost = row->lost,
        .checkpoint = row->checkpoint,
        .checkpoint_at = row->checkpoint_at,
        .checkpoint_bytes = row->checkpoint_bytes,
        .outcome = row->outcome,
        .cause = row->cause,
        .sentence = row->sentence,
        .exit_code = row->exit_code,
        .signal = row->signal,
        .event_sequence = row->journal_sequence,
    };
    /* the last transition is into the stop; that the tree is empty is said by the outcome */
    if ((row->state == BH_JOB_FINISHED || row->state == BH_JOB_FAILED_TO_START) &&
        row->policy_state != BH_POLICY_STATE_SUPERVISOR_ERROR)
        ret_view->policy_state = BH_POLICY_STATE_EXITED;
    if (row->state == BH_JOB_FAILED_TO_START && row->outcome == BH_OUTCOME_NONE)
        view_failed_start(row, ret_view);
}

/* Before the first status: what the spec says. */
static void view_spec(const struct bh_job *job, struct bh_job_view *view)
{
    const struct bh_job_spec *spec = job->spec;
    *view = (struct bh_job_view){
        .spec = spec,
        .id = job->id,
        .state = job->state,
        .policy_state =
            spec->mode == BH_MODE_OBSERVE ? BH_POLICY_STATE_OBSERVE : BH_POLICY_STATE_NORMAL,
        .mode = spec->mode,
        .created_at = spec->created_at,
        .limit_bytes = spec->limit_bytes,
        .warning_bytes = spec->warning_bytes,
        .recovery_bytes = spec->recovery_bytes,
        .emergency_bytes = spec->emergency_bytes,
        .limits_revision = 1,
        .recorder = BH_RECORDER_OFF,
        .recorder_reason = spec->record ? "the job has not started yet" : "not asked for",
        .exit_code = -1,
    };
}

static void view_status(const struct bh_job *job, struct bh_job_view *view)
{
    const struct bh_status *status = &job->status;
    view->policy_state = status->policy_state;
    view->mode = status->mode;
    view->boundary = status->boundary;
    view->root_pid = status->root_pid;
    view->members = status->members;
    view->limits_revision = status->limits_revision;
    if (status->limit_bytes) {
        view->limit_bytes = status->limit_bytes;
        view->warning_bytes = status->warning_bytes;
        view->recovery_bytes = status->recovery_bytes;
        view->emergency_bytes = status->emergency_bytes;
    }
    view->charge = status->charge;
    view->peak_charge = status->peak_charge;
    view->active = status->active;
    view->reserved = status->reserved;
    view->recorder = status->recorder;
    view->recorder_reason = job->recorder_reason;
    view->events = status->events;
    view->lost = status->lost;
    view->checkpoint = status->checkpoint;
}

void bh_jobs_view(const struct bh_job *job, struct bh_job_view *ret_view)
{
    /* of an external job only the row knows what its events amount to */
    if (job->row.id[0] && (job->over || job->spec->external)) {
        bh_jobs_view_row(&job->row, job->spec, ret_view);
    } else {
        view_spec(job, ret_view);
        ret_view->anchor = job->anchor;
        ret_view->started_at = job->started_at;
        ret_view->peak_at = job->peak_at;
        if (job->has_status)
            view_status(job, ret_view);
        else if (job->spec->external)
            ret_view->recorder_reason = "events come over the API";
        ret_view->checkpoint_at = job->checkpoint_at;
        ret_view->checkpoint_bytes = job->checkpoint_bytes;
        if (job->state == BH_JOB_STOPPING) {
            ret_view->waiting = job->waiting;
            ret_view->waiting_count = job->waiting_count;
        }
        ret_view->event_sequence = job->event_sequence;
    }
    ret_view->warnings = job->warning_list;
    ret_view->warning_count = job->warning_count;
}

/* ---- changes -------------------------------------------------------------------------------- */

void bh_jobs_changed(struct bh_job *job)
{
    struct bh_bytes text = {0};
    struct bh_job_view view;
    bh_jobs_view(job, &view);
    bh_view_job_document(&view, &text);
    if (!text.failed)
        bh_hub_publish(job->app->hub, BH_EVENT_JOB, job->id, view.event_sequence, text.data,
                       text.length);
    bh_waiters_answer(&job->app->jobs->waiters, job->id, &text);
    bh_bytes_done(&text);
}

int bh_jobs_wait(struct bh_job *job, struct bh_call *call, uint64_t wait_ns)
{
    return bh_waiters_add(&job->app->jobs->waiters, job->id, call, wait_ns);
}

void bh_jobs_release_waiting(struct bh_jobs *jobs)
{
    bh_waiters_release(&jobs->waiters);
}

void bh_jobs_finish(struct bh_job *job)
{
    struct bh_diag diag = {0};
    job->over = true;
    job->ended = true;
    if (bh_store_job_get(job->app->store, job->id, &job->row, &diag) < 0) {
        bh_log(BH_LOG_ERROR, "a job has ended and its row cannot be read: %s", diag.detail);
        job->row.id[0] = '\0';
        job->state = BH_JOB_FINISHED;
    } else {
        /* an import that was given up: what is known stays, and it is over all the same */
        if (job->row.state != BH_JOB_FINISHED && job->row.state != BH_JOB_FAILED_TO_START) {
            job->row.state = BH_JOB_FINISHED;
            (void)bh_store_job_set_state(job->app->store, job->id, BH_JOB_FINISHED, NULL);
        }
        job->state = job->row.state;
    }
    job->event_sequence = job->row.journal_sequence;
    bh_jobs_changed(job);
    struct bh_job_view view;
    bh_jobs_view(job, &view);
    bh_metrics_over(job->app->metrics, &view);
    bh_jobs_remove(job);
}

void bh_jobs_fail(struct bh_job *job, int error, const char *sentence)
{
    struct bh_diag diag = {0};
    job->state = BH_JOB_FAILED_TO_START;
    if (bh_store_job_fail(job->app->store, job->id, error, sentence, bh_clock_wall(), &diag) < 0)
        bh_log(BH_LOG_ERROR, "a failed start cannot be stored: %s", diag.detail);
    job->over = true;
    if (bh_store_job_get(job->app->store, job->id, &job->row, &diag) < 0)
        job->row.id[0] = '\0';
    bh_jobs_changed(job);
    bh_jobs_remove(job);
}
