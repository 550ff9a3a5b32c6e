/* Charge arithmetic: upper, bound and the need for an exact round (core/super/supervision.md,
 * section 1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/charge.h"

#define PAGE 4096ull
#define MIB  (1ull << 20)
#define GIB  (1ull << 30)

#define MAX_MEMBERS 20

struct tree {
    struct bh_charge_tree state;
    struct bh_charge_member members[MAX_MEMBERS];
    size_t count;
};

static struct bh_charge_total total_of(const struct tree *tree)
{
    struct bh_charge_total total;
    bh_charge_total_begin(&total);
    for (size_t i = 0; i < tree->count; i++)
        bh_charge_total_add(&total, &tree->members[i], PAGE);
    bh_charge_total_finish(&total, &tree->state);
    return total;
}

/* An exact round that finds pss[i] for every member that can share. */
static struct bh_charge_total round_of(struct tree *tree, const uint64_t *pss)
{
    bh_charge_round_begin(&tree->state);
    for (size_t i = 0; i < tree->count; i++) {
        const struct bh_charge_rollup rollup = {.pss_bytes = pss[i]};
        if (tree->members[i].can_share)
            bh_charge_round_member(&tree->state, &tree->members[i], &rollup);
    }
    struct bh_charge_total total = total_of(tree);
    bh_charge_round_end(&tree->state, &total);
    return total;
}

static struct bh_policy_bands bands_of(uint64_t limit)
{
    struct bh_policy_bands bands;
    assert_int_equal(bh_policy_bands_from_limit(limit, &bands, NULL), BH_OK);
    return bands;
}

static bool needed(const struct tree *tree, uint64_t limit, bool *ret_acts)
{
    struct bh_policy_bands bands = bands_of(limit);
    struct bh_charge_total total = total_of(tree);
    return bh_charge_round_needed(&tree->state, &total, &bands, ret_acts);
}

static void fast_is_anon_and_rest_less_ring(void **state)
{
    (void)state;
    struct bh_charge_member member = {.anon_bytes = 100, .rest_bytes = 30, .ring_bytes = 20};
    assert_int_equal(bh_charge_fast(&member), 110);
    member.ring_bytes = 200;
    assert_int_equal(bh_charge_fast(&member), 0);
    member.anon_bytes = UINT64_MAX;
    member.ring_bytes = 0;
    assert_int_equal(bh_charge_fast(&member), BH_POLICY_MAX);
}

static void a_single_process_is_exact(void **state)
{
    (void)state;
    struct tree tree = {.count = 1};
    tree.members[0].anon_bytes = 3 * GIB;
    struct bh_charge_total total = total_of(&tree);
    assert_int_equal(total.upper_bytes, 3 * GIB);
    assert_int_equal(total.bound_bytes, 3 * GIB);
    assert_false(total.sharing);
    assert_false(needed(&tree, 2 * GIB, NULL)); /* nothing that a round could correct */
}

/* 16 forked idle workers of a 1 GiB parent under a 2 GiB limit: sum 17 GiB, truth 1.03 GiB. */
static void workers_of_a_parent(struct tree *tree, uint64_t *pss)
{
    *tree = (struct tree){.count = 17};
    for (size_t i = 0; i < tree->count; i++) {
        tree->members[i] = (struct bh_charge_member){
            .anon_bytes = GIB + 2 * MIB, .minflt = 1000, .can_share = true};
        pss[i] = GIB / 17 + 2 * MIB;
    }
}

static void idle_workers_are_not_touched(void **state)
{
    (void)state;
    struct tree tree;
    uint64_t pss[MAX_MEMBERS];
    bool acts = false;
    workers_of_a_parent(&tree, pss);
    assert_int_equal(total_of(&tree).upper_bytes, 17 * (GIB + 2 * MIB));
    assert_true(needed(&tree, 2 * GIB, &acts));
    assert_true(acts);
    struct bh_charge_total total = round_of(&tree, pss);
    assert_true(total.bound_bytes <= GIB + 34 * MIB && total.bound_bytes > GIB + 33 * MIB);
    assert_false(needed(&tree, 2 * GIB, NULL)); /* one round is enough while nothing moves */
}

/* The same workers write their pages: each fault may be a copy, and fast does not move. */
static void written_pages_are_seen(void **state)
{
    (void)state;
    struct tree tree;
    uint64_t pss[MAX_MEMBERS];
    workers_of_a_parent(&tree, pss);
    uint64_t before = round_of(&tree, pss).bound_bytes;
    for (size_t i = 0; i < tree.count; i++)
        tree.members[i].minflt += 16 * MIB / PAGE;
    assert_int_equal(total_of(&tree).bound_bytes, before + 17 * 16 * MIB);
    for (size_t i = 0; i < tree.count; i++)
        tree.members[i].minflt += GIB / PAGE;
    struct bh_charge_total total = total_of(&tree);
    assert_true(total.bound_bytes >= 17 * GIB); /* all copied: the bound reaches the truth */
    assert_true(total.bound_bytes <= total.upper_bytes);
    assert_true(needed(&tree, 2 * GIB, NULL));
}

static void growth_of_fast_counts(void **state)
{
    (void)state;
    struct tree tree = {.count = 2};
    const uint64_t pss[] = {60 * MIB, 60 * MIB};
    tree.members[0] = tree.members[1] =
        (struct bh_charge_member){.anon_bytes = 100 * MIB, .can_share = true};
    assert_int_equal(round_of(&tree, pss).bound_bytes, 120 * MIB);
    tree.members[0].anon_bytes += 7 * MIB;
    assert_int_equal(total_of(&tree).bound_bytes, 127 * MIB);
    tree.members[0].rest_bytes += 3 * MIB;
    assert_int_equal(total_of(&tree).bound_bytes, 130 * MIB);
    /* what shrank is not taken off the bound before the next round, but never above fast */
    tree.members[0].anon_bytes = 50 * MIB;
    tree.members[0].rest_bytes = 0;
    assert_int_equal(total_of(&tree).bound_bytes, 110 * MIB);
}

/* parent and child share 1 GiB, the child writes all of it: truth 2 GiB. */
static void one_writer_is_not_missed(void **state)
{
    (void)state;
    struct tree tree = {.count = 2};
    const uint64_t pss[] = {GIB / 2, GIB / 2};
    tree.members[0] = tree.members[1] =
        (struct bh_charge_member){.anon_bytes = GIB, .can_share = true};
    assert_int_equal(round_of(&tree, pss).bound_bytes, GIB);
    tree.members[1].minflt += GIB / PAGE;
    assert_true(total_of(&tree).bound_bytes >= GIB + GIB / 2);
    assert_int_equal(tree.members[1].round_shared_bytes, GIB);
}

static void a_dead_sharer_is_carried(void **state)
{
    (void)state;
    struct tree tree = {.count = 2};
    const uint64_t pss[] = {GIB / 2 + 10 * MIB, GIB / 2};
    const uint64_t alone[] = {GIB + 10 * MIB};
    tree.members[0] = (struct bh_charge_member){.anon_bytes = GIB + 10 * MIB, .can_share = true};
    tree.members[1] = (struct bh_charge_member){.anon_bytes = GIB, .can_share = true};
    assert_int_equal(round_of(&tree, pss).bound_bytes, GIB + 10 * MIB);
    bh_charge_member_died(&tree.state, &tree.members[1]);
    tree.count = 1;
    /* the parent now owns all of it, which no reading shows */
    assert_int_equal(total_of(&tree).bound_bytes, GIB + 10 * MIB);
    assert_int_equal(tree.state.carried_bytes, GIB / 2);
    assert_int_equal(round_of(&tree, alone).bound_bytes, GIB + 10 * MIB);
    assert_int_equal(tree.state.carried_bytes, 0);
}

/* Left alone by its relatives, a member is read no more in rounds: its old share of the pages, half
 * of the truth, must not stand for it when a round of others clears what was carried. */
static void a_survivor_counts_fully(void **state)
{
    (void)state;
    struct tree tree = {.count = 3};
    const uint64_t pss[] = {GIB / 2, 5 * MIB, GIB / 2};
    tree.members[0] = tree.members[2] =
        (struct bh_charge_member){.anon_bytes = GIB, .can_share = true};
    tree.members[1] = (struct bh_charge_member){.rest_bytes = 10 * MIB, .can_share = true};
    assert_int_equal(round_of(&tree, pss).bound_bytes, GIB + 5 * MIB);
    bh_charge_member_died(&tree.state, &tree.members[2]);
    tree.count = 2;
    tree.members[0].can_share = false;
    assert_true(total_of(&tree).bound_bytes >= GIB + 5 * MIB);
    assert_int_equal(round_of(&tree, pss).bound_bytes, GIB + 5 * MIB);
}

static void a_dead_stranger_is_not_carried(void **state)
{
    (void)state;
    struct tree tree = {.count = 1};
    tree.members[0] = (struct bh_charge_member){.anon_bytes = GIB};
    bh_charge_member_died(&tree.state, &tree.members[0]);
    assert_int_equal(tree.state.carried_bytes, 0);
}

/* Born after the round: all of it counts until the next one. */
static void a_new_member_counts_fully(void **state)
{
    (void)state;
    struct tree tree = {.count = 1};
    const uint64_t pss[] = {GIB};
    tree.members[0] = (struct bh_charge_member){.anon_bytes = GIB, .can_share = true};
    assert_int_equal(round_of(&tree, pss).bound_bytes, GIB);
    tree.members[1] = (struct bh_charge_member){.anon_bytes = GIB, .can_share = true};
    tree.count = 2;
    assert_int_equal(total_of(&tree).bound_bytes, 2 * GIB);
    assert_true(needed(&tree, 2 * GIB, NULL));
}

static void exec_forgets_the_round(void **state)
{
    (void)state;
    struct tree tree = {.count = 1};
    const uint64_t pss[] = {GIB / 4};
    tree.members[0] = (struct bh_charge_member){.anon_bytes = GIB, .can_share = true};
    (void)round_of(&tree, pss);
    bh_charge_member_exec(&tree.members[0]);
    tree.members[0].anon_bytes = 5 * MIB;
    assert_int_equal(bh_charge_member_bound(&tree.members[0], PAGE), 5 * MIB);
    assert_false(total_of(&tree).sharing);
}

static void a_refused_rollup_leaves_upper(void **state)
{
    (void)state;
    struct tree tree = {.count = 1};
    tree.members[0] =
        (struct bh_charge_member){.anon_bytes = GIB, .can_share = true, .refused = true};
    assert_int_equal(total_of(&tree).bound_bytes, GIB);
    assert_false(total_of(&tree).sharing);
    assert_false(needed(&tree, GIB, NULL));
}

/* exec'ed workers on one shared_memory of 100 MiB: sum 600, truth 100. */
static void shared_memory_counts_once(void **state)
{
    (void)state;
    struct tree tree = {.count = 6};
    uint64_t pss[6];
    for (size_t i = 0; i < 6; i++) {
        tree.members[i] = (struct bh_charge_member){.rest_bytes = 100 * MIB, .can_share = true};
        pss[i] = 100 * MIB / 6;
    }
    assert_int_equal(total_of(&tree).bound_bytes, 600 * MIB);
    assert_true(needed(&tree, 300 * MIB, NULL));
    assert_true(round_of(&tree, pss).bound_bytes <= 100 * MIB);
}

static void shared_hugetlb_counts_once(void **state)
{
    (void)state;
    struct tree tree = {.count = 2};
    const struct bh_charge_rollup large = {.pss_bytes = 10 * MIB, .shared_hugetlb_bytes = 64 * MIB};
    const struct bh_charge_rollup small = {.pss_bytes = 10 * MIB, .shared_hugetlb_bytes = 32 * MIB};
    tree.members[0] = (struct bh_charge_member){
        .anon_bytes = 10 * MIB, .rest_bytes = 64 * MIB, .can_share = true};
    tree.members[1] = (struct bh_charge_member){
        .anon_bytes = 10 * MIB, .rest_bytes = 32 * MIB, .can_share = true};
    bh_charge_round_begin(&tree.state);
    bh_charge_round_member(&tree.state, &tree.members[0], &large);
    bh_charge_round_member(&tree.state, &tree.members[1], &small);
    struct bh_charge_total total = total_of(&tree);
    assert_int_equal(total.bound_bytes, 84 * MIB);
    assert_int_equal(total.upper_bytes, 116 * MIB);
}

/* The recorder's ring is shared memory of the job and no charge of it. */
static void ring_pages_come_off(void **state)
{
    (void)state;
    struct tree tree = {.count = 1};
    const uint64_t pss[] = {100 * MIB};
    tree.members[0] = (struct bh_charge_member){
        .anon_bytes = 84 * MIB, .rest_bytes = 16 * MIB, .ring_bytes = 16 * MIB, .can_share = true};
    struct bh_charge_total total = round_of(&tree, pss);
    assert_int_equal(total.upper_bytes, 84 * MIB);
    assert_int_equal(total.bound_bytes, 84 * MIB);
}

static void rounds_are_asked_for_once_per_band(void **state)
{
    (void)state;
    struct tree tree = {.count = 2};
    uint64_t pss[] = {40, 40};
    bool acts = true;
    tree.members[0] = tree.members[1] =
        (struct bh_charge_member){.anon_bytes = 44, .can_share = true};
    assert_false(needed(&tree, 100, &acts)); /* 88: below warning */
    assert_false(acts);
    tree.members[0].anon_bytes = 46;
    assert_true(needed(&tree, 100, &acts)); /* 90: warning only */
    assert_false(acts);
    assert_int_equal(round_of(&tree, pss).bound_bytes, 80);
    assert_false(needed(&tree, 100, NULL));
    tree.members[0].anon_bytes += 12;
    assert_true(needed(&tree, 100, &acts)); /* 92, known 80 */
    pss[0] = 52;
    assert_int_equal(round_of(&tree, pss).bound_bytes, 92);
    assert_false(needed(&tree, 100, NULL));
    tree.members[0].anon_bytes += 8;
    assert_true(needed(&tree, 100, &acts)); /* 100 */
    assert_true(acts);
    pss[0] = 60;
    assert_int_equal(round_of(&tree, pss).bound_bytes, 100);
    assert_false(needed(&tree, 100, NULL)); /* confirmed: act on it */
}

static void a_fallen_bound_is_confirmed_again(void **state)
{
    (void)state;
    struct tree tree = {.count = 2};
    const uint64_t pss[] = {50, 50};
    tree.members[0] = tree.members[1] =
        (struct bh_charge_member){.anon_bytes = 50, .can_share = true};
    (void)round_of(&tree, pss);
    assert_false(needed(&tree, 100, NULL));
    tree.members[0].anon_bytes = 20;
    struct bh_charge_total total = total_of(&tree);
    bh_charge_settle(&tree.state, &total);
    assert_false(needed(&tree, 100, NULL));
    tree.members[0].anon_bytes = 50;
    assert_true(needed(&tree, 100, NULL));
}

/* A fork that no round saw, of a parent that is counted: only what either wrote since. */
static void a_newborn_counts_what_was_written(void **state)
{
    (void)state;
    struct bh_charge_member child = {
        .anon_bytes = 512 * 4096, .can_share = true, .newborn = true, .minflt = 3};
    assert_int_equal(bh_charge_member_bound(&child, 4096), (3 + 1) * 4096);
    child.copied_bytes = 10 * 4096;
    assert_int_equal(bh_charge_member_bound(&child, 4096), (3 + 1 + 10) * 4096);
    child.minflt = 100000; /* never more than all it maps */
    assert_int_equal(bh_charge_member_bound(&child, 4096), 512 * 4096);
    child.minflt = 3;
    child.can_share = false; /* the last one left: all of it is its own */
    assert_int_equal(bh_charge_member_bound(&child, 4096), 512 * 4096);
}

/* Its memory is being torn down: its share of the last round, not all that it still maps. */
static void a_dying_sharer_keeps_its_share(void **state)
{
    (void)state;
    struct bh_charge_tree tree = {0};
    struct bh_charge_rollup rollup = {.pss_bytes = 30};
    struct bh_charge_member member = {.anon_bytes = 100, .can_share = true};
    bh_charge_round_dying(&member);
    assert_int_equal(bh_charge_member_bound(&member, 4096), 100); /* no round ever saw it */
    bh_charge_round_member(&tree, &member, &rollup);
    bh_charge_round_forget(&tree, &member);
    assert_int_equal(bh_charge_member_bound(&member, 4096), 100);
    bh_charge_round_dying(&member);
    assert_int_equal(bh_charge_member_bound(&member, 4096), 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newborn_counts_what_was_written),
        cmocka_unit_test(a_dying_sharer_keeps_its_share),
        cmocka_unit_test(fast_is_anon_and_rest_less_ring),
        cmocka_unit_test(a_single_process_is_exact),
        cmocka_unit_test(idle_workers_are_not_touched),
        cmocka_unit_test(written_pages_are_seen),
        cmocka_unit_test(growth_of_fast_counts),
        cmocka_unit_test(one_writer_is_not_missed),
        cmocka_unit_test(a_dead_sharer_is_carried),
        cmocka_unit_test(a_survivor_counts_fully),
        cmocka_unit_test(a_dead_stranger_is_not_carried),
        cmocka_unit_test(a_new_member_counts_fully),
        cmocka_unit_test(exec_forgets_the_round),
        cmocka_unit_test(a_refused_rollup_leaves_upper),
        cmocka_unit_test(shared_memory_counts_once),
        cmocka_unit_test(shared_hugetlb_counts_once),
        cmocka_unit_test(ring_pages_come_off),
        cmocka_unit_test(rounds_are_asked_for_once_per_band),
        cmocka_unit_test(a_fallen_bound_is_confirmed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
