/* The charge as the job's own control group has it (core/super/supervision.md, sections 1 and 5):
 * no round is needed, because a group counts a shared page once. */
#include "core/super/sampler.h"

/* What a look into the owners of huge pages found holds this long: a copy of a shared page leaves
 * the sum over the owners as it was. */
#define LOOK_PERIOD_NS BH_NS_PER_S

static uint64_t add(uint64_t left, uint64_t right)
{
    return left > BH_POLICY_MAX - right ? BH_POLICY_MAX : left + right;
}

static uint64_t less(uint64_t left, uint64_t right)
{
    return left > right ? left - right : 0;
}

/* ---- huge pages that the group does not count -------------------------------------------------
 */

static bool owns_huge(const struct bh_member *member)
{
    return member->huge_bytes > 0 && !member->zombie && !member->borrows_memory;
}

/* A page once per process that maps it. */
static uint64_t sum_over_owners(const struct bh_members *members, size_t *ret_owners)
{
    uint64_t sum = 0;
    *ret_owners = 0;
    for (size_t i = 0; i < members->count; i++) {
        if (!owns_huge(&members->items[i]))
            continue;
        sum = add(sum, members->items[i].huge_bytes);
        *ret_owners += 1;
    }
    return sum;
}

/* A page once: the private ones and the largest shared part. Who cannot be read counts with all. */
static uint64_t look_into_owners(struct bh_sampler *sampler)
{
    uint64_t own = 0, shared = 0;
    for (size_t i = 0; i < sampler->members->count; i++) {
        struct bh_member *member = &sampler->members->items[i];
        struct bh_charge_rollup rollup = {.private_hugetlb_bytes = member->huge_bytes};
        if (!owns_huge(member))
            continue;
        (void)sampler->os->proc_rollup(sampler->os->self, &member->proc, &rollup);
        own = add(own, rollup.private_hugetlb_bytes);
        if (rollup.shared_hugetlb_bytes > shared)
            shared = rollup.shared_hugetlb_bytes;
    }
    sampler->exact_rounds++;
    return add(own, shared);
}

static uint64_t huge_of_members(struct bh_sampler *sampler, const struct bh_policy_bands *bands,
                                uint64_t other_bytes)
{
    struct bh_sampler_huge *huge = &sampler->huge;
    size_t owners;
    uint64_t sum = sum_over_owners(sampler->members, &owners);
    if (owners < 2)
        return sum;
    uint64_t losses = sampler->members->losses;
    uint64_t now_ns = sampler->os->now(sampler->os->self).ns;
    bool holds = huge->known && huge->losses == losses && sum >= huge->sum_bytes;
    uint64_t bytes = holds ? add(huge->bytes, sum - huge->sum_bytes) : sum;
    bool matters = !bands || add(other_bytes, sum) >= bands->warning_bytes;
    bool fresh = holds && sum == huge->sum_bytes && now_ns - huge->at.ns < LOOK_PERIOD_NS;
    if (!matters || fresh)
        return bytes;
    bytes = look_into_owners(sampler);
    *huge = (struct bh_sampler_huge){
        .known = true, .sum_bytes = sum, .bytes = bytes, .losses = losses, .at = {now_ns}};
    return bytes;
}

/* ---- the sum ----------------------------------------------------------------------------------
 */

bool bh_sampler_take_kernel(struct bh_sampler *sampler, const struct bh_policy_bands *bands)
{
    const struct bh_cgroup *cgroup = sampler->cgroup;
    struct bh_cgroup_charge charge;
    if (!cgroup || !cgroup->memory ||
        sampler->os->cgroup_charge(sampler->os->self, cgroup, sampler->held, &charge) < 0)
        return false;
    /* the recorder's rings are shared memory that the job took */
    uint64_t rings =
        sampler->ring_bytes < charge.shmem_bytes ? sampler->ring_bytes : charge.shmem_bytes;
    uint64_t bytes = less(charge.bytes, rings);
    if (!cgroup->huge)
        bytes = add(bytes, huge_of_members(sampler, bands, bytes));
    uint64_t held = less(charge.held_bytes, rings);
    if (bands && held >= bands->limit_bytes && held > bytes)
        bytes = held;
    sampler->total.bound_bytes = bytes;
    return true;
}
