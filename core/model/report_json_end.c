/* How it ended: reclamation, recorder, outcome, calibration, journal, privacy. */
#include "core/model/report_json.h"

static void render_reclamation(const struct bh_report *report, struct bh_json *json)
{
    bh_json_object(json, "reclamation");
    bh_report_json_known(json, "available_before_bytes", report->host.available_bytes > 0,
                         report->host.available_bytes);
    bh_report_json_observed(json, "available_at_end_bytes", report->available_at_end, report,
                            report->last_at);
    bh_json_string(json, "verdict", "pending"); /* reclamation.json has it 10 s later */
    bh_json_end(json);
}

static void render_recorder(const struct bh_report *report, struct bh_json *json)
{
    const struct bh_record_recorder *recorder = &report->recorder;
    bh_json_object(json, "recorder");
    bh_json_string(json, "state", bh_recorder_state_text((int)recorder->state));
    bh_report_json_text_or_null(json, "reason", recorder->reason);
    bh_report_json_text_or_null(json, "mlx_version", recorder->mlx_version);
    bh_json_u64(json, "events", recorder->events);
    bh_json_u64(json, "lost", recorder->lost);
    bh_json_u64(json, "holes", recorder->holes);
    bh_json_u64(json, "stacks_lost", recorder->stacks_lost);
    bh_json_u64(json, "ring_bytes", recorder->ring_bytes);
    bh_json_end(json);
}

static void render_exit_code(struct bh_json *json, int exit_code)
{
    if (exit_code >= 0)
        bh_json_u64(json, "exit_code", (uint64_t)exit_code);
    else
        bh_json_null(json, "exit_code");
}

static void render_survivors(const struct bh_report *report, struct bh_json *json)
{
    bh_json_array(json, "survivors");
    for (size_t i = 0; report->outcome.survivors > 0 && i < report->live_count; i++) {
        bh_json_object(json, NULL);
        bh_report_json_text_or_null(json, "executable_basename", report->live[i].basename);
        bh_json_u64(json, "pid", (uint64_t)report->live[i].pid);
        bh_json_end(json);
    }
    bh_json_end(json);
}

static void render_outcome(const struct bh_report *report, int utc_offset_s, struct bh_json *json)
{
    const struct bh_record_outcome *outcome = &report->outcome;
    struct bh_outcome_story story;
    char sentence[320];
    bh_report_story(report, &story);
    bh_json_object(json, "outcome");
    bh_json_string(json, "kind", bh_outcome_text((int)outcome->kind));
    bh_json_string(json, "cause", bh_cause_text((int)outcome->cause));
    bh_json_string(json, "sentence",
                   bh_outcome_sentence(&story, utc_offset_s, sentence, sizeof sentence));
    render_exit_code(json, outcome->exit_code);
    bh_report_json_signal(json, "signal", outcome->signal);
    bh_json_u64(json, "at_ms",
                bh_report_ms(report, report->has_empty ? report->empty_at : report->outcome_at));
    bh_report_json_observed(json, "final_footprint", outcome->final_bytes, report,
                            report->outcome_at);
    bh_json_object(json, "child_status");
    render_exit_code(json, outcome->exit_code);
    bh_report_json_signal(json, "signal", outcome->signal);
    bh_json_end(json);
    bh_json_i64(json, "reported_exit_code", outcome->reported_exit_code);
    if (outcome->error)
        bh_json_string(json, "error", bh_err_code(outcome->error));
    else
        bh_json_null(json, "error");
    bh_json_string(json, "emptiness",
                   !report->has_empty     ? "unknown"
                   : report->empty.proven ? "proven"
                                          : "sampled");
    bh_json_u64(json, "samples_after_signal", outcome->samples_after_signal);
    bh_json_u64(json, "survivor_count", outcome->survivors);
    render_survivors(report, json);
    bh_json_end(json);
}

static void render_supervisor(const struct bh_report *report, struct bh_json *json)
{
    const struct bh_record_outcome *outcome = &report->outcome;
    bh_json_object(json, "supervisor");
    bh_json_u64(json, "complete_samples", outcome->complete_samples);
    bh_json_u64(json, "incomplete_samples", outcome->incomplete_samples);
    bh_json_u64(json, "exact_rounds", outcome->exact_rounds);
    bh_json_u64(json, "rollups_refused", outcome->rollups_refused);
    bh_report_json_known(json, "cpu_us", outcome->cpu_ns > 0, outcome->cpu_ns / BH_NS_PER_US);
    bh_json_u64(json, "clock_gap_ms", report->clock_gap_ns / BH_NS_PER_MS);
    bh_json_u64(json, "lost_records", report->lost_records);
    bh_json_u64(json, "lost_samples", report->lost_samples);
    bh_json_string(json, "journal", report->journal_complete ? "complete" : "truncated");
    bh_json_end(json);
}

/* Observe mode only: what was seen, and that no limit follows from it. */
static void render_calibration(const struct bh_report *report, struct bh_json *json)
{
    const struct bh_record_outcome *outcome = &report->outcome;
    if (report->config.mode != BH_MODE_OBSERVE) {
        bh_json_null(json, "calibration");
        return;
    }
    bool own = outcome->complete_samples + outcome->incomplete_samples > 0;
    uint64_t complete = own ? outcome->complete_samples : report->complete;
    uint64_t incomplete = own ? outcome->incomplete_samples : report->incomplete;
    struct bh_observed peak = own ? outcome->peak_bytes : report->peak;
    struct bh_mono end = report->has_empty ? report->empty_at : report->last_at;
    bh_json_object(json, "calibration");
    bh_json_bool(json, "observation_only", true);
    bh_json_bool(json, "safety_certified", false);
    bh_json_u64(json, "total_samples", complete + incomplete);
    bh_json_u64(json, "complete_samples", complete);
    bh_json_u64(json, "incomplete_samples", incomplete);
    bh_json_u64(json, "observed_duration_ms", bh_report_ms(report, end));
    bh_report_json_observed(json, "peak_aggregate", peak, report, report->peak_at);
    bh_report_json_known(json, "peak_growth_per_second_bytes", outcome->complete_samples > 1,
                         outcome->peak_growth_per_s);
    bh_json_null(json, "automatic_limit_bytes");
    bh_json_string(
        json, "guidance",
        "These are the values of one run. Choose a limit yourself: other inputs may need "
        "more, and growth between two samples is not seen.");
    bh_json_end(json);
}

void bh_report_json_end(const struct bh_report *report, int utc_offset_s, struct bh_json *json)
{
    render_reclamation(report, json);
    render_recorder(report, json);
    render_outcome(report, utc_offset_s, json);
    render_calibration(report, json);
    render_supervisor(report, json);
    bh_json_object(json, "privacy");
    bh_json_bool(json, "redacted_before_persistence", true);
    bh_json_string(json, "file_mode", "0600");
    bh_json_string(json, "upload", "disabled");
    bh_json_end(json);
}
