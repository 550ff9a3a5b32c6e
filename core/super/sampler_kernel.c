/* The charge as the job's own control group has it (core/super/supervision.md, sections 1 and 5):
 * no round is needed, because a group counts a shared page once. */
#include "core/super/sampler.h"

/* What a look found holds this long: who is outside the group, and what the owners of huge pages
 * share (a copy of a shared page leaves the sum over the owners as it was). */
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

/* ---- members that the group does not count -----------------------------------------------------
 */

/* Whoever may write other groups can move there (a job that runs as root does so, and what it takes
 * from then on is charged there). Those below the group are counted by it. */
static void look_who_is_outside(struct bh_sampler *sampler)
{
    static int pids[BH_MEMBERS_MAX]; /* single-threaded; too large for the stack */
    struct bh_members *members = sampler->members;
    size_t count = 0;
    int result = sampler->os->cgroup_members(sampler->os->self, sampler->cgroup, pids,
                                             BH_MEMBERS_MAX, &count);
    if (result < 0 && result != BH_E_TOO_LONG)
        count = 0;
    for (size_t i = 0; i < members->count; i++)
        members->items[i].outside = true;
    for (size_t i = 0; i < count; i++) {
        struct bh_member *member = bh_members_find(members, pids[i]);
        if (member)
            member->outside = false;
    }
    for (size_t i = 0; i < members->count; i++) {
        struct bh_member *member = &members->items[i];
        member->outside =
            member->outside &&
            sampler->os->cgroup_has(sampler->os->self, sampler->cgroup, &member->proc) == 0;
    }
}

static uint64_t sum_outside(struct bh_sampler *sampler)
{
    uint64_t sum = 0;
    struct bh_mono now = sampler->os->now(sampler->os->self);
    if (now.ns >= sampler->outside_at.ns) {
        look_who_is_outside(sampler);
        sampler->outside_at.ns = now.ns + LOOK_PERIOD_NS;
    }
    for (size_t i = 0; i < sampler->members->count; i++) {
        const struct bh_member *member = &sampler->members->items[i];
        if (member->outside)
            sum = add(sum, bh_sampler_member_bytes(sampler, member));
    }
    return sum;
}

/* ---- the sum ----------------------------------------------------------------------------------
 */

bool bh_sampler_take_kernel(struct bh_sampler *sampler, const struct bh_policy_bands *bands,
                            struct bh_mono *captured)
{
    const struct bh_cgroup *cgroup = sampler->cgroup;
    struct bh_cgroup_charge charge;
    if (!cgroup || !cgroup->memory)
        return false;
    uint64_t of_members = sum_outside(sampler);
    struct bh_mono read_at = sampler->os->now(sampler->os->self);
    if (sampler->os->cgroup_charge(sampler->os->self, cgroup, sampler->held, &charge) < 0)
        return false;
    /* the recorder's rings are shared memory that the job took */
    uint64_t rings =
        sampler->ring_bytes < charge.shmem_bytes ? sampler->ring_bytes : charge.shmem_bytes;
    uint64_t bytes = less(charge.bytes, rings);
    if (!cgroup->huge)
        of_members = add(of_members, huge_of_members(sampler, bands, add(bytes, of_members)));
    bytes = add(bytes, of_members);
    uint64_t held = less(charge.held_bytes, rings);
    if (bands && held >= bands->limit_bytes && held > bytes)
        bytes = held;
    if (of_members == 0)
        *captured = read_at; /* one instant, however long all members take to be read */
    sampler->total.bound_bytes = bytes;
    return true;
}
