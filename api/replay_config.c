#include "api/replay.h"

#include <string.h>

#include "api/replay_json.h"
#include "core/base/text.h"

/* Keys with a number: X(key, minimum, maximum). Bands and first_request_id get their finer checks
 * from the machine's own validation. */
#define NUMBER_KEYS(X)                                                                             \
    X(limit, 0, BH_POLICY_MAX)                                                                     \
    X(warning, 0, BH_POLICY_MAX)                                                                   \
    X(recovery, 0, BH_POLICY_MAX)                                                                  \
    X(emergency, 0, BH_POLICY_MAX)                                                                 \
    X(required_breaches, 1, UINT32_MAX)                                                            \
    X(max_unusable, 1, UINT32_MAX)                                                                 \
    X(max_sample_age_ns, 1, BH_POLICY_MAX)                                                         \
    X(max_sample_window_ns, 1, BH_POLICY_MAX)                                                      \
    X(grace_ns, 1, BH_POLICY_MAX)                                                                  \
    X(checkpoint_timeout_ns, 1, BH_POLICY_MAX)                                                     \
    X(wall_time_ns, 1, BH_POLICY_MAX)                                                              \
    X(first_request_id, 1, BH_POLICY_MAX)                                                          \
    X(grace_per_gib_ns, 0, BH_POLICY_MAX)                                                          \
    X(grace_max_ns, 1, BH_POLICY_MAX)                                                              \
    X(kill_retry_ns, 1, BH_POLICY_MAX)                                                             \
    X(kill_wait_ns, 1, BH_POLICY_MAX)                                                              \
    X(breach_hold_ns, 0, BH_POLICY_MAX)

struct number {
    uint64_t value;
    bool present;
};

struct numbers {
#define FIELD(key, minimum, maximum) struct number key;
    NUMBER_KEYS(FIELD)
#undef FIELD
};

static const char *const other_keys[] = {"mode", "emergency_action", "growth_kill"};

static bool is_known(const char *key)
{
#define COMPARE(name, minimum, maximum)                                                            \
    if (strcmp(key, #name) == 0)                                                                   \
        return true;
    NUMBER_KEYS(COMPARE)
#undef COMPARE
    for (size_t i = 0; i < sizeof other_keys / sizeof other_keys[0]; i++) {
        if (strcmp(key, other_keys[i]) == 0)
            return true;
    }
    return false;
}

static int refuse_unknown(json_t *object, struct bh_diag *diag)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        char shown[64];
        if (is_known(key))
            continue;
        bh_text_escape(key, strlen(key), shown, sizeof shown);
        return bh_err_set(diag, BH_E_UNKNOWN_MEMBER, shown, "no such key");
    }
    return BH_OK;
}

static int read_numbers(const json_t *object, struct numbers *numbers, struct bh_diag *diag)
{
    int r;
#define READ(key, minimum, maximum)                                                                \
    r = bh_policy_replay_json_u64_or_null(object, #key, minimum, maximum, &numbers->key.present,   \
                                          &numbers->key.value, diag);                              \
    if (r < 0)                                                                                     \
        return r;
    NUMBER_KEYS(READ)
#undef READ
    return BH_OK;
}

static bool is_given(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

static int read_words(const json_t *object, int *ret_mode, int *ret_emergency, bool *ret_growth,
                      struct bh_diag *diag)
{
    if (!is_given(object, "mode"))
        return bh_err_set(diag, BH_E_MISSING_MEMBER, "mode", "mode is required");
    int r = bh_policy_replay_json_word(object, "mode", bh_policy_mode_from_name, ret_mode, diag);
    if (r == BH_OK && is_given(object, "emergency_action"))
        r = bh_policy_replay_json_word(object, "emergency_action", bh_policy_emergency_from_name,
                                       ret_emergency, diag);
    if (r == BH_OK && is_given(object, "growth_kill"))
        r = bh_policy_replay_json_bool(object, "growth_kill", ret_growth, diag);
    return r;
}

static int set_bands(const struct numbers *numbers, struct bh_policy_config *config,
                     struct bh_diag *diag)
{
    struct bh_policy_bands *bands = &config->bands;
    if (config->mode == BH_POLICY_MODE_OBSERVE)
        return BH_OK; /* ignored, whatever they are */
    if (!numbers->limit.present)
        return bh_err_set(diag, BH_E_MISSING_MEMBER, "limit", "limit is required to enforce");
    int r = bh_policy_bands_from_limit(numbers->limit.value, bands, diag);
    if (r < 0)
        return r;
    if (numbers->warning.present)
        bands->warning_bytes = numbers->warning.value;
    if (numbers->recovery.present)
        bands->recovery_bytes = numbers->recovery.value;
    if (numbers->emergency.present)
        bands->emergency_bytes = numbers->emergency.value;
    return BH_OK;
}

static void take(const struct number *number, uint64_t *field)
{
    if (number->present)
        *field = number->value;
}

static void set_numbers(const struct numbers *numbers, struct bh_policy_config *config)
{
    if (numbers->required_breaches.present)
        config->required_breaches = (uint32_t)numbers->required_breaches.value;
    if (numbers->max_unusable.present)
        config->max_unusable = (uint32_t)numbers->max_unusable.value;
    take(&numbers->max_sample_age_ns, &config->max_sample_age_ns);
    take(&numbers->max_sample_window_ns, &config->max_sample_window_ns);
    take(&numbers->grace_ns, &config->grace_base_ns);
    config->grace_max_ns = config->grace_base_ns;
    take(&numbers->grace_max_ns, &config->grace_max_ns);
    take(&numbers->grace_per_gib_ns, &config->grace_per_gib_ns);
    take(&numbers->checkpoint_timeout_ns, &config->checkpoint_timeout_ns);
    take(&numbers->wall_time_ns, &config->wall_time_ns);
    take(&numbers->first_request_id, &config->first_request_id);
    take(&numbers->kill_retry_ns, &config->kill_retry_ns);
    take(&numbers->kill_wait_ns, &config->kill_wait_ns);
    take(&numbers->breach_hold_ns, &config->breach_hold_ns);
}

static int parse_object(json_t *object, struct bh_policy_config *ret_config, struct bh_diag *diag)
{
    struct numbers numbers = {0};
    struct bh_policy_config config;
    int mode = 0;
    int emergency = BH_POLICY_EMERGENCY_KILL;
    bool growth = false;
    int r = refuse_unknown(object, diag);
    if (r == BH_OK)
        r = read_words(object, &mode, &emergency, &growth, diag);
    if (r == BH_OK)
        r = read_numbers(object, &numbers, diag);
    if (r < 0)
        return r;
    bh_policy_config_base((enum bh_policy_mode)mode, &config);
    config.emergency_action = (enum bh_policy_emergency)emergency;
    config.growth_kill = growth;
    set_numbers(&numbers, &config);
    r = set_bands(&numbers, &config, diag);
    if (r == BH_OK)
        r = bh_policy_validate(&config, diag);
    if (r == BH_OK)
        *ret_config = config;
    return r;
}

int bh_policy_replay_config_parse(const char *text, size_t length,
                                  struct bh_policy_config *ret_config, struct bh_diag *diag)
{
    json_t *object = NULL;
    int r = bh_policy_replay_json_load(text, length, &object, diag);
    if (r < 0)
        return r;
    r = parse_object(object, ret_config, diag);
    json_decref(object);
    return r;
}
