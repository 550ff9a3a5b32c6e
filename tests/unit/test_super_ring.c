/* The kernel ring on the scripted machine: what its own sum leaves out, the brake, large trees. */
#include <signal.h>

#include "super_fixture.h"

#define S  BH_NS_PER_S
#define MS BH_NS_PER_MS

static struct fixture *ring_new(uint64_t group_bytes)
{
    struct fixture *fixture = fixture_new();
    fixture->fake.cgroup_memory = true;
    fixture->fake.cgroup_bytes = group_bytes;
    return fixture;
}

static void ring_launch(struct fixture *fixture)
{
    fixture_init_loop(fixture);
    bh_loop_make_cgroup(fixture->loop);
    assert_int_equal(bh_loop_launched(fixture->loop, ROOT_PID, NULL), BH_OK);
}

/* ---- huge pages and rings ---------------------------------------------------------------------
 */

static void test_huge_pages_of_members_are_added(void **state)
{
    (void)state;
    for (int counted = 0; counted < 2; counted++) {
        struct fixture *fixture = ring_new(100 * MIB);
        fixture->fake.cgroup_without_huge = !counted;
        fixture->root->huge_bytes = 300 * MIB;
        ring_launch(fixture);
        assert_false(fixture_run(fixture, S));
        /* a group that counts them itself has them among its bytes already */
        assert_int_equal(fixture->loop->account.charge.value, (counted ? 100 : 400) * MIB);
        assert_int_equal(fixture->fake.rollups, 0);
        fixture_free(fixture);
    }
}

/* Four workers on one segment of huge pages: each of them maps it all. */
static void map_shared_huge(struct fixture *fixture)
{
    fixture->fake.cgroup_without_huge = true;
    for (int i = 0; i < 4; i++) {
        struct bh_fake_process *worker = bh_fake_add(&fixture->fake, 600 + i, ROOT_PID);
        worker->huge_bytes = 600 * MIB;
        worker->shared_hugetlb_bytes = 590 * MIB;
        worker->private_hugetlb_bytes = 10 * MIB;
    }
}

static void test_shared_huge_pages_are_no_breach(void **state)
{
    (void)state;
    struct fixture *fixture = ring_new(100 * MIB);
    map_shared_huge(fixture);
    ring_launch(fixture);
    assert_false(fixture_run(fixture, 3 * S));
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    assert_int_equal(fixture->loop->account.peak.value, (100 + 590 + 40) * MIB);
    fixture_free(fixture);
}

static void copy_huge(void *context)
{
    struct fixture *fixture = context;
    for (int i = 0; i < 4; i++) {
        struct bh_fake_process *worker = bh_fake_find(&fixture->fake, 600 + i);
        worker->shared_hugetlb_bytes = 400 * MIB; /* as many mapped pages as before */
        worker->private_hugetlb_bytes = 200 * MIB;
    }
}

static void test_copies_of_shared_huge_pages_are_seen(void **state)
{
    (void)state;
    struct fixture *fixture = ring_new(100 * MIB);
    map_shared_huge(fixture);
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 2 * S, copy_huge, fixture);
    ring_launch(fixture);
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_EMERGENCY);
    fixture_free(fixture);
}

static void take_huge(void *context)
{
    bh_fake_find(&((struct fixture *)context)->fake, 600)->huge_bytes += 700 * MIB;
}

static void test_growth_of_huge_pages_is_not_taken_for_shared(void **state)
{
    (void)state;
    struct fixture *fixture = ring_new(100 * MIB);
    map_shared_huge(fixture);
    fixture->fake.rollup_error = BH_E_PERMISSION;
    for (int i = 0; i < 4; i++) /* 400 MiB, whoever may share them */
        bh_fake_find(&fixture->fake, 600 + i)->huge_bytes = 100 * MIB;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 2 * S, take_huge, fixture);
    ring_launch(fixture);
    assert_false(fixture_run(fixture, S));
    assert_int_equal(fixture->loop->account.charge.value, 500 * MIB);
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(fixture_outcome(fixture)->kind, BH_OUTCOME_POLICY_INTERVENTION);
    fixture_free(fixture);
}

/* The recorder's rings are shared memory that the job itself took. */
static void test_rings_are_taken_off(void **state)
{
    (void)state;
    struct fixture *fixture = ring_new(300 * MIB);
    fixture_init_loop(fixture);
    bh_loop_make_cgroup(fixture->loop);
    struct bh_sampler *sampler = &fixture->loop->sampler;
    struct bh_mono captured = {0};
    sampler->ring_bytes = 8 * MIB;
    fixture->fake.cgroup_shmem_bytes = 50 * MIB;
    assert_true(bh_sampler_take_kernel(sampler, NULL, &captured));
    assert_int_equal(sampler->total.bound_bytes, 292 * MIB);
    /* never more than there is shared memory at all */
    fixture->fake.cgroup_shmem_bytes = 3 * MIB;
    assert_true(bh_sampler_take_kernel(sampler, NULL, &captured));
    assert_int_equal(sampler->total.bound_bytes, 297 * MIB);
    fixture_free(fixture);
}

/* ---- who left the group, and who the group killed ----------------------------------------------
 */

static void leave_group(void *context)
{
    bh_fake_find(&((struct fixture *)context)->fake, 600)->left_cgroup = true;
}

static void test_whoever_leaves_the_group_is_counted_on_top(void **state)
{
    (void)state;
    struct fixture *fixture = ring_new(300 * MIB);
    bh_fake_add(&fixture->fake, 600, ROOT_PID)->anon_bytes = 500 * MIB;
    ring_launch(fixture);
    assert_false(fixture_run(fixture, 3 * S));
    assert_int_equal(fixture->loop->account.charge.value, 300 * MIB);
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 1, leave_group, fixture);
    assert_false(fixture_run(fixture, 3 * S));
    assert_int_equal(fixture->loop->account.charge.value, 800 * MIB);
    bh_fake_find(&fixture->fake, 600)->growth_bytes_s = (int64_t)GIB;
    bh_fake_find(&fixture->fake, 600)->grows_from_ns = fixture->fake.clock.ns;
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(fixture_outcome(fixture)->kind, BH_OUTCOME_POLICY_INTERVENTION);
    fixture_free(fixture);
}

/* memory.oom.group takes the root with the others; it can be gone before they are. */
static void test_the_wall_is_the_emergency_band_also_when_the_root_goes_first(void **state)
{
    (void)state;
    struct fixture *fixture = ring_new(100 * MIB);
    fixture->root->ends_at_ns = fixture->fake.clock.ns + S;
    fixture->root->ends_with = SIGKILL;
    bh_fake_add(&fixture->fake, 600, ROOT_PID)->ends_at_ns = fixture->fake.clock.ns + 2 * S;
    ring_launch(fixture);
    fixture->fake.cgroup_events.oom_kills = 2;
    assert_true(fixture_run(fixture, 10 * S));
    fixture_expect_signal(fixture, 0, SIGTERM, "root_exited");
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_EMERGENCY);
    assert_int_equal(fixture_outcome(fixture)->reported_exit_code, 75);
    fixture_free(fixture);
}

/* ---- the brake --------------------------------------------------------------------------------
 */

static struct fixture *braked_new(uint64_t group_bytes)
{
    struct fixture *fixture = ring_new(group_bytes);
    fixture->spec.brake = true;
    return fixture;
}

/* memory.high was reached, and what cannot be taken back stands there. */
static void hold_up(void *context)
{
    struct fixture *fixture = context;
    fixture->fake.cgroup_events.highs += 3;
    fixture->fake.cgroup_held_bytes = GIB + MIB;
}

static void test_a_job_that_is_held_at_the_limit_breaches_it(void **state)
{
    (void)state;
    struct fixture *fixture = braked_new(1000 * MIB); /* 24 MiB of it are the kernel's own */
    fixture->spec.checkpoint_kind = BH_CHECKPOINT_NONE;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + S, hold_up, fixture);
    ring_launch(fixture);
    assert_int_equal(fixture->fake.cgroup_high, GIB);
    assert_string_equal(bh_loop_mechanism(fixture->loop), "cgroup_v2 memory.max, memory.high");
    assert_false(fixture_run(fixture, S - MS));
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    assert_true(fixture_run(fixture, S));
    fixture_expect_signal(fixture, 0, SIGTERM, "not_negotiated");
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_LIMIT_EXCEEDED);
    assert_int_equal(fixture_get(fixture, BH_RECORD_LIMIT_CROSSED, 0)->limit_crossed.bytes,
                     GIB + MIB);
    assert_int_equal(fixture_outcome(fixture)->decision_overshoot_bytes, MIB);
    /* let go once the signal was out, the wall stays */
    assert_int_equal(fixture->fake.cgroup_high, 0);
    assert_int_equal(fixture->fake.cgroup_max, fixture->spec.emergency_bytes);
    fixture_free(fixture);
}

/* A job that reads files: the kernel takes page cache back, over and over. */
static void test_page_cache_at_the_limit_is_no_breach(void **state)
{
    (void)state;
    struct fixture *fixture = braked_new(800 * MIB);
    fixture->fake.cgroup_held_bytes = 990 * MIB; /* with much kernel memory */
    ring_launch(fixture);
    for (int i = 0; i < 100; i++) {
        fixture->fake.cgroup_events.highs += 40;
        assert_false(fixture_run(fixture, 10 * MS));
    }
    assert_int_equal(fixture_count(fixture, BH_RECORD_TRANSITION), 0);
    assert_int_equal(fixture->loop->account.peak.value, 800 * MIB);
    assert_int_equal(fixture->fake.cgroup_high, GIB);
    fixture_free(fixture);
}

/* What a group holds says nothing where nothing holds it up. */
static void test_what_is_held_counts_with_a_brake_only(void **state)
{
    (void)state;
    struct fixture *fixture = ring_new(800 * MIB);
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 100 * MS, hold_up, fixture);
    ring_launch(fixture);
    assert_false(fixture_run(fixture, S));
    assert_int_equal(fixture_count(fixture, BH_RECORD_TRANSITION), 0);
    fixture_free(fixture);
}

/* A descriptor that is ready, as memory.events is, does not wait for the next reading's time. */
static void test_the_event_brings_the_reading_forward(void **state)
{
    (void)state;
    struct fixture *fixture = braked_new(100 * MIB); /* far below: readings 50 ms apart */
    fixture->spec.breach_count = 1000;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    (void)close(ends[0]); /* a pipe without a reader is ready, whatever is waited for */
    fixture->fake.cgroup_events_fd = ends[1];
    ring_launch(fixture);
    assert_false(fixture_run(fixture, S));
    uint64_t before = fixture->loop->account.complete_samples;
    struct bh_mono next = fixture->loop->next_sample;
    assert_true(next.ns > fixture->fake.clock.ns + 10 * MS);
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 2 * MS, hold_up, fixture);
    assert_false(fixture_run(fixture, 3 * MS));
    assert_true(fixture->loop->account.complete_samples > before);
    assert_true(fixture->loop->account.peak.value >= GIB);
    fixture_free(fixture);
    (void)close(ends[1]);
}

static void test_a_brake_follows_the_limit_until_the_job_is_stopped(void **state)
{
    (void)state;
    struct fixture *fixture = braked_new(100 * MIB);
    fixture->root->term_after_ns = S / 2;
    ring_launch(fixture);
    fixture->loop->config.bands.limit_bytes = 2 * GIB;
    bh_loop_follow_limits(fixture->loop);
    assert_int_equal(fixture->fake.cgroup_high, 2 * GIB);
    struct bh_policy_event stop = {.kind = BH_POLICY_EVENT_STOP_REQUEST,
                                   .at_ns = bh_loop_policy_time(fixture->loop, fixture->fake.clock),
                                   .stop = BH_POLICY_STOP_TERM};
    bh_loop_feed(fixture->loop, &stop);
    assert_int_equal(fixture->fake.cgroup_high, 0);
    bh_loop_follow_limits(fixture->loop); /* a limit that changes now brings no brake back */
    assert_int_equal(fixture->fake.cgroup_high, 0);
    assert_true(fixture_run(fixture, 5 * S));
    fixture_free(fixture);
}

static void test_a_brake_needs_a_group_and_a_limit(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->spec.brake = true;
    ring_launch(fixture);
    assert_false(fixture->loop->braked);
    assert_string_equal(bh_loop_mechanism(fixture->loop), "");
    fixture_free(fixture);
    fixture = braked_new(2 * GIB);
    fixture->spec.mode = BH_MODE_OBSERVE;
    fixture->spec.limit_bytes = 0;
    ring_launch(fixture);
    assert_false(fixture->loop->braked);
    assert_int_equal(fixture->fake.cgroup_high, 0);
    fixture_free(fixture);
}

/* ---- large trees ------------------------------------------------------------------------------
 */

#define MANY      (BH_MEMBERS_MAX + 100)
#define FIRST_PID 5000000 /* above every pid_max: none of them is this test's own */

static void add_many(struct fixture *fixture)
{
    for (int i = 0; i < MANY; i++) {
        struct bh_fake_process *child = bh_fake_add(&fixture->fake, FIRST_PID + i, ROOT_PID);
        child->anon_bytes = 4096;
        child->term_after_ns = MS;
    }
}

static void test_more_than_the_table_holds_fails_closed_and_says_why(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    add_many(fixture);
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 60 * S));
    fixture_expect_signal(fixture, 0, SIGTERM, "observation_failed");
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_OBSERVATION_FAILED);
    assert_int_equal(fixture_outcome(fixture)->reported_exit_code, 70);
    assert_int_equal(fixture_outcome(fixture)->error, BH_E_TOO_MANY_PROCESSES);
    fixture_free(fixture);
}

static void test_out_of_descriptors_is_told_from_too_many(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, S));
    fixture->fake.open_error = BH_E_NOSPACE;
    bh_fake_add(&fixture->fake, 600, ROOT_PID)->ends_at_ns = fixture->fake.clock.ns + 5 * S;
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_OBSERVATION_FAILED);
    assert_int_equal(fixture_outcome(fixture)->error, BH_E_NOSPACE);
    fixture_free(fixture);
}

/* Reading all of them takes longer than a reading may; the group's sum is of one instant. */
static void test_members_that_take_long_to_read_do_not_age_the_sum(void **state)
{
    (void)state;
    for (int ring = 0; ring < 2; ring++) {
        struct fixture *fixture = ring ? ring_new(300 * MIB) : fixture_new();
        for (int i = 0; i < 300; i++)
            bh_fake_add(&fixture->fake, 600 + i, ROOT_PID)->term_after_ns = MS;
        fixture->fake.fast_cost_ns = MS; /* the window is 250 ms */
        ring_launch(fixture);
        assert_int_equal(fixture_run(fixture, 5 * S), !ring);
        assert_int_equal(fixture->loop->outcome.cause, ring ? 0 : BH_CAUSE_OBSERVATION_FAILED);
        assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL) > 0, !ring);
        fixture_free(fixture);
    }
}

static void grow_group(void *context)
{
    ((struct fixture *)context)->fake.cgroup_bytes = 2 * GIB;
}

/* The group's own sum misses nobody, and its KILL reaches everybody. */
static void test_a_ring_watches_more_than_the_table_holds(void **state)
{
    (void)state;
    struct fixture *fixture = ring_new(300 * MIB);
    add_many(fixture);
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 2 * S, grow_group, fixture);
    ring_launch(fixture);
    assert_false(fixture_run(fixture, S));
    assert_true(fixture->loop->members.incomplete);
    assert_int_equal(fixture_count(fixture, BH_RECORD_TRANSITION), 0);
    assert_int_equal(fixture->loop->account.charge.status, BH_VALUE_AVAILABLE);
    assert_int_equal(fixture->loop->account.charge.value, 300 * MIB);
    assert_int_equal(fixture->loop->account.incomplete_samples, 0);
    assert_true(fixture_run(fixture, 10 * S));
    assert_true(fixture->fake.cgroup_kills >= 1);
    /* of the loop: so many members leave more records than the fixture keeps */
    assert_int_equal(fixture->loop->outcome.cause, BH_CAUSE_EMERGENCY);
    assert_int_equal(fixture->loop->outcome.error, 0);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_huge_pages_of_members_are_added),
        cmocka_unit_test(test_shared_huge_pages_are_no_breach),
        cmocka_unit_test(test_copies_of_shared_huge_pages_are_seen),
        cmocka_unit_test(test_growth_of_huge_pages_is_not_taken_for_shared),
        cmocka_unit_test(test_rings_are_taken_off),
        cmocka_unit_test(test_whoever_leaves_the_group_is_counted_on_top),
        cmocka_unit_test(test_the_wall_is_the_emergency_band_also_when_the_root_goes_first),
        cmocka_unit_test(test_a_job_that_is_held_at_the_limit_breaches_it),
        cmocka_unit_test(test_page_cache_at_the_limit_is_no_breach),
        cmocka_unit_test(test_what_is_held_counts_with_a_brake_only),
        cmocka_unit_test(test_the_event_brings_the_reading_forward),
        cmocka_unit_test(test_a_brake_follows_the_limit_until_the_job_is_stopped),
        cmocka_unit_test(test_a_brake_needs_a_group_and_a_limit),
        cmocka_unit_test(test_more_than_the_table_holds_fails_closed_and_says_why),
        cmocka_unit_test(test_out_of_descriptors_is_told_from_too_many),
        cmocka_unit_test(test_members_that_take_long_to_read_do_not_age_the_sum),
        cmocka_unit_test(test_a_ring_watches_more_than_the_table_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
