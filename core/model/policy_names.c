#include "core/model/policy.h"

#include <stddef.h>
#include <string.h>

struct word {
    const char *text;
    int number;
};

static const struct word states[] = {
#define BH_POLICY_STATE(name, number, text) {text, number},
#include "core/model/policy_states.def"
#undef BH_POLICY_STATE
};

static const struct word reasons[] = {
#define BH_POLICY_REASON(name, number, text) {text, number},
#include "core/model/policy_reasons.def"
#undef BH_POLICY_REASON
};

static const struct word events[] = {
#define BH_POLICY_EVENT(name, number, text) {text, number},
#include "core/model/policy_events.def"
#undef BH_POLICY_EVENT
};

static const struct word actions[] = {
#define BH_POLICY_ACTION(name, number, text) {text, number},
#include "core/model/policy_actions.def"
#undef BH_POLICY_ACTION
};

static const struct word modes[] = {
#define BH_POLICY_MODE(name, number, text) {text, number},
#include "core/model/policy_kinds.def"
#undef BH_POLICY_MODE
};

static const struct word emergencies[] = {
#define BH_POLICY_EMERGENCY(name, number, text) {text, number},
#include "core/model/policy_kinds.def"
#undef BH_POLICY_EMERGENCY
};

static const struct word stops[] = {
#define BH_POLICY_STOP(name, number, text) {text, number},
#include "core/model/policy_kinds.def"
#undef BH_POLICY_STOP
};

static const struct word acts[] = {
#define BH_POLICY_ACT(name, number, text) {text, number},
#include "core/model/policy_kinds.def"
#undef BH_POLICY_ACT
};

static const struct word failures[] = {
#define BH_POLICY_FAILURE(name, number, text) {text, number},
#include "core/model/policy_kinds.def"
#undef BH_POLICY_FAILURE
};

static const char *text_of(const struct word *words, size_t count, int number)
{
    for (size_t i = 0; i < count; i++) {
        if (words[i].number == number)
            return words[i].text;
    }
    return "unknown";
}

static int number_of(const struct word *words, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i].text, text) == 0)
            return words[i].number;
    }
    return -1;
}

#define TEXT_OF(words, number) text_of(words, sizeof(words) / sizeof(words)[0], (int)(number))
#define NUMBER_OF(words, text) number_of(words, sizeof(words) / sizeof(words)[0], text)

const char *bh_policy_state_name(enum bh_policy_state_id state)
{
    return TEXT_OF(states, state);
}

const char *bh_policy_reason_name(enum bh_policy_reason reason)
{
    return TEXT_OF(reasons, reason);
}

const char *bh_policy_event_name(enum bh_policy_event_kind kind)
{
    return TEXT_OF(events, kind);
}

const char *bh_policy_action_name(enum bh_policy_action_kind kind)
{
    return TEXT_OF(actions, kind);
}

const char *bh_policy_mode_name(enum bh_policy_mode mode)
{
    return TEXT_OF(modes, mode);
}

const char *bh_policy_emergency_name(enum bh_policy_emergency action)
{
    return TEXT_OF(emergencies, action);
}

const char *bh_policy_stop_name(enum bh_policy_stop kind)
{
    return TEXT_OF(stops, kind);
}

const char *bh_policy_act_name(enum bh_policy_act kind)
{
    return TEXT_OF(acts, kind);
}

const char *bh_policy_failure_name(enum bh_policy_failure kind)
{
    return TEXT_OF(failures, kind);
}

int bh_policy_state_from_name(const char *text)
{
    return NUMBER_OF(states, text);
}

int bh_policy_reason_from_name(const char *text)
{
    return NUMBER_OF(reasons, text);
}

int bh_policy_event_from_name(const char *text)
{
    return NUMBER_OF(events, text);
}

int bh_policy_mode_from_name(const char *text)
{
    return NUMBER_OF(modes, text);
}

int bh_policy_emergency_from_name(const char *text)
{
    return NUMBER_OF(emergencies, text);
}

int bh_policy_stop_from_name(const char *text)
{
    return NUMBER_OF(stops, text);
}

int bh_policy_act_from_name(const char *text)
{
    return NUMBER_OF(acts, text);
}
