/* Series, peaks and what happened: samples, advisory, peaks, transitions, signals, latencies,
 * checkpoint, escape. */
#include "core/base/text.h"
#include "core/model/policy.h"
#include "core/model/report_json.h"

static void render_samples(const struct bh_report *report, struct bh_json *json)
{
    bh_json_array(json, "samples");
    for (size_t i = 0; i < report->sample_series.count; i++) {
        const struct bh_report_sample *sample = &report->samples[i];
        bool usable = sample->count > 0;
        struct bh_mono captured = usable ? sample->max_at : sample->to;
        bh_json_object(json, NULL);
        bh_json_u64(json, "captured_at_ms", bh_report_ms(report, captured));
        bh_json_u64(json, "processed_at_ms", bh_report_ms(report, sample->to));
        bh_json_u64(json, "window_ms", (sample->to.ns - sample->from.ns) / BH_NS_PER_MS);
        bh_report_json_observed(json, "aggregate", sample->max, report, captured);
        bh_report_json_observed(json, "aggregate_min", sample->min, report, captured);
        bh_json_u64(json, "members", sample->members);
        bh_json_u64(json, "readings", sample->count);
        bh_json_u64(json, "unusable", sample->unusable);
        bh_json_end(json);
    }
    bh_json_end(json);
}

static void render_advisory(const struct bh_report *report, struct bh_json *json)
{
    bh_json_array(json, "advisory");
    for (size_t i = 0; i < report->advisory_series.count; i++) {
        const struct bh_report_advisory *advisory = &report->advisory[i];
        bh_json_object(json, NULL);
        bh_json_u64(json, "at_ms", bh_report_ms(report, advisory->at));
        bh_report_json_observed(json, "host_available", advisory->host_available, report,
                                advisory->at);
        bh_json_double(json, "pressure_some_percent", advisory->pressure_some_x100 / 100.0);
        bh_json_end(json);
    }
    bh_json_end(json);
}

/* The decider saw every sample; without its outcome, what the journal's spans kept. */
static void render_peaks(const struct bh_report *report, struct bh_json *json)
{
    const struct bh_record_outcome *outcome = &report->outcome;
    bool own = outcome->peak_bytes.status == BH_VALUE_AVAILABLE;
    struct bh_observed peak = own ? outcome->peak_bytes : report->peak;
    struct bh_mono at = own ? outcome->peak_at : report->peak_at;
    bool enforce = report->config.mode == BH_MODE_ENFORCE;
    bh_json_object(json, "peaks");
    bh_json_object(json, "sampled");
    if (peak.status == BH_VALUE_AVAILABLE)
        bh_json_u64(json, "at_ms", bh_report_ms(report, at));
    else
        bh_json_null(json, "at_ms");
    bh_report_json_observed(json, "aggregate", peak, report, at);
    bh_json_end(json);
    bh_json_object(json, "kernel");
    bh_json_string(json, "status", report->kernel_peak_bytes ? "available" : "unknown");
    if (report->kernel_peak_bytes) {
        bh_json_u64(json, "value", report->kernel_peak_bytes);
        bh_json_string(json, "what", "ru_maxrss of one process, file pages included");
        bh_report_json_text_or_null(json, "executable_basename", report->kernel_peak_name);
    }
    bh_json_end(json);
    bh_report_json_known(json, "growth_per_second_bytes", outcome->complete_samples > 1,
                         outcome->peak_growth_per_s);
    bh_report_json_known(json, "decision_overshoot_bytes", own && enforce && report->has_stop,
                         outcome->decision_overshoot_bytes);
    bh_report_json_known(json, "overshoot_bytes", own && enforce, outcome->peak_overshoot_bytes);
    bh_json_array(json, "members");
    for (size_t i = 0; i < report->peak_count; i++) {
        bh_json_object(json, NULL);
        bh_json_string(json, "executable_basename", report->peak_members[i].basename);
        bh_json_u64(json, "pid", (uint64_t)report->peak_members[i].pid);
        bh_json_u64(json, "bytes", report->peak_members[i].bytes);
        bh_json_end(json);
    }
    bh_json_end(json);
    bh_json_end(json);
}

void bh_report_json_series(const struct bh_report *report, struct bh_json *json)
{
    render_samples(report, json);
    render_advisory(report, json);
    render_peaks(report, json);
}

static void render_transitions(const struct bh_report *report, struct bh_json *json)
{
    bh_json_array(json, "transitions");
    for (size_t i = 0; i < report->transition_list.count; i++) {
        const struct bh_report_transition *transition = &report->transitions[i];
        bh_json_object(json, NULL);
        bh_json_u64(json, "at_ms", bh_report_ms(report, transition->at));
        bh_json_string(json, "from",
                       bh_policy_state_name((enum bh_policy_state_id)transition->record.from));
        bh_json_string(json, "to",
                       bh_policy_state_name((enum bh_policy_state_id)transition->record.to));
        bh_report_json_observed(json, "aggregate", transition->record.bytes, report,
                                transition->at);
        bh_report_json_text_or_null(json, "reason", transition->record.reason);
        bh_json_end(json);
    }
    bh_json_end(json);
    bh_json_u64(json, "transitions_omitted", report->transition_list.omitted);
}

static void render_signals(const struct bh_report *report, struct bh_json *json)
{
    bh_json_array(json, "signals");
    for (size_t i = 0; i < report->signal_list.count; i++) {
        const struct bh_report_signal *signal = &report->signals[i];
        bh_json_object(json, NULL);
        bh_json_u64(json, "at_ms", bh_report_ms(report, signal->at));
        bh_report_json_signal(json, "signal", signal->record.signal);
        bh_json_string(json, "target", bh_signal_target_text((int)signal->record.target));
        bh_json_string(json, "result", bh_signal_result_text((int)signal->record.result));
        bh_report_json_text_or_null(json, "reason", signal->record.reason);
        bh_json_u64(json, "reached", signal->record.reached);
        bh_json_end(json);
    }
    bh_json_end(json);
    bh_json_u64(json, "signals_omitted", report->signal_list.omitted);
}

/* Milliseconds with fractions: the decision takes microseconds. */
static void render_latency(struct bh_json *json, const char *key, struct bh_observed ns)
{
    bool known = ns.status == BH_VALUE_AVAILABLE;
    bh_json_object(json, key);
    bh_json_string(json, "status", known ? "available" : "unknown");
    if (known)
        bh_json_double(json, "value", (double)ns.value / 1e6);
    bh_json_end(json);
}

static void render_latencies(const struct bh_report *report, struct bh_json *json)
{
    const struct bh_record_outcome *outcome = &report->outcome;
    bh_json_object(json, "latencies");
    render_latency(json, "decision_to_signal_ms", outcome->decision_to_signal_ns);
    render_latency(json, "signal_to_lower_sample_ms", outcome->signal_to_lower_ns);
    render_latency(json, "to_empty_ms", outcome->signal_to_empty_ns);
    bh_json_end(json);
}

static const char *artifact_text(uint8_t kind)
{
    static const char *const texts[] = {"none", "file", "directory", "opaque"};
    return kind < 4 ? texts[kind] : "unknown";
}

static void render_checkpoint_event(const struct bh_report *report, struct bh_json *json,
                                    const struct bh_report_checkpoint *event)
{
    bh_json_object(json, NULL);
    bh_json_u64(json, "at_ms", bh_report_ms(report, event->at));
    bh_json_string(json, "status", bh_checkpoint_word_text((int)event->record.word));
    bh_json_u64(json, "request_id", event->record.request_id);
    bh_report_json_text_or_null(json, "reason", event->record.reason);
    bh_json_end(json);
}

static void render_checkpoint(const struct bh_report *report, struct bh_json *json)
{
    const struct bh_report_checkpoint *last =
        report->checkpoint_list.count ? &report->checkpoints[report->checkpoint_list.count - 1]
                                      : NULL;
    bool asked = last && last->record.request_id != 0;
    bh_json_object(json, "checkpoint");
    enum bh_checkpoint_word none =
        report->checkpoint_ready ? BH_CKPT_READY : BH_CKPT_NOT_NEGOTIATED;
    bh_json_string(json, "status", bh_checkpoint_word_text((int)(last ? last->record.word : none)));
    if (asked)
        bh_json_u64(json, "request_id", last->record.request_id);
    else
        bh_json_null(json, "request_id");
    bh_report_json_text_or_null(json, "reason", last ? last->record.reason : "");
    if (last) {
        bh_json_u64(json, "at_ms", bh_report_ms(report, last->at));
        bh_json_string(json, "artifact_kind", artifact_text(last->record.artifact_kind));
        bh_report_json_observed(json, "artifact_bytes", last->record.artifact_bytes, report,
                                last->at);
    }
    bh_json_u64(json, "rejected", report->checkpoint_rejected);
    bh_json_array(json, "events");
    for (size_t i = 0; i < report->checkpoint_list.count; i++)
        render_checkpoint_event(report, json, &report->checkpoints[i]);
    bh_json_end(json);
    bh_json_u64(json, "events_omitted", report->checkpoint_list.omitted);
    bh_json_end(json);
}

static uint64_t larger(uint64_t left, uint64_t right)
{
    return left > right ? left : right;
}

/* Totals are the decider's where it lived to say them: in a storm of forks records are left out. */
static void render_escape(const struct bh_report *report, struct bh_json *json)
{
    const struct bh_record_outcome *totals = &report->outcome;
    uint64_t escaped = larger(report->escaped, totals->members_escaped);
    bh_json_object(json, "escape");
    bh_json_bool(json, "detected", escaped > 0);
    bh_json_u64(json, "escaped_count", escaped);
    bh_json_array(json, "identities");
    for (size_t i = 0; i < report->escape_count; i++)
        bh_json_string(json, NULL, report->escapes[i].record.basename);
    bh_json_end(json);
    bh_json_array(json, "member_events");
    for (size_t i = 0; i < report->member_list.count; i++) {
        const struct bh_report_member *member = &report->members[i];
        bh_json_object(json, NULL);
        bh_json_u64(json, "at_ms", bh_report_ms(report, member->at));
        bh_json_string(json, "event", bh_member_event_text((int)member->record.event));
        bh_report_json_text_or_null(json, "executable_basename", member->record.basename);
        bh_json_end(json);
    }
    bh_json_end(json);
    bh_json_u64(json, "member_events_omitted",
                report->member_list.omitted + totals->member_records_omitted);
    bh_json_u64(json, "members_seen", larger(report->came, totals->members_seen));
    bh_json_end(json);
}

static void render_marks(const struct bh_report *report, struct bh_json *json)
{
    bh_json_array(json, "marks");
    for (size_t i = 0; i < report->mark_list.count; i++) {
        bh_json_object(json, NULL);
        bh_json_u64(json, "at_ms", bh_report_ms(report, report->marks[i].at));
        bh_json_string(json, "label", report->marks[i].record.label);
        bh_json_end(json);
    }
    bh_json_end(json);
    bh_json_u64(json, "marks_omitted", report->mark_list.omitted);
}

void bh_report_json_events(const struct bh_report *report, struct bh_json *json)
{
    render_transitions(report, json);
    render_signals(report, json);
    render_latencies(report, json);
    render_checkpoint(report, json);
    render_escape(report, json);
    render_marks(report, json);
}
