/* The quick reading of each member: statm, and status where it may have changed. */
#include "core/super/sampler.h"

#define REST_PERIOD_NS BH_NS_PER_S /* status is read again at least this often */
/* Of a member whose CPU clock stands still, statm and status are read again this often: others can
 * hand it pages (process_vm_writev, userfaultfd) while they use next to no time themselves. */
#define STILL_PERIOD_NS      BH_NS_PER_S
#define STILL_REST_PERIOD_NS (5 * BH_NS_PER_S)

/* Far below the bands a member that has not run since its last reading keeps that reading: it took
 * no page itself. Others can hand it some, and use CPU time for that: so it holds only while the
 * whole job uses less than this part of the time. */
#define QUIET_SHARE 500

static bool keeps_reading(const struct bh_member *member, struct bh_mono now)
{
    return member->stands && now.ns - member->read_at.ns < STILL_PERIOD_NS;
}

/* Each clock is read before any pages are, so what runs in between shows next time. A clock of a
 * running thread is up to a tick late: is_far leaves room for the reading that misses it. */
void bh_sampler_look_who_stands(struct bh_sampler *sampler, struct bh_mono now)
{
    struct bh_members *members = sampler->members;
    uint64_t used_ns = 0;
    uint64_t quiet_ns = (now.ns - sampler->read_at.ns) / QUIET_SHARE;
    sampler->all_stand = true;
    for (size_t i = 0; i < members->count; i++) {
        struct bh_member *member = &members->items[i];
        uint64_t cpu_ns = 0;
        bool known = sampler->os->proc_cpu_ns(sampler->os->self, &member->proc, &cpu_ns) == BH_OK;
        /* a zombie stands as well, but is watched for the moment at which its number is free */
        member->stands = known && member->has_reading && !member->rest_due && !member->zombie &&
                         cpu_ns == member->cpu_ns;
        sampler->all_stand = sampler->all_stand && keeps_reading(member, now);
        used_ns += known ? cpu_ns - member->cpu_ns : quiet_ns + 1;
        member->cpu_ns = cpu_ns;
    }
    sampler->far = used_ns <= quiet_ns;
    sampler->all_stand = sampler->all_stand && sampler->far;
}

static void read_rest(struct bh_sampler *sampler, struct bh_member *member, struct bh_mono now)
{
    struct bh_proc_rest rest;
    int result = sampler->os->proc_rest(sampler->os->self, &member->proc, &rest);
    bh_members_refresh(sampler->members, member);
    if (result < 0)
        return; /* it is ending: the next fast reading says how */
    member->rest_bytes = rest.rest_bytes;
    member->rest_anon_bytes = member->charge.anon_bytes;
    member->charge.rest_bytes = rest.rest_bytes;
    member->shmem_bytes = rest.shmem_bytes;
    member->huge_bytes = rest.huge_bytes;
    member->rest_at = now;
    member->rest_due = false;
}

static bool is_rest_due(const struct bh_member *member, const struct bh_proc_fast *fast,
                        struct bh_mono now, bool stands)
{
    return member->rest_due || !member->has_reading || fast->shared_bytes != member->shared_bytes ||
           fast->anon_bytes < member->charge.anon_bytes ||
           now.ns - member->rest_at.ns >= (stands ? STILL_REST_PERIOD_NS : REST_PERIOD_NS);
}

/* A member that runs in its parent's memory (between vfork and exec) holds nothing of its own. */
static bool still_borrows(struct bh_sampler *sampler, struct bh_member *member)
{
    if (!member->borrows_memory)
        return false;
    const struct bh_member *parent = bh_members_find(sampler->members, member->parent_pid);
    member->borrows_memory = parent && sampler->os->proc_same_memory(
                                           sampler->os->self, &parent->proc, &member->proc) == 1;
    if (!member->borrows_memory) {
        member->rest_due = sampler->members->changed = true;
        sampler->members->losses++;
    }
    return member->borrows_memory;
}

/* New pages come with page tables, 8 bytes each, that only status shows: counted until it is read.
 */
static uint64_t with_tables(const struct bh_member *member)
{
    uint64_t anon = member->charge.anon_bytes;
    uint64_t growth = anon > member->rest_anon_bytes ? anon - member->rest_anon_bytes : 0;
    return member->rest_bytes + growth / 512;
}

enum reading {
    READ_GOOD,
    READ_GONE,
    READ_BAD, /* a live member without a usable number: the sample is incomplete */
};

static enum reading read_member(struct bh_sampler *sampler, struct bh_member *member,
                                struct bh_mono now)
{
    struct bh_proc_fast fast;
    bool stands = sampler->far && member->stands;
    if (stands && keeps_reading(member, now))
        return READ_GOOD;
    int result = sampler->os->proc_fast(sampler->os->self, &member->proc, &fast);
    if (result == BH_E_AGAIN) /* in the middle of an exec: a moment later it is whole */
        result = sampler->os->proc_fast(sampler->os->self, &member->proc, &fast);
    if (result == BH_E_NOT_FOUND)
        return READ_GONE;
    if (result < 0)
        member->cpu_ns = 0; /* nothing was read that could hold */
    member->zombie = result == BH_E_CLOSED;
    if (member->zombie || (result == BH_OK && still_borrows(sampler, member))) {
        member->charge.anon_bytes = 0;
        member->charge.rest_bytes = 0;
        member->shmem_bytes = 0;
        member->huge_bytes = 0;
        return READ_GOOD;
    }
    if (result == BH_E_BUSY)
        return READ_GOOD; /* counts with what it held until it is a zombie */
    if (result < 0)
        return READ_BAD;
    bool rest = is_rest_due(member, &fast, now, stands);
    member->charge.anon_bytes = fast.anon_bytes;
    member->shared_bytes = fast.shared_bytes;
    member->has_reading = true;
    member->read_at = now;
    if (rest)
        read_rest(sampler, member, now);
    else
        member->charge.rest_bytes = with_tables(member);
    return READ_GOOD;
}

bool bh_sampler_read_all(struct bh_sampler *sampler, struct bh_mono now)
{
    bool complete = true;
    struct bh_members *members = sampler->members;
    sampler->read_at = now;
    for (size_t i = 0; i < members->count;) {
        enum reading reading = read_member(sampler, &members->items[i], now);
        if (reading == READ_GONE) {
            bh_members_gone(members, i); /* the last one takes its place: same position again */
            continue;
        }
        complete = complete && reading == READ_GOOD;
        i++;
    }
    return complete && !members->incomplete;
}
