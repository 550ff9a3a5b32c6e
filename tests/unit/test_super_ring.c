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
    sampler->ring_bytes = 8 * MIB;
    fixture->fake.cgroup_shmem_bytes = 50 * MIB;
    assert_true(bh_sampler_take_kernel(sampler, NULL));
    assert_int_equal(sampler->total.bound_bytes, 292 * MIB);
    /* never more than there is shared memory at all */
    fixture->fake.cgroup_shmem_bytes = 3 * MIB;
    assert_true(bh_sampler_take_kernel(sampler, NULL));
    assert_int_equal(sampler->total.bound_bytes, 297 * MIB);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
