#include "api/replay.h"

#include "core/base/json_out.h"

/* The members of an action beside `type`, in the order of core/model/policy.md, section 2. */
static void write_members(struct bh_json *json, const struct bh_policy_action *action)
{
    switch (action->kind) {
    case BH_POLICY_ACTION_RECORD_OBSERVATION:
    case BH_POLICY_ACTION_RECORD_MISSING:
    case BH_POLICY_ACTION_SEND_KILL:
    case BH_POLICY_ACTION_STOP_OBSERVING:
        break;
    case BH_POLICY_ACTION_REQUEST_CHECKPOINT:
        bh_json_u64(json, "id", action->checkpoint.id);
        bh_json_u64(json, "overshoot", action->checkpoint.overshoot_bytes);
        bh_json_u64(json, "deadline", action->checkpoint.deadline_ns);
        break;
    case BH_POLICY_ACTION_SEND_TERM:
        bh_json_string(json, "reason", bh_policy_reason_name(action->reason));
        break;
    case BH_POLICY_ACTION_FORWARD_SIGNAL:
        bh_json_i64(json, "signal", action->signal);
        break;
    case BH_POLICY_ACTION_RECORD_OVERSHOOT:
        bh_json_u64(json, "bytes", action->overshoot_bytes);
        break;
    case BH_POLICY_ACTION_REPORT_EXIT:
        if (action->exit.has_final_bytes)
            bh_json_u64(json, "final_bytes", action->exit.final_bytes);
        else
            bh_json_null(json, "final_bytes");
        bh_json_u64(json, "samples_after_signal", action->exit.samples_after_signal);
        break;
    case BH_POLICY_ACTION_REPORT_SUPERVISOR_ERROR:
        bh_json_string(json, "kind", bh_policy_failure_name(action->failure));
        break;
    }
}

void bh_policy_replay_result_write(struct bh_bytes *out, const struct bh_policy_config *config,
                                   const struct bh_policy_state *state,
                                   const struct bh_policy_event *event,
                                   const struct bh_policy_actions *actions)
{
    struct bh_json json;
    uint64_t deadline_ns = 0;
    bh_json_begin(&json, out, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_u64(&json, "t", event->at_ns);
    bh_json_string(&json, "state", bh_policy_state_name(state->current));
    bh_json_array(&json, "actions");
    for (unsigned i = 0; i < actions->count; i++) {
        bh_json_object(&json, NULL);
        bh_json_string(&json, "type", bh_policy_action_name(actions->items[i].kind));
        write_members(&json, &actions->items[i]);
        bh_json_end(&json);
    }
    bh_json_end(&json);
    if (bh_policy_next_deadline(config, state, &deadline_ns))
        bh_json_u64(&json, "next_deadline", deadline_ns);
    else
        bh_json_null(&json, "next_deadline");
    bh_json_end(&json);
    bh_json_finish(&json);
    bh_bytes_append(out, "\n", 1);
}
