#include "core/model/charge.h"

#include "core/base/wide.h"

static uint64_t add(uint64_t left, uint64_t right)
{
    return right >= BH_POLICY_MAX - (left < BH_POLICY_MAX ? left : BH_POLICY_MAX) ? BH_POLICY_MAX
                                                                                  : left + right;
}

static uint64_t less(uint64_t left, uint64_t right)
{
    return left > right ? left - right : 0;
}

static uint64_t smaller(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

static uint64_t times(uint64_t left, uint64_t right)
{
    bh_u128 product = (bh_u128)left * right;
    return product < BH_POLICY_MAX ? (uint64_t)product : BH_POLICY_MAX;
}

uint64_t bh_charge_fast(const struct bh_charge_member *member)
{
    return less(add(member->anon_bytes, member->rest_bytes), member->ring_bytes);
}

uint64_t bh_charge_member_bound(const struct bh_charge_member *member, uint64_t page_bytes)
{
    uint64_t fast = bh_charge_fast(member);
    if (member->refused || !member->can_share)
        return fast; /* alone now: what it maps is its own, the next round skips it */
    if (!member->in_round && member->newborn) {
        uint64_t tables = fast / 512; /* 8 bytes for each page of 4 KiB */
        uint64_t own = add(times(member->minflt, page_bytes), tables);
        return smaller(add(own, member->copied_bytes), fast);
    }
    if (!member->in_round)
        return fast;
    uint64_t written = times(less(member->minflt, member->round_minflt), page_bytes);
    uint64_t bound = add(member->round_pss_bytes, less(fast, member->round_fast_bytes));
    bound = add(bound, smaller(member->round_shared_bytes, written));
    return smaller(bound, fast); /* a member never counts with more than all it maps */
}

void bh_charge_round_begin(struct bh_charge_tree *tree)
{
    tree->carried_bytes = 0;
    tree->shared_hugetlb_bytes = 0;
}

void bh_charge_round_member(struct bh_charge_tree *tree, struct bh_charge_member *member,
                            const struct bh_charge_rollup *rollup)
{
    uint64_t fast = bh_charge_fast(member);
    uint64_t mapped = add(member->anon_bytes, member->rest_bytes);
    member->in_round = true;
    member->refused = false;
    member->round_fast_bytes = fast;
    member->round_minflt = member->minflt;
    /* pss holds the ring's share too, an unknown part of it: left in, so that nothing is missed */
    member->round_pss_bytes = rollup->pss_bytes;
    member->round_shared_bytes = smaller(fast, times(2, less(mapped, rollup->pss_bytes)));
    if (rollup->shared_hugetlb_bytes > tree->shared_hugetlb_bytes)
        tree->shared_hugetlb_bytes = rollup->shared_hugetlb_bytes;
}

void bh_charge_round_end(struct bh_charge_tree *tree, const struct bh_charge_total *total)
{
    tree->had_round = true;
    tree->known_bytes = total->bound_bytes;
}

void bh_charge_round_dying(struct bh_charge_member *member)
{
    if (member->round_pss_bytes == 0)
        return; /* no round ever saw it: all that it maps */
    member->in_round = true;
    member->round_fast_bytes = bh_charge_fast(member);
    member->round_minflt = member->minflt;
}

void bh_charge_round_forget(struct bh_charge_tree *tree, struct bh_charge_member *member)
{
    tree->had_round = false;
    member->in_round = false;
}

void bh_charge_settle(struct bh_charge_tree *tree, const struct bh_charge_total *total)
{
    tree->known_bytes = smaller(tree->known_bytes, total->bound_bytes);
}

void bh_charge_member_died(struct bh_charge_tree *tree, const struct bh_charge_member *member)
{
    if (!member->in_round || member->refused)
        return;
    /* its share of shared pages falls to those who still map them; no more than its pss can be */
    uint64_t left = smaller(member->round_shared_bytes, member->round_pss_bytes);
    tree->carried_bytes = add(tree->carried_bytes, left);
}

void bh_charge_member_exec(struct bh_charge_member *member)
{
    member->in_round = false;
    member->refused = false;
    member->can_share = false;
    member->round_pss_bytes = 0;
    member->round_fast_bytes = 0;
    member->round_minflt = 0;
    member->round_shared_bytes = 0;
}

void bh_charge_total_begin(struct bh_charge_total *ret_total)
{
    *ret_total = (struct bh_charge_total){0};
}

void bh_charge_total_add(struct bh_charge_total *total, const struct bh_charge_member *member,
                         uint64_t page_bytes)
{
    total->upper_bytes = add(total->upper_bytes, bh_charge_fast(member));
    total->bound_bytes = add(total->bound_bytes, bh_charge_member_bound(member, page_bytes));
    if (member->can_share && !member->refused)
        total->sharing = true;
}

void bh_charge_total_finish(struct bh_charge_total *total, const struct bh_charge_tree *tree)
{
    uint64_t extra = add(tree->carried_bytes, tree->shared_hugetlb_bytes);
    total->bound_bytes = smaller(add(total->bound_bytes, extra), total->upper_bytes);
}

bool bh_charge_round_needed(const struct bh_charge_tree *tree, const struct bh_charge_total *total,
                            const struct bh_policy_bands *bands, bool *ret_acts)
{
    const uint64_t levels[] = {bands->warning_bytes, bands->limit_bytes, bands->emergency_bytes};
    uint64_t known = tree->had_round ? tree->known_bytes : 0;
    bool needed = false;
    bool acts = false;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0] && total->sharing; i++) {
        if (total->bound_bytes < levels[i] || known >= levels[i])
            continue;
        needed = true;
        acts = acts || i > 0;
    }
    if (ret_acts)
        *ret_acts = acts;
    return needed;
}
