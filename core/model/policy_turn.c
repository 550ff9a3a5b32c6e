#include "core/model/policy_turn.h"

#include "core/base/wide.h"

#define GIB_SHIFT 30

uint64_t bh_policy_add(uint64_t left, uint64_t right)
{
    if (left >= BH_POLICY_MAX || right >= BH_POLICY_MAX - left)
        return BH_POLICY_MAX;
    return left + right;
}

static struct bh_policy_action *append(struct bh_policy_turn *turn, enum bh_policy_action_kind kind)
{
    struct bh_policy_actions *actions = turn->actions;
    BH_BUG_ON(actions->count >= BH_POLICY_MAX_ACTIONS);
    struct bh_policy_action *action = &actions->items[actions->count++];
    *action = (struct bh_policy_action){.kind = kind};
    return action;
}

void bh_policy_emit(struct bh_policy_turn *turn, enum bh_policy_action_kind kind)
{
    (void)append(turn, kind);
}

void bh_policy_emit_overshoot(struct bh_policy_turn *turn, uint64_t bytes)
{
    append(turn, BH_POLICY_ACTION_RECORD_OVERSHOOT)->overshoot_bytes = bytes;
}

void bh_policy_emit_request(struct bh_policy_turn *turn, uint64_t overshoot_bytes, uint64_t *ret_id,
                            uint64_t *ret_deadline_ns)
{
    struct bh_policy_state *state = turn->state;
    struct bh_policy_action *action = append(turn, BH_POLICY_ACTION_REQUEST_CHECKPOINT);
    action->checkpoint.id = state->next_request_id;
    action->checkpoint.overshoot_bytes = overshoot_bytes;
    action->checkpoint.deadline_ns =
        bh_policy_add(turn->now_ns, turn->config->checkpoint_timeout_ns);
    state->next_request_id = bh_policy_add(state->next_request_id, 1);
    *ret_id = action->checkpoint.id;
    *ret_deadline_ns = action->checkpoint.deadline_ns;
}

/* min(max, base + floor(per_gib x charge / 2^30)) */
static uint64_t grace_for(const struct bh_policy_config *config, uint64_t charge_bytes)
{
    bh_u128 grace = ((bh_u128)config->grace_per_gib_ns * charge_bytes >> GIB_SHIFT);
    grace += config->grace_base_ns;
    return grace < config->grace_max_ns ? (uint64_t)grace : config->grace_max_ns;
}

/* What TERM and forward have in common. */
static void start_grace(struct bh_policy_turn *turn)
{
    struct bh_policy_state *state = turn->state;
    state->started = true;
    state->checkpoint_armed = false;
    state->term_armed = turn->config->grace_base_ns > 0;
    state->term_at_ns = turn->now_ns;
    state->term_charge_bytes = state->last_bytes;
    state->term_progress_bytes = state->last_bytes;
    state->term_deadline_ns =
        bh_policy_add(turn->now_ns, grace_for(turn->config, state->last_bytes));
}

void bh_policy_term(struct bh_policy_turn *turn, enum bh_policy_state_id next,
                    enum bh_policy_reason reason)
{
    append(turn, BH_POLICY_ACTION_SEND_TERM)->reason = reason;
    start_grace(turn);
    turn->state->current = next;
}

void bh_policy_forward(struct bh_policy_turn *turn, int signal)
{
    append(turn, BH_POLICY_ACTION_FORWARD_SIGNAL)->signal = signal;
    start_grace(turn);
    turn->state->current = BH_POLICY_STATE_TERMINATING;
}

void bh_policy_kill(struct bh_policy_turn *turn)
{
    struct bh_policy_state *state = turn->state;
    const struct bh_policy_config *config = turn->config;
    bh_policy_emit(turn, BH_POLICY_ACTION_SEND_KILL);
    bool first = !state->kill_sent;
    state->current = BH_POLICY_STATE_EMERGENCY;
    state->started = true;
    state->checkpoint_armed = false;
    state->term_armed = false;
    state->kill_sent = true;
    state->kill_failed = false;
    if (state->given_up)
        return;
    state->kill_retry_armed = config->kill_retry_ns > 0;
    state->kill_retry_ns = bh_policy_add(turn->now_ns, config->kill_retry_ns);
    if (first) {
        state->kill_end_armed = config->kill_wait_ns > 0;
        state->kill_end_ns = bh_policy_add(turn->now_ns, config->kill_wait_ns);
    }
}

bool bh_policy_graceful(struct bh_policy_turn *turn, uint64_t overshoot_bytes)
{
    struct bh_policy_state *state = turn->state;
    if (turn->config->checkpoint_timeout_ns == 0) {
        bh_policy_term(turn, BH_POLICY_STATE_TERMINATING, BH_POLICY_REASON_NOT_NEGOTIATED);
        return true;
    }
    bh_policy_emit_request(turn, overshoot_bytes, &state->checkpoint_id,
                           &state->checkpoint_deadline_ns);
    state->checkpoint_armed = true;
    state->current = BH_POLICY_STATE_CHECKPOINT_REQUESTED;
    return false;
}

void bh_policy_give_up(struct bh_policy_turn *turn, enum bh_policy_failure failure)
{
    struct bh_policy_state *state = turn->state;
    append(turn, BH_POLICY_ACTION_REPORT_SUPERVISOR_ERROR)->failure = failure;
    state->current = BH_POLICY_STATE_SUPERVISOR_ERROR;
    state->checkpoint_armed = false;
    state->term_armed = false;
    state->kill_retry_armed = false;
    state->kill_end_armed = false;
    state->given_up = true;
}

void bh_policy_progress(struct bh_policy_turn *turn, uint64_t bytes)
{
    struct bh_policy_state *state = turn->state;
    if (!state->term_armed || turn->now_ns >= state->term_deadline_ns ||
        bytes >= state->term_progress_bytes)
        return;
    bh_u128 freed = (bh_u128)(state->term_progress_bytes - bytes);
    if (100 * freed < state->term_charge_bytes)
        return;
    uint64_t latest = bh_policy_add(state->term_at_ns, turn->config->grace_max_ns);
    uint64_t moved = bh_policy_add(turn->now_ns, turn->config->grace_base_ns);
    if (moved > latest)
        moved = latest;
    state->term_progress_bytes = bytes;
    if (moved > state->term_deadline_ns)
        state->term_deadline_ns = moved;
}
