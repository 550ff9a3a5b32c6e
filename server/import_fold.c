/* The fold of the journal into a job's row. Times become epoch microseconds by the journal's
 * anchor, which is in the row before the first record comes. */
#include <stdio.h>

#include "core/model/policy.h"
#include "server/import_internal.h"

static struct bh_wall wall_of(const struct bh_store_job *row, struct bh_mono at)
{
    return (struct bh_wall){bh_clock_epoch_us(row->anchor, at)};
}

static enum bh_job_state state_of(uint8_t policy_state, enum bh_job_state before)
{
    switch ((enum bh_policy_state_id)policy_state) {
    case BH_POLICY_STATE_OBSERVE:
    case BH_POLICY_STATE_NORMAL:
    case BH_POLICY_STATE_WARNING:
        return BH_JOB_RUNNING;
    case BH_POLICY_STATE_CHECKPOINT_REQUESTED:
        return BH_JOB_CHECKPOINTING;
    case BH_POLICY_STATE_TERMINATING:
    case BH_POLICY_STATE_EMERGENCY:
    case BH_POLICY_STATE_EXITED:
    case BH_POLICY_STATE_SUPERVISOR_ERROR:
        return BH_JOB_STOPPING;
    }
    return before;
}

static void raise_peak(struct bh_store_job *row, struct bh_observed bytes, struct bh_wall at)
{
    if (bytes.status != BH_VALUE_AVAILABLE)
        return;
    if (row->peak.status == BH_VALUE_AVAILABLE && row->peak.value >= bytes.value)
        return;
    row->peak = bytes;
    row->peak_at = at;
}

static void fold_config(struct bh_store_job *row, const struct bh_record_config *config)
{
    row->mode = config->mode;
    row->limit_bytes = config->limit_bytes;
    row->warning_bytes = config->warning_bytes;
    row->recovery_bytes = config->recovery_bytes;
    row->emergency_bytes = config->emergency_bytes;
}

static void fold_change(struct bh_store_job *row, const struct bh_record_config_change *change)
{
    row->limits_revision = change->revision;
    row->limit_bytes = change->limit_bytes;
    row->warning_bytes = change->warning_bytes;
    row->recovery_bytes = change->recovery_bytes;
    row->emergency_bytes = change->emergency_bytes;
}

static void fold_samples(struct bh_store_job *row, const struct bh_record_samples *samples)
{
    if (row->outcome == BH_OUTCOME_NONE) /* the scribe's last second comes behind the outcome */
        row->charge = samples->last;
    raise_peak(row, samples->max, wall_of(row, samples->max_at));
    if (samples->active.status == BH_VALUE_AVAILABLE)
        row->active = samples->active;
    if (samples->reserved.status == BH_VALUE_AVAILABLE)
        row->reserved = samples->reserved;
}

static void fold_recorder(struct bh_store_job *row, const struct bh_record_recorder *recorder)
{
    row->recorder = recorder->state;
    snprintf(row->recorder_reason, sizeof row->recorder_reason, "%s", recorder->reason);
    row->events = recorder->events;
    row->lost = recorder->lost;
    row->active = recorder->active;
    row->reserved = recorder->reserved;
}

static void fold_checkpoint(struct bh_store_job *row, const struct bh_record *record)
{
    row->checkpoint = record->checkpoint.word;
    row->checkpoint_at = wall_of(row, record->at);
    row->checkpoint_bytes = record->checkpoint.artifact_bytes;
}

/* What the tree holds after its end. The record's own final footprint is the last one measured
 * while it lived, and is in the report. */
static struct bh_observed charge_after(const struct bh_record_outcome *outcome)
{
    if (outcome->survivors > 0 || outcome->kind == BH_OUTCOME_UNKILLABLE)
        return outcome->final_bytes;
    if (outcome->kind == BH_OUTCOME_SUPERVISOR_LOST) /* nobody proved that it is empty */
        return (struct bh_observed){BH_VALUE_UNKNOWN, 0};
    return (struct bh_observed){BH_VALUE_AVAILABLE, 0};
}

static void fold_outcome(struct bh_store_job *row, const struct bh_record *record)
{
    const struct bh_record_outcome *outcome = &record->outcome;

    row->outcome = outcome->kind;
    row->cause = outcome->cause;
    row->exit_code = outcome->exit_code;
    row->signal = outcome->signal;
    row->charge = charge_after(outcome);
    row->ended_at = wall_of(row, record->at);
    /* the sampler saw every reading: its peak is the exact one, the seconds' may lag behind */
    raise_peak(row, outcome->peak_bytes, wall_of(row, outcome->peak_at));
}

void bh_import_fold(struct bh_store_job *row, const struct bh_record *record)
{
    if (!record->by_scribe && record->kind != BH_RECORD_SAMPLE)
        row->journal_sequence = record->sequence;
    switch (record->kind) {
    case BH_RECORD_CONFIG:
        fold_config(row, &record->config);
        break;
    case BH_RECORD_HOST:
        row->boundary = record->host.boundary;
        break;
    case BH_RECORD_LAUNCHED:
        row->started_at = record->launched.started_at;
        row->state = BH_JOB_RUNNING;
        break;
    case BH_RECORD_SAMPLES:
        fold_samples(row, &record->samples);
        break;
    case BH_RECORD_LIMIT_CROSSED:
        if (row->limit_crossed_at.us == 0) {
            row->limit_crossed_at = wall_of(row, record->at);
            row->limit_crossed_bytes = record->limit_crossed.bytes;
        }
        break;
    case BH_RECORD_CONFIG_CHANGE:
        fold_change(row, &record->config_change);
        break;
    case BH_RECORD_TRANSITION:
        row->policy_state = record->transition.to;
        row->state = state_of(record->transition.to, row->state);
        break;
    case BH_RECORD_CHECKPOINT:
        fold_checkpoint(row, record);
        break;
    case BH_RECORD_RECORDER:
        fold_recorder(row, &record->recorder);
        break;
    case BH_RECORD_OUTCOME:
        fold_outcome(row, record);
        break;
    case BH_RECORD_CLOCK_GAP:
    case BH_RECORD_SIGNAL:
    case BH_RECORD_ESCAPE:
    case BH_RECORD_MEMBER:
    case BH_RECORD_ADVISORY:
    case BH_RECORD_LOSSES:
    case BH_RECORD_ARTIFACT_ERROR:
    case BH_RECORD_PEAK_MEMBER:
    case BH_RECORD_MARK:
    case BH_RECORD_EMPTY:
    case BH_RECORD_SAMPLE:
        break;
    }
}
