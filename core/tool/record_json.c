#include "core/tool/record_json.h"

#include <stdio.h>
#include <string.h>

#include "core/base/json_out.h"
#include "core/base/text.h"
#include "core/model/policy.h"

enum type { UNSIGNED, SIGNED, BOOL, TEXT, OBSERVED, TIME, WALL, ENUM, SIGNAL, ERROR };

struct member {
    enum bh_record_kind kind;
    enum type type;
    uint16_t offset, size;
    const char *name;
    const char *(*text)(int value); /* ENUM */
};

static const char *policy_state_text(int state)
{
    return bh_policy_state_name((enum bh_policy_state_id)state);
}

static const char *checkpoint_kind_text(int kind)
{
    return kind == BH_CHECKPOINT_PROTOCOL ? "protocol"
           : kind == BH_CHECKPOINT_SIGNAL ? "signal"
                                          : "none";
}

static const char *stacks_text(int stacks)
{
    return stacks == BH_STACKS_PYTHON ? "python" : stacks == BH_STACKS_ALL ? "all" : "none";
}

static const char *emergency_text(int action)
{
    return action == BH_EMERGENCY_TERM ? "term" : "kill";
}

#define MEMBER(KIND, TYPE, part, field, words)                                                     \
    {                                                                                              \
        .kind = BH_RECORD_##KIND, .type = (TYPE),                                                  \
        .offset = offsetof(struct bh_record, part.field),                                          \
        .size = sizeof(((struct bh_record *)0)->part.field), .name = #field, .text = (words)       \
    }
#define M(KIND, TYPE, part, field) MEMBER(KIND, TYPE, part, field, NULL)

static const struct member MEMBERS[] = {
    MEMBER(CONFIG, ENUM, config, mode, bh_mode_text),
    M(CONFIG, UNSIGNED, config, limit_bytes),
    M(CONFIG, UNSIGNED, config, warning_bytes),
    M(CONFIG, UNSIGNED, config, recovery_bytes),
    M(CONFIG, UNSIGNED, config, emergency_bytes),
    M(CONFIG, UNSIGNED, config, breach_count),
    M(CONFIG, UNSIGNED, config, breach_hold_ns),
    M(CONFIG, UNSIGNED, config, max_unusable),
    M(CONFIG, UNSIGNED, config, interval_ns),
    M(CONFIG, UNSIGNED, config, min_interval_ns),
    M(CONFIG, UNSIGNED, config, max_sample_age_ns),
    M(CONFIG, UNSIGNED, config, max_sample_window_ns),
    M(CONFIG, UNSIGNED, config, wall_time_ns),
    MEMBER(CONFIG, ENUM, config, checkpoint_kind, checkpoint_kind_text),
    M(CONFIG, UNSIGNED, config, checkpoint_timeout_ns),
    M(CONFIG, UNSIGNED, config, grace_base_ns),
    M(CONFIG, UNSIGNED, config, grace_per_gib_ns),
    M(CONFIG, UNSIGNED, config, grace_max_ns),
    M(CONFIG, UNSIGNED, config, kill_retry_ns),
    M(CONFIG, UNSIGNED, config, kill_wait_ns),
    MEMBER(CONFIG, ENUM, config, emergency_action, emergency_text),
    M(CONFIG, BOOL, config, brake),
    M(CONFIG, SIGNAL, config, stop_signal),
    M(CONFIG, BOOL, config, record),
    MEMBER(CONFIG, ENUM, config, stacks, stacks_text),
    M(CONFIG, UNSIGNED, config, depth),
    M(CONFIG, TEXT, config, executable),
    M(CONFIG, UNSIGNED, config, argument_count),
    M(CONFIG, TEXT, config, correlation),
    M(HOST, TEXT, host, os),
    M(HOST, TEXT, host, kernel),
    M(HOST, TEXT, host, machine),
    M(HOST, UNSIGNED, host, page_bytes),
    M(HOST, UNSIGNED, host, memory_bytes),
    M(HOST, UNSIGNED, host, available_bytes),
    MEMBER(HOST, ENUM, host, boundary, bh_boundary_text),
    M(HOST, TEXT, host, mechanism),
    M(HOST, TEXT, host, metric),
    M(HOST, TEXT, host, metric_note),
    M(HOST, TEXT, host, cgroup_reason),
    M(HOST, UNSIGNED, host, outer_limit_bytes),
    M(HOST, BOOL, host, subreaper),
    M(HOST, BOOL, host, cgroup),
    M(HOST, BOOL, host, brake),
    M(HOST, BOOL, host, pidfd),
    M(HOST, BOOL, host, memory_locked),
    M(HOST, BOOL, host, realtime),
    M(HOST, TEXT, host, package_version),
    M(LAUNCHED, SIGNED, launched, root_pid),
    M(LAUNCHED, UNSIGNED, launched, root_start_token),
    M(LAUNCHED, SIGNED, launched, group),
    M(LAUNCHED, WALL, launched, started_at),
    M(SAMPLES, TIME, samples, from),
    M(SAMPLES, TIME, samples, to),
    M(SAMPLES, UNSIGNED, samples, count),
    M(SAMPLES, UNSIGNED, samples, unusable),
    M(SAMPLES, OBSERVED, samples, min),
    M(SAMPLES, OBSERVED, samples, max),
    M(SAMPLES, OBSERVED, samples, last),
    M(SAMPLES, TIME, samples, max_at),
    M(SAMPLES, UNSIGNED, samples, members),
    M(SAMPLES, OBSERVED, samples, active),
    M(SAMPLES, OBSERVED, samples, reserved),
    M(LIMIT_CROSSED, UNSIGNED, limit_crossed, bytes),
    M(LIMIT_CROSSED, UNSIGNED, limit_crossed, limit_bytes),
    M(CONFIG_CHANGE, UNSIGNED, config_change, revision),
    M(CONFIG_CHANGE, UNSIGNED, config_change, limit_bytes),
    M(CONFIG_CHANGE, UNSIGNED, config_change, warning_bytes),
    M(CONFIG_CHANGE, UNSIGNED, config_change, recovery_bytes),
    M(CONFIG_CHANGE, UNSIGNED, config_change, emergency_bytes),
    M(CLOCK_GAP, UNSIGNED, clock_gap, gap_ns),
    MEMBER(TRANSITION, ENUM, transition, from, policy_state_text),
    MEMBER(TRANSITION, ENUM, transition, to, policy_state_text),
    M(TRANSITION, OBSERVED, transition, bytes),
    M(TRANSITION, TEXT, transition, reason),
    M(SIGNAL, SIGNAL, signal, signal),
    MEMBER(SIGNAL, ENUM, signal, target, bh_signal_target_text),
    MEMBER(SIGNAL, ENUM, signal, result, bh_signal_result_text),
    M(SIGNAL, TEXT, signal, reason),
    M(SIGNAL, UNSIGNED, signal, reached),
    M(SIGNAL, UNSIGNED, signal, decision_to_signal_ns),
    MEMBER(CHECKPOINT, ENUM, checkpoint, word, bh_checkpoint_word_text),
    M(CHECKPOINT, UNSIGNED, checkpoint, request_id),
    M(CHECKPOINT, TEXT, checkpoint, reason),
    M(CHECKPOINT, OBSERVED, checkpoint, artifact_bytes),
    M(CHECKPOINT, UNSIGNED, checkpoint, rejected),
    MEMBER(ESCAPE, ENUM, member, event, bh_member_event_text),
    M(ESCAPE, SIGNED, member, pid),
    M(ESCAPE, TEXT, member, basename),
    MEMBER(MEMBER, ENUM, member, event, bh_member_event_text),
    M(MEMBER, SIGNED, member, pid),
    M(MEMBER, UNSIGNED, member, start_token),
    M(MEMBER, TEXT, member, basename),
    M(MEMBER, SIGNED, member, exit_status),
    M(MEMBER, UNSIGNED, member, max_rss_bytes),
    M(ADVISORY, OBSERVED, advisory, host_available),
    M(ADVISORY, OBSERVED, advisory, host_total),
    M(ADVISORY, UNSIGNED, advisory, pressure_some_x100),
    M(LOSSES, UNSIGNED, losses, records),
    M(LOSSES, UNSIGNED, losses, samples),
    M(ARTIFACT_ERROR, ERROR, artifact_error, error),
    M(ARTIFACT_ERROR, TEXT, artifact_error, what),
    MEMBER(OUTCOME, ENUM, outcome, kind, bh_outcome_text),
    MEMBER(OUTCOME, ENUM, outcome, cause, bh_cause_text),
    M(OUTCOME, SIGNED, outcome, exit_code),
    M(OUTCOME, SIGNAL, outcome, signal),
    M(OUTCOME, SIGNED, outcome, reported_exit_code),
    M(OUTCOME, OBSERVED, outcome, final_bytes),
    M(OUTCOME, OBSERVED, outcome, peak_bytes),
    M(OUTCOME, TIME, outcome, peak_at),
    M(OUTCOME, UNSIGNED, outcome, peak_growth_per_s),
    M(OUTCOME, UNSIGNED, outcome, decision_overshoot_bytes),
    M(OUTCOME, UNSIGNED, outcome, peak_overshoot_bytes),
    M(OUTCOME, OBSERVED, outcome, decision_to_signal_ns),
    M(OUTCOME, OBSERVED, outcome, signal_to_lower_ns),
    M(OUTCOME, OBSERVED, outcome, signal_to_empty_ns),
    M(OUTCOME, UNSIGNED, outcome, samples_after_signal),
    M(OUTCOME, UNSIGNED, outcome, complete_samples),
    M(OUTCOME, UNSIGNED, outcome, incomplete_samples),
    M(OUTCOME, UNSIGNED, outcome, exact_rounds),
    M(OUTCOME, UNSIGNED, outcome, cpu_ns),
    M(OUTCOME, UNSIGNED, outcome, survivors),
    M(OUTCOME, ERROR, outcome, error),
    M(OUTCOME, UNSIGNED, outcome, members_seen),
    M(OUTCOME, UNSIGNED, outcome, members_escaped),
    M(OUTCOME, UNSIGNED, outcome, member_records_omitted),
    M(OUTCOME, UNSIGNED, outcome, rollups_refused),
    M(PEAK_MEMBER, SIGNED, peak_member, pid),
    M(PEAK_MEMBER, TEXT, peak_member, basename),
    M(PEAK_MEMBER, UNSIGNED, peak_member, bytes),
    MEMBER(RECORDER, ENUM, recorder, state, bh_recorder_state_text),
    M(RECORDER, TEXT, recorder, reason),
    M(RECORDER, TEXT, recorder, mlx_version),
    M(RECORDER, UNSIGNED, recorder, events),
    M(RECORDER, UNSIGNED, recorder, lost),
    M(RECORDER, UNSIGNED, recorder, holes),
    M(RECORDER, UNSIGNED, recorder, ring_bytes),
    M(RECORDER, UNSIGNED, recorder, stacks_lost),
    M(RECORDER, OBSERVED, recorder, active),
    M(RECORDER, OBSERVED, recorder, reserved),
    M(MARK, TEXT, mark, label),
    M(EMPTY, BOOL, empty, proven),
    M(SAMPLE, TIME, sample, captured_at),
    M(SAMPLE, TIME, sample, processed_at),
    M(SAMPLE, UNSIGNED, sample, window_ns),
    M(SAMPLE, OBSERVED, sample, bytes),
    M(SAMPLE, UNSIGNED, sample, upper_bytes),
    M(SAMPLE, UNSIGNED, sample, members),
    M(SAMPLE, BOOL, sample, exact),
};

static uint64_t read_unsigned(const void *at, size_t size)
{
    uint64_t wide = 0;
    memcpy(&wide, at,
           size < sizeof wide ? size : sizeof wide); /* little-endian hosts only: ring.h */
    return wide;
}

static int64_t read_signed(const void *at, size_t size)
{
    int32_t narrow;
    int64_t wide;
    if (size == sizeof wide) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

static const char *status_text(enum bh_value_status status)
{
    switch (status) {
    case BH_VALUE_AVAILABLE:
        return "available";
    case BH_VALUE_UNAVAILABLE:
        return "unavailable";
    case BH_VALUE_STALE:
        return "stale";
    case BH_VALUE_ERROR:
        return "error";
    case BH_VALUE_UNKNOWN:
        break;
    }
    return "unknown";
}

static void put_observed(struct bh_json *json, const char *name, const void *at)
{
    struct bh_observed observed;
    memcpy(&observed, at, sizeof observed);
    bh_json_object(json, name);
    bh_json_string(json, "status", status_text(observed.status));
    if (observed.status == BH_VALUE_AVAILABLE || observed.status == BH_VALUE_STALE)
        bh_json_u64(json, "value", observed.value);
    bh_json_end(json);
}

static void put_time(struct bh_json *json, const char *name, const void *at,
                     struct bh_anchor anchor)
{
    struct bh_mono mono;
    char key[64];
    memcpy(&mono, at, sizeof mono);
    (void)snprintf(key, sizeof key, "%s_us", name);
    if (mono.ns)
        bh_json_i64(json, key, bh_clock_epoch_us(anchor, mono));
    else
        bh_json_null(json, key);
}

static void put_signal(struct bh_json *json, const char *name, int number)
{
    char buffer[16];
    if (number)
        bh_json_string(json, name, bh_text_signal_name(number, buffer, sizeof buffer));
    else
        bh_json_null(json, name);
}

static void put_member(struct bh_json *json, const struct member *member,
                       const struct bh_record *record, struct bh_anchor anchor)
{
    const char *at = (const char *)record + member->offset;
    switch (member->type) {
    case UNSIGNED:
        bh_json_u64(json, member->name, read_unsigned(at, member->size));
        break;
    case SIGNED:
        bh_json_i64(json, member->name, read_signed(at, member->size));
        break;
    case BOOL:
        bh_json_bool(json, member->name, *(const bool *)(const void *)at);
        break;
    case TEXT:
        bh_json_text(json, member->name, at, strnlen(at, member->size));
        break;
    case OBSERVED:
        put_observed(json, member->name, at);
        break;
    case TIME:
        put_time(json, member->name, at, anchor);
        break;
    case WALL:
        bh_json_i64(json, member->name, read_signed(at, member->size));
        break;
    case ENUM:
        bh_json_string(json, member->name, member->text((int)read_unsigned(at, member->size)));
        break;
    case SIGNAL:
        put_signal(json, member->name, (int)read_signed(at, member->size));
        break;
    case ERROR:
        if (read_signed(at, member->size))
            bh_json_string(json, member->name, bh_err_code((int)read_signed(at, member->size)));
        else
            bh_json_null(json, member->name);
        break;
    }
}

void bh_tool_record_json(struct bh_bytes *out, const struct bh_record *record,
                         struct bh_anchor anchor)
{
    struct bh_json json;
    bh_json_begin(&json, out, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_u64(&json, "seq", record->sequence);
    bh_json_string(&json, "by", record->by_scribe ? "scribe" : "decider");
    bh_json_string(&json, "record", bh_record_kind_text((int)record->kind));
    bh_json_i64(&json, "at_us", bh_clock_epoch_us(anchor, record->at));
    bh_json_object(&json, "data"); /* apart: members are called "record" and "kind" as well */
    for (size_t i = 0; i < sizeof MEMBERS / sizeof MEMBERS[0]; i++) {
        if (MEMBERS[i].kind == record->kind)
            put_member(&json, &MEMBERS[i], record, anchor);
    }
    bh_json_end(&json);
    bh_json_end(&json);
    bh_bytes_append(out, "\n", 1);
}
