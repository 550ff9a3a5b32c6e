/* One record of every kind with every member set to a value of its own, and a spec and a status
 * likewise: for round trips and golden files. */
#ifndef BH_TESTS_RECORDS_H
#define BH_TESTS_RECORDS_H

#include <stdio.h>
#include <string.h>

#include "core/model/status.h"

#define RECORDS_RUN_ID "0mhq2v9k3dx7c1p5n8tb"
#define RECORDS_KINDS  21

static inline struct bh_observed available(uint64_t value)
{
    return (struct bh_observed){BH_VALUE_AVAILABLE, value};
}

static inline void fill_config(struct bh_record_config *config)
{
    *config = (struct bh_record_config){
        .mode = BH_MODE_ENFORCE,
        .limit_bytes = 1073741824,
        .warning_bytes = 966367642,
        .recovery_bytes = 858993460,
        .emergency_bytes = 1181116006,
        .breach_count = 2,
        .max_unusable = 3,
        .breach_hold_ns = 5,
        .interval_ns = 50000000,
        .min_interval_ns = 250000,
        .max_sample_age_ns = 500000000,
        .max_sample_window_ns = 250000000,
        .wall_time_ns = 7200000000000,
        .checkpoint_timeout_ns = 30000000000,
        .checkpoint_kind = BH_CHECKPOINT_SIGNAL,
        .grace_base_ns = 1000000000,
        .grace_per_gib_ns = 250000000,
        .grace_max_ns = 60000000000,
        .kill_retry_ns = 1000000000,
        .kill_wait_ns = 30000000000,
        .emergency_action = BH_EMERGENCY_TERM,
        .growth_kill = true,
        .brake = true,
        .stop_signal = 2,
        .first_request_id = 77,
        .record = true,
        .stacks = BH_STACKS_PYTHON,
        .depth = 32,
        .executable = "python3",
        .argument_count = 4,
        .correlation = "0123456789abcdef0123456789abcdef",
    };
}

static inline void fill_host(struct bh_record_host *host)
{
    *host = (struct bh_record_host){
        .os = "Linux",
        .kernel = "6.18.0",
        .machine = "x86_64",
        .page_bytes = 4096,
        .memory_bytes = 34359738368,
        .available_bytes = 30000000000,
        .boundary = BH_BOUNDARY_SAMPLED,
        .mechanism = "",
        .metric = "RssAnon + RssShmem + VmSwap + HugetlbPages + VmPTE",
        .metric_note = "per-CPU counters are exact",
        .cgroup_reason = "the cgroup is not writable",
        .outer_limit_bytes = 17179869184,
        .subreaper = true,
        .pidfd = true,
        .memory_locked = true,
        .realtime = true,
        .checkpoint_channel_possible = true,
        .brake = true,
        .runtime_on_disk = true,
        .package_version = "0.1.0",
        .boot_id = "01234567-89ab-cdef-0123-456789abcdef",
    };
}

static inline void fill_outcome(struct bh_record_outcome *outcome)
{
    *outcome = (struct bh_record_outcome){
        .kind = BH_OUTCOME_POLICY_INTERVENTION,
        .cause = BH_CAUSE_LIMIT_EXCEEDED,
        .exit_code = -1,
        .signal = 15,
        .reported_exit_code = 75,
        .final_bytes = {BH_VALUE_STALE, 12345},
        .samples_after_signal = 6,
        .peak_bytes = available(1122013184),
        .peak_at = {9800000000},
        .peak_growth_per_s = 125829120,
        .decision_overshoot_bytes = 23105536,
        .peak_overshoot_bytes = 48271360,
        .decision_to_signal_ns = available(60000),
        .signal_to_lower_ns = {BH_VALUE_UNKNOWN, 0},
        .signal_to_empty_ns = available(639000000),
        .complete_samples = 201,
        .incomplete_samples = 1,
        .exact_rounds = 2,
        .rollups_refused = 1,
        .cpu_ns = 4000000,
        .survivors = 1,
        .error = -21,
        .members_seen = 1200,
        .members_escaped = 500,
        .member_records_omitted = 77,
    };
}

static inline void fill_rest(struct bh_record *record)
{
    switch (record->kind) {
    case BH_RECORD_LAUNCHED:
        record->launched = (struct bh_record_launched){4242, 99887766, 4242, {1796002200120000}};
        break;
    case BH_RECORD_SAMPLES:
        record->samples = (struct bh_record_samples){{1000},
                                                     {2000},
                                                     20,
                                                     1,
                                                     available(10),
                                                     available(30),
                                                     {BH_VALUE_ERROR, 2},
                                                     {1500},
                                                     3,
                                                     available(7),
                                                     available(8)};
        break;
    case BH_RECORD_SAMPLE:
        record->sample = (struct bh_sample){{10}, {11}, 1, available(5), 6, 2, true};
        break;
    case BH_RECORD_LIMIT_CROSSED:
        record->limit_crossed = (struct bh_record_limit_crossed){101, 100};
        break;
    case BH_RECORD_CONFIG_CHANGE:
        record->config_change = (struct bh_record_config_change){2, 100, 90, 80, 110};
        break;
    case BH_RECORD_CLOCK_GAP:
        record->clock_gap.gap_ns = 60000000000;
        break;
    case BH_RECORD_TRANSITION:
        record->transition = (struct bh_record_transition){1, 2, available(95), "breach"};
        break;
    case BH_RECORD_SIGNAL:
        record->signal = (struct bh_record_signal){
            15, BH_TARGET_TREE, BH_SIGNAL_DELIVERED, "not_negotiated", 3, 8200};
        break;
    case BH_RECORD_CHECKPOINT:
        record->checkpoint = (struct bh_record_checkpoint){
            BH_CKPT_VERIFIED_FILE, 77, "footprint", 1, available(4096), 1};
        break;
    case BH_RECORD_ESCAPE:
    case BH_RECORD_MEMBER:
        record->member =
            (struct bh_record_member){BH_MEMBER_WENT, 4243, 99887767, "worker", -1, 1048576};
        break;
    case BH_RECORD_ADVISORY:
        record->advisory =
            (struct bh_record_advisory){available(29000000000), available(34359738368), 150};
        break;
    case BH_RECORD_LOSSES:
        record->losses = (struct bh_record_losses){0, 4};
        break;
    case BH_RECORD_ARTIFACT_ERROR:
        record->artifact_error = (struct bh_record_artifact_error){-3, "events"};
        break;
    case BH_RECORD_PEAK_MEMBER:
        record->peak_member = (struct bh_record_peak_member){4242, "python3", 1122013184};
        break;
    case BH_RECORD_RECORDER:
        record->recorder = (struct bh_record_recorder){
            BH_RECORDER_LOSSY, "the ring was full", "0.32.4", 112, 1, 2, 8392704, 3,
            available(5),      available(6)};
        break;
    case BH_RECORD_MARK:
        (void)snprintf(record->mark.label, sizeof record->mark.label, "epoch 3");
        break;
    case BH_RECORD_EMPTY:
        record->empty.proven = true;
        break;
    case BH_RECORD_CONFIG:
        fill_config(&record->config);
        break;
    case BH_RECORD_HOST:
        fill_host(&record->host);
        break;
    case BH_RECORD_OUTCOME:
        fill_outcome(&record->outcome);
        break;
    }
}

/* kind: 1 .. RECORDS_KINDS. */
static inline struct bh_record record_of_kind(int kind, uint64_t sequence)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = (enum bh_record_kind)kind;
    record.sequence = sequence;
    record.at.ns = 86400500000000ull + sequence * 1000000;
    fill_rest(&record);
    return record;
}

static inline void fill_status(struct bh_status *status)
{
    *status = (struct bh_status){
        .run_id = RECORDS_RUN_ID,
        .state = BH_JOB_RUNNING,
        .policy_state = 2,
        .mode = BH_MODE_ENFORCE,
        .boundary = BH_BOUNDARY_SAMPLED,
        .supervisor_pid = 4000,
        .root_pid = 4242,
        .root_start_token = 99887766,
        .members = 3,
        .limits_revision = 1,
        .at = {111},
        .started = {100},
        .sequence = 12,
        .charge = available(500),
        .peak_charge = available(600),
        .limit_bytes = 1000,
        .warning_bytes = 900,
        .recovery_bytes = 800,
        .emergency_bytes = 1100,
        .recorder = BH_RECORDER_ATTACHED,
        .active = available(300),
        .reserved = {BH_VALUE_STALE, 400},
        .events = 1234,
        .lost = 5,
        .checkpoint = BH_CKPT_READY,
        .outcome = BH_OUTCOME_NONE,
        .cause = BH_CAUSE_UNKNOWN,
        .exit_code = -1,
        .signal = 9,
    };
}

#endif
