/* The intervention policy: a pure function (config, state, event) -> (state, actions).
 *
 * The supervisor's loop feeds it every reading and happening of one job and carries out the actions
 * in their order; the replay tool feeds it recorded ones; the server never calls it for a live job.
 * No clock, no I/O, no allocation, no pointer kept: all structures are plain values of the caller,
 * and a copied state is a second machine. Its rules are in policy.md; section numbers below are
 * its.
 *
 * Units: times are nanoseconds since run start (the policy's own time line, see clock_gap), sizes
 * are bytes. Every number is 0 to BH_POLICY_MAX; sums saturate there. Callers hand in nothing
 * above.
 *
 * Failures: only the two configuration functions can fail, with BH_E_INVALID_CONFIG and the key in
 * diag.field. bh_policy_step cannot fail: what no rule names changes nothing. */
#ifndef BH_MODEL_POLICY_H
#define BH_MODEL_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

#define BH_POLICY_MAX ((uint64_t)INT64_MAX)

/* ---- lists (numbers are stable, texts in the .def files) ------------------------------------ */

enum bh_policy_state_id {
#define BH_POLICY_STATE(name, number, text) BH_POLICY_STATE_##name = (number),
#include "core/model/policy_states.def"
#undef BH_POLICY_STATE
};

enum bh_policy_reason {
#define BH_POLICY_REASON(name, number, text) BH_POLICY_REASON_##name = (number),
#include "core/model/policy_reasons.def"
#undef BH_POLICY_REASON
};

enum bh_policy_event_kind {
#define BH_POLICY_EVENT(name, number, text) BH_POLICY_EVENT_##name = (number),
#include "core/model/policy_events.def"
#undef BH_POLICY_EVENT
};

enum bh_policy_action_kind {
#define BH_POLICY_ACTION(name, number, text) BH_POLICY_ACTION_##name = (number),
#include "core/model/policy_actions.def"
#undef BH_POLICY_ACTION
};

enum bh_policy_mode {
#define BH_POLICY_MODE(name, number, text) BH_POLICY_MODE_##name = (number),
#include "core/model/policy_kinds.def"
#undef BH_POLICY_MODE
};

enum bh_policy_emergency {
#define BH_POLICY_EMERGENCY(name, number, text) BH_POLICY_EMERGENCY_##name = (number),
#include "core/model/policy_kinds.def"
#undef BH_POLICY_EMERGENCY
};

enum bh_policy_stop {
#define BH_POLICY_STOP(name, number, text) BH_POLICY_STOP_##name = (number),
#include "core/model/policy_kinds.def"
#undef BH_POLICY_STOP
};

enum bh_policy_act {
#define BH_POLICY_ACT(name, number, text) BH_POLICY_ACT_##name = (number),
#include "core/model/policy_kinds.def"
#undef BH_POLICY_ACT
};

enum bh_policy_failure {
#define BH_POLICY_FAILURE(name, number, text) BH_POLICY_FAILURE_##name = (number),
#include "core/model/policy_kinds.def"
#undef BH_POLICY_FAILURE
};

/* Static texts; "unknown" for a number outside the list (a journal may hold any byte). */
const char *bh_policy_state_name(enum bh_policy_state_id state);
const char *bh_policy_reason_name(enum bh_policy_reason reason);
const char *bh_policy_event_name(enum bh_policy_event_kind kind);
const char *bh_policy_action_name(enum bh_policy_action_kind kind);
const char *bh_policy_mode_name(enum bh_policy_mode mode);
const char *bh_policy_emergency_name(enum bh_policy_emergency action);
const char *bh_policy_stop_name(enum bh_policy_stop kind);
const char *bh_policy_act_name(enum bh_policy_act kind);
const char *bh_policy_failure_name(enum bh_policy_failure kind);

/* The number of a text, or -1. */
int bh_policy_state_from_name(const char *text);
int bh_policy_reason_from_name(const char *text);
int bh_policy_event_from_name(const char *text);
int bh_policy_mode_from_name(const char *text);
int bh_policy_emergency_from_name(const char *text);
int bh_policy_stop_from_name(const char *text);
int bh_policy_act_from_name(const char *text);

/* ---- configuration (section 1) --------------------------------------------------------------- */

struct bh_policy_bands {
    uint64_t recovery_bytes;
    uint64_t warning_bytes;
    uint64_t limit_bytes;
    uint64_t emergency_bytes;
};

/* May differ from event to event (a changed limit, a stop's own grace); state and streaks stay. */
struct bh_policy_config {
    enum bh_policy_mode mode;
    enum bh_policy_emergency emergency_action;
    struct bh_policy_bands bands; /* ignored in observe mode */
    uint32_t required_breaches;   /* >= 1 */
    uint32_t max_unusable;        /* >= 1 */
    uint64_t max_sample_window_ns;
    uint64_t max_sample_age_ns;
    uint64_t checkpoint_timeout_ns; /* 0 = no checkpoint channel */
    uint64_t wall_time_ns;          /* 0 = none */
    uint64_t grace_base_ns;         /* 0 = no TERM deadline, observe mode only */
    uint64_t grace_per_gib_ns;
    uint64_t grace_max_ns;  /* >= grace_base_ns */
    uint64_t kill_retry_ns; /* 0 = KILL is not repeated */
    uint64_t kill_wait_ns;  /* 0 = waited for without end */
    uint64_t breach_hold_ns;
    uint64_t first_request_id; /* >= 1; read by bh_policy_start only */
    bool growth_kill;
};

/* Bands from the one limit: step = max(1, limit / 10). BH_E_INVALID_CONFIG ("limit") below 2 bytes
 * or where limit + step is above BH_POLICY_MAX. */
int bh_policy_bands_from_limit(uint64_t limit_bytes, struct bh_policy_bands *ret_bands,
                               struct bh_diag *diag);

/* Base behaviour, what the replay tool assumes for absent keys: 2 breaches, 3 unusable, window 250
 * ms, age 500 ms, first id 1, grace 1 s in enforce mode and none in observe mode, all of section 6
 * off. Bands are zero: set them (from the limit). */
void bh_policy_config_base(enum bh_policy_mode mode, struct bh_policy_config *ret_config);

/* A job's defaults: window max(interval, 250 ms), age max(2 x interval, 500 ms), grace 1 s + 250 ms
 * per GiB up to 60 s in both modes, KILL retried each second for 30 s, growth_kill on unless the
 * emergency action is TERM. Bands are zero, checkpoint and wall time off. */
void bh_policy_config_job(enum bh_policy_mode mode, enum bh_policy_emergency emergency_action,
                          uint64_t interval_ns, struct bh_policy_config *ret_config);

/* 0 or BH_E_INVALID_CONFIG with diag.field = the replay tool's key: "limit", "recovery" (not below
 * warning), "warning" (not below limit), "emergency" (not above limit), in this order; then
 * "required_breaches", "max_unusable", "max_sample_age_ns", "max_sample_window_ns", "grace_ns",
 * "grace_max_ns", "first_request_id", and any duration above BH_POLICY_MAX. */
int bh_policy_validate(const struct bh_policy_config *config, struct bh_diag *diag);

/* ---- events and actions (section 2) ---------------------------------------------------------- */

struct bh_policy_event {
    enum bh_policy_event_kind kind;
    uint64_t at_ns; /* event time; of a sample: when it was processed */
    union {
        struct {
            uint64_t captured_at_ns;
            uint64_t window_ns; /* first to last read of the round */
            uint64_t bytes;     /* meaningless unless has_bytes */
            bool has_bytes;
        } sample;
        struct {
            uint64_t final_bytes;
            bool has_final_bytes;
        } exited; /* process_exited: the tree is empty */
        struct {
            uint64_t id;
            bool has_id;        /* checkpoint_failed only: false = the active one */
            bool authenticated; /* checkpoint_ack only */
        } checkpoint;
        int signal;               /* external_signal: 1..64 */
        enum bh_policy_stop stop; /* stop_request */
        enum bh_policy_act act;   /* actuation_failed */
    };
};

struct bh_policy_action {
    enum bh_policy_action_kind kind;
    union {
        struct {
            uint64_t id;
            uint64_t overshoot_bytes;
            uint64_t deadline_ns;
        } checkpoint;                 /* request_checkpoint */
        enum bh_policy_reason reason; /* send_term */
        int signal;                   /* forward_signal */
        uint64_t overshoot_bytes;     /* record_overshoot */
        struct {
            uint64_t final_bytes;
            uint64_t samples_after_signal;
            bool has_final_bytes;
        } exit;                         /* report_exit */
        enum bh_policy_failure failure; /* report_supervisor_error */
    };
};

/* No rule emits more than three. */
#define BH_POLICY_MAX_ACTIONS 4
struct bh_policy_actions {
    unsigned count;
    struct bh_policy_action items[BH_POLICY_MAX_ACTIONS];
};

/* ---- the machine (sections 3 and 6) ---------------------------------------------------------- */

/* Plain values; read freely, written by bh_policy_start and bh_policy_step only. A deadline is
 * meaningful while its *_armed is set. */
struct bh_policy_state {
    enum bh_policy_state_id current;
    bool started; /* an intervention has: TERM, forward or KILL was sent */
    bool checkpoint_armed;
    bool term_armed;
    bool kill_sent;
    bool kill_retry_armed;
    bool kill_end_armed;
    bool kill_failed;          /* the last KILL was reported failed */
    bool given_up;             /* report_supervisor_error was emitted */
    uint64_t last_accepted_ns; /* time of the last event that passed the clock check */
    uint64_t missing_streak;
    uint64_t breach_streak;
    uint64_t first_breach_ns; /* of the present streak */
    uint64_t samples_after_signal;
    uint64_t last_bytes; /* of the last usable sample, 0 before */
    uint64_t next_request_id;
    uint64_t checkpoint_id; /* the active one */
    uint64_t checkpoint_deadline_ns;
    uint64_t term_at_ns; /* T, from which the grace counts: section 6 */
    uint64_t term_deadline_ns;
    uint64_t term_charge_bytes;   /* C */
    uint64_t term_progress_bytes; /* R */
    uint64_t kill_retry_ns;       /* when the next KILL is due */
    uint64_t kill_end_ns;         /* when waiting ends */
};

/* The first state: `normal` to enforce, `observe` to observe. */
void bh_policy_start(const struct bh_policy_config *config, struct bh_policy_state *ret_state);

/* One event. config must be valid. ret_actions is overwritten. */
void bh_policy_step(const struct bh_policy_config *config, struct bh_policy_state *state,
                    const struct bh_policy_event *event, struct bh_policy_actions *ret_actions);

/* When the runtime must send the next tick; false when nothing is armed. May lie in the past. */
bool bh_policy_next_deadline(const struct bh_policy_config *config,
                             const struct bh_policy_state *state, uint64_t *ret_ns);

/* Whether a reading counts (section 3): bytes present, not from the future, young, read quickly. */
bool bh_policy_sample_usable(const struct bh_policy_config *config,
                             const struct bh_policy_event *event);

#endif
