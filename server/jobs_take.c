/* jobs.h: what the control socket says, taken into the registry and passed on to the hub. */
#include <stdio.h>
#include <string.h>

#include "api/view_json.h"
#include "core/model/policy.h"
#include "server/feed.h"
#include "server/jobs.h"
#include "server/metrics.h"
#include "server/supervise.h"

#define RECORDER_MS 1000u

static void publish(struct bh_job *job, unsigned type, uint64_t sequence,
                    const struct bh_bytes *text)
{
    if (!text->failed)
        bh_hub_publish(job->app->hub, type, job->id, sequence, text->data, text->length);
}

static enum bh_job_state live_state(const struct bh_job *job, const struct bh_status *status)
{
    /* finished is said only when the import is complete: before, its report could not be read */
    if (status->state == BH_JOB_FINISHED || status->state == BH_JOB_FAILED_TO_START)
        return job->state == BH_JOB_STARTING ? BH_JOB_RUNNING : BH_JOB_STOPPING;
    return status->state;
}

/* The journal's anchor, or until the scribe has written it one of our own of the same clock: good
 * for showing a time, microseconds off. */
static struct bh_anchor anchor_of(struct bh_job *job)
{
    bh_supervise_read_anchor(job);
    return job->anchor.wall.us ? job->anchor : bh_clock_anchor();
}

void bh_jobs_take_status(struct bh_job *job, const struct bh_status *status)
{
    struct bh_anchor anchor = anchor_of(job);
    enum bh_job_state state = live_state(job, status);
    bool changed = !job->has_status || state != job->state ||
                   status->policy_state != job->status.policy_state ||
                   status->limits_revision != job->status.limits_revision ||
                   status->checkpoint != job->status.checkpoint ||
                   status->root_pid != job->status.root_pid;
    if (status->peak_charge.status == BH_VALUE_AVAILABLE &&
        (!job->has_status || status->peak_charge.value > job->status.peak_charge.value))
        job->peak_at.us = bh_clock_epoch_us(anchor, status->at);
    if (status->started.ns)
        job->started_at.us = bh_clock_epoch_us(anchor, status->started);
    job->status = *status;
    job->has_status = true;
    job->state = state;
    if (status->sequence > job->event_sequence && changed)
        job->event_sequence = status->sequence;
    if (changed)
        bh_jobs_changed(job);
}

/* How far recording is: at once when its state changes, else at most once a second. */
static void publish_recorder(struct bh_job *job, bool now)
{
    const struct bh_status *status = &job->status;
    uint64_t loop_ms = uv_now(&job->app->loop);
    if (!now && loop_ms - job->recorder_ms < RECORDER_MS)
        return;
    job->recorder_ms = loop_ms;
    struct bh_bytes text = {0};
    struct bh_json json;
    bh_json_begin(&json, &text, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_string(&json, "job_id", job->id);
    bh_json_string(&json, "state", bh_recorder_state_text((int)status->recorder));
    bh_json_string(&json, "reason", job->recorder_reason[0] ? job->recorder_reason : NULL);
    bh_json_u64(&json, "events", status->events);
    bh_json_u64(&json, "lost", status->lost);
    bh_json_end(&json);
    bh_json_finish(&json);
    publish(job, BH_EVENT_RECORDER, 0, &text);
    bh_bytes_done(&text);
}

void bh_jobs_take_drain(struct bh_job *job, uint64_t events, uint64_t lost)
{
    job->status.events = events;
    job->status.lost = lost;
    publish_recorder(job, false);
    bh_feed_want(job->app->feed, job);
}

static void take_recorder(struct bh_job *job, const struct bh_record_recorder *fact)
{
    bool changed =
        fact->state != job->status.recorder || strcmp(fact->reason, job->recorder_reason) != 0;
    (void)snprintf(job->recorder_reason, sizeof job->recorder_reason, "%s", fact->reason);
    job->status.recorder = fact->state;
    job->status.active = fact->active;
    job->status.reserved = fact->reserved;
    job->status.events = fact->events;
    job->status.lost = fact->lost;
    publish_recorder(job, changed);
    if (changed)
        bh_jobs_changed(job);
}

static void take_checkpoint(struct bh_job *job, const struct bh_record *record)
{
    const struct bh_record_checkpoint *fact = &record->checkpoint;
    job->status.checkpoint = fact->word;
    if (fact->word == BH_CKPT_ACKNOWLEDGED || fact->word == BH_CKPT_VERIFIED_FILE) {
        job->checkpoint_at.us = bh_clock_epoch_us(job->anchor, record->at);
        job->checkpoint_bytes = fact->artifact_bytes;
    }
}

/* A fact with an event of its own. */
static void publish_fact(struct bh_job *job, const struct bh_record *record, unsigned type,
                         void (*write)(struct bh_json *, const char *, const char *,
                                       const struct bh_record *, struct bh_anchor, struct bh_wall))
{
    struct bh_bytes text = {0};
    struct bh_json json;
    bh_json_begin(&json, &text, BH_JSON_COMPACT);
    write(&json, NULL, job->id, record, job->anchor, job->started_at);
    bh_json_finish(&json);
    publish(job, type, record->sequence, &text);
    bh_bytes_done(&text);
}

static void take_transition(struct bh_job *job, const struct bh_record *record)
{
    job->status.policy_state = record->transition.to;
    if (record->transition.to == BH_POLICY_STATE_TERMINATING ||
        record->transition.to == BH_POLICY_STATE_EMERGENCY)
        job->state = BH_JOB_STOPPING;
    else if (record->transition.to == BH_POLICY_STATE_CHECKPOINT_REQUESTED)
        job->state = BH_JOB_CHECKPOINTING;
    publish_fact(job, record, BH_EVENT_TRANSITION, bh_view_transition);
}

void bh_jobs_take_record(struct bh_job *job, const struct bh_record *record)
{
    bool changed = true;
    bh_metrics_record(job->app->metrics, record);
    switch (record->kind) {
    case BH_RECORD_TRANSITION:
        take_transition(job, record);
        break;
    case BH_RECORD_SIGNAL:
        publish_fact(job, record, BH_EVENT_SIGNAL, bh_view_signal);
        break;
    case BH_RECORD_CHECKPOINT:
        take_checkpoint(job, record);
        publish_fact(job, record, BH_EVENT_CHECKPOINT, bh_view_checkpoint);
        break;
    case BH_RECORD_RECORDER:
        take_recorder(job, &record->recorder);
        changed = false; /* says so itself, for it comes often */
        break;
    case BH_RECORD_LAUNCHED:
        job->status.root_pid = record->launched.root_pid;
        job->started_at = record->launched.started_at;
        break;
    case BH_RECORD_CONFIG_CHANGE:
    case BH_RECORD_LIMIT_CROSSED:
    case BH_RECORD_OUTCOME:
    case BH_RECORD_EMPTY:
    case BH_RECORD_ESCAPE:
        break;
    case BH_RECORD_CONFIG:
    case BH_RECORD_HOST:
    case BH_RECORD_SAMPLES:
    case BH_RECORD_CLOCK_GAP:
    case BH_RECORD_MEMBER:
    case BH_RECORD_ADVISORY:
    case BH_RECORD_LOSSES:
    case BH_RECORD_ARTIFACT_ERROR:
    case BH_RECORD_PEAK_MEMBER:
    case BH_RECORD_MARK:
    case BH_RECORD_SAMPLE:
        changed = false;
        break;
    }
    if (changed) {
        if (record->sequence > job->event_sequence)
            job->event_sequence = record->sequence;
        bh_jobs_changed(job);
    }
    bh_feed_want(job->app->feed, job);
}
