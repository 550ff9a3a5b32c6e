#include "core/model/schedule.h"

#include "core/base/clock.h"
#include "core/base/wide.h"

#define PPM                1000000u
#define MAX_GROWTH_BYTES_S (4ull << 30)
#define BUDGET_PPM         14000u
#define REREAD_MIN_NS      (250 * BH_NS_PER_US)
#define REREAD_MAX_NS      BH_NS_PER_MS

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    if (value > high)
        return high;
    return value < low ? low : value;
}

static uint64_t narrow(bh_u128 value)
{
    return value < BH_POLICY_MAX ? (uint64_t)value : BH_POLICY_MAX;
}

void bh_schedule_config_default(uint64_t base_interval_ns, struct bh_schedule_config *ret_config)
{
    *ret_config = (struct bh_schedule_config){
        .base_interval_ns = base_interval_ns,
        .min_interval_ns = clamp(250 * BH_NS_PER_US, 1, base_interval_ns),
        .max_growth_bytes_s = MAX_GROWTH_BYTES_S,
        .budget_ppm = BUDGET_PPM,
        .budget_burst_ns = 30 * BH_NS_PER_MS,
    };
}

void bh_governor_start(const struct bh_schedule_config *config, uint64_t now_ns,
                       struct bh_governor *ret_governor)
{
    *ret_governor = (struct bh_governor){.tokens_ns = (int64_t)narrow(config->budget_burst_ns),
                                         .updated_at_ns = now_ns};
}

void bh_governor_pay(const struct bh_schedule_config *config, struct bh_governor *governor,
                     uint64_t now_ns, uint64_t cost_ns)
{
    int64_t burst = (int64_t)narrow(config->budget_burst_ns);
    /* half the range: neither a day-long pause nor an absurd cost can overflow the sum */
    int64_t floor = -(int64_t)(BH_POLICY_MAX / 2);
    if (now_ns > governor->updated_at_ns) {
        uint64_t earned =
            narrow((bh_u128)(now_ns - governor->updated_at_ns) * config->budget_ppm / PPM);
        int64_t room = governor->tokens_ns < 0 ? INT64_MAX : burst - governor->tokens_ns;
        if (earned >= (uint64_t)room || (int64_t)earned + governor->tokens_ns > burst)
            governor->tokens_ns = burst;
        else
            governor->tokens_ns += (int64_t)earned;
        governor->updated_at_ns = now_ns;
    }
    int64_t cost = (int64_t)clamp(cost_ns, 0, BH_POLICY_MAX / 4);
    governor->tokens_ns = governor->tokens_ns - cost < floor ? floor : governor->tokens_ns - cost;
}

uint64_t bh_governor_wait_ns(const struct bh_schedule_config *config,
                             const struct bh_governor *governor)
{
    if (governor->tokens_ns >= 0)
        return 0;
    if (config->budget_ppm == 0)
        return BH_POLICY_MAX;
    bh_u128 debt = (bh_u128)(uint64_t)-governor->tokens_ns * PPM;
    return narrow((debt + config->budget_ppm - 1) / config->budget_ppm);
}

uint64_t bh_schedule_growth(uint64_t earlier_ns, uint64_t earlier_bytes, uint64_t later_ns,
                            uint64_t later_bytes)
{
    if (later_ns <= earlier_ns || later_bytes <= earlier_bytes)
        return 0;
    return narrow((bh_u128)(later_bytes - earlier_bytes) * BH_NS_PER_S / (later_ns - earlier_ns));
}

/* The lowest band that would act on this machine as it stands; false when none would. */
static bool acting_band(const struct bh_policy_config *policy, const struct bh_policy_state *state,
                        uint64_t bound_bytes, uint64_t *ret_bytes)
{
    const struct bh_policy_bands *bands = &policy->bands;
    if (policy->mode == BH_POLICY_MODE_OBSERVE)
        return false;
    switch (state->current) {
    case BH_POLICY_STATE_NORMAL:
    case BH_POLICY_STATE_WARNING:
        *ret_bytes = bound_bytes < bands->limit_bytes ? bands->limit_bytes : bands->emergency_bytes;
        return true;
    case BH_POLICY_STATE_CHECKPOINT_REQUESTED:
        *ret_bytes = bands->emergency_bytes;
        return true;
    case BH_POLICY_STATE_TERMINATING:
        *ret_bytes = bands->emergency_bytes > state->term_charge_bytes ? bands->emergency_bytes
                                                                       : state->term_charge_bytes;
        return policy->growth_kill;
    case BH_POLICY_STATE_OBSERVE:
    case BH_POLICY_STATE_EMERGENCY:
    case BH_POLICY_STATE_EXITED:
    case BH_POLICY_STATE_SUPERVISOR_ERROR:
        return false;
    }
    return false;
}

/* In `warning` at or above the limit: breaches are being counted. */
static bool is_counting(const struct bh_policy_config *policy, const struct bh_policy_state *state,
                        uint64_t bound_bytes)
{
    return state->current == BH_POLICY_STATE_WARNING && bound_bytes >= policy->bands.limit_bytes &&
           state->breach_streak > 0;
}

static uint64_t hold_left(const struct bh_policy_config *policy,
                          const struct bh_policy_state *state, uint64_t now_ns)
{
    bh_u128 end = (bh_u128)state->first_breach_ns + policy->breach_hold_ns;
    return end > now_ns ? narrow(end - now_ns) : 0;
}

/* The debt lengthens the interval; growth that is really seen limits by how much. */
static uint64_t governed(const struct bh_schedule_config *config, uint64_t interval_ns,
                         uint64_t headroom_bytes, uint64_t growth_bytes_s, uint64_t wait_ns)
{
    uint64_t longer = clamp(wait_ns, 0, config->base_interval_ns);
    if (growth_bytes_s > 0) {
        uint64_t fourth =
            narrow((bh_u128)headroom_bytes * BH_NS_PER_S / ((bh_u128)growth_bytes_s * 4));
        longer = clamp(longer, 0, fourth);
    }
    return longer > interval_ns ? longer : interval_ns;
}

bool bh_schedule_is_far(const struct bh_schedule_config *config,
                        const struct bh_policy_config *policy, const struct bh_policy_state *state,
                        const struct bh_schedule_reading *reading)
{
    if (!reading->has_bound)
        return false;
    if (state->current == BH_POLICY_STATE_OBSERVE)
        return true;
    uint64_t lowest = policy->bands.warning_bytes;
    if (state->current != BH_POLICY_STATE_NORMAL || reading->bound_bytes >= lowest)
        return false;
    bh_u128 growth =
        (bh_u128)config->max_growth_bytes_s * (2 * config->base_interval_ns) / BH_NS_PER_S;
    return lowest - reading->bound_bytes >= growth;
}

uint64_t bh_schedule_next_interval(const struct bh_schedule_config *config,
                                   const struct bh_policy_config *policy,
                                   const struct bh_policy_state *state,
                                   const struct bh_schedule_reading *reading,
                                   const struct bh_governor *governor)
{
    uint64_t low = config->min_interval_ns;
    uint64_t high = config->base_interval_ns;
    uint64_t band = 0;
    if (!reading->has_bound || !acting_band(policy, state, reading->bound_bytes, &band))
        return high;
    uint64_t headroom = band > reading->bound_bytes ? band - reading->bound_bytes : 0;
    uint64_t interval =
        clamp(narrow((bh_u128)headroom * BH_NS_PER_S / config->max_growth_bytes_s), low, high);
    if (is_counting(policy, state, reading->bound_bytes)) {
        if (state->breach_streak < policy->required_breaches)
            return clamp(clamp(low, REREAD_MIN_NS, REREAD_MAX_NS), 0, high);
        interval = clamp(hold_left(policy, state, reading->now_ns), low, interval);
    }
    return governed(config, interval, headroom, reading->growth_bytes_s,
                    bh_governor_wait_ns(config, governor));
}
