/* One look at the whole tree: membership, the fast charge of every member, an exact round where the
 * bound alone would make the policy act. Called by the loop; supervision.md, section 1. */
#ifndef BH_SUPER_SAMPLER_H
#define BH_SUPER_SAMPLER_H

#include "core/super/members.h"

/* Huge pages of members that share them, in a group that does not count them itself: what one look
 * into each found, and who was there then. */
struct bh_sampler_huge {
    bool known;
    uint64_t sum_bytes, bytes; /* a page once per owner; a page once */
    uint64_t losses;
    struct bh_mono at;
};

struct bh_sampler {
    const struct bh_platform *os;
    struct bh_members *members;
    struct bh_charge_tree *tree;
    const struct bh_cgroup *cgroup; /* with the memory controller its charge decides; may be NULL */
    uint64_t page_bytes;
    uint64_t ring_bytes;           /* of the recorder, mapped into the job: taken off */
    struct bh_mono relist_at;      /* when threads are listed again in any case */
    struct bh_charge_total total;  /* of the last look */
    uint64_t confirmed_peak_bytes; /* largest bound that no round could have lowered much */
    bool confirmed;                /* the last look gave such a one: */
    uint64_t confirmed_bytes;
    bool far;               /* given: bh_schedule_is_far. Who stands still is not read then */
    bool all_stand;         /* … nobody has run, and all readings are fresh enough */
    bool repeats;           /* the last sample was complete and undisturbed: `stood` */
    struct bh_mono read_at; /* of the last quick reading of everybody */
    unsigned sharers;       /* members that can share pages, as of the last look */
    /* While exact rounds over an acting band are disturbed: the last reading that stood is given
     * again with its own time, so that it ages as the policy's rules say. */
    bool unconfirmed;
    struct bh_mono unconfirmed_since, retry_at;
    uint64_t least_bytes; /* of the disturbed rounds */
    bool has_stood;
    struct bh_sample stood;
    struct bh_mono round_at; /* of the last exact round */
    uint64_t exact_rounds;
    uint64_t rollups_refused; /* members that no round may read */
    uint64_t round_cpu_ns;    /* spent on exact rounds */
    bool held; /* with a brake that was reached once: what the group holds decides as well */
    struct bh_sampler_huge huge;
    struct bh_mono outside_at; /* when it is looked again who was moved out of the group */
};

/* bands NULL: observe mode, nothing acts. A round is made where a band that acts would be reached,
 * always; where `warning` or a new peak would be, when allow_round
 * says that the governor has CPU time for it. */
void bh_sampler_take(struct bh_sampler *sampler, const struct bh_policy_bands *bands,
                     bool allow_round, struct bh_sample *ret_sample);
/* sampler_read.c: who used no CPU time since its last reading; far stays only where the job as a
 * whole used next to none. Then the quick readings of all members; false: one could not be read. */
void bh_sampler_look_who_stands(struct bh_sampler *sampler, struct bh_mono now);
bool bh_sampler_read_all(struct bh_sampler *sampler, struct bh_mono now);
/* sampler_kernel.c: the bound as the job's own control group has it, shared pages once; false
 * where there is none with the memory controller. captured: when the reading began; set to when the
 * group was read where no member's own reading is part of the sum. */
bool bh_sampler_take_kernel(struct bh_sampler *sampler, const struct bh_policy_bands *bands,
                            struct bh_mono *captured);
/* sampler_hold.c: puts the last reading that stood in the place of one that would act and that no
 * undisturbed round confirms, for a while; and answers with it between the rounds of that time. */
void bh_sampler_hold_back(struct bh_sampler *sampler, const struct bh_policy_bands *bands,
                          bool disturbed, struct bh_sample *ret_sample);
bool bh_sampler_held(struct bh_sampler *sampler, struct bh_mono now, struct bh_sample *ret_sample);
/* What one member counts with, for breakdowns. */
uint64_t bh_sampler_member_bytes(const struct bh_sampler *sampler, const struct bh_member *member);

#endif
