#include "core/model/policy.h"

#include <stddef.h>

#include "core/base/clock.h"

int bh_policy_bands_from_limit(uint64_t limit_bytes, struct bh_policy_bands *ret_bands,
                               struct bh_diag *diag)
{
    uint64_t step = limit_bytes / 10 > 1 ? limit_bytes / 10 : 1;
    if (limit_bytes < 2)
        return bh_err_set(diag, BH_E_INVALID_CONFIG, "limit", "limit must be at least 2 bytes");
    if (limit_bytes > BH_POLICY_MAX || step > BH_POLICY_MAX - limit_bytes)
        return bh_err_set(diag, BH_E_INVALID_CONFIG, "limit",
                          "limit is too large: with its emergency band it exceeds 2^63 - 1");
    *ret_bands = (struct bh_policy_bands){
        .recovery_bytes = limit_bytes - 2 * step,
        .warning_bytes = limit_bytes - step,
        .limit_bytes = limit_bytes,
        .emergency_bytes = limit_bytes + step,
    };
    return BH_OK;
}

void bh_policy_config_base(enum bh_policy_mode mode, struct bh_policy_config *ret_config)
{
    uint64_t grace_ns = mode == BH_POLICY_MODE_ENFORCE ? BH_NS_PER_S : 0;
    *ret_config = (struct bh_policy_config){
        .mode = mode,
        .emergency_action = BH_POLICY_EMERGENCY_KILL,
        .required_breaches = 2,
        .max_unusable = 3,
        .max_sample_window_ns = 250 * BH_NS_PER_MS,
        .max_sample_age_ns = 500 * BH_NS_PER_MS,
        .grace_base_ns = grace_ns,
        .grace_max_ns = grace_ns,
        .first_request_id = 1,
    };
}

static uint64_t at_least(uint64_t value, uint64_t floor)
{
    return value > floor ? value : floor;
}

void bh_policy_config_job(enum bh_policy_mode mode, enum bh_policy_emergency emergency_action,
                          uint64_t interval_ns, struct bh_policy_config *ret_config)
{
    uint64_t twice = interval_ns > BH_POLICY_MAX / 2 ? BH_POLICY_MAX : 2 * interval_ns;
    bh_policy_config_base(mode, ret_config);
    ret_config->emergency_action = emergency_action;
    ret_config->max_sample_window_ns = at_least(interval_ns, 250 * BH_NS_PER_MS);
    ret_config->max_sample_age_ns = at_least(twice, 500 * BH_NS_PER_MS);
    ret_config->grace_base_ns = BH_NS_PER_S;
    ret_config->grace_per_gib_ns = 250 * BH_NS_PER_MS;
    ret_config->grace_max_ns = 60 * BH_NS_PER_S;
    ret_config->kill_retry_ns = BH_NS_PER_S;
    ret_config->kill_wait_ns = 30 * BH_NS_PER_S;
    ret_config->growth_kill = emergency_action == BH_POLICY_EMERGENCY_KILL;
}

static int check_bands(const struct bh_policy_bands *bands, struct bh_diag *diag)
{
    struct bh_policy_bands derived;
    int r = bh_policy_bands_from_limit(bands->limit_bytes, &derived, diag);
    if (r < 0)
        return r;
    if (bands->recovery_bytes >= bands->warning_bytes)
        return bh_err_set(diag, BH_E_INVALID_CONFIG, "recovery", "recovery must be below warning");
    if (bands->warning_bytes >= bands->limit_bytes)
        return bh_err_set(diag, BH_E_INVALID_CONFIG, "warning", "warning must be below limit");
    if (bands->emergency_bytes <= bands->limit_bytes || bands->emergency_bytes > BH_POLICY_MAX)
        return bh_err_set(diag, BH_E_INVALID_CONFIG, "emergency",
                          "emergency must be above limit and at most 2^63 - 1");
    return BH_OK;
}

/* One number that has a range; the order of the table is the order of the complaints. */
struct range {
    const char *key;
    uint64_t value;
    uint64_t minimum;
};

int bh_policy_validate(const struct bh_policy_config *config, struct bh_diag *diag)
{
    bool enforce = config->mode == BH_POLICY_MODE_ENFORCE;
    const struct range ranges[] = {
        {"required_breaches", config->required_breaches, 1},
        {"max_unusable", config->max_unusable, 1},
        {"max_sample_age_ns", config->max_sample_age_ns, 1},
        {"max_sample_window_ns", config->max_sample_window_ns, 1},
        {"grace_ns", config->grace_base_ns, enforce ? 1 : 0},
        {"grace_max_ns", config->grace_max_ns, config->grace_base_ns},
        {"grace_per_gib_ns", config->grace_per_gib_ns, 0},
        {"checkpoint_timeout_ns", config->checkpoint_timeout_ns, 0},
        {"wall_time_ns", config->wall_time_ns, 0},
        {"kill_retry_ns", config->kill_retry_ns, 0},
        {"kill_wait_ns", config->kill_wait_ns, 0},
        {"breach_hold_ns", config->breach_hold_ns, 0},
        {"first_request_id", config->first_request_id, 1},
    };
    int r = enforce ? check_bands(&config->bands, diag) : BH_OK;
    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const struct range *range = &ranges[i];
        if (range->value < range->minimum || range->value > BH_POLICY_MAX)
            return bh_err_set(diag, BH_E_INVALID_CONFIG, range->key, "%s must be %llu to 2^63 - 1",
                              range->key, (unsigned long long)range->minimum);
    }
    return BH_OK;
}
