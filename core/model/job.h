/* A job: what was asked for (spec), in the one form that the API, the command line, spec.bin and
 * the supervisor share, and the enums of states.def with their texts.
 *
 * Ownership: struct bh_job_spec owns nothing; its pointers lead into memory of whoever filled it
 * (argv of the process, the decoded spec.bin buffer, the parsed request) and must outlive it.
 * Absent text is NULL; absent numbers are 0 unless said otherwise. Units are in the names. */
#ifndef BH_MODEL_JOB_H
#define BH_MODEL_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/random.h"

#define BH_JOB_STATE(name, number, text) BH_JOB_##name = (number),
enum bh_job_state {
#include "core/model/states.def"
};
#undef BH_JOB_STATE
#define BH_MODE(name, number, text) BH_MODE_##name = (number),
enum bh_mode {
#include "core/model/states.def"
};
#undef BH_MODE
#define BH_BOUNDARY(name, number, text) BH_BOUNDARY_##name = (number),
enum bh_boundary {
#include "core/model/states.def"
};
#undef BH_BOUNDARY
#define BH_RECORDER_STATE(name, number, text) BH_RECORDER_##name = (number),
enum bh_recorder_state {
#include "core/model/states.def"
};
#undef BH_RECORDER_STATE
#define BH_OUTCOME(name, number, text) BH_OUTCOME_##name = (number),
enum bh_outcome_kind {
#include "core/model/states.def"
};
#undef BH_OUTCOME
#define BH_CAUSE(name, number, text) BH_CAUSE_##name = (number),
enum bh_cause {
#include "core/model/states.def"
};
#undef BH_CAUSE

/* Static texts; "unknown" for a number outside the enum. */
const char *bh_job_state_text(int state);
const char *bh_mode_text(int mode);
const char *bh_boundary_text(int boundary);
const char *bh_recorder_state_text(int state);
const char *bh_outcome_text(int kind);
const char *bh_cause_text(int cause);

/* What the recorder is told (core/record/recorder.md, section 1). */
enum bh_stacks {
    BH_STACKS_NONE = 0,
    BH_STACKS_PYTHON = 1,
    BH_STACKS_ALL = 2,
};

enum bh_emergency_action {
    BH_EMERGENCY_KILL = 0,
    BH_EMERGENCY_TERM = 1,
};

enum bh_checkpoint_kind {
    BH_CHECKPOINT_NONE = 0,
    BH_CHECKPOINT_PROTOCOL = 1, /* the socket protocol of core/wire/ckpt.h */
    BH_CHECKPOINT_SIGNAL = 2,   /* a signal and a file to look for */
};

struct bh_text_pair {
    const char *key;
    const char *value;
};

#define BH_SPEC_MAX_ARGUMENTS   4096
#define BH_SPEC_MAX_ENVIRONMENT 1024
#define BH_SPEC_MAX_LABELS      16
#define BH_SPEC_MAX_BYTES       (1u << 20) /* of spec.bin */

struct bh_job_spec {
    char id[BH_JOB_ID_SIZE];
    const char *name; /* NULL = none */
    const char *const *argv;
    size_t argc;
    const char *cwd;                /* absolute; NULL = the starter's */
    const struct bh_text_pair *env; /* on top of the starter's environment, or alone: */
    size_t env_count;
    bool clear_env;

    enum bh_mode mode;
    uint64_t limit_bytes; /* 0 in observe mode without a limit */
    uint64_t warning_bytes;
    uint64_t recovery_bytes;
    uint64_t emergency_bytes; /* all three completed by bh_job_spec_resolve */
    bool bands_given;         /* some band came from the user */
    /* A band that is not zero counts as given; these say that a zero was meant. */
    bool warning_given, recovery_given, emergency_given;

    uint32_t breach_count; /* 2 */
    uint64_t breach_hold_ns;
    uint32_t max_unusable;    /* 3 */
    uint64_t interval_ns;     /* base sampling interval, 50 ms */
    uint64_t min_interval_ns; /* 250 us */
    uint64_t wall_time_ns;    /* 0 = none */

    enum bh_checkpoint_kind checkpoint_kind;
    uint64_t checkpoint_timeout_ns;
    bool checkpoint_repeat;
    int checkpoint_signal;
    const char *checkpoint_path; /* relative to cwd or absolute */
    bool checkpoint_process_python;

    int stop_signal;                                        /* SIGTERM */
    uint64_t grace_base_ns, grace_per_gib_ns, grace_max_ns; /* 1 s, 250 ms, 60 s */
    enum bh_emergency_action emergency_action;
    uint64_t kill_retry_ns, kill_wait_ns; /* 1 s, 30 s */
    bool brake;

    bool record;
    enum bh_stacks stacks;
    uint32_t depth; /* 32 */
    uint64_t min_size_bytes;
    uint64_t max_entries;     /* exports; 0 = all; 1,000,000 */
    uint64_t trace_max_bytes; /* 2 GiB */

    const struct bh_text_pair *labels;
    size_t label_count;

    bool end_with_server; /* on_server_exit: terminate */
    int owner_pid;        /* 0 = none */
    uint64_t owner_start_token;
    bool stop_with_owner;
    bool external;          /* no process: events and report come over HTTP */
    bool force;             /* limit above the host's memory was accepted */
    uint64_t log_max_bytes; /* of out.log and err.log each, 256 MiB */

    struct bh_wall created_at;
    const char *recorder_path; /* absolute path of libbulkhead-record.so; NULL = do not preload */
    const char *relaunch_of;   /* id of the job this one repeats; NULL = none */
};

/* The defaults named above; everything else zero. */
void bh_job_spec_init(struct bh_job_spec *spec);

/* Completes and checks a filled spec: bands from the limit where not given
 * (core/model/policy.md, section 1), ordering, ranges, counts. BH_E_INVALID_CONFIG with the
 * member's name in diag->field (the API's, so "stop.grace.max"; bands are "limit", "recovery",
 * "warning", "emergency"), BH_E_MODE_MISSING; spec is unchanged on failure. Pure: does not look at
 * the machine. A resolved spec resolves to itself. */
int bh_job_spec_resolve(struct bh_job_spec *spec, struct bh_diag *diag);

#endif
