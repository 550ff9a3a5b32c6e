#include "core/model/policy.h"

#include "core/model/policy_turn.h"

void bh_policy_start(const struct bh_policy_config *config, struct bh_policy_state *ret_state)
{
    *ret_state = (struct bh_policy_state){
        .current = config->mode == BH_POLICY_MODE_OBSERVE ? BH_POLICY_STATE_OBSERVE
                                                          : BH_POLICY_STATE_NORMAL,
        .next_request_id = config->first_request_id,
    };
}

/* `normal` or `warning`: enforcing, nothing under way. */
static bool is_running(const struct bh_policy_state *state)
{
    return state->current == BH_POLICY_STATE_NORMAL || state->current == BH_POLICY_STATE_WARNING;
}

static void on_exit_of_tree(struct bh_policy_turn *turn, const struct bh_policy_event *event)
{
    struct bh_policy_state *state = turn->state;
    state->current = BH_POLICY_STATE_EXITED;
    state->checkpoint_armed = false;
    state->term_armed = false;
    state->kill_retry_armed = false;
    state->kill_end_armed = false;
    bh_policy_emit(turn, BH_POLICY_ACTION_REPORT_EXIT);
    struct bh_policy_action *action = &turn->actions->items[turn->actions->count - 1];
    action->exit.has_final_bytes = event->exited.has_final_bytes;
    action->exit.final_bytes = event->exited.final_bytes;
    action->exit.samples_after_signal = state->samples_after_signal;
}

/* The event's time is below the last accepted one, which stays and from which the grace counts. */
static void on_clock_regression(struct bh_policy_turn *turn)
{
    struct bh_policy_state *state = turn->state;
    if (state->started || state->current == BH_POLICY_STATE_SUPERVISOR_ERROR)
        return;
    bh_policy_emit(turn, BH_POLICY_ACTION_RECORD_MISSING);
    if (state->current == BH_POLICY_STATE_OBSERVE) {
        state->current = BH_POLICY_STATE_SUPERVISOR_ERROR;
        bh_policy_emit(turn, BH_POLICY_ACTION_STOP_OBSERVING);
        return;
    }
    turn->now_ns = state->last_accepted_ns;
    bh_policy_term(turn, BH_POLICY_STATE_SUPERVISOR_ERROR, BH_POLICY_REASON_OBSERVATION_FAILED);
}

/* At most one phase. */
static void on_tick(struct bh_policy_turn *turn)
{
    const struct bh_policy_config *config = turn->config;
    const struct bh_policy_state *state = turn->state;
    uint64_t now = turn->now_ns;
    if (state->checkpoint_armed && now >= state->checkpoint_deadline_ns)
        bh_policy_term(turn, BH_POLICY_STATE_TERMINATING, BH_POLICY_REASON_CHECKPOINT_TIMED_OUT);
    else if (state->term_armed && now >= state->term_deadline_ns)
        bh_policy_kill(turn);
    else if (state->kill_end_armed && now >= state->kill_end_ns)
        bh_policy_give_up(turn, state->kill_failed ? BH_POLICY_FAILURE_KILL_FAILED
                                                   : BH_POLICY_FAILURE_UNKILLABLE);
    else if (state->kill_retry_armed && now >= state->kill_retry_ns)
        bh_policy_kill(turn);
    else if (is_running(state) && config->wall_time_ns > 0 && now >= config->wall_time_ns)
        (void)bh_policy_graceful(turn, 0);
}

static void on_supervisor_fault(struct bh_policy_turn *turn)
{
    struct bh_policy_state *state = turn->state;
    if (state->current == BH_POLICY_STATE_SUPERVISOR_ERROR)
        return;
    if (state->current == BH_POLICY_STATE_OBSERVE)
        bh_policy_emit(turn, BH_POLICY_ACTION_STOP_OBSERVING);
    else if (!state->started)
        bh_policy_term(turn, BH_POLICY_STATE_SUPERVISOR_ERROR, BH_POLICY_REASON_SUPERVISOR_FAULT);
    state->current = BH_POLICY_STATE_SUPERVISOR_ERROR;
}

/* Asked for while the job runs: nothing waits for the answer. */
static void on_checkpoint_request(struct bh_policy_turn *turn)
{
    const struct bh_policy_state *state = turn->state;
    uint64_t id;
    uint64_t deadline_ns;
    if (turn->config->checkpoint_timeout_ns == 0 ||
        !(is_running(state) || state->current == BH_POLICY_STATE_OBSERVE))
        return;
    bh_policy_emit_request(turn, 0, &id, &deadline_ns);
}

static void on_root_exited(struct bh_policy_turn *turn)
{
    if (is_running(turn->state) || turn->state->current == BH_POLICY_STATE_CHECKPOINT_REQUESTED)
        bh_policy_term(turn, BH_POLICY_STATE_TERMINATING, BH_POLICY_REASON_ROOT_EXITED);
}

static void on_owner_exited(struct bh_policy_turn *turn)
{
    if (is_running(turn->state))
        bh_policy_term(turn, BH_POLICY_STATE_TERMINATING, BH_POLICY_REASON_OWNER_EXITED);
}

static void on_checkpoint_ack(struct bh_policy_turn *turn, const struct bh_policy_event *event)
{
    const struct bh_policy_state *state = turn->state;
    if (state->current == BH_POLICY_STATE_CHECKPOINT_REQUESTED &&
        event->checkpoint.id == state->checkpoint_id && event->checkpoint.authenticated)
        bh_policy_term(turn, BH_POLICY_STATE_TERMINATING, BH_POLICY_REASON_CHECKPOINT_ACKNOWLEDGED);
}

static void on_checkpoint_failed(struct bh_policy_turn *turn, const struct bh_policy_event *event)
{
    const struct bh_policy_state *state = turn->state;
    if (state->current == BH_POLICY_STATE_CHECKPOINT_REQUESTED &&
        (!event->checkpoint.has_id || event->checkpoint.id == state->checkpoint_id))
        bh_policy_term(turn, BH_POLICY_STATE_TERMINATING, BH_POLICY_REASON_CHECKPOINT_FAILED);
}

static void on_external_signal(struct bh_policy_turn *turn, int signal)
{
    if (turn->state->started)
        bh_policy_kill(turn);
    else
        bh_policy_forward(turn, signal);
}

static void on_stop_request(struct bh_policy_turn *turn, enum bh_policy_stop kind)
{
    if (turn->state->started) {
        bh_policy_kill(turn);
        return;
    }
    switch (kind) {
    case BH_POLICY_STOP_KILL:
        bh_policy_kill(turn);
        break;
    case BH_POLICY_STOP_TERM:
        bh_policy_term(turn, BH_POLICY_STATE_TERMINATING, BH_POLICY_REASON_STOP_REQUESTED);
        break;
    case BH_POLICY_STOP_CHECKPOINT:
        if (turn->state->current != BH_POLICY_STATE_CHECKPOINT_REQUESTED)
            (void)bh_policy_graceful(turn, 0);
        break;
    }
}

static void on_kill_failed(struct bh_policy_turn *turn)
{
    struct bh_policy_state *state = turn->state;
    if (!state->kill_sent || state->given_up)
        return;
    if (turn->config->kill_retry_ns > 0)
        state->kill_failed = true;
    else
        bh_policy_give_up(turn, BH_POLICY_FAILURE_KILL_FAILED);
}

static void on_actuation_failed(struct bh_policy_turn *turn, enum bh_policy_act act)
{
    switch (act) {
    case BH_POLICY_ACT_TERM:
    case BH_POLICY_ACT_FORWARD:
        if (turn->state->started)
            bh_policy_kill(turn);
        break;
    case BH_POLICY_ACT_KILL:
        on_kill_failed(turn);
        break;
    }
}

static void dispatch(struct bh_policy_turn *turn, const struct bh_policy_event *event)
{
    switch (event->kind) {
    case BH_POLICY_EVENT_SAMPLE:
        bh_policy_sample(turn, event);
        break;
    case BH_POLICY_EVENT_TICK:
        on_tick(turn);
        break;
    case BH_POLICY_EVENT_SUPERVISOR_FAULT:
        on_supervisor_fault(turn);
        break;
    case BH_POLICY_EVENT_CHECKPOINT_REQUEST:
        on_checkpoint_request(turn);
        break;
    case BH_POLICY_EVENT_ROOT_EXITED:
        on_root_exited(turn);
        break;
    case BH_POLICY_EVENT_OWNER_EXITED:
        on_owner_exited(turn);
        break;
    case BH_POLICY_EVENT_PROCESS_EXITED:
        on_exit_of_tree(turn, event);
        break;
    case BH_POLICY_EVENT_CHECKPOINT_ACK:
        on_checkpoint_ack(turn, event);
        break;
    case BH_POLICY_EVENT_CHECKPOINT_FAILED:
        on_checkpoint_failed(turn, event);
        break;
    case BH_POLICY_EVENT_EXTERNAL_SIGNAL:
        on_external_signal(turn, event->signal);
        break;
    case BH_POLICY_EVENT_STOP_REQUEST:
        on_stop_request(turn, event->stop);
        break;
    case BH_POLICY_EVENT_ACTUATION_FAILED:
        on_actuation_failed(turn, event->act);
        break;
    }
}

void bh_policy_step(const struct bh_policy_config *config, struct bh_policy_state *state,
                    const struct bh_policy_event *event, struct bh_policy_actions *ret_actions)
{
    struct bh_policy_turn turn = {
        .config = config, .state = state, .actions = ret_actions, .now_ns = event->at_ns};
    ret_actions->count = 0;
    if (state->current == BH_POLICY_STATE_EXITED)
        return;
    if (event->kind != BH_POLICY_EVENT_PROCESS_EXITED) {
        if (event->at_ns < state->last_accepted_ns) {
            on_clock_regression(&turn);
            return;
        }
        state->last_accepted_ns = event->at_ns;
    }
    dispatch(&turn, event);
}

static void take_earlier(bool armed, uint64_t at_ns, bool *any, uint64_t *earliest_ns)
{
    if (!armed || (*any && *earliest_ns <= at_ns))
        return;
    *any = true;
    *earliest_ns = at_ns;
}

bool bh_policy_next_deadline(const struct bh_policy_config *config,
                             const struct bh_policy_state *state, uint64_t *ret_ns)
{
    bool any = false;
    uint64_t earliest_ns = 0;
    bool wall = config->wall_time_ns > 0 && is_running(state);
    take_earlier(state->checkpoint_armed, state->checkpoint_deadline_ns, &any, &earliest_ns);
    take_earlier(state->term_armed, state->term_deadline_ns, &any, &earliest_ns);
    take_earlier(state->kill_retry_armed, state->kill_retry_ns, &any, &earliest_ns);
    take_earlier(state->kill_end_armed, state->kill_end_ns, &any, &earliest_ns);
    take_earlier(wall, config->wall_time_ns, &any, &earliest_ns);
    if (any)
        *ret_ns = earliest_ns;
    return any;
}
