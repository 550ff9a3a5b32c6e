/* Validation of a report: what cannot be true is never served as complete. */
#include "core/base/text.h"
#include "core/model/policy.h"
#include "core/model/report.h"

static int wrong(struct bh_diag *diag, const char *field, const char *sentence)
{
    return bh_err_set(diag, BH_E_REPORT_SUPPRESSED, field, "%s", sentence);
}

static int check_bands(uint64_t recovery, uint64_t warning, uint64_t limit, uint64_t emergency,
                       struct bh_diag *diag)
{
    if (!(recovery < warning && warning < limit && limit < emergency))
        return wrong(diag, "configuration", "the bands are out of order");
    return BH_OK;
}

static int check_configuration(const struct bh_report *report, struct bh_diag *diag)
{
    const struct bh_record_config *config = &report->config;
    if (!report->has_config)
        return wrong(diag, "configuration", "the journal has no configuration");
    if (config->executable[0] == '\0' || bh_text_basename(config->executable) != config->executable)
        return wrong(diag, "run", "the program's name is empty or a path");
    if (config->mode != BH_MODE_ENFORCE && config->mode != BH_MODE_OBSERVE)
        return wrong(diag, "configuration", "the mode is unknown");
    if (config->mode == BH_MODE_OBSERVE)
        return BH_OK;
    int result = check_bands(config->recovery_bytes, config->warning_bytes, config->limit_bytes,
                             config->emergency_bytes, diag);
    for (size_t i = 0; result == BH_OK && i < report->limits_list.count; i++) {
        const struct bh_record_config_change *change = &report->limits[i].record;
        result = check_bands(change->recovery_bytes, change->warning_bytes, change->limit_bytes,
                             change->emergency_bytes, diag);
    }
    return result;
}

static int check_samples(const struct bh_report *report, struct bh_diag *diag)
{
    for (size_t i = 0; i < report->sample_series.count; i++) {
        const struct bh_report_sample *sample = &report->samples[i];
        if (sample->to.ns < sample->from.ns ||
            (i > 0 && sample->from.ns < report->samples[i - 1].to.ns))
            return wrong(diag, "samples", "the samples are out of order");
        if (sample->count > 0 && sample->min.value > sample->max.value)
            return wrong(diag, "samples", "a sample's least value is above its greatest");
    }
    for (size_t i = 1; i < report->advisory_series.count; i++) {
        if (report->advisory[i].at.ns < report->advisory[i - 1].at.ns)
            return wrong(diag, "advisory", "the readings of the host are out of order");
    }
    return BH_OK;
}

static int check_events(const struct bh_report *report, struct bh_diag *diag)
{
    for (size_t i = 1; i < report->transition_list.count; i++) {
        if (report->transitions[i].at.ns < report->transitions[i - 1].at.ns)
            return wrong(diag, "transitions", "the transitions are out of order");
        if (report->transition_list.omitted == 0 && report->lost_records == 0 &&
            report->transitions[i].record.from != report->transitions[i - 1].record.to)
            return wrong(diag, "transitions", "a transition does not begin where the last ended");
    }
    for (size_t i = 1; i < report->signal_list.count; i++) {
        if (report->signals[i].at.ns < report->signals[i - 1].at.ns)
            return wrong(diag, "signals", "the signals are out of order");
    }
    return BH_OK;
}

static int check_outcome(const struct bh_report *report, struct bh_diag *diag)
{
    const struct bh_record_outcome *outcome = &report->outcome;
    if (!report->has_outcome || outcome->kind == BH_OUTCOME_NONE)
        return wrong(diag, "outcome", "the journal has no outcome");
    if (outcome->kind == BH_OUTCOME_CHILD_SIGNALED && outcome->signal <= 0)
        return wrong(diag, "outcome", "a child that was signaled has no signal");
    if (outcome->kind == BH_OUTCOME_CHILD_EXITED && outcome->exit_code < 0 &&
        outcome->cause != BH_CAUSE_UNKNOWN)
        return wrong(diag, "outcome", "a child that exited has no exit code");
    if (outcome->kind == BH_OUTCOME_UNKILLABLE && outcome->survivors == 0)
        return wrong(diag, "outcome", "nothing was left, yet it could not be killed");
    bool ran = outcome->kind != BH_OUTCOME_LAUNCH_NOT_FOUND &&
               outcome->kind != BH_OUTCOME_LAUNCH_NOT_EXECUTABLE &&
               outcome->kind != BH_OUTCOME_INVALID_CONFIGURATION &&
               outcome->kind != BH_OUTCOME_SUPERVISOR_FAILURE &&
               outcome->kind != BH_OUTCOME_SUPERVISOR_LOST;
    if (ran && !report->has_launched)
        return wrong(diag, "outcome", "it ended without having been launched");
    if (report->has_launched && report->outcome_at.ns < report->launched_at.ns)
        return wrong(diag, "outcome", "it ended before it was launched");
    return BH_OK;
}

int bh_report_validate(const struct bh_report *report, struct bh_diag *diag)
{
    if (!bh_text_is_job_id(report->run_id))
        return wrong(diag, "run", "the run id is malformed");
    if (report->artifact_error != 0)
        return wrong(diag, "artifact", "a part of the record was lost: storage failed");
    int result = check_configuration(report, diag);
    if (result == BH_OK)
        result = check_samples(report, diag);
    if (result == BH_OK)
        result = check_events(report, diag);
    if (result == BH_OK)
        result = check_outcome(report, diag);
    return result;
}
