/* Signals to the tree: every live member by its own handle, never by a bare number or a group. */
#include <signal.h>
#include <stdio.h>

#include "core/super/helpers.h"
#include "core/super/loop.h"

/* A forking tree is chased within one call; what still appears after that is found by the sweeps of
 * the loop (every reaped child, and each SWEEP_NS). 64 passes cover a tree that forks at each look.
 */
#define KILL_PASSES 64
#define SWEEP_NS    BH_NS_PER_MS
/* process_mrelease pays for large victims only. */
#define RELEASE_FROM (256ull << 20)

struct delivery {
    uint32_t reached, missing, denied, failed;
    struct bh_mono first_at; /* the first one that was reached */
};

static void deliver(struct bh_loop *loop, struct bh_member *member, int signal,
                    struct delivery *delivery)
{
    int result = loop->os->proc_signal(loop->os->self, &member->proc, signal);
    if (result == BH_OK) {
        if (delivery->reached++ == 0)
            delivery->first_at = loop->os->now(loop->os->self);
        if (member->proc.pid == loop->members.root_pid)
            loop->ours_reached_root[signal] = true;
    } else if (result == BH_E_NOT_FOUND) {
        delivery->missing++;
    } else if (result == BH_E_PERMISSION) {
        delivery->denied++;
    } else {
        delivery->failed++;
    }
}

static enum bh_signal_result result_of(const struct delivery *delivery)
{
    if (delivery->reached)
        return BH_SIGNAL_DELIVERED;
    if (delivery->denied)
        return BH_SIGNAL_PERMISSION_DENIED;
    return delivery->failed ? BH_SIGNAL_FAILED : BH_SIGNAL_PROCESS_MISSING;
}

static void note_signal(struct bh_loop *loop, int signal, const char *reason,
                        const struct delivery *delivery, uint64_t decided_at_ns)
{
    bh_loop_tell_transition(loop); /* first the signals, then what is said of them, in order */
    struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_SIGNAL);
    record.signal.signal = signal;
    record.signal.target = BH_TARGET_TREE;
    record.signal.result = result_of(delivery);
    record.signal.reached = delivery->reached;
    record.signal.decision_to_signal_ns =
        (delivery->reached ? delivery->first_at.ns : record.at.ns) - decided_at_ns;
    (void)snprintf(record.signal.reason, sizeof record.signal.reason, "%s", reason);
    struct bh_account *account = &loop->account;
    if (delivery->reached && account->first_signal_at.ns == 0) {
        account->first_signal_at = delivery->first_at;
        account->bytes_at_signal = account->charge.value;
        account->decision_to_signal_ns = (struct bh_observed){
            .status = BH_VALUE_AVAILABLE, .value = record.signal.decision_to_signal_ns};
    }
    bh_notes_put(&loop->notes, &record);
}

bool bh_loop_signal_tree(struct bh_loop *loop, int signal, const char *reason,
                         uint64_t decided_at_ns)
{
    struct delivery delivery = {0};
    for (size_t i = 0; i < loop->members.count; i++) {
        if (!loop->members.items[i].zombie)
            deliver(loop, &loop->members.items[i], signal, &delivery);
    }
    note_signal(loop, signal, reason, &delivery, decided_at_ns);
    /* a stopped process acts on nothing but KILL: let it run, or its grace is an empty one */
    for (size_t i = 0; signal != SIGKILL && i < loop->members.count; i++)
        (void)loop->os->proc_signal(loop->os->self, &loop->members.items[i].proc, SIGCONT);
    return delivery.reached > 0 || (!delivery.denied && !delivery.failed);
}

static void kill_known(struct bh_loop *loop, struct delivery *delivery)
{
    for (size_t i = 0; i < loop->members.count; i++) {
        struct bh_member *member = &loop->members.items[i];
        if (member->zombie || member->kill_sent)
            continue;
        member->kill_sent = true;
        deliver(loop, member, SIGKILL, delivery);
    }
}

static void release_large(struct bh_loop *loop)
{
    for (size_t i = 0; i < loop->members.count; i++) {
        const struct bh_member *member = &loop->members.items[i];
        if (member->kill_sent && member->charge.anon_bytes >= RELEASE_FROM)
            bh_helpers_release_memory(loop->mrelease_fd, member->proc.pid,
                                      member->proc.start_token);
    }
}

static void chase(struct bh_loop *loop, struct delivery *delivery)
{
    kill_known(loop, delivery);
    for (int pass = 0; pass < KILL_PASSES; pass++) {
        if (bh_members_scan(&loop->members, true, BH_RELIST_ALL) == 0)
            break;
        kill_known(loop, delivery);
    }
}

bool bh_loop_kill_tree(struct bh_loop *loop, const char *reason, uint64_t decided_at_ns)
{
    struct delivery delivery = {0};
    loop->members.hurried = true;
    /* a retry is for everybody who still is there */
    for (size_t i = 0; i < loop->members.count; i++)
        loop->members.items[i].kill_sent = false;
    /* those we hold first: nothing can make that wait, while the group's own KILL takes locks of
     * the whole system. It reaches also whom no look has found yet; the walk then counts and
     * reaches who left the group */
    kill_known(loop, &delivery);
    if (loop->cgroup.kill)
        (void)loop->os->cgroup_kill(loop->os->self, &loop->cgroup);
    bh_loop_tell_transition(loop);
    chase(loop, &delivery);
    note_signal(loop, SIGKILL, reason, &delivery, decided_at_ns);
    release_large(loop);
    loop->killed = loop->killed || delivery.reached > 0;
    loop->killing = true;
    loop->child_ended = true;
    loop->next_sweep.ns = loop->os->now(loop->os->self).ns + SWEEP_NS;
    return delivery.reached > 0 || (!delivery.denied && !delivery.failed);
}

void bh_loop_sweep(struct bh_loop *loop)
{
    struct delivery delivery = {0};
    chase(loop, &delivery);
    if (delivery.reached)
        loop->killed = true;
    loop->next_sweep.ns = loop->os->now(loop->os->self).ns + SWEEP_NS;
}
