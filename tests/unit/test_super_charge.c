/* What the loop charges a tree with: sharers, copy-on-write, vfork, exits, the kernel ring. */
#include <signal.h>

#include "super_fixture.h"

#define S  BH_NS_PER_S
#define MS BH_NS_PER_MS

static void test_forked_idle_workers_are_not_touched(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = 800 * MIB;
    fixture->root->pss_bytes = 50 * MIB;
    for (int i = 0; i < 16; i++)
        bh_fake_fork(&fixture->fake, 600 + i, ROOT_PID)->pss_bytes = 50 * MIB;
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 5 * S));
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    assert_true(fixture->loop->sampler.exact_rounds >= 1);
    assert_true(fixture->loop->account.peak.value < GIB);
    fixture_free(fixture);
}

static void write_pages(void *context)
{
    struct fixture *fixture = context;
    /* each worker writes 100 MiB of what it shared: no more anonymous memory, only faults */
    for (int i = 0; i < 16; i++) {
        struct bh_fake_process *worker = bh_fake_find(&fixture->fake, 600 + i);
        worker->minflt += 100 * MIB / 4096;
        worker->pss_bytes += 100 * MIB;
    }
}

static void test_hidden_copy_on_write_is_seen(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = 800 * MIB;
    fixture->root->pss_bytes = 50 * MIB;
    for (int i = 0; i < 16; i++)
        bh_fake_fork(&fixture->fake, 600 + i, ROOT_PID)->pss_bytes = 50 * MIB;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + S, write_pages, fixture);
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(fixture_get(fixture, BH_RECORD_SIGNAL, 0)->signal.reached, 17);
    fixture_free(fixture);
}

static void add_newborn(void *context)
{
    struct fixture *fixture = context;
    bh_fake_fork(&fixture->fake, 600, ROOT_PID)->pss_bytes = 400 * MIB;
    fixture->root->pss_bytes = 400 * MIB;
}

static void write_as_parent(void *context)
{
    struct fixture *fixture = context;
    /* what the parent writes leaves old copies with the child: only faults show it */
    fixture->root->minflt += 500 * MIB / 4096;
    fixture->root->pss_bytes = 800 * MIB;
    bh_fake_find(&fixture->fake, 600)->pss_bytes = 500 * MIB;
}

static void test_a_newborn_fork_is_no_second_copy(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = 800 * MIB;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + S, add_newborn, fixture);
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 3 * S));
    assert_int_equal(fixture_count(fixture, BH_RECORD_TRANSITION), 0);
    assert_true(fixture->loop->account.peak.value < 810 * MIB);
    fixture_free(fixture);
}

static void test_what_the_parent_writes_after_a_fork_is_seen(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = 800 * MIB;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + S, add_newborn, fixture);
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 2 * S, write_as_parent, fixture);
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(fixture_get(fixture, BH_RECORD_SIGNAL, 0)->signal.reached, 2);
    fixture_free(fixture);
}

/* Programs of their own on one segment of huge pages: no relatives, no shared memory of tmpfs. */
static void test_a_segment_of_huge_pages_counts_once(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->pss_bytes = 100 * MIB;
    for (int i = 0; i < 4; i++) {
        struct bh_fake_process *worker = bh_fake_add(&fixture->fake, 600 + i, ROOT_PID);
        worker->huge_bytes = worker->shared_hugetlb_bytes = 600 * MIB;
    }
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 3 * S));
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    assert_int_equal(fixture->loop->account.peak.value, 700 * MIB);
    fixture_free(fixture);
}

static void test_vfork_child_is_not_counted_twice(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = 700 * MIB;
    bh_fake_fork(&fixture->fake, 600, ROOT_PID)->borrows_from = ROOT_PID;
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, S));
    assert_int_equal(fixture->loop->account.peak.value, 700 * MIB);
    assert_int_equal(fixture->fake.rollups, 0);
    fixture_free(fixture);
}

static void test_refused_rollup_lets_the_sum_decide(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = 600 * MIB;
    bh_fake_fork(&fixture->fake, 600, ROOT_PID);
    fixture->fake.rollup_error = BH_E_PERMISSION;
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, S));
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_EMERGENCY);
    assert_true(fixture_outcome(fixture)->rollups_refused >=
                2); /* and it says why the sum decided */
    fixture_free(fixture);
}

static void test_exiting_member_keeps_its_last_charge(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, S));
    fixture->root->exiting = true;
    assert_false(fixture_run(fixture, S));
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    assert_int_equal(fixture->loop->account.charge.value, 100 * MIB);
    fixture_free(fixture);
}

static void add_sharer(void *context)
{
    struct fixture *fixture = context;
    int next = 600 + (int)(fixture->fake.count - 1);
    bh_fake_fork(&fixture->fake, next, ROOT_PID);
    /* the truth stays 100 MiB: each holds its part of it */
    uint64_t part = 100 * MIB / fixture->fake.count;
    for (size_t i = 0; i < fixture->fake.count; i++)
        fixture->fake.processes[i].pss_bytes = part;
}

static void test_peak_does_not_creep_with_sharers(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->spec.limit_bytes = 100 * GIB;
    fixture->root->pss_bytes = 100 * MIB;
    for (uint64_t i = 1; i <= 20; i++)
        bh_fake_at(&fixture->fake, fixture->fake.clock.ns + i * 100 * MS, add_sharer, fixture);
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 4 * S));
    assert_true(fixture->loop->account.peak.value <= 104 * MIB);
    assert_true(fixture->loop->account.peak_growth_per_s < 1024); /* rounding of the parts */
    fixture_free(fixture);
}

static void exec_sharer(void *context)
{
    struct fixture *fixture = context;
    struct bh_fake_process *child = bh_fake_find(&fixture->fake, 600);
    child->image = 999;
    child->anon_bytes = 10 * MIB;
}

static void test_what_an_exec_leaves_behind_is_counted(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = 400 * MIB;
    fixture->root->pss_bytes = 200 * MIB;
    bh_fake_fork(&fixture->fake, 600, ROOT_PID)->pss_bytes = 200 * MIB;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + S, exec_sharer, fixture);
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 500 * MS));
    assert_int_equal(fixture->loop->account.charge.value, 400 * MIB);
    assert_false(fixture_run(fixture, S));
    /* the parent owns alone what it shared: 400 of its own and the 10 of the new program */
    assert_int_equal(fixture->loop->account.charge.value, 410 * MIB);
    fixture_free(fixture);
}

/* A steady ramp makes each new peak a little higher than the last: the breakdown follows all the
 * same. */
static void test_members_at_the_peak_add_up_to_it(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->growth_bytes_s = 8 * (int64_t)MIB;
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 30 * S));
    const struct bh_account *account = &fixture->loop->account;
    assert_true(account->peak.value > 330 * MIB);
    assert_int_equal(account->peak_member_count, 1);
    assert_in_range(account->peak_members[0].bytes, account->peak.value * 98 / 100,
                    account->peak.value);
    fixture_free(fixture);
}

static void give_back(void *context)
{
    struct fixture *fixture = context;
    fixture->root->anon_bytes = fixture->root->pss_bytes = 0;
    bh_fake_find(&fixture->fake, 600)->pss_bytes = 800 * MIB;
}

/* The root is read while it shares, the child when it holds everything alone: 400 + 800 of 800. */
static void test_pages_given_back_within_a_round_count_once(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = 800 * MIB;
    fixture->root->pss_bytes = 400 * MIB;
    bh_fake_fork(&fixture->fake, 600, ROOT_PID)->pss_bytes = 400 * MIB;
    fixture->fake.rollup_cost_ns = 5 * MS;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + 2 * MS, give_back, fixture);
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 3 * S));
    assert_true(fixture->fake.rollups >= 3);
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    assert_true(fixture->loop->account.peak.value <= 810 * MIB);
    fixture_free(fixture);
}

static void test_kernel_ring_decides_and_needs_no_round(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->fake.cgroup_memory = true;
    fixture->fake.cgroup_bytes = 300 * MIB;
    fixture->root->anon_bytes = 800 * MIB;
    for (int i = 0; i < 4; i++)
        bh_fake_fork(&fixture->fake, 600 + i, ROOT_PID);
    fixture_init_loop(fixture);
    bh_loop_make_cgroup(fixture->loop);
    assert_int_equal(fixture->fake.cgroup_max, fixture->spec.emergency_bytes);
    assert_int_equal(fixture->fake.cgroup_high, 0);
    assert_true(bh_loop_kernel_enforced(fixture->loop));
    assert_int_equal(bh_loop_launched(fixture->loop, ROOT_PID, NULL), BH_OK);
    assert_false(fixture_run(fixture, S));
    assert_int_equal(fixture->loop->account.charge.value, 300 * MIB);
    assert_int_equal(fixture->fake.rollups, 0);
    fixture->fake.cgroup_bytes = 2 * GIB;
    assert_true(fixture_run(fixture, S));
    assert_int_equal(fixture->fake.cgroup_kills, 1);
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_EMERGENCY);
    fixture_free(fixture);
}

static void test_kernel_ring_leaves_ending_to_term(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->fake.cgroup_memory = true;
    fixture->spec.emergency_action = BH_EMERGENCY_TERM;
    fixture->spec.brake = true;
    fixture_init_loop(fixture);
    bh_loop_make_cgroup(fixture->loop);
    assert_int_equal(fixture->fake.cgroup_max, 0);
    assert_int_equal(fixture->fake.cgroup_high, GIB);
    assert_false(bh_loop_kernel_enforced(fixture->loop));
    fixture_free(fixture);
}

static void test_kernel_oom_is_told_from_a_strangers_kill(void **state)
{
    (void)state;
    for (int oom = 0; oom < 2; oom++) {
        struct fixture *fixture = fixture_new();
        fixture->root->ends_at_ns = fixture->fake.clock.ns + S;
        fixture->root->ends_with = SIGKILL;
        fixture_launch(fixture);
        fixture->fake.oom_kills = (uint64_t)oom;
        assert_true(fixture_run(fixture, 10 * S));
        assert_int_equal(fixture_outcome(fixture)->cause,
                         oom ? BH_CAUSE_KERNEL_OOM : BH_CAUSE_KILLED_BY_OTHER);
        fixture_free(fixture);
    }
}

/* memory.max is our emergency band: the kernel's kill at it is no strange one. */
static void test_the_ring_itself_is_the_emergency_band(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->fake.cgroup_memory = true;
    fixture->fake.cgroup_bytes = 100 * MIB;
    fixture->root->ends_at_ns = fixture->fake.clock.ns + S;
    fixture->root->ends_with = SIGKILL;
    fixture_init_loop(fixture);
    bh_loop_make_cgroup(fixture->loop);
    assert_int_equal(bh_loop_launched(fixture->loop, ROOT_PID, NULL), BH_OK);
    fixture->fake.cgroup_events.oom_kills = 1;
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_EMERGENCY);
    assert_int_equal(fixture_outcome(fixture)->kind, BH_OUTCOME_POLICY_INTERVENTION);
    assert_int_equal(fixture_outcome(fixture)->reported_exit_code, 75);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forked_idle_workers_are_not_touched),
        cmocka_unit_test(test_hidden_copy_on_write_is_seen),
        cmocka_unit_test(test_a_newborn_fork_is_no_second_copy),
        cmocka_unit_test(test_what_the_parent_writes_after_a_fork_is_seen),
        cmocka_unit_test(test_a_segment_of_huge_pages_counts_once),
        cmocka_unit_test(test_vfork_child_is_not_counted_twice),
        cmocka_unit_test(test_refused_rollup_lets_the_sum_decide),
        cmocka_unit_test(test_exiting_member_keeps_its_last_charge),
        cmocka_unit_test(test_peak_does_not_creep_with_sharers),
        cmocka_unit_test(test_what_an_exec_leaves_behind_is_counted),
        cmocka_unit_test(test_members_at_the_peak_add_up_to_it),
        cmocka_unit_test(test_pages_given_back_within_a_round_count_once),
        cmocka_unit_test(test_kernel_ring_decides_and_needs_no_round),
        cmocka_unit_test(test_kernel_ring_leaves_ending_to_term),
        cmocka_unit_test(test_kernel_oom_is_told_from_a_strangers_kill),
        cmocka_unit_test(test_the_ring_itself_is_the_emergency_band),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
