/* The sampling schedule and its governor: figures of core/super/supervision.md, section 2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/bytes.h"
#include "core/base/wide.h"
#include "core/model/schedule.h"

#define MS  BH_NS_PER_MS
#define US  BH_NS_PER_US
#define MIB (1ull << 20)
#define GIB (1ull << 30)

struct setup {
    struct bh_schedule_config config;
    struct bh_policy_config policy;
    struct bh_policy_state machine;
    struct bh_governor governor;
};

/* Limit 10 GiB, base 50 ms, a full budget. */
static struct setup new_setup(void)
{
    struct setup s = {0};
    bh_schedule_config_default(50 * MS, &s.config);
    bh_policy_config_base(BH_POLICY_MODE_ENFORCE, &s.policy);
    assert_int_equal(bh_policy_bands_from_limit(10 * GIB, &s.policy.bands, NULL), BH_OK);
    bh_policy_start(&s.policy, &s.machine);
    bh_governor_start(&s.config, 0, &s.governor);
    return s;
}

static uint64_t next(const struct setup *s, uint64_t now_ns, uint64_t bytes, uint64_t growth)
{
    const struct bh_schedule_reading reading = {
        .now_ns = now_ns, .bound_bytes = bytes, .growth_bytes_s = growth, .has_bound = true};
    return bh_schedule_next_interval(&s->config, &s->policy, &s->machine, &reading, &s->governor);
}

static void defaults(void **state)
{
    (void)state;
    struct bh_schedule_config config;
    bh_schedule_config_default(50 * MS, &config);
    assert_int_equal(config.min_interval_ns, 250 * US);
    assert_int_equal(config.max_growth_bytes_s, 4 * GIB);
    assert_int_equal(config.budget_ppm, 14000);
    assert_int_equal(config.budget_burst_ns, 30 * MS);
    bh_schedule_config_default(100 * US, &config);
    assert_int_equal(config.min_interval_ns, 100 * US);
}

static void headroom_sets_the_interval(void **state)
{
    (void)state;
    struct setup s = new_setup();
    assert_int_equal(next(&s, 0, 0, 0), 50 * MS);
    assert_int_equal(next(&s, 0, 10 * GIB - 1 * GIB, 0), 50 * MS);
    assert_int_equal(next(&s, 0, 10 * GIB - 128 * MIB, 0), 31250 * US);
    assert_int_equal(next(&s, 0, 10 * GIB - 8 * MIB, 0), 1953125);
    assert_int_equal(next(&s, 0, 10 * GIB - 1 * MIB, 0), 250 * US);
    assert_int_equal(next(&s, 0, 10 * GIB - 1, 0), 250 * US);
}

static void unusable_reading_waits_the_base(void **state)
{
    (void)state;
    struct setup s = new_setup();
    const struct bh_schedule_reading reading = {.bound_bytes = 10 * GIB - 1};
    assert_int_equal(
        bh_schedule_next_interval(&s.config, &s.policy, &s.machine, &reading, &s.governor),
        50 * MS);
}

static void breach_is_read_again_at_once(void **state)
{
    (void)state;
    struct setup s = new_setup();
    s.machine.current = BH_POLICY_STATE_WARNING;
    s.machine.breach_streak = 1;
    s.governor.tokens_ns = -(int64_t)BH_NS_PER_S; /* no debt delays it */
    assert_int_equal(next(&s, 0, 10 * GIB, 0), 250 * US);
    s.config.min_interval_ns = 10 * US;
    assert_int_equal(next(&s, 0, 10 * GIB, 0), 250 * US);
    s.config.min_interval_ns = 20 * MS;
    assert_int_equal(next(&s, 0, 10 * GIB, 0), 1 * MS);
    s.config.base_interval_ns = s.config.min_interval_ns = 100 * US;
    assert_int_equal(next(&s, 0, 10 * GIB, 0), 100 * US);
}

static void hold_is_waited_out(void **state)
{
    (void)state;
    struct setup s = new_setup();
    s.policy.breach_hold_ns = 20 * MS;
    s.machine.current = BH_POLICY_STATE_WARNING;
    s.machine.breach_streak = 2;
    s.machine.first_breach_ns = 100 * MS;
    assert_int_equal(next(&s, 101 * MS, 10 * GIB, 0), 19 * MS);
    assert_int_equal(next(&s, 120 * MS, 10 * GIB, 0), 250 * US);
    /* the emergency band is nearer than the end of the hold */
    assert_int_equal(next(&s, 101 * MS, 11 * GIB - 8 * MIB, 0), 1953125);
}

static void only_acting_bands_count(void **state)
{
    (void)state;
    struct setup s = new_setup();
    uint64_t near_limit = 10 * GIB - 8 * MIB;
    uint64_t near_emergency = 11 * GIB - 8 * MIB;
    s.machine.current = BH_POLICY_STATE_CHECKPOINT_REQUESTED;
    assert_int_equal(next(&s, 0, near_limit, 0), 50 * MS);
    assert_int_equal(next(&s, 0, near_emergency, 0), 1953125);
    s.machine.current = BH_POLICY_STATE_TERMINATING;
    assert_int_equal(next(&s, 0, near_emergency, 0), 50 * MS);
    s.policy.growth_kill = true;
    assert_int_equal(next(&s, 0, near_emergency, 0), 1953125);
    s.machine.term_charge_bytes = 12 * GIB;
    assert_int_equal(next(&s, 0, near_emergency, 0), 50 * MS);
    assert_int_equal(next(&s, 0, 12 * GIB - 8 * MIB, 0), 1953125);
    s.machine.current = BH_POLICY_STATE_EMERGENCY;
    assert_int_equal(next(&s, 0, near_emergency, 0), 50 * MS);
    s.machine.current = BH_POLICY_STATE_SUPERVISOR_ERROR;
    assert_int_equal(next(&s, 0, near_emergency, 0), 50 * MS);
    s.machine.current = BH_POLICY_STATE_EXITED;
    assert_int_equal(next(&s, 0, near_emergency, 0), 50 * MS);
    s.policy.mode = BH_POLICY_MODE_OBSERVE;
    s.machine.current = BH_POLICY_STATE_OBSERVE;
    assert_int_equal(next(&s, 0, near_limit, 0), 50 * MS);
}

static void governor_refills_and_caps(void **state)
{
    (void)state;
    struct setup s = new_setup();
    struct bh_governor *g = &s.governor;
    assert_int_equal(g->tokens_ns, 30 * MS);
    bh_governor_pay(&s.config, g, 0, 40 * MS);
    assert_int_equal(g->tokens_ns, -10 * (int64_t)MS);
    /* 10 ms of debt at 1.4 % */
    assert_int_equal(bh_governor_wait_ns(&s.config, g), 714285715);
    bh_governor_pay(&s.config, g, 714285715, 0);
    assert_int_equal(g->tokens_ns, 0);
    assert_int_equal(bh_governor_wait_ns(&s.config, g), 0);
    bh_governor_pay(&s.config, g, 3600 * BH_NS_PER_S, 1 * MS);
    assert_int_equal(g->tokens_ns, 29 * (int64_t)MS); /* never more than the burst saved up */
    bh_governor_pay(&s.config, g, 0, 1 * MS);         /* a clock that went back gives nothing */
    assert_int_equal(g->tokens_ns, 28 * (int64_t)MS);
    bh_governor_pay(&s.config, g, BH_POLICY_MAX, UINT64_MAX);
    bh_governor_pay(&s.config, g, BH_POLICY_MAX, UINT64_MAX);
    bh_governor_pay(&s.config, g, BH_POLICY_MAX, UINT64_MAX);
    assert_true(g->tokens_ns < 0);
    s.config.budget_ppm = 0;
    assert_int_equal(bh_governor_wait_ns(&s.config, g), BH_POLICY_MAX);
}

static void debt_lengthens_the_interval(void **state)
{
    (void)state;
    struct setup s = new_setup();
    uint64_t near = 10 * GIB - 8 * MIB;
    s.governor.tokens_ns = -(int64_t)(140 * US); /* 10 ms at 1.4 % */
    assert_int_equal(next(&s, 0, near, 0), 10 * MS);
    s.governor.tokens_ns = -(int64_t)(14 * MS);
    assert_int_equal(next(&s, 0, near, 0), 50 * MS);
    s.governor.tokens_ns = -1;
    assert_int_equal(next(&s, 0, near, 0), 1953125); /* never shortens */
}

/* 128 MiB/s and 8 MiB away: 62.5 ms to the band, a fourth of that is the most. */
static void real_growth_overrides_debt(void **state)
{
    (void)state;
    struct setup s = new_setup();
    s.governor.tokens_ns = -(int64_t)(14 * MS);
    assert_int_equal(next(&s, 0, 10 * GIB - 8 * MIB, 128 * MIB), 15625 * US);
    assert_int_equal(next(&s, 0, 10 * GIB - 1 * MIB, 128 * MIB), 1953125);
    assert_int_equal(next(&s, 0, 10 * GIB - 64 * 1024, 128 * MIB), 250 * US);
    assert_int_equal(next(&s, 0, 10 * GIB - 1, 128 * MIB), 250 * US);
    assert_int_equal(next(&s, 0, 10 * GIB - 8 * MIB, 4 * GIB), 1953125);
    assert_int_equal(next(&s, 0, 10 * GIB - 8 * MIB, 1), 50 * MS);
}

static void growth_of_two_bounds(void **state)
{
    (void)state;
    assert_int_equal(bh_schedule_growth(0, 0, BH_NS_PER_S, 128 * MIB), 128 * MIB);
    assert_int_equal(bh_schedule_growth(0, 5, 50 * MS, 6), 20);
    assert_int_equal(bh_schedule_growth(0, 6, 50 * MS, 6), 0);
    assert_int_equal(bh_schedule_growth(0, 6, 50 * MS, 5), 0);
    assert_int_equal(bh_schedule_growth(7, 0, 7, 5), 0);
    assert_int_equal(bh_schedule_growth(8, 0, 7, 5), 0);
    assert_int_equal(bh_schedule_growth(0, 0, 1, BH_POLICY_MAX), BH_POLICY_MAX);
}

/* One simulated job against its golden schedule: every reading's time, size and what was decided.
 */
struct job {
    const char *name;
    uint64_t from_bytes;
    uint64_t growth_bytes_s; /* until it is stopped */
    uint64_t top_bytes;      /* growth ends here */
    uint64_t cost_ns;        /* CPU of one reading */
};

static const struct job jobs[] = {
    {"ramp_128_mib_s", 10 * GIB - 512 * MIB, 128 * MIB, BH_POLICY_MAX, 30 * US},
    {"step_2560_mib_s", 9 * GIB, 2560 * MIB, BH_POLICY_MAX, 30 * US},
    {"hover_8_mib_below", 10 * GIB - 8 * MIB, 0, BH_POLICY_MAX, 30 * US},
    {"hover_expensive", 10 * GIB - 1 * MIB, 0, BH_POLICY_MAX, 500 * US},
    {"idle", 1 * GIB, 0, BH_POLICY_MAX, 100 * US},
};

static uint64_t size_at(const struct job *job, uint64_t at_ns)
{
    uint64_t grown = (uint64_t)((bh_u128)job->growth_bytes_s * at_ns / BH_NS_PER_S);
    return grown < job->top_bytes - job->from_bytes ? job->from_bytes + grown : job->top_bytes;
}

struct outcome {
    uint64_t readings;
    uint64_t overshoot_bytes;
    double core_percent;
    bool stopped;
};

/* Lines of a golden: time, size, tokens left, interval chosen. */
#define MAX_LINES 400

static struct outcome simulate(const struct job *job, uint64_t span_ns, struct bh_bytes *lines)
{
    struct setup s = new_setup();
    struct outcome outcome = {0};
    uint64_t now = 0;
    uint64_t earlier_at = 0;
    uint64_t earlier_bytes = size_at(job, 0);
    while (now < span_ns && !outcome.stopped) {
        uint64_t bytes = size_at(job, now);
        const struct bh_policy_event event = {
            .kind = BH_POLICY_EVENT_SAMPLE,
            .at_ns = now,
            .sample = {.captured_at_ns = now, .has_bytes = true, .bytes = bytes}};
        struct bh_policy_actions actions;
        bh_policy_step(&s.policy, &s.machine, &event, &actions);
        outcome.readings++;
        outcome.stopped = s.machine.started;
        outcome.overshoot_bytes = bytes > 10 * GIB ? bytes - 10 * GIB : 0;
        bh_governor_pay(&s.config, &s.governor, now, job->cost_ns);
        uint64_t growth = bh_schedule_growth(earlier_at, earlier_bytes, now, bytes);
        uint64_t interval = next(&s, now, bytes, growth);
        if (lines && outcome.readings <= MAX_LINES)
            bh_bytes_printf(lines, "%llu %llu %lld %llu\n", (unsigned long long)now,
                            (unsigned long long)bytes, (long long)s.governor.tokens_ns,
                            (unsigned long long)interval);
        earlier_at = now;
        earlier_bytes = bytes;
        now += interval;
    }
    outcome.core_percent = 100.0 * (double)(outcome.readings * job->cost_ns) / (double)now;
    return outcome;
}

static void simulated_jobs(void **state)
{
    (void)state;
    struct outcome ramp = simulate(&jobs[0], 60 * BH_NS_PER_S, NULL);
    assert_true(ramp.stopped && ramp.overshoot_bytes < 100 * 1024 && ramp.core_percent < 0.6);
    struct outcome step = simulate(&jobs[1], 60 * BH_NS_PER_S, NULL);
    assert_true(step.stopped && step.overshoot_bytes < 1536 * 1024);
    struct outcome hover = simulate(&jobs[2], 60 * BH_NS_PER_S, NULL);
    assert_true(!hover.stopped && hover.core_percent < 1.8);
    struct outcome expensive = simulate(&jobs[3], 60 * BH_NS_PER_S, NULL);
    assert_true(!expensive.stopped && expensive.core_percent < 1.8);
    struct outcome idle = simulate(&jobs[4], 60 * BH_NS_PER_S, NULL);
    assert_true(!idle.stopped && idle.core_percent < 0.25 && idle.readings == 1200);
}

/* BH_GOLDEN_UPDATE is set by tests/golden/schedule/update.sh alone. */
static void golden_schedules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        struct bh_bytes lines = {0};
        struct bh_bytes expected = {0};
        char path[512];
        snprintf(path, sizeof path, BH_SOURCE_DIR "/tests/golden/schedule/%s.txt", jobs[i].name);
        (void)simulate(&jobs[i], 10 * BH_NS_PER_S, &lines);
        FILE *file = fopen(path, getenv("BH_GOLDEN_UPDATE") ? "w+e" : "re");
        assert_non_null(file);
        if (getenv("BH_GOLDEN_UPDATE")) {
            assert_int_equal(fwrite(lines.data, 1, lines.length, file), lines.length);
            rewind(file);
        }
        unsigned char *room = bh_bytes_reserve(&expected, lines.length + 1);
        assert_non_null(room);
        expected.length = fread(room, 1, lines.length + 1, file);
        fclose(file);
        assert_int_equal(expected.length, lines.length);
        assert_memory_equal(expected.data, lines.data, lines.length);
        bh_bytes_done(&lines);
        bh_bytes_done(&expected);
    }
}

static bool is_far(const struct setup *s, uint64_t bytes, bool has_bound)
{
    const struct bh_schedule_reading reading = {.bound_bytes = bytes, .has_bound = has_bound};
    return bh_schedule_is_far(&s->config, &s->policy, &s->machine, &reading);
}

static void far_leaves_room_for_two_intervals(void **state)
{
    (void)state;
    struct setup s = new_setup();
    uint64_t room = 4 * GIB / 10; /* 4 GiB/s for 100 ms */
    uint64_t warning = s.policy.bands.warning_bytes;
    assert_true(is_far(&s, 0, true));
    assert_true(is_far(&s, warning - room, true));
    assert_false(is_far(&s, warning - room + 1, true));
    assert_false(is_far(&s, warning, true));
    assert_false(is_far(&s, 2 * warning, true));
    assert_false(is_far(&s, 0, false));
    s.machine.current = BH_POLICY_STATE_TERMINATING;
    assert_false(is_far(&s, 0, true));
    s.machine.current = BH_POLICY_STATE_OBSERVE;
    assert_true(is_far(&s, 2 * warning, true));
    assert_false(is_far(&s, 0, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(far_leaves_room_for_two_intervals),
        cmocka_unit_test(headroom_sets_the_interval),
        cmocka_unit_test(unusable_reading_waits_the_base),
        cmocka_unit_test(breach_is_read_again_at_once),
        cmocka_unit_test(hold_is_waited_out),
        cmocka_unit_test(only_acting_bands_count),
        cmocka_unit_test(governor_refills_and_caps),
        cmocka_unit_test(debt_lengthens_the_interval),
        cmocka_unit_test(real_growth_overrides_debt),
        cmocka_unit_test(growth_of_two_bounds),
        cmocka_unit_test(simulated_jobs),
        cmocka_unit_test(golden_schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
