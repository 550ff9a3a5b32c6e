/* Events into the policy machine, its actions out of it. The one place where the two meet. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/super/loop.h"

uint64_t bh_loop_policy_time(const struct bh_loop *loop, struct bh_mono at)
{
    uint64_t zero = loop->started_ns + loop->gap_ns;
    return at.ns > zero ? at.ns - zero : 0;
}

static bool is_intervention(enum bh_policy_state_id state)
{
    return state == BH_POLICY_STATE_CHECKPOINT_REQUESTED || state == BH_POLICY_STATE_TERMINATING ||
           state == BH_POLICY_STATE_EMERGENCY || state == BH_POLICY_STATE_SUPERVISOR_ERROR;
}

static enum bh_stop stop_of_sample(const struct bh_loop *loop)
{
    uint64_t bytes = loop->policy.last_bytes;
    if (loop->policy.missing_streak)
        return BH_STOP_OBSERVATION_FAILED;
    return bytes >= loop->config.bands.emergency_bytes ? BH_STOP_EMERGENCY : BH_STOP_LIMIT;
}

/* What first made us act: kept, whatever follows. */
static enum bh_stop stop_of(const struct bh_loop *loop, const struct bh_policy_event *event)
{
    /* whatever the event was: its time went back, or nothing could be read */
    if (loop->policy.current == BH_POLICY_STATE_SUPERVISOR_ERROR &&
        event->kind != BH_POLICY_EVENT_SUPERVISOR_FAULT)
        return BH_STOP_OBSERVATION_FAILED;
    switch (event->kind) {
    case BH_POLICY_EVENT_SAMPLE:
        return stop_of_sample(loop);
    case BH_POLICY_EVENT_TICK:
        return BH_STOP_WALL_TIME;
    case BH_POLICY_EVENT_SUPERVISOR_FAULT:
        return BH_STOP_SUPERVISOR_FAULT;
    case BH_POLICY_EVENT_ROOT_EXITED:
        return BH_STOP_ROOT_EXITED;
    case BH_POLICY_EVENT_OWNER_EXITED:
        return BH_STOP_OWNER_EXIT;
    case BH_POLICY_EVENT_EXTERNAL_SIGNAL:
        return BH_STOP_SIGNAL;
    case BH_POLICY_EVENT_STOP_REQUEST:
        return BH_STOP_REQUEST;
    case BH_POLICY_EVENT_CHECKPOINT_REQUEST:
    case BH_POLICY_EVENT_PROCESS_EXITED:
    case BH_POLICY_EVENT_CHECKPOINT_ACK:
    case BH_POLICY_EVENT_CHECKPOINT_FAILED:
    case BH_POLICY_EVENT_ACTUATION_FAILED:
        return BH_STOP_NONE;
    }
    return BH_STOP_NONE;
}

static const char *kill_reason(const struct bh_policy_event *event, bool again)
{
    if (event->kind == BH_POLICY_EVENT_TICK)
        return again ? "retry" : "grace_expired";
    if (event->kind == BH_POLICY_EVENT_STOP_REQUEST)
        return "stop_requested";
    if (event->kind == BH_POLICY_EVENT_EXTERNAL_SIGNAL)
        return "external_signal";
    if (event->kind == BH_POLICY_EVENT_ACTUATION_FAILED)
        return "actuation_failed";
    return "emergency";
}

static const char *checkpoint_reason(const struct bh_policy_event *event)
{
    if (event->kind == BH_POLICY_EVENT_SAMPLE)
        return "footprint";
    return event->kind == BH_POLICY_EVENT_TICK ? "wall_time" : "requested";
}

void bh_loop_tell_transition(struct bh_loop *loop)
{
    struct bh_untold *untold = &loop->untold;
    if (!untold->pending)
        return;
    untold->pending = false;
    struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_TRANSITION);
    record.at.ns = untold->decided_at_ns;
    record.transition.from = (uint8_t)untold->from;
    record.transition.to = (uint8_t)untold->to;
    /* nothing of it is left: the one moment at which the charge is known to be 0 */
    bool gone = untold->to == BH_POLICY_STATE_EXITED && loop->empty_proven;
    record.transition.bytes =
        gone ? (struct bh_observed){BH_VALUE_AVAILABLE, 0} : loop->account.charge;
    (void)snprintf(record.transition.reason, sizeof record.transition.reason, "%s", untold->reason);
    bh_notes_put(&loop->notes, &record);
}

static const char *transition_reason(const struct bh_policy_actions *actions,
                                     const struct bh_policy_event *event, bool again)
{
    for (unsigned i = 0; i < actions->count; i++) {
        const struct bh_policy_action *action = &actions->items[i];
        if (action->kind == BH_POLICY_ACTION_SEND_TERM)
            return bh_policy_reason_name(action->reason);
        if (action->kind == BH_POLICY_ACTION_SEND_KILL)
            return kill_reason(event, again);
        if (action->kind == BH_POLICY_ACTION_FORWARD_SIGNAL)
            return "external_signal";
        if (action->kind == BH_POLICY_ACTION_REQUEST_CHECKPOINT)
            return checkpoint_reason(event);
        if (action->kind == BH_POLICY_ACTION_REPORT_SUPERVISOR_ERROR)
            return bh_policy_failure_name(action->failure);
    }
    return "";
}

/* ---- actions ----------------------------------------------------------------------------------
 */

static void feed_failed_act(struct bh_loop *loop, enum bh_policy_act act)
{
    struct bh_policy_event failed = {.kind = BH_POLICY_EVENT_ACTUATION_FAILED,
                                     .at_ns =
                                         bh_loop_policy_time(loop, loop->os->now(loop->os->self)),
                                     .act = act};
    bh_loop_feed(loop, &failed);
}

static void ask_checkpoint(struct bh_loop *loop, const struct bh_policy_action *action,
                           const struct bh_policy_event *event)
{
    /* one that was asked for while the job ran gives way to the one that matters */
    bh_checkpoint_close_request(&loop->checkpoint, BH_CKPT_CANCELLED);
    int result = bh_checkpoint_request(&loop->checkpoint, action->checkpoint.id,
                                       action->checkpoint.deadline_ns, checkpoint_reason(event));
    if (result == BH_OK)
        return;
    struct bh_policy_event failed = {.kind = BH_POLICY_EVENT_CHECKPOINT_FAILED,
                                     .at_ns =
                                         bh_loop_policy_time(loop, loop->os->now(loop->os->self)),
                                     .checkpoint = {.id = action->checkpoint.id, .has_id = true}};
    bh_loop_feed(loop, &failed);
}

static void carry_out(struct bh_loop *loop, const struct bh_policy_action *action,
                      const struct bh_policy_event *event, bool again, uint64_t decided_at_ns)
{
    switch (action->kind) {
    case BH_POLICY_ACTION_RECORD_OBSERVATION:
    case BH_POLICY_ACTION_RECORD_MISSING:
        break; /* every sample is stored before it is judged */
    case BH_POLICY_ACTION_SEND_KILL:
        if (!bh_loop_kill_tree(loop, kill_reason(event, again), decided_at_ns))
            feed_failed_act(loop, BH_POLICY_ACT_KILL);
        break;
    case BH_POLICY_ACTION_STOP_OBSERVING:
        loop->observing = false;
        break;
    case BH_POLICY_ACTION_REQUEST_CHECKPOINT:
        bh_loop_tell_transition(loop);
        ask_checkpoint(loop, action, event);
        break;
    case BH_POLICY_ACTION_SEND_TERM:
        if (!bh_loop_signal_tree(loop, loop->spec->stop_signal,
                                 bh_policy_reason_name(action->reason), decided_at_ns))
            feed_failed_act(loop, BH_POLICY_ACT_TERM);
        break;
    case BH_POLICY_ACTION_FORWARD_SIGNAL:
        if (!bh_loop_signal_tree(loop, action->signal, "external_signal", decided_at_ns))
            feed_failed_act(loop, BH_POLICY_ACT_FORWARD);
        break;
    case BH_POLICY_ACTION_RECORD_OVERSHOOT:
        loop->account.decision_overshoot_bytes = action->overshoot_bytes;
        break;
    case BH_POLICY_ACTION_REPORT_EXIT:
        loop->empty = true;
        break;
    case BH_POLICY_ACTION_REPORT_SUPERVISOR_ERROR:
        loop->given_up = true;
        break;
    }
}

/* The word of the report when the request did not get its answer. */
static void settle_checkpoint(struct bh_loop *loop, enum bh_policy_state_id from,
                              const struct bh_policy_event *event)
{
    if (from != BH_POLICY_STATE_CHECKPOINT_REQUESTED || loop->policy.current == from)
        return;
    bool late = event->kind == BH_POLICY_EVENT_TICK;
    bh_checkpoint_close_request(&loop->checkpoint, late ? BH_CKPT_TIMED_OUT : BH_CKPT_CANCELLED);
}

void bh_loop_feed(struct bh_loop *loop, const struct bh_policy_event *event)
{
    enum bh_policy_state_id from = loop->policy.current;
    bool again = loop->policy.kill_sent;
    uint64_t decided_at_ns = loop->os->now(loop->os->self).ns;
    struct bh_policy_actions actions;
    bh_policy_step(&loop->config, &loop->policy, event, &actions);
    if (loop->stop == BH_STOP_NONE && is_intervention(loop->policy.current)) {
        loop->stop = stop_of(loop, event);
        if (loop->stop == BH_STOP_SIGNAL)
            loop->stop_signal_number = event->signal;
        if (loop->stop == BH_STOP_OBSERVATION_FAILED && loop->members.incomplete)
            loop->stop_error = loop->members.incomplete_error;
    }
    loop->untold = (struct bh_untold){.pending = loop->policy.current != from,
                                      .from = from,
                                      .to = loop->policy.current,
                                      .reason = transition_reason(&actions, event, again),
                                      .decided_at_ns = decided_at_ns};
    for (unsigned i = 0; i < actions.count; i++)
        carry_out(loop, &actions.items[i], event, again, decided_at_ns);
    bh_loop_let_brake_go(loop);
    bh_loop_tell_transition(loop);
    settle_checkpoint(loop, from, event);
    if (loop->policy.current != from)
        bh_account_publish(loop);
}

void bh_loop_feed_simple(struct bh_loop *loop, enum bh_policy_event_kind kind)
{
    struct bh_policy_event event = {
        .kind = kind, .at_ns = bh_loop_policy_time(loop, loop->os->now(loop->os->self))};
    bh_loop_feed(loop, &event);
}
