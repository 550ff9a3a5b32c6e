/* When to read the charge next, and the governor that keeps reading cheap. Pure and deterministic:
 * the supervisor's sampler calls it after each reading and arms its timer with the answer; what it
 * was given is in the journal, so a run can be replayed.
 *
 *     interval = clamp(headroom / max_growth, min_interval, base)
 *
 * headroom = distance from the bound to the next band that would act (the limit in `normal` and
 * `warning`, the emergency band while a checkpoint is awaited and, with growth_kill, in
 * `terminating`; none elsewhere and in observe mode: base). Once a breach was seen, the next
 * reading follows after min_interval (at most 1 ms) until the count is reached; then a hold is
 * waited out.
 *
 * The governor is a token bucket of CPU time: each reading pays what it cost, 1.4 % of a core comes
 * back, at most 30 ms are saved up. In debt, the interval is lengthened until the debt is paid
 * (never above base), unless the charge really grows: then a fourth of the time to the band at the
 * growth seen is the most that is waited.
 *
 * Figures are those of core/super/supervision.md, section 2. Units: ns, bytes, bytes per second. No
 * failures. */
#ifndef BH_MODEL_SCHEDULE_H
#define BH_MODEL_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/model/policy.h"

struct bh_schedule_config {
    uint64_t base_interval_ns;   /* 50 ms; > 0 */
    uint64_t min_interval_ns;    /* 250 us; > 0, at most base */
    uint64_t max_growth_bytes_s; /* 4 GiB/s; > 0 */
    uint64_t budget_ppm;         /* 14000 = 1.4 % of one core */
    uint64_t budget_burst_ns;    /* 30 ms */
};

/* The defaults above. min_interval is cut to base where base is smaller. */
void bh_schedule_config_default(uint64_t base_interval_ns, struct bh_schedule_config *ret_config);

/* Tokens are CPU nanoseconds; negative is debt. Zero-initialised it is empty: use the function. */
struct bh_governor {
    int64_t tokens_ns;
    uint64_t updated_at_ns;
};

/* A full bucket at this time. */
void bh_governor_start(const struct bh_schedule_config *config, uint64_t now_ns,
                       struct bh_governor *ret_governor);
/* Refills up to now, then takes what the reading cost. A clock that went back refills nothing. */
void bh_governor_pay(const struct bh_schedule_config *config, struct bh_governor *governor,
                     uint64_t now_ns, uint64_t cost_ns);
/* How long until the debt is paid; 0 without debt. */
uint64_t bh_governor_wait_ns(const struct bh_schedule_config *config,
                             const struct bh_governor *governor);

/* What the last readings say. growth_bytes_s: from the last two usable bounds, 0 when falling or
 * when only one is known. */
struct bh_schedule_reading {
    uint64_t now_ns;
    uint64_t bound_bytes;
    uint64_t growth_bytes_s;
    bool has_bound; /* false: the last reading was unusable: base interval */
};

/* Growth per second between two bounds; 0 when it fell or no time passed. */
uint64_t bh_schedule_growth(uint64_t earlier_ns, uint64_t earlier_bytes, uint64_t later_ns,
                            uint64_t later_bytes);

/* Whether two base intervals of the strongest growth would still end below every band (always in
 * observe mode): then pages that appear without CPU time of their process may be found one reading
 * later. False while anything is warned of or stopped, and without a bound. */
bool bh_schedule_is_far(const struct bh_schedule_config *config,
                        const struct bh_policy_config *policy, const struct bh_policy_state *state,
                        const struct bh_schedule_reading *reading);

uint64_t bh_schedule_next_interval(const struct bh_schedule_config *config,
                                   const struct bh_policy_config *policy,
                                   const struct bh_policy_state *state,
                                   const struct bh_schedule_reading *reading,
                                   const struct bh_governor *governor);

#endif
