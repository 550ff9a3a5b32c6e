/* The policy machine by itself: names, bands, defaults, validation, changed configs. What
 * it does event by event: tests/golden/policy; on random sequences: test_policy_random.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/model/policy.h"

#define MS BH_NS_PER_MS

static void names_and_numbers(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(
            bh_policy_state_from_name(bh_policy_state_name((enum bh_policy_state_id)i)), i);
    for (int i = 0; i < 10; i++)
        assert_int_equal(
            bh_policy_reason_from_name(bh_policy_reason_name((enum bh_policy_reason)i)), i);
    for (int i = 0; i < 12; i++)
        assert_int_equal(
            bh_policy_event_from_name(bh_policy_event_name((enum bh_policy_event_kind)i)), i);
    assert_string_equal(bh_policy_action_name(BH_POLICY_ACTION_STOP_OBSERVING), "stop_observing");
    assert_string_equal(bh_policy_mode_name(BH_POLICY_MODE_OBSERVE), "observe");
    assert_string_equal(bh_policy_emergency_name(BH_POLICY_EMERGENCY_TERM), "term");
    assert_string_equal(bh_policy_stop_name(BH_POLICY_STOP_CHECKPOINT), "checkpoint");
    assert_string_equal(bh_policy_act_name(BH_POLICY_ACT_FORWARD), "forward");
    assert_string_equal(bh_policy_failure_name(BH_POLICY_FAILURE_UNKILLABLE), "unkillable");
    assert_string_equal(bh_policy_state_name((enum bh_policy_state_id)200), "unknown");
    assert_int_equal(bh_policy_state_from_name("unknown"), -1);
    assert_int_equal(bh_policy_mode_from_name("Observe"), -1);
    assert_int_equal(bh_policy_emergency_from_name(""), -1);
    assert_int_equal(bh_policy_stop_from_name("terminate"), -1);
    assert_int_equal(bh_policy_act_from_name("checkpoint"), -1);
}

/* limit, recovery, warning, emergency: core/model/policy.md, section 1, and the ends. */
static const uint64_t bands_table[][4] = {
    {2, 0, 1, 3},
    {9, 7, 8, 10},
    {10, 8, 9, 11},
    {19, 17, 18, 20},
    {20, 16, 18, 22},
    {29, 25, 27, 31},
    {209715200, 167772160, 188743680, 230686720},
    {27917287424, 22333829940, 25125558682, 30709016166},
    {8384883669867978007ull, 6707906935894382407ull, 7546395302881180207ull, INT64_MAX},
};

static void bands_from_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bands_table / sizeof bands_table[0]; i++) {
        struct bh_policy_bands bands;
        assert_int_equal(bh_policy_bands_from_limit(bands_table[i][0], &bands, NULL), BH_OK);
        assert_int_equal(bands.limit_bytes, bands_table[i][0]);
        assert_int_equal(bands.recovery_bytes, bands_table[i][1]);
        assert_int_equal(bands.warning_bytes, bands_table[i][2]);
        assert_int_equal(bands.emergency_bytes, bands_table[i][3]);
    }
}

static void bands_refused(void **state)
{
    (void)state;
    const uint64_t refused[] = {0, 1, 8384883669867978008ull, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct bh_policy_bands bands = {.limit_bytes = 77};
        struct bh_diag diag = {0};
        assert_int_equal(bh_policy_bands_from_limit(refused[i], &bands, &diag),
                         BH_E_INVALID_CONFIG);
        assert_string_equal(diag.field, "limit");
        assert_int_equal(bands.limit_bytes, 77);
    }
}

static struct bh_policy_config enforce_100(void)
{
    struct bh_policy_config config;
    bh_policy_config_base(BH_POLICY_MODE_ENFORCE, &config);
    config.bands = (struct bh_policy_bands){80, 90, 100, 150};
    config.grace_base_ns = config.grace_max_ns = 100 * MS;
    return config;
}

static void defaults_of_a_job(void **state)
{
    (void)state;
    struct bh_policy_config config;
    bh_policy_config_job(BH_POLICY_MODE_ENFORCE, BH_POLICY_EMERGENCY_KILL, 50 * MS, &config);
    assert_int_equal(config.max_sample_window_ns, 250 * MS);
    assert_int_equal(config.max_sample_age_ns, 500 * MS);
    assert_int_equal(config.grace_base_ns, 1000 * MS);
    assert_int_equal(config.grace_per_gib_ns, 250 * MS);
    assert_int_equal(config.grace_max_ns, 60000 * MS);
    assert_int_equal(config.kill_retry_ns, 1000 * MS);
    assert_int_equal(config.kill_wait_ns, 30000 * MS);
    assert_true(config.growth_kill);
    bh_policy_config_job(BH_POLICY_MODE_OBSERVE, BH_POLICY_EMERGENCY_TERM, 300 * MS, &config);
    assert_int_equal(config.max_sample_window_ns, 300 * MS);
    assert_int_equal(config.max_sample_age_ns, 600 * MS);
    assert_int_equal(config.grace_base_ns, 1000 * MS);
    assert_false(config.growth_kill);
    assert_int_equal(bh_policy_validate(&config, NULL), BH_OK);
    bh_policy_config_job(BH_POLICY_MODE_OBSERVE, BH_POLICY_EMERGENCY_TERM, INT64_MAX, &config);
    assert_int_equal(config.max_sample_age_ns, INT64_MAX);
}

static void check_refused(const struct bh_policy_config *config, const char *field)
{
    struct bh_diag diag = {0};
    assert_int_equal(bh_policy_validate(config, &diag), BH_E_INVALID_CONFIG);
    assert_string_equal(diag.field, field);
}

#define CHECK_REFUSED(member, value, key)                                                          \
    do {                                                                                           \
        struct bh_policy_config config = enforce_100();                                            \
        config.member = (value);                                                                   \
        check_refused(&config, key);                                                               \
    } while (0)

static void validation_names_the_field(void **state)
{
    (void)state;
    struct bh_policy_config good = enforce_100();
    assert_int_equal(bh_policy_validate(&good, NULL), BH_OK);
    CHECK_REFUSED(bands.limit_bytes, 1, "limit");
    CHECK_REFUSED(bands.recovery_bytes, 90, "recovery");
    CHECK_REFUSED(bands.warning_bytes, 100, "warning");
    CHECK_REFUSED(bands.emergency_bytes, 100, "emergency");
    CHECK_REFUSED(bands.emergency_bytes, BH_POLICY_MAX + 1, "emergency");
    CHECK_REFUSED(required_breaches, 0, "required_breaches");
    CHECK_REFUSED(max_unusable, 0, "max_unusable");
    CHECK_REFUSED(max_sample_age_ns, 0, "max_sample_age_ns");
    CHECK_REFUSED(max_sample_window_ns, 0, "max_sample_window_ns");
    CHECK_REFUSED(grace_base_ns, 0, "grace_ns");
    CHECK_REFUSED(grace_max_ns, 100 * MS - 1, "grace_max_ns");
    CHECK_REFUSED(first_request_id, 0, "first_request_id");
    CHECK_REFUSED(grace_per_gib_ns, BH_POLICY_MAX + 1, "grace_per_gib_ns");
    CHECK_REFUSED(checkpoint_timeout_ns, UINT64_MAX, "checkpoint_timeout_ns");
    CHECK_REFUSED(wall_time_ns, UINT64_MAX, "wall_time_ns");
    CHECK_REFUSED(kill_retry_ns, UINT64_MAX, "kill_retry_ns");
    CHECK_REFUSED(kill_wait_ns, UINT64_MAX, "kill_wait_ns");
    CHECK_REFUSED(breach_hold_ns, UINT64_MAX, "breach_hold_ns");
    good.mode = BH_POLICY_MODE_OBSERVE;
    good.bands = (struct bh_policy_bands){4, 3, 2, 1};
    good.grace_base_ns = good.grace_max_ns = 0;
    assert_int_equal(bh_policy_validate(&good, NULL), BH_OK);
}

static struct bh_policy_event sample_of(uint64_t at_ns, uint64_t bytes)
{
    return (struct bh_policy_event){
        .kind = BH_POLICY_EVENT_SAMPLE,
        .at_ns = at_ns,
        .sample = {.captured_at_ns = at_ns, .has_bytes = true, .bytes = bytes},
    };
}

/* A changed limit and a stop's own grace are a new config from the next event on; streaks stay. */
static void config_changes_between_events(void **state)
{
    (void)state;
    struct bh_policy_config config = enforce_100();
    struct bh_policy_state machine;
    struct bh_policy_actions actions;
    bh_policy_start(&config, &machine);
    struct bh_policy_event event = sample_of(1 * MS, 100);
    bh_policy_step(&config, &machine, &event, &actions);
    assert_int_equal(machine.breach_streak, 1);
    config.bands = (struct bh_policy_bands){30, 40, 50, 300};
    event = sample_of(2 * MS, 60);
    bh_policy_step(&config, &machine, &event, &actions);
    assert_int_equal(machine.current, BH_POLICY_STATE_TERMINATING);
    assert_int_equal(actions.count, 3);
    assert_int_equal(actions.items[2].overshoot_bytes, 10);
}

static void a_stop_brings_its_own_grace(void **state)
{
    (void)state;
    struct bh_policy_config config = enforce_100();
    struct bh_policy_state machine;
    struct bh_policy_actions actions;
    uint64_t deadline_ns = 0;
    bh_policy_start(&config, &machine);
    config.grace_base_ns = config.grace_max_ns = 7 * MS;
    const struct bh_policy_event stop = {
        .kind = BH_POLICY_EVENT_STOP_REQUEST, .at_ns = MS, .stop = BH_POLICY_STOP_TERM};
    bh_policy_step(&config, &machine, &stop, &actions);
    assert_true(bh_policy_next_deadline(&config, &machine, &deadline_ns));
    assert_int_equal(deadline_ns, 8 * MS);
}

/* From any state, ticks alone bring a started intervention with retry and wait to its report. */
static void ticks_alone_come_to_an_end(void **state)
{
    (void)state;
    struct bh_policy_config config = enforce_100();
    struct bh_policy_state machine;
    struct bh_policy_actions actions;
    uint64_t deadline_ns = 0;
    int ticks = 0;
    config.checkpoint_timeout_ns = 50 * MS;
    config.kill_retry_ns = 20 * MS;
    config.kill_wait_ns = 70 * MS;
    config.wall_time_ns = 30 * MS;
    bh_policy_start(&config, &machine);
    while (bh_policy_next_deadline(&config, &machine, &deadline_ns)) {
        const struct bh_policy_event tick = {.kind = BH_POLICY_EVENT_TICK, .at_ns = deadline_ns};
        bh_policy_step(&config, &machine, &tick, &actions);
        assert_int_equal(actions.count, 1);
        assert_true(++ticks < 20);
    }
    assert_true(machine.given_up);
    assert_int_equal(actions.items[0].kind, BH_POLICY_ACTION_REPORT_SUPERVISOR_ERROR);
    assert_int_equal(ticks, 7); /* wall, checkpoint, TERM, three retries, end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers),
        cmocka_unit_test(bands_from_limit),
        cmocka_unit_test(bands_refused),
        cmocka_unit_test(defaults_of_a_job),
        cmocka_unit_test(validation_names_the_field),
        cmocka_unit_test(config_changes_between_events),
        cmocka_unit_test(a_stop_brings_its_own_grace),
        cmocka_unit_test(ticks_alone_come_to_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
