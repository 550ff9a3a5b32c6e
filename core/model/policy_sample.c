#include "core/model/policy_turn.h"

bool bh_policy_sample_usable(const struct bh_policy_config *config,
                             const struct bh_policy_event *event)
{
    return event->sample.has_bytes && event->at_ns >= event->sample.captured_at_ns &&
           event->at_ns - event->sample.captured_at_ns <= config->max_sample_age_ns &&
           event->sample.window_ns <= config->max_sample_window_ns;
}

static void unusable(struct bh_policy_turn *turn)
{
    struct bh_policy_state *state = turn->state;
    state->missing_streak = bh_policy_add(state->missing_streak, 1);
    bh_policy_emit(turn, BH_POLICY_ACTION_RECORD_MISSING);
    if (state->missing_streak < turn->config->max_unusable ||
        state->current == BH_POLICY_STATE_SUPERVISOR_ERROR || state->started)
        return;
    if (state->current == BH_POLICY_STATE_OBSERVE) {
        state->current = BH_POLICY_STATE_SUPERVISOR_ERROR;
        bh_policy_emit(turn, BH_POLICY_ACTION_STOP_OBSERVING);
        return;
    }
    bh_policy_term(turn, BH_POLICY_STATE_SUPERVISOR_ERROR, BH_POLICY_REASON_OBSERVATION_FAILED);
}

/* A usable sample that no band judges: recorded, and section 6's two looks at a job that was told
 * to end. */
static void watch(struct bh_policy_turn *turn, uint64_t bytes)
{
    const struct bh_policy_config *config = turn->config;
    const struct bh_policy_state *state = turn->state;
    bh_policy_emit(turn, BH_POLICY_ACTION_RECORD_OBSERVATION);
    if (config->growth_kill && config->mode == BH_POLICY_MODE_ENFORCE &&
        state->current == BH_POLICY_STATE_TERMINATING && bytes >= config->bands.emergency_bytes &&
        bytes > state->term_charge_bytes) {
        bh_policy_kill(turn);
        bh_policy_emit_overshoot(turn, bytes - config->bands.limit_bytes);
        return;
    }
    bh_policy_progress(turn, bytes);
}

static void emergency(struct bh_policy_turn *turn, uint64_t bytes)
{
    switch (turn->config->emergency_action) {
    case BH_POLICY_EMERGENCY_KILL:
        bh_policy_kill(turn);
        break;
    case BH_POLICY_EMERGENCY_TERM:
        bh_policy_term(turn, BH_POLICY_STATE_TERMINATING, BH_POLICY_REASON_EMERGENCY);
        break;
    }
    bh_policy_emit_overshoot(turn, bytes - turn->config->bands.limit_bytes);
}

static void breach(struct bh_policy_turn *turn, uint64_t bytes)
{
    const struct bh_policy_config *config = turn->config;
    struct bh_policy_state *state = turn->state;
    if (state->breach_streak == 0)
        state->first_breach_ns = turn->now_ns;
    state->breach_streak = bh_policy_add(state->breach_streak, 1);
    state->current = BH_POLICY_STATE_WARNING;
    if (state->breach_streak < config->required_breaches ||
        turn->now_ns - state->first_breach_ns < config->breach_hold_ns)
        return;
    uint64_t overshoot = bytes - config->bands.limit_bytes;
    if (bh_policy_graceful(turn, overshoot))
        bh_policy_emit_overshoot(turn, overshoot);
}

static void below_limit(struct bh_policy_turn *turn, uint64_t bytes)
{
    const struct bh_policy_bands *bands = &turn->config->bands;
    struct bh_policy_state *state = turn->state;
    state->breach_streak = 0;
    if (bytes >= bands->warning_bytes)
        state->current = BH_POLICY_STATE_WARNING;
    else if (bytes <= bands->recovery_bytes)
        state->current = BH_POLICY_STATE_NORMAL;
}

static void usable(struct bh_policy_turn *turn, uint64_t bytes)
{
    const struct bh_policy_config *config = turn->config;
    struct bh_policy_state *state = turn->state;
    state->missing_streak = 0;
    state->last_bytes = bytes;
    if (state->started)
        state->samples_after_signal = bh_policy_add(state->samples_after_signal, 1);
    if (config->mode == BH_POLICY_MODE_OBSERVE || state->current == BH_POLICY_STATE_OBSERVE ||
        state->started || state->current == BH_POLICY_STATE_SUPERVISOR_ERROR) {
        watch(turn, bytes);
        return;
    }
    bh_policy_emit(turn, BH_POLICY_ACTION_RECORD_OBSERVATION);
    if (bytes >= config->bands.emergency_bytes)
        emergency(turn, bytes);
    else if (state->current == BH_POLICY_STATE_CHECKPOINT_REQUESTED)
        return;
    else if (bytes >= config->bands.limit_bytes)
        breach(turn, bytes);
    else
        below_limit(turn, bytes);
}

void bh_policy_sample(struct bh_policy_turn *turn, const struct bh_policy_event *event)
{
    if (bh_policy_sample_usable(turn->config, event))
        usable(turn, event->sample.bytes);
    else
        unusable(turn);
}
