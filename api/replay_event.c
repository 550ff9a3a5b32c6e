#include "api/replay.h"

#include "api/replay_json.h"

#define MAX_SIGNAL 64

static int any_u64(const json_t *object, const char *key, uint64_t *ret_value, struct bh_diag *diag)
{
    return bh_policy_replay_json_u64(object, key, 0, BH_POLICY_MAX, ret_value, diag);
}

static int parse_sample(const json_t *object, struct bh_policy_event *event, struct bh_diag *diag)
{
    int r = any_u64(object, "captured_at", &event->sample.captured_at_ns, diag);
    if (r == BH_OK)
        r = any_u64(object, "processed_at", &event->at_ns, diag);
    if (r == BH_OK)
        r = any_u64(object, "window", &event->sample.window_ns, diag);
    if (r == BH_OK)
        r = bh_policy_replay_json_u64_or_null(object, "bytes", 0, BH_POLICY_MAX,
                                              &event->sample.has_bytes, &event->sample.bytes, diag);
    return r;
}

static int parse_ack(const json_t *object, struct bh_policy_event *event, struct bh_diag *diag)
{
    int r = any_u64(object, "id", &event->checkpoint.id, diag);
    if (r == BH_OK)
        r = bh_policy_replay_json_bool(object, "authenticated", &event->checkpoint.authenticated,
                                       diag);
    event->checkpoint.has_id = true;
    return r;
}

static int parse_signal(const json_t *object, struct bh_policy_event *event, struct bh_diag *diag)
{
    uint64_t number = 0;
    int r = bh_policy_replay_json_u64(object, "signal", 1, MAX_SIGNAL, &number, diag);
    event->signal = (int)number;
    return r;
}

static int parse_stop(const json_t *object, struct bh_policy_event *event, struct bh_diag *diag)
{
    int number = 0;
    int r = bh_policy_replay_json_word(object, "kind", bh_policy_stop_from_name, &number, diag);
    event->stop = (enum bh_policy_stop)number;
    return r;
}

static int parse_act(const json_t *object, struct bh_policy_event *event, struct bh_diag *diag)
{
    int number = 0;
    int r = bh_policy_replay_json_word(object, "kind", bh_policy_act_from_name, &number, diag);
    event->act = (enum bh_policy_act)number;
    return r;
}

/* The members beside `type` and `at`. */
static int parse_rest(const json_t *object, struct bh_policy_event *event, struct bh_diag *diag)
{
    switch (event->kind) {
    case BH_POLICY_EVENT_SAMPLE:
        return parse_sample(object, event, diag);
    case BH_POLICY_EVENT_PROCESS_EXITED:
        return bh_policy_replay_json_u64_or_null(object, "final_bytes", 0, BH_POLICY_MAX,
                                                 &event->exited.has_final_bytes,
                                                 &event->exited.final_bytes, diag);
    case BH_POLICY_EVENT_CHECKPOINT_ACK:
        return parse_ack(object, event, diag);
    case BH_POLICY_EVENT_CHECKPOINT_FAILED:
        return bh_policy_replay_json_u64_or_null(
            object, "id", 0, BH_POLICY_MAX, &event->checkpoint.has_id, &event->checkpoint.id, diag);
    case BH_POLICY_EVENT_EXTERNAL_SIGNAL:
        return parse_signal(object, event, diag);
    case BH_POLICY_EVENT_STOP_REQUEST:
        return parse_stop(object, event, diag);
    case BH_POLICY_EVENT_ACTUATION_FAILED:
        return parse_act(object, event, diag);
    case BH_POLICY_EVENT_TICK:
    case BH_POLICY_EVENT_SUPERVISOR_FAULT:
    case BH_POLICY_EVENT_CHECKPOINT_REQUEST:
    case BH_POLICY_EVENT_ROOT_EXITED:
    case BH_POLICY_EVENT_OWNER_EXITED:
        return BH_OK;
    }
    return BH_E_INTERNAL; /* not reached: the kind came from the list */
}

static int parse_object(const json_t *object, struct bh_policy_event *ret_event,
                        struct bh_diag *diag)
{
    struct bh_policy_event event = {0};
    int kind = 0;
    int r = bh_policy_replay_json_word(object, "type", bh_policy_event_from_name, &kind, diag);
    event.kind = (enum bh_policy_event_kind)kind;
    if (r == BH_OK && event.kind != BH_POLICY_EVENT_SAMPLE)
        r = any_u64(object, "at", &event.at_ns, diag);
    if (r == BH_OK)
        r = parse_rest(object, &event, diag);
    if (r == BH_OK)
        *ret_event = event;
    return r;
}

int bh_policy_replay_event_parse(const char *line, size_t length, struct bh_policy_event *ret_event,
                                 struct bh_diag *diag)
{
    json_t *object = NULL;
    int r = bh_policy_replay_json_load(line, length, &object, diag);
    if (r < 0)
        return r;
    r = parse_object(object, ret_event, diag);
    json_decref(object);
    return r;
}
