/* Members that do not run are not read again at each look, and nothing is missed by that: where the
 * bands are near, where others hand them pages, and where somebody runs in their memory. */
#include <signal.h>

#include "super_fixture.h"

#define S  BH_NS_PER_S
#define MS BH_NS_PER_MS

static void test_who_does_not_run_is_not_read_each_time(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->sleeps = true;
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 10 * S));
    assert_true(fixture->loop->account.complete_samples >= 190);
    assert_in_range(fixture->fake.fast_readings, 10, 12);
    assert_in_range(fixture->fake.rest_readings, 2, 4);
    assert_int_equal(fixture->loop->account.charge.value, 100 * MIB);
    fixture_free(fixture);
}

static void test_who_runs_is_read_each_time(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 10 * S));
    assert_true(fixture->fake.fast_readings >= fixture->loop->account.complete_samples);
    assert_in_range(fixture->fake.rest_readings, 10, 12);
    fixture_free(fixture);
}

static void hand_pages(void *context)
{
    struct fixture *fixture = context;
    fixture->root->anon_bytes += 200 * MIB;
}

static void test_pages_handed_to_a_sleeper_are_seen_within_a_second(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->sleeps = true;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 2 * S + 10 * MS, hand_pages, fixture);
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 3 * S + 100 * MS));
    assert_in_range(fixture->loop->account.charge.value, 300 * MIB, 301 * MIB); /* and tables */
    fixture_free(fixture);
}

static void test_near_a_band_everybody_is_read_each_time(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->sleeps = true;
    fixture->root->anon_bytes = 900 * MIB;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 2 * S, hand_pages, fixture);
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 1900 * MS));
    assert_true(fixture_run(fixture, 200 * MS));
    assert_int_equal(fixture_outcome(fixture)->kind, BH_OUTCOME_POLICY_INTERVENTION);
    fixture_free(fixture);
}

static void test_who_runs_in_anothers_memory_is_seen_there(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->sleeps = true;
    bh_fake_fork(&fixture->fake, 600, ROOT_PID)->borrows_from = ROOT_PID;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 2 * S, hand_pages, fixture);
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 2 * S + 100 * MS));
    assert_int_equal(fixture->loop->account.charge.value, 300 * MIB);
    fixture_free(fixture);
}

static void end_child(void *context)
{
    struct fixture *fixture = context;
    bh_fake_end(&fixture->fake, 600, 0);
    fixture->fake.pending_signals |= 1ull << (SIGCHLD - 1);
}

static void test_who_is_reaped_is_no_longer_counted(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->sleeps = true;
    struct bh_fake_process *child = bh_fake_add(&fixture->fake, 600, getpid());
    child->sleeps = true;
    child->anon_bytes = 50 * MIB;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 2 * S + 100 * MS, end_child, fixture);
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 2 * S));
    assert_int_equal(fixture->loop->account.charge.value, 150 * MIB);
    assert_false(fixture_run(fixture, 200 * MS));
    assert_int_equal(fixture->loop->account.charge.value, 100 * MIB);
    fixture_free(fixture);
}

static void fail_readings(void *context)
{
    struct fixture *fixture = context;
    bh_fake_find(&fixture->fake, 600)->zero_reading = true;
}

/* A reading that failed holds for nobody, however still its process stands. */
static void test_a_failed_reading_does_not_hold(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    struct bh_fake_process *child = bh_fake_add(&fixture->fake, 600, ROOT_PID);
    child->sleeps = true;
    child->anon_bytes = 10 * MIB;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 2 * S, fail_readings, fixture);
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 1900 * MS));
    assert_true(fixture_run(fixture, 2 * S));
    assert_true(fixture->loop->account.incomplete_samples >= 3);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_does_not_run_is_not_read_each_time),
        cmocka_unit_test(test_who_runs_is_read_each_time),
        cmocka_unit_test(test_pages_handed_to_a_sleeper_are_seen_within_a_second),
        cmocka_unit_test(test_near_a_band_everybody_is_read_each_time),
        cmocka_unit_test(test_who_runs_in_anothers_memory_is_seen_there),
        cmocka_unit_test(test_who_is_reaped_is_no_longer_counted),
        cmocka_unit_test(test_a_failed_reading_does_not_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
