#include "core/super/lost.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/wide.h"
#include "core/platform/platform.h"

#define LOOK_NS (5 * BH_NS_PER_MS)

struct ladder {
    struct bh_store *store;
    const struct bh_job_spec *spec;
    struct bh_queue_member *members; /* BH_QUEUE_MEMBERS places */
    size_t count;
};

static bool alive(const struct bh_queue_member *member)
{
    return bh_platform_alive_exact((int)member->pid, member->start_token, member->identity);
}

static bool known(const struct ladder *ladder, uint32_t pid, uint64_t start_token)
{
    for (size_t i = 0; i < ladder->count; i++) {
        if (ladder->members[i].pid == pid && ladder->members[i].start_token == start_token)
            return true;
    }
    return false;
}

/* Drops the dead; their places are needed for those found later. */
static void forget_dead(struct ladder *ladder)
{
    size_t kept = 0;
    for (size_t i = 0; i < ladder->count; i++) {
        if (alive(&ladder->members[i]))
            ladder->members[kept++] = ladder->members[i];
    }
    ladder->count = kept;
}

static void add_children(struct ladder *ladder, const struct bh_platform *os,
                         const struct bh_queue_member *parent)
{
    struct bh_proc proc;
    struct bh_proc_facts facts;
    int pids[256];
    size_t found = 0;
    if (os->proc_open(os->self, (int)parent->pid, &proc, &facts) < 0)
        return;
    if (proc.start_token == parent->start_token)
        (void)os->proc_children(os->self, &proc, true, pids, sizeof pids / sizeof pids[0], &found);
    os->proc_close(os->self, &proc);
    for (size_t i = 0; i < found && ladder->count < BH_QUEUE_MEMBERS; i++) {
        uint64_t token = 0;
        if (pids[i] <= 1 || bh_platform_start_token(pids[i], &token) < 0 ||
            known(ladder, (uint32_t)pids[i], token))
            continue;
        ladder->members[ladder->count++] =
            (struct bh_queue_member){.start_token = token, .pid = (uint32_t)pids[i]};
    }
}

/* Before anyone is killed: children of a killed parent go to init and out of sight. */
static void find_descendants(struct ladder *ladder)
{
    const struct bh_platform *os = bh_platform_host();
    for (size_t i = 0; i < ladder->count; i++) /* grows while it runs: whole subtrees */
        add_children(ladder, os, &ladder->members[i]);
}

static void signal_all(struct ladder *ladder, int signal, const char *reason)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_SIGNAL;
    record.at = bh_clock_mono();
    record.signal.signal = signal;
    record.signal.target = BH_TARGET_TREE;
    record.signal.result = BH_SIGNAL_PROCESS_MISSING;
    (void)strncpy(record.signal.reason, reason, sizeof record.signal.reason - 1);
    for (size_t i = 0; i < ladder->count; i++) {
        const struct bh_queue_member *member = &ladder->members[i];
        int result = bh_platform_signal_exact((int)member->pid, member->start_token,
                                              member->identity, signal);
        if (result == BH_OK) {
            record.signal.reached++;
            record.signal.result = BH_SIGNAL_DELIVERED;
        } else if (result != BH_E_NOT_FOUND && record.signal.reached == 0) {
            record.signal.result =
                result == BH_E_PERMISSION ? BH_SIGNAL_PERMISSION_DENIED : BH_SIGNAL_FAILED;
        }
    }
    bh_store_add(ladder->store, &record);
}

/* Waits until nobody is left or the time is over; keeps emptying the queue meanwhile. */
static bool wait_empty(struct ladder *ladder, uint64_t ns)
{
    uint64_t end = bh_clock_mono().ns + ns;
    for (;;) {
        (void)bh_store_take(ladder->store);
        forget_dead(ladder);
        if (ladder->count == 0)
            return true;
        if (bh_clock_mono().ns >= end)
            return false;
        struct timespec pause = {.tv_nsec = (long)LOOK_NS};
        (void)nanosleep(&pause, NULL);
        find_descendants(ladder);
    }
}

/* policy.md section 6.1, without progress. */
static uint64_t grace_ns(const struct bh_job_spec *spec, struct bh_observed charge)
{
    uint64_t bytes = charge.status == BH_VALUE_AVAILABLE ? charge.value : 0;
    bh_u128 grace =
        (bh_u128)spec->grace_base_ns + (bh_u128)spec->grace_per_gib_ns * bytes / (1u << 30);
    return grace < spec->grace_max_ns ? (uint64_t)grace : spec->grace_max_ns;
}

static uint32_t run_ladder(struct ladder *ladder, struct bh_observed charge)
{
    const struct bh_job_spec *spec = ladder->spec;
    forget_dead(ladder);
    find_descendants(ladder);
    if (ladder->count == 0)
        return 0;
    signal_all(ladder, spec->stop_signal, "supervisor_fault");
    if (wait_empty(ladder, grace_ns(spec, charge)))
        return 0;
    uint64_t end = bh_clock_mono().ns + spec->kill_wait_ns;
    const char *reason = "grace_expired";
    while (bh_clock_mono().ns < end) {
        signal_all(ladder, SIGKILL, reason);
        if (wait_empty(ladder, spec->kill_retry_ns))
            return 0;
        reason = "retry";
    }
    return (uint32_t)ladder->count;
}

uint32_t bh_lost_stop(struct bh_store *store, const struct bh_job_spec *spec,
                      const struct bh_queue_member *members, size_t count,
                      struct bh_observed charge)
{
    struct ladder ladder = {.store = store, .spec = spec};
    ladder.members = calloc(BH_QUEUE_MEMBERS, sizeof *ladder.members);
    if (!ladder.members)
        return (uint32_t)count; /* 32 KiB not to be had: nothing can be claimed */
    ladder.count = count < BH_QUEUE_MEMBERS ? count : BH_QUEUE_MEMBERS;
    memcpy(ladder.members, members, ladder.count * sizeof *members);
    uint32_t left = run_ladder(&ladder, charge);
    free(ladder.members);
    return left;
}
