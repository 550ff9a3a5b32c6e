/* The charge of a process tree from per-member readings: `upper`, at or above the truth, and
 * `bound`, what is acted on. Pure arithmetic; reading /proc is the platform's, keeping the member
 * table is the supervisor's. core/super/supervision.md, section 1.
 *
 * Without a cgroup, shared pages make the plain sum wrong by up to 17x. So: upper = sum of fast(p).
 * When the bound would cross a band that the last exact round did not cross, one round of
 * smaps_rollup is read over the members that can share pages; from then on
 *     bound(p) = pss + growth of fast + min(shared part, growth of minflt x page)
 * and the shared part of a member that died is carried until the next round. bound never exceeds
 * upper. Members that cannot share, and those whose rollup was refused, count with fast(p).
 *
 * The shared part is not in smaps_rollup: with n >= 2 sharers a page counts 1/n, so
 * fast - pss = S (1 - 1/n) >= S / 2, hence S <= min(fast, 2 (fast - pss)). That is what is used.
 *
 * Units: bytes. Sums saturate at BH_POLICY_MAX. No failures, no allocation. */
#ifndef BH_MODEL_CHARGE_H
#define BH_MODEL_CHARGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model/policy.h"

/* One member. The supervisor writes the reading each time; the round part is bh_charge_*'s. */
struct bh_charge_member {
    /* reading */
    uint64_t anon_bytes; /* statm.resident - statm.shared, = RssAnon */
    uint64_t rest_bytes; /* RssShmem + VmSwap + HugetlbPages + VmPTE as last read from status */
    uint64_t ring_bytes; /* the recorder's own mapped pages, taken off */
    uint64_t minflt;
    bool can_share; /* forked without exec since, or RssShmem > 0 */
    bool refused;   /* the rollup of this member is not readable: fast(p) decides */
    /* A fork that no round has seen, of a parent that is counted itself: what it maps is the
     * parent's, but for what it wrote and for old copies of what the parent wrote (copied_bytes, an
     * upper bound by the parent's minflt since the birth). */
    bool newborn;
    uint64_t copied_bytes;
    /* the last round this member was in */
    bool in_round;
    uint64_t round_pss_bytes;
    uint64_t round_fast_bytes;
    uint64_t round_minflt;
    uint64_t round_shared_bytes;
};

/* One member's answer to an exact round. */
struct bh_charge_rollup {
    uint64_t pss_bytes;             /* Pss_Anon + Pss_Shmem + SwapPss + Private_Hugetlb + VmPTE */
    uint64_t private_hugetlb_bytes; /* of these: Private_Hugetlb */
    uint64_t shared_hugetlb_bytes;  /* counted once: the largest member's */
};

/* The tree. Zero-initialise at launch. */
struct bh_charge_tree {
    uint64_t carried_bytes;        /* shared parts of members that died since the round */
    uint64_t shared_hugetlb_bytes; /* largest of the round under way or done */
    uint64_t known_bytes;          /* bound right after the last round, or a lower one since */
    bool had_round;
};

struct bh_charge_total {
    uint64_t upper_bytes;
    uint64_t bound_bytes; /* <= upper_bytes */
    bool sharing; /* a member can share pages and its rollup is readable: a round can help */
};

/* fast(p) = anon + rest - ring. */
uint64_t bh_charge_fast(const struct bh_charge_member *member);
/* bound(p): fast(p) while the member was in no round or can no longer share; of a newborn
 * min(fast, minflt x page + page tables + copied). */
uint64_t bh_charge_member_bound(const struct bh_charge_member *member, uint64_t page_bytes);

/* A round: begin, once per member that can share and answered, end with the totals after it. */
void bh_charge_round_begin(struct bh_charge_tree *tree);
void bh_charge_round_member(struct bh_charge_tree *tree, struct bh_charge_member *member,
                            const struct bh_charge_rollup *rollup);
void bh_charge_round_end(struct bh_charge_tree *tree, const struct bh_charge_total *total);
/* In place of an answer when the member's memory is being torn down: until it is gone it counts
 * with its share of the last round that it was in, not with all that it still maps. */
void bh_charge_round_dying(struct bh_charge_member *member);
/* The round was disturbed and says nothing that lasts: the member counts as before any round. */
void bh_charge_round_forget(struct bh_charge_tree *tree, struct bh_charge_member *member);
/* After a reading that needed no round: remembers a bound that fell, so that reaching the band
 * again is confirmed again. */
void bh_charge_settle(struct bh_charge_tree *tree, const struct bh_charge_total *total);

/* Before a member that died is dropped from the table. */
void bh_charge_member_died(struct bh_charge_tree *tree, const struct bh_charge_member *member);
/* After an exec: the image is new and shares nothing that a round saw. */
void bh_charge_member_exec(struct bh_charge_member *member);

/* Totals, one member at a time (the table's layout is the caller's): begin, add each, finish. */
void bh_charge_total_begin(struct bh_charge_total *ret_total);
void bh_charge_total_add(struct bh_charge_total *total, const struct bh_charge_member *member,
                         uint64_t page_bytes);
void bh_charge_total_finish(struct bh_charge_total *total, const struct bh_charge_tree *tree);

/* Whether an exact round must precede the decision: the bound reaches one of the bands (warning,
 * limit, emergency) that the last known bound did not (without a round: 0), and a round can help.
 * ret_acts (NULL allowed) tells whether a band that acts (limit, emergency) is among them: such a
 * round is worth its CPU always, one for `warning` alone only when the budget allows. */
bool bh_charge_round_needed(const struct bh_charge_tree *tree, const struct bh_charge_total *total,
                            const struct bh_policy_bands *bands, bool *ret_acts);

#endif
