/* The facts of a run: one struct per journal record kind. The decider makes them, queue.bin carries
 * them, the journal keeps them, the control socket streams them, and the report is a fold over them
 * and nothing else. So whatever the report says must be a record.
 *
 * Numbers are stored: kinds and members are only added. No argv, environment, paths or output in
 * any record (report.md, section 2); executables by basename only. Texts are NUL-terminated, cut.
 * Observed values carry their status: 0 is never "unknown". */
#ifndef BH_MODEL_RECORD_H
#define BH_MODEL_RECORD_H

#include "core/model/job.h"

/* BH_RECORD(name, number, text, sync): sync = the scribe syncs the journal after it. */
#define BH_RECORDS(BH_RECORD)                                                                      \
    BH_RECORD(CONFIG, 1, "config", false)    /* first: what was asked for */                       \
    BH_RECORD(HOST, 2, "host", false)        /* what the machine is and can do */                  \
    BH_RECORD(LAUNCHED, 3, "launched", true) /* the root process runs */                           \
    BH_RECORD(SAMPLES, 4, "samples", false)  /* min/max over about a second */                     \
    BH_RECORD(LIMIT_CROSSED, 5, "limit_crossed", true)                                             \
    BH_RECORD(CONFIG_CHANGE, 6, "config_change", true)                                             \
    BH_RECORD(CLOCK_GAP, 7, "clock_gap", false)                                                    \
    BH_RECORD(TRANSITION, 8, "transition", true)                                                   \
    BH_RECORD(SIGNAL, 9, "signal", true) /* one attempt and its result */                          \
    BH_RECORD(CHECKPOINT, 10, "checkpoint", true)                                                  \
    BH_RECORD(ESCAPE, 11, "escape", false)                                                         \
    BH_RECORD(MEMBER, 12, "member", false)     /* came, went, reparented, exec */                  \
    BH_RECORD(ADVISORY, 13, "advisory", false) /* host memory once a second */                     \
    BH_RECORD(LOSSES, 14, "losses", false)                                                         \
    BH_RECORD(ARTIFACT_ERROR, 15, "artifact_error", false)                                         \
    BH_RECORD(OUTCOME, 16, "outcome", true)          /* last one of the decider */                 \
    BH_RECORD(PEAK_MEMBER, 17, "peak_member", false) /* breakdown at the peak, one per member */   \
    BH_RECORD(RECORDER, 18, "recorder", false)       /* state, counts; by the scribe */            \
    BH_RECORD(MARK, 19, "mark", false)               /* a user's mark */                           \
    BH_RECORD(EMPTY, 20, "empty", true)              /* the tree is empty; proof or sampled */     \
    BH_RECORD(SAMPLE, 21, "sample", false)           /* full rate; samples files only */

#define BH_RECORD(name, number, text, sync) BH_RECORD_##name = (number),
enum bh_record_kind { BH_RECORDS(BH_RECORD) };
#undef BH_RECORD

enum bh_value_status {
    BH_VALUE_UNKNOWN = 0,
    BH_VALUE_AVAILABLE = 1,
    BH_VALUE_UNAVAILABLE = 2,
    BH_VALUE_STALE = 3,
    BH_VALUE_ERROR = 4,
};

struct bh_observed {
    enum bh_value_status status;
    uint64_t value; /* meaningful when available or stale */
};

#define BH_BASENAME_SIZE 64
#define BH_POOL_HOST     0 /* pools are never added together; 1 + n = gpu:n */

#define BH_CORRELATION_SIZE 33 /* 32 hexadecimal digits */

struct bh_record_config {
    enum bh_mode mode;
    uint64_t limit_bytes, warning_bytes, recovery_bytes, emergency_bytes;
    uint32_t breach_count, max_unusable;
    uint64_t breach_hold_ns, interval_ns, min_interval_ns, max_sample_age_ns, max_sample_window_ns;
    uint64_t wall_time_ns, checkpoint_timeout_ns;
    enum bh_checkpoint_kind checkpoint_kind;
    uint64_t grace_base_ns, grace_per_gib_ns, grace_max_ns, kill_retry_ns, kill_wait_ns;
    enum bh_emergency_action emergency_action;
    bool growth_kill;
    bool brake; /* asked for; whether it was had is the host's */
    int stop_signal;
    uint64_t first_request_id;
    bool record;
    enum bh_stacks stacks;
    uint32_t depth;
    char executable[256]; /* basename, 1..255 bytes */
    uint32_t argument_count;
    char correlation[BH_CORRELATION_SIZE]; /* keyed hash of command and directory, "" = none */
};

struct bh_record_host {
    char os[32], kernel[96], machine[32];
    uint64_t page_bytes, memory_bytes, available_bytes;
    enum bh_boundary boundary;
    char mechanism[64];         /* "cgroup_v2 memory.max" when kernel_enforced, memory.high */
    char metric[96];            /* name of the charge: "RssAnon + RssShmem + VmSwap + …" */
    char metric_note[160];      /* known error of the host's counters, or "" */
    char cgroup_reason[96];     /* why no cgroup ring, "" when in force */
    uint64_t outer_limit_bytes; /* a container's memory.max that lies above us; 0 = none known */
    bool subreaper, cgroup, pidfd, memory_locked, realtime, checkpoint_channel_possible;
    bool brake;           /* memory.high of the job's group is at the limit */
    bool runtime_on_disk; /* no tmpfs for the queue: a store into it can block */
    char package_version[32];
    char boot_id[40];
};

struct bh_record_launched {
    int root_pid;
    uint64_t root_start_token;
    int group;
    struct bh_wall started_at;
};

/* One complete or incomplete sample of the tree. */
struct bh_sample {
    struct bh_mono captured_at, processed_at;
    uint64_t window_ns;
    struct bh_observed bytes; /* the bound the policy saw */
    uint64_t upper_bytes;     /* plain sum, for diagnosis; 0 = not taken */
    uint32_t members;
    bool exact; /* an exact round was part of it */
};

struct bh_record_samples {
    struct bh_mono from, to;
    uint32_t count, unusable;
    struct bh_observed min, max, last;
    struct bh_mono max_at;
    uint32_t members;
    struct bh_observed active, reserved; /* recorder's sums at the end of the span */
};

struct bh_record_limit_crossed {
    uint64_t bytes, limit_bytes;
};

struct bh_record_config_change {
    uint32_t revision;
    uint64_t limit_bytes, warning_bytes, recovery_bytes, emergency_bytes;
};

struct bh_record_clock_gap {
    uint64_t gap_ns;
};

struct bh_record_transition {
    uint8_t from, to; /* enum bh_policy_state */
    struct bh_observed bytes;
    char reason[32]; /* TERM reason, "emergency", … or "" */
};

enum bh_signal_target {
    BH_TARGET_TREE = 1,     /* owned_process_group */
    BH_TARGET_ENDPOINT = 2, /* cooperative_endpoint */
    BH_TARGET_ROOT = 3,
};

enum bh_signal_result {
    BH_SIGNAL_DELIVERED = 1,
    BH_SIGNAL_PROCESS_MISSING = 2,
    BH_SIGNAL_PERMISSION_DENIED = 3,
    BH_SIGNAL_FAILED = 4,
};

struct bh_record_signal {
    int signal;
    enum bh_signal_target target;
    enum bh_signal_result result;
    char reason[32];  /* report.md, section 2, signals */
    uint32_t reached; /* processes it was delivered to */
    uint64_t decision_to_signal_ns;
};

/* Words of core/super/supervision.md, section 10. */
enum bh_checkpoint_word {
    BH_CKPT_NOT_NEGOTIATED = 0,
    BH_CKPT_REQUESTED_UNVERIFIED = 1,
    BH_CKPT_ACKNOWLEDGED = 2, /* acknowledged_unverified_durability */
    BH_CKPT_VERIFIED_FILE = 3,
    BH_CKPT_TIMED_OUT = 4,
    BH_CKPT_FAILED = 5,
    BH_CKPT_CANCELLED = 6,
    BH_CKPT_READY = 7, /* the channel was negotiated; no request yet */
};

struct bh_record_checkpoint {
    enum bh_checkpoint_word word;
    uint64_t request_id;
    char reason[16]; /* footprint, wall_time, requested */
    uint8_t artifact_kind;
    struct bh_observed artifact_bytes;
    uint32_t rejected; /* acknowledgements refused so far */
};

enum bh_member_event {
    BH_MEMBER_CAME = 1,
    BH_MEMBER_WENT = 2,
    BH_MEMBER_REPARENTED = 3,
    BH_MEMBER_LEFT_GROUP = 4,
    BH_MEMBER_LEFT_SESSION = 5,
    BH_MEMBER_EXEC = 6,
};

struct bh_record_member {
    enum bh_member_event event;
    int pid;
    uint64_t start_token;
    char basename[BH_BASENAME_SIZE];
    int exit_status;        /* wait status when WENT, -1 unknown */
    uint64_t max_rss_bytes; /* rusage of the reaped, 0 unknown */
};

struct bh_record_advisory {
    struct bh_observed host_available, host_total;
    uint32_t pressure_some_x100; /* PSI avg10 x 100 */
};

struct bh_record_losses {
    uint64_t records; /* journal records that found no room: the gap before this sequence */
    uint64_t samples; /* SAMPLE records likewise */
};

struct bh_record_artifact_error {
    int error; /* enum bh_error */
    char what[32];
};

struct bh_record_outcome {
    enum bh_outcome_kind kind;
    enum bh_cause cause;
    int exit_code;          /* of the child, -1 unknown */
    int signal;             /* that ended the child, 0 none */
    int reported_exit_code; /* what `run` exits with */
    struct bh_observed final_bytes;
    uint64_t samples_after_signal;
    struct bh_observed peak_bytes;
    struct bh_mono peak_at;
    uint64_t peak_growth_per_s;
    uint64_t decision_overshoot_bytes, peak_overshoot_bytes;
    struct bh_observed decision_to_signal_ns, signal_to_lower_ns, signal_to_empty_ns;
    uint64_t complete_samples, incomplete_samples, exact_rounds;
    uint64_t cpu_ns; /* of the supervisor */
    uint32_t survivors;
    int error; /* enum bh_error behind supervisor_failure and launch failures */
    /* totals of the decider: records of single members are left out in a storm of forks */
    uint64_t members_seen, members_escaped, member_records_omitted;
    uint64_t rollups_refused; /* members whose exact reading was not allowed: their sum decided */
};

struct bh_record_peak_member {
    int pid;
    char basename[BH_BASENAME_SIZE];
    uint64_t bytes;
};

struct bh_record_recorder {
    enum bh_recorder_state state;
    char reason[160];
    char mlx_version[32];
    uint64_t events, lost, holes, ring_bytes, stacks_lost;
    struct bh_observed active, reserved;
};

struct bh_record_mark {
    char label[128];
};

struct bh_record_empty {
    bool proven; /* waitid answered ECHILD, or cgroup populated 0 */
};

struct bh_record {
    enum bh_record_kind kind;
    bool by_scribe;    /* SAMPLES, RECORDER, ARTIFACT_ERROR … that the scribe added itself */
    uint64_t sequence; /* 1, 2, 3 … of three counters: the decider's records (what SSE ids and
                        * frames carry), the decider's SAMPLE records, the scribe's own records */
    struct bh_mono at;
    uint8_t pool; /* BH_POOL_HOST */
    union {
        struct bh_record_config config;
        struct bh_record_host host;
        struct bh_record_launched launched;
        struct bh_record_samples samples;
        struct bh_sample sample;
        struct bh_record_limit_crossed limit_crossed;
        struct bh_record_config_change config_change;
        struct bh_record_clock_gap clock_gap;
        struct bh_record_transition transition;
        struct bh_record_signal signal;
        struct bh_record_checkpoint checkpoint;
        struct bh_record_member member; /* ESCAPE too */
        struct bh_record_advisory advisory;
        struct bh_record_losses losses;
        struct bh_record_artifact_error artifact_error;
        struct bh_record_outcome outcome;
        struct bh_record_peak_member peak_member;
        struct bh_record_recorder recorder;
        struct bh_record_mark mark;
        struct bh_record_empty empty;
    };
};

/* "host"; "gpu" for every other: which one is the reader's to add. */
const char *bh_pool_text(int pool);
const char *bh_record_kind_text(int kind);
bool bh_record_kind_syncs(int kind);
const char *bh_signal_result_text(int result);
const char *bh_signal_target_text(int target);
const char *bh_checkpoint_word_text(int word);
const char *bh_member_event_text(int event);

#endif
