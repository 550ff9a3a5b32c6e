#include "core/super/sampler.h"

#include <string.h>

#define RELIST_PERIOD_NS BH_NS_PER_S
#define ROUND_ATTEMPTS   3
#define QUICK_ROUND_NS   (100 * BH_NS_PER_MS) /* well below the window that is allowed, 250 ms */

/* ---- who shares pages -------------------------------------------------------------------------
 */

/* Members with one image token descend from one exec by fork: they can share pages. */
static void find_relatives(struct bh_members *members)
{
    /* beyond some hundred members the pairwise search costs more than a needless round */
    bool many = members->count > 512;
    for (size_t i = 0; i < members->count; i++) {
        struct bh_member *member = &members->items[i];
        bool found = many;
        for (size_t k = 0; k < members->count && !found && !member->borrows_memory; k++) {
            const struct bh_member *other = &members->items[k];
            found = k != i && !other->zombie && !other->borrows_memory &&
                    other->image_token == member->image_token;
        }
        member->has_relatives = found;
    }
    members->changed = false;
}

/* The recorder's pages are shared memory of the members that map them: they are taken off, once
 * altogether, and do not make their owner one that shares. */
static void settle_shared(struct bh_sampler *sampler)
{
    struct bh_members *members = sampler->members;
    if (members->changed)
        find_relatives(members);
    uint64_t left = sampler->ring_bytes;
    sampler->sharers = 0;
    for (size_t i = 0; i < members->count; i++) {
        struct bh_member *member = &members->items[i];
        uint64_t own = member->shmem_bytes < left ? member->shmem_bytes : left;
        member->charge.ring_bytes = own;
        member->charge.can_share =
            member->has_relatives || member->shmem_bytes > own || member->huge_bytes > 0;
        left -= own;
        sampler->sharers += member->charge.can_share;
    }
}

/* ---- totals -----------------------------------------------------------------------------------
 */

static void add_up(struct bh_sampler *sampler)
{
    bh_charge_total_begin(&sampler->total);
    for (size_t i = 0; i < sampler->members->count; i++) {
        if (!sampler->members->items[i].zombie)
            bh_charge_total_add(&sampler->total, &sampler->members->items[i].charge,
                                sampler->page_bytes);
    }
    bh_charge_total_finish(&sampler->total, sampler->tree);
}

/* The member that this one was forked from, while both still run the image of the fork. */
static struct bh_member *fork_parent(const struct bh_sampler *sampler,
                                     const struct bh_member *member)
{
    struct bh_member *parent = bh_members_find(sampler->members, member->parent_pid);
    bool same = parent && parent != member && !parent->zombie && !parent->borrows_memory &&
                parent->image_token == member->image_token;
    return same ? parent : NULL;
}

/* A fork that no round has seen maps what its parent maps, and the parent is counted: no round is
 * needed to know that. Its own writes and the parent's since are bounded by minflt. */
static void see_newborn(struct bh_sampler *sampler, struct bh_member *member)
{
    struct bh_member *parent = fork_parent(sampler, member);
    member->charge.newborn = false;
    if (!parent || (!parent->charge.in_round && fork_parent(sampler, parent)))
        return; /* the parent is one itself: then nobody counts in full */
    bh_members_refresh(sampler->members, parent);
    bh_members_refresh(sampler->members, member);
    if (fork_parent(sampler, member) != parent)
        return; /* an exec in between */
    uint64_t minflt = parent->charge.minflt - member->parent_minflt;
    uint64_t fast = bh_charge_fast(&member->charge), of_parent = bh_charge_fast(&parent->charge);
    uint64_t written = minflt > fast / sampler->page_bytes ? fast : minflt * sampler->page_bytes;
    member->charge.newborn = true;
    member->charge.copied_bytes = written + (fast > of_parent ? fast - of_parent : 0);
}

/* minflt bounds hidden copy-on-write. Below the bands nobody needs that each time: the plain sum,
 * which counts every shared page in full, stays below them as well. */
static void read_written(struct bh_sampler *sampler, const struct bh_policy_bands *bands)
{
    bool any = false;
    if (!bands || sampler->total.upper_bytes < bands->warning_bytes)
        return;
    for (size_t i = 0; i < sampler->members->count; i++) {
        struct bh_member *member = &sampler->members->items[i];
        if (!member->charge.can_share || member->zombie || member->borrows_memory)
            continue;
        if (member->charge.in_round)
            bh_members_refresh(sampler->members, member);
        else
            see_newborn(sampler, member);
        any = true;
    }
    if (any)
        add_up(sampler);
}

/* Of all who can share, or of those alone that no round has seen yet. */
static void read_rollups(struct bh_sampler *sampler, bool newcomers)
{
    for (size_t i = 0; i < sampler->members->count; i++) {
        struct bh_member *member = &sampler->members->items[i];
        struct bh_charge_rollup rollup;
        if (!member->charge.can_share || member->zombie || member->borrows_memory ||
            (newcomers && member->charge.in_round))
            continue;
        int result = sampler->os->proc_rollup(sampler->os->self, &member->proc, &rollup);
        if (result == BH_OK) {
            bh_members_refresh(sampler->members, member);
            bh_charge_round_member(sampler->tree, &member->charge, &rollup);
        } else if (result == BH_E_NOT_FOUND) {
            bh_charge_round_dying(&member->charge);
        } else {
            sampler->rollups_refused += !member->charge.refused;
            member->charge.refused = true; /* foreign or not dumpable: its sum decides */
        }
    }
}

/* Pages that sharers gave back, and shared ones that they took, meanwhile, beyond 1 / 64 of the
 * whole: early answers counted them for more owners than late ones. */
static bool has_drifted(struct bh_sampler *sampler)
{
    uint64_t drift = 0;
    for (size_t i = 0; i < sampler->members->count; i++) {
        struct bh_member *member = &sampler->members->items[i];
        struct bh_proc_fast fast;
        if (!member->charge.can_share || member->zombie || member->borrows_memory ||
            sampler->os->proc_fast(sampler->os->self, &member->proc, &fast) != BH_OK)
            continue;
        drift += fast.shared_bytes > member->shared_bytes
                     ? fast.shared_bytes - member->shared_bytes
                     : member->shared_bytes - fast.shared_bytes;
        if (fast.anon_bytes < member->charge.anon_bytes)
            drift += member->charge.anon_bytes - fast.anon_bytes;
    }
    return drift > sampler->total.upper_bytes / 64;
}

enum round_end {
    ROUND_CLEAN,
    ROUND_LOW,  /* somebody was born: shares read afterwards are smaller, the sum is too low at most
                 */
    ROUND_HIGH, /* somebody went, executed or took shared pages: a page may count for two owners */
};

/* What happened while the members were read one after the other. losses: as it was before. */
static enum round_end judge_round(struct bh_sampler *sampler, uint64_t losses)
{
    struct bh_members *members = sampler->members;
    (void)bh_members_scan(members, true, BH_RELIST_CHANGED);
    for (size_t i = 0; i < members->count && members->losses == losses; i++)
        bh_members_refresh(members, &members->items[i]);
    if (members->losses != losses || has_drifted(sampler))
        return ROUND_HIGH;
    return members->changed ? ROUND_LOW : ROUND_CLEAN;
}

static void forget_round(struct bh_sampler *sampler)
{
    for (size_t i = 0; i < sampler->members->count; i++)
        bh_charge_round_forget(sampler->tree, &sampler->members->items[i].charge);
}

/* Repeated while that is quick, until it is clean. One that was not leaves its total, and nothing
 * that later bounds stand on. */
static enum round_end exact_round(struct bh_sampler *sampler, const struct bh_policy_bands *bands)
{
    uint64_t cpu_before = sampler->os->cpu_ns(sampler->os->self);
    uint64_t begun_ns = sampler->os->now(sampler->os->self).ns;
    enum round_end end = ROUND_HIGH;
    sampler->far = false;
    for (int attempt = 0; attempt < ROUND_ATTEMPTS && end != ROUND_CLEAN; attempt++) {
        struct bh_mono now = sampler->os->now(sampler->os->self);
        if (attempt > 0 && now.ns - begun_ns > QUICK_ROUND_NS / 2)
            break;
        if (attempt > 0) {
            (void)bh_sampler_read_all(sampler, now);
            settle_shared(sampler);
        }
        uint64_t losses = sampler->members->losses;
        bh_charge_round_begin(sampler->tree);
        read_rollups(sampler, false);
        sampler->exact_rounds++;
        end = judge_round(sampler, losses);
    }
    settle_shared(sampler);
    add_up(sampler);
    read_written(sampler, bands); /* whoever was born meanwhile */
    bh_charge_round_end(sampler->tree, &sampler->total);
    if (end != ROUND_CLEAN)
        forget_round(sampler);
    sampler->round_at = sampler->os->now(sampler->os->self);
    sampler->round_cpu_ns += sampler->os->cpu_ns(sampler->os->self) - cpu_before;
    return end;
}

uint64_t bh_sampler_member_bytes(const struct bh_sampler *sampler, const struct bh_member *member)
{
    return member->zombie ? 0 : bh_charge_member_bound(&member->charge, sampler->page_bytes);
}

enum round_wish {
    ROUND_NONE,
    ROUND_INFORMS, /* a warning or a peak would be said that may be wrong */
    ROUND_ACTS,    /* the policy would act */
};

/* Below, sharing is not worth a round. */
#define SMALL_BYTES (32ull << 20)
/* A sum over sharers may stand this much (1 / 32, at least 1 MiB) above the confirmed peak without
 * a round; it is no peak then. Relative to what was confirmed, so that sharers cannot creep. */
#define SLACK_SHARE 32
#define SLACK_BYTES (1ull << 20)

static bool may_be_high(const struct bh_sampler *sampler)
{
    /* one alone shares with nobody here: its sum is the truth */
    return sampler->sharers > 1 && sampler->total.sharing &&
           sampler->total.bound_bytes > SMALL_BYTES &&
           sampler->total.bound_bytes > sampler->confirmed_peak_bytes;
}

static enum round_wish wish_round(const struct bh_sampler *sampler,
                                  const struct bh_policy_bands *bands, struct bh_mono now)
{
    bool acts = false;
    if (bands && bh_charge_round_needed(sampler->tree, &sampler->total, bands, &acts))
        return acts ? ROUND_ACTS : ROUND_INFORMS;
    uint64_t peak = sampler->confirmed_peak_bytes;
    uint64_t slack = peak / SLACK_SHARE > SLACK_BYTES ? peak / SLACK_SHARE : SLACK_BYTES;
    /* what stands for a second is worth a round at a thousandth already: it settles the question */
    if (now.ns - sampler->round_at.ns >= BH_NS_PER_S)
        slack = peak / 1024;
    bool above = may_be_high(sampler) && sampler->total.bound_bytes > peak + slack;
    return above ? ROUND_INFORMS : ROUND_NONE;
}

static void note_peak(struct bh_sampler *sampler, bool confirmed, bool exact)
{
    uint64_t bytes = exact ? sampler->tree->known_bytes : sampler->total.bound_bytes;
    sampler->confirmed = confirmed;
    sampler->confirmed_bytes = bytes;
    if (confirmed && bytes > sampler->confirmed_peak_bytes)
        sampler->confirmed_peak_bytes = bytes;
}

/* The quick readings. Who executed after it was read still counts with its old image, the copy of a
 * large parent perhaps: where that could matter everybody is read again. ret_settled: the last pass
 * saw nobody execute or go. */
static bool read_quickly(struct bh_sampler *sampler, const struct bh_policy_bands *bands,
                         struct bh_mono captured, bool *ret_settled)
{
    bool complete = false;
    bool matters = true;
    *ret_settled = false;
    for (int attempt = 0; attempt < ROUND_ATTEMPTS && !*ret_settled && matters; attempt++) {
        uint64_t losses = sampler->members->losses;
        complete = bh_sampler_read_all(sampler, captured);
        settle_shared(sampler);
        add_up(sampler);
        read_written(sampler, bands);
        *ret_settled = losses == sampler->members->losses;
        matters = bands && sampler->total.bound_bytes >= bands->warning_bytes;
    }
    *ret_settled = *ret_settled || !matters;
    return complete;
}

/* Nobody ran: nobody took a page, nobody was born and nobody went. That holds for the group's own
 * sum as well, which costs as much as a dozen members. */
static void repeat(struct bh_sampler *sampler, struct bh_mono captured,
                   struct bh_sample *ret_sample)
{
    *ret_sample = sampler->stood;
    ret_sample->captured_at = captured;
    ret_sample->processed_at = sampler->os->now(sampler->os->self);
    ret_sample->window_ns = ret_sample->processed_at.ns - captured.ns;
    ret_sample->exact = false;
    sampler->read_at = captured;
    sampler->stood = *ret_sample;
}

void bh_sampler_take(struct bh_sampler *sampler, const struct bh_policy_bands *bands,
                     bool allow_round, struct bh_sample *ret_sample)
{
    struct bh_mono captured = sampler->os->now(sampler->os->self);
    enum round_end end = ROUND_CLEAN;
    if (bands && bh_sampler_held(sampler, captured, ret_sample))
        return;
    bool relist = captured.ns >= sampler->relist_at.ns;
    if (relist)
        sampler->relist_at.ns = captured.ns + RELIST_PERIOD_NS;
    sampler->all_stand = false;
    if (sampler->far)
        bh_sampler_look_who_stands(sampler, captured);
    if (sampler->all_stand && sampler->repeats && !relist && !sampler->members->changed) {
        repeat(sampler, captured, ret_sample);
        return;
    }
    (void)bh_members_scan(sampler->members, relist,
                          !relist        ? BH_RELIST_CHANGED
                          : sampler->far ? BH_RELIST_RAN
                                         : BH_RELIST_ALL);
    bool settled = false;
    bool complete = read_quickly(sampler, bands, captured, &settled);
    bool kernel = bh_sampler_take_kernel(sampler, bands, &captured);
    if (!settled && !kernel)
        end = ROUND_HIGH;
    complete =
        complete || kernel; /* the group's sum misses nobody, however fast they come and go */
    enum round_wish wish = complete && !kernel ? wish_round(sampler, bands, captured) : ROUND_NONE;
    bool exact = wish == ROUND_ACTS || (wish == ROUND_INFORMS && allow_round);
    if (exact) {
        end = exact_round(sampler, bands);
        uint64_t took_ns = sampler->os->now(sampler->os->self).ns - captured.ns;
        /* a round over a very large job takes longer than a reading may: what it found is the base
         * of the bound then, and the reading a new quick one. Else it is the reading: growth since
         * would count pages that sharers merely touched. */
        if (took_ns > QUICK_ROUND_NS && end == ROUND_CLEAN) {
            captured = sampler->os->now(sampler->os->self);
            complete = bh_sampler_read_all(sampler, captured);
            settle_shared(sampler);
            read_rollups(sampler, true); /* born meanwhile, perhaps the larger part of the sum */
            add_up(sampler);
        }
    } else if (complete && !kernel) {
        bh_charge_settle(sampler->tree, &sampler->total);
    }
    bool sure = exact ? end == ROUND_CLEAN : kernel || !may_be_high(sampler);
    note_peak(sampler, complete && sure, exact);
    struct bh_mono processed = sampler->os->now(sampler->os->self);
    *ret_sample = (struct bh_sample){
        .captured_at = captured,
        .processed_at = processed,
        .window_ns = processed.ns - captured.ns,
        .bytes = {.status = complete ? BH_VALUE_AVAILABLE : BH_VALUE_UNAVAILABLE,
                  .value = complete ? sampler->total.bound_bytes : 0},
        .upper_bytes = sampler->total.upper_bytes,
        .members = (uint32_t)bh_members_live(sampler->members),
        .exact = exact,
    };
    sampler->repeats = complete && end != ROUND_HIGH && !sampler->members->incomplete;
    bh_sampler_hold_back(sampler, bands, end == ROUND_HIGH, ret_sample);
}
