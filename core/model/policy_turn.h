/* Inside the policy machine: one event being worked on, and the effects that several rules share.
 * Included by policy*.c only. Each effect appends its action and changes the state as the shared
 * effects in core/model/policy.md, section 3, say. */
#ifndef BH_MODEL_POLICY_TURN_H
#define BH_MODEL_POLICY_TURN_H

#include "core/model/policy.h"

struct bh_policy_turn {
    const struct bh_policy_config *config;
    struct bh_policy_state *state;
    struct bh_policy_actions *actions;
    uint64_t now_ns; /* from which deadlines count: the event's time, or the last accepted one */
};

/* Saturating at BH_POLICY_MAX. */
uint64_t bh_policy_add(uint64_t left, uint64_t right);

void bh_policy_emit(struct bh_policy_turn *turn, enum bh_policy_action_kind kind);
void bh_policy_emit_overshoot(struct bh_policy_turn *turn, uint64_t bytes);
void bh_policy_emit_request(struct bh_policy_turn *turn, uint64_t overshoot_bytes, uint64_t *ret_id,
                            uint64_t *ret_deadline_ns);

/* TERM, forward and KILL with what they imply. term and forward leave `current` to the caller:
 * the same TERM leads to `terminating` or to `supervisor_error`. */
void bh_policy_term(struct bh_policy_turn *turn, enum bh_policy_state_id next,
                    enum bh_policy_reason reason);
void bh_policy_forward(struct bh_policy_turn *turn, int signal);
void bh_policy_kill(struct bh_policy_turn *turn);
/* Returns whether it sent TERM: then, and only for a breach, record_overshoot follows. */
bool bh_policy_graceful(struct bh_policy_turn *turn, uint64_t overshoot_bytes);
/* The end of all trying: supervisor_error, nothing is armed ever again. */
void bh_policy_give_up(struct bh_policy_turn *turn, enum bh_policy_failure failure);
/* Section 6.1: a usable sample that shows the charge coming down moves the TERM deadline. */
void bh_policy_progress(struct bh_policy_turn *turn, uint64_t bytes);

void bh_policy_sample(struct bh_policy_turn *turn, const struct bh_policy_event *event);

#endif
