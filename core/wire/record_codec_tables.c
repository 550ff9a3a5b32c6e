#include "core/wire/record_codec.h"

#include "core/model/record.h"

/* F(tag, type, member) and E(tag, member, greatest enum value). */
#define F(tag, type, member) BH_FIELD(struct bh_record, tag, type, member)
#define E(tag, member, most) BH_FIELD_UP_TO(struct bh_record, tag, member, most)

static const struct bh_field config_fields[] = {
    E(1, config.mode, BH_MODE_OBSERVE),
    F(2, UNSIGNED, config.limit_bytes),
    F(3, UNSIGNED, config.warning_bytes),
    F(4, UNSIGNED, config.recovery_bytes),
    F(5, UNSIGNED, config.emergency_bytes),
    F(6, UNSIGNED, config.breach_count),
    F(7, UNSIGNED, config.max_unusable),
    F(8, UNSIGNED, config.breach_hold_ns),
    F(9, UNSIGNED, config.interval_ns),
    F(10, UNSIGNED, config.min_interval_ns),
    F(11, UNSIGNED, config.max_sample_age_ns),
    F(12, UNSIGNED, config.max_sample_window_ns),
    F(13, UNSIGNED, config.wall_time_ns),
    F(14, UNSIGNED, config.checkpoint_timeout_ns),
    E(15, config.checkpoint_kind, BH_CHECKPOINT_SIGNAL),
    F(16, UNSIGNED, config.grace_base_ns),
    F(17, UNSIGNED, config.grace_per_gib_ns),
    F(18, UNSIGNED, config.grace_max_ns),
    F(19, UNSIGNED, config.kill_retry_ns),
    F(20, UNSIGNED, config.kill_wait_ns),
    E(21, config.emergency_action, BH_EMERGENCY_TERM),
    F(22, BOOL, config.growth_kill),
    F(23, SIGNED, config.stop_signal),
    F(24, UNSIGNED, config.first_request_id),
    F(25, BOOL, config.record),
    E(26, config.stacks, BH_STACKS_ALL),
    F(27, UNSIGNED, config.depth),
    F(28, TEXT, config.executable),
    F(29, UNSIGNED, config.argument_count),
    F(30, TEXT, config.correlation),
    F(31, BOOL, config.brake),
};

static const struct bh_field host_fields[] = {
    F(1, TEXT, host.os),
    F(2, TEXT, host.kernel),
    F(3, TEXT, host.machine),
    F(4, UNSIGNED, host.page_bytes),
    F(5, UNSIGNED, host.memory_bytes),
    F(6, UNSIGNED, host.available_bytes),
    E(7, host.boundary, BH_BOUNDARY_KERNEL),
    F(8, TEXT, host.mechanism),
    F(9, TEXT, host.metric),
    F(10, TEXT, host.metric_note),
    F(11, TEXT, host.cgroup_reason),
    F(12, UNSIGNED, host.outer_limit_bytes),
    F(13, BOOL, host.subreaper),
    F(14, BOOL, host.cgroup),
    F(15, BOOL, host.pidfd),
    F(16, BOOL, host.memory_locked),
    F(17, BOOL, host.realtime),
    F(18, BOOL, host.checkpoint_channel_possible),
    F(19, TEXT, host.package_version),
    F(20, TEXT, host.boot_id),
    F(21, BOOL, host.runtime_on_disk),
    F(22, BOOL, host.brake),
};

static const struct bh_field launched_fields[] = {
    F(1, SIGNED, launched.root_pid),
    F(2, UNSIGNED, launched.root_start_token),
    F(3, SIGNED, launched.group),
    F(4, SIGNED, launched.started_at),
};

static const struct bh_field samples_fields[] = {
    F(1, UNSIGNED, samples.from),      F(2, UNSIGNED, samples.to),
    F(3, UNSIGNED, samples.count),     F(4, UNSIGNED, samples.unusable),
    F(5, OBSERVED, samples.min),       F(6, OBSERVED, samples.max),
    F(7, OBSERVED, samples.last),      F(8, UNSIGNED, samples.max_at),
    F(9, UNSIGNED, samples.members),   F(10, OBSERVED, samples.active),
    F(11, OBSERVED, samples.reserved),
};

static const struct bh_field sample_fields[] = {
    F(1, UNSIGNED, sample.captured_at), F(2, UNSIGNED, sample.processed_at),
    F(3, UNSIGNED, sample.window_ns),   F(4, OBSERVED, sample.bytes),
    F(5, UNSIGNED, sample.upper_bytes), F(6, UNSIGNED, sample.members),
    F(7, BOOL, sample.exact),
};

static const struct bh_field limit_crossed_fields[] = {
    F(1, UNSIGNED, limit_crossed.bytes),
    F(2, UNSIGNED, limit_crossed.limit_bytes),
};

static const struct bh_field config_change_fields[] = {
    F(1, UNSIGNED, config_change.revision),        F(2, UNSIGNED, config_change.limit_bytes),
    F(3, UNSIGNED, config_change.warning_bytes),   F(4, UNSIGNED, config_change.recovery_bytes),
    F(5, UNSIGNED, config_change.emergency_bytes),
};

static const struct bh_field clock_gap_fields[] = {
    F(1, UNSIGNED, clock_gap.gap_ns),
};

static const struct bh_field transition_fields[] = {
    F(1, UNSIGNED, transition.from),
    F(2, UNSIGNED, transition.to),
    F(3, OBSERVED, transition.bytes),
    F(4, TEXT, transition.reason),
};

static const struct bh_field signal_fields[] = {
    F(1, SIGNED, signal.signal),           E(2, signal.target, BH_TARGET_ROOT),
    E(3, signal.result, BH_SIGNAL_FAILED), F(4, TEXT, signal.reason),
    F(5, UNSIGNED, signal.reached),        F(6, UNSIGNED, signal.decision_to_signal_ns),
};

static const struct bh_field checkpoint_fields[] = {
    E(1, checkpoint.word, BH_CKPT_READY),
    F(2, UNSIGNED, checkpoint.request_id),
    F(3, TEXT, checkpoint.reason),
    F(4, UNSIGNED, checkpoint.artifact_kind),
    F(5, OBSERVED, checkpoint.artifact_bytes),
    F(6, UNSIGNED, checkpoint.rejected),
};

static const struct bh_field member_fields[] = {
    E(1, member.event, BH_MEMBER_EXEC), F(2, SIGNED, member.pid),
    F(3, UNSIGNED, member.start_token), F(4, TEXT, member.basename),
    F(5, SIGNED, member.exit_status),   F(6, UNSIGNED, member.max_rss_bytes),
};

static const struct bh_field advisory_fields[] = {
    F(1, OBSERVED, advisory.host_available),
    F(2, OBSERVED, advisory.host_total),
    F(3, UNSIGNED, advisory.pressure_some_x100),
};

static const struct bh_field losses_fields[] = {
    F(1, UNSIGNED, losses.records),
    F(2, UNSIGNED, losses.samples),
};

static const struct bh_field artifact_error_fields[] = {
    F(1, SIGNED, artifact_error.error),
    F(2, TEXT, artifact_error.what),
};

static const struct bh_field outcome_fields[] = {
    E(1, outcome.kind, BH_OUTCOME_UNKILLABLE),
    E(2, outcome.cause, BH_CAUSE_SUPERVISOR_LOST),
    F(3, SIGNED, outcome.exit_code),
    F(4, SIGNED, outcome.signal),
    F(5, SIGNED, outcome.reported_exit_code),
    F(6, OBSERVED, outcome.final_bytes),
    F(7, UNSIGNED, outcome.samples_after_signal),
    F(8, OBSERVED, outcome.peak_bytes),
    F(9, UNSIGNED, outcome.peak_at),
    F(10, UNSIGNED, outcome.peak_growth_per_s),
    F(11, UNSIGNED, outcome.decision_overshoot_bytes),
    F(12, UNSIGNED, outcome.peak_overshoot_bytes),
    F(13, OBSERVED, outcome.decision_to_signal_ns),
    F(14, OBSERVED, outcome.signal_to_lower_ns),
    F(15, OBSERVED, outcome.signal_to_empty_ns),
    F(16, UNSIGNED, outcome.complete_samples),
    F(17, UNSIGNED, outcome.incomplete_samples),
    F(18, UNSIGNED, outcome.exact_rounds),
    F(19, UNSIGNED, outcome.cpu_ns),
    F(20, UNSIGNED, outcome.survivors),
    F(21, SIGNED, outcome.error),
    F(22, UNSIGNED, outcome.members_seen),
    F(23, UNSIGNED, outcome.members_escaped),
    F(24, UNSIGNED, outcome.member_records_omitted),
    F(25, UNSIGNED, outcome.rollups_refused),
};

static const struct bh_field peak_member_fields[] = {
    F(1, SIGNED, peak_member.pid),
    F(2, TEXT, peak_member.basename),
    F(3, UNSIGNED, peak_member.bytes),
};

static const struct bh_field recorder_fields[] = {
    E(1, recorder.state, BH_RECORDER_LOSSY), F(2, TEXT, recorder.reason),
    F(3, TEXT, recorder.mlx_version),        F(4, UNSIGNED, recorder.events),
    F(5, UNSIGNED, recorder.lost),           F(6, UNSIGNED, recorder.holes),
    F(7, UNSIGNED, recorder.ring_bytes),     F(8, UNSIGNED, recorder.stacks_lost),
    F(9, OBSERVED, recorder.active),         F(10, OBSERVED, recorder.reserved),
};

static const struct bh_field mark_fields[] = {
    F(1, TEXT, mark.label),
};

static const struct bh_field empty_fields[] = {
    F(1, BOOL, empty.proven),
};

#define LAYOUT(kind, table) [BH_RECORD_##kind] = {table, sizeof table / sizeof table[0]}

static const struct bh_record_layout layouts[] = {
    LAYOUT(CONFIG, config_fields),
    LAYOUT(HOST, host_fields),
    LAYOUT(LAUNCHED, launched_fields),
    LAYOUT(SAMPLES, samples_fields),
    LAYOUT(LIMIT_CROSSED, limit_crossed_fields),
    LAYOUT(CONFIG_CHANGE, config_change_fields),
    LAYOUT(CLOCK_GAP, clock_gap_fields),
    LAYOUT(TRANSITION, transition_fields),
    LAYOUT(SIGNAL, signal_fields),
    LAYOUT(CHECKPOINT, checkpoint_fields),
    LAYOUT(ESCAPE, member_fields),
    LAYOUT(MEMBER, member_fields),
    LAYOUT(ADVISORY, advisory_fields),
    LAYOUT(LOSSES, losses_fields),
    LAYOUT(ARTIFACT_ERROR, artifact_error_fields),
    LAYOUT(OUTCOME, outcome_fields),
    LAYOUT(PEAK_MEMBER, peak_member_fields),
    LAYOUT(RECORDER, recorder_fields),
    LAYOUT(MARK, mark_fields),
    LAYOUT(EMPTY, empty_fields),
    LAYOUT(SAMPLE, sample_fields),
};

const struct bh_record_layout *bh_record_layout(int kind)
{
    size_t count = sizeof layouts / sizeof layouts[0];
    if (kind < 0 || (size_t)kind >= count || !layouts[kind].fields)
        return NULL;
    return &layouts[kind];
}
