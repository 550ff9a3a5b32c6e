#include "core/super/lost.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/text.h"
#include "core/base/wide.h"
#include "core/platform/platform.h"

#define LOOK_NS (5 * BH_NS_PER_MS)

struct ladder {
    struct bh_store *store;
    const struct bh_job_spec *spec;
    struct bh_queue_member *members; /* BH_QUEUE_MEMBERS places */
    size_t count;
    struct bh_cgroup group; /* the job's own; made = false: none */
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

static void add_pid(struct ladder *ladder, int pid)
{
    uint64_t token = 0;
    if (pid <= 1 || ladder->count == BH_QUEUE_MEMBERS || bh_platform_start_token(pid, &token) < 0 ||
        known(ladder, (uint32_t)pid, token))
        return;
    ladder->members[ladder->count++] =
        (struct bh_queue_member){.start_token = token, .pid = (uint32_t)pid};
}

/* ---- the job's control group ---- */

static void open_group(struct ladder *ladder)
{
    const struct bh_run *run = ladder->store->run;
    struct bh_cgroup *group = &ladder->group;
    struct bh_bytes path = {0};
    *group = (struct bh_cgroup){.dir_fd = -1, .stat_fd = -1, .swap_fd = -1, .events_fd = -1};
    if (run->runtime_fd >= 0 &&
        bh_io_read_file(run->runtime_fd, BH_RUN_CGROUP_NAME, sizeof group->path, &path, NULL) ==
            BH_OK &&
        bh_io_open_dir(AT_FDCWD, (const char *)path.data, &group->dir_fd, NULL) == BH_OK) {
        group->made = true;
        group->kill = faccessat(group->dir_fd, "cgroup.kill", W_OK, 0) == 0;
    }
    bh_bytes_done(&path);
}

/* Everyone in it, also those that left the tree. */
static void add_group_members(struct ladder *ladder)
{
    struct bh_bytes text = {0};
    if (ladder->group.made &&
        bh_io_read_file(ladder->group.dir_fd, "cgroup.procs", 1u << 20, &text, NULL) == BH_OK) {
        char *rest = NULL;
        for (char *line = strtok_r((char *)text.data, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest)) {
            uint64_t pid = 0;
            if (bh_text_u64(line, "pid", INT32_MAX, &pid, NULL) == BH_OK)
                add_pid(ladder, (int)pid);
        }
    }
    bh_bytes_done(&text);
}

/* Said by the group: true only when it is there and empty. */
static bool group_empty(const struct ladder *ladder)
{
    const struct bh_platform *os = bh_platform_host();
    return ladder->group.made && os->cgroup_populated(os->self, &ladder->group) == 0;
}

static void group_kill(const struct ladder *ladder)
{
    const struct bh_platform *os = bh_platform_host();
    if (ladder->group.kill)
        (void)os->cgroup_kill(os->self, &ladder->group);
}

/* ---- the tree ---- */

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
    for (size_t i = 0; i < found; i++)
        add_pid(ladder, pids[i]);
}

/* Before anyone is killed: children of a killed parent go to init and out of sight. */
static void find_descendants(struct ladder *ladder)
{
    const struct bh_platform *os = bh_platform_host();
    add_group_members(ladder);
    for (size_t i = 0; i < ladder->count; i++) /* grows while it runs: whole subtrees */
        add_children(ladder, os, &ladder->members[i]);
}

static void signal_all(struct ladder *ladder, int signal, const char *reason)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_SIGNAL;
    record.at = bh_store_now(ladder->store);
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
        if (ladder->count == 0 && (!ladder->group.made || group_empty(ladder)))
            return true;
        if (bh_clock_mono().ns >= end)
            return false;
        struct timespec pause = {.tv_nsec = (long)LOOK_NS};
        (void)nanosleep(&pause, NULL);
        find_descendants(ladder);
    }
}

/* The grace of core/model/policy.md, section 6, without progress. */
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
    if (ladder->count == 0 && (!ladder->group.made || group_empty(ladder)))
        return 0;
    signal_all(ladder, spec->stop_signal, "supervisor_fault");
    if (wait_empty(ladder, grace_ns(spec, charge)))
        return 0;
    uint64_t end = bh_clock_mono().ns + spec->kill_wait_ns;
    const char *reason = "grace_expired";
    while (bh_clock_mono().ns < end) {
        group_kill(ladder);
        signal_all(ladder, SIGKILL, reason);
        if (wait_empty(ladder, spec->kill_retry_ns))
            return 0;
        reason = "retry";
    }
    return ladder->count ? (uint32_t)ladder->count : 1; /* one that only the group knows of */
}

uint32_t bh_lost_stop(struct bh_store *store, const struct bh_job_spec *spec,
                      const struct bh_queue_member *members, size_t count,
                      struct bh_observed charge, bool *ret_proven)
{
    struct ladder ladder = {.store = store, .spec = spec};
    *ret_proven = false;
    ladder.members = calloc(BH_QUEUE_MEMBERS, sizeof *ladder.members);
    if (!ladder.members)
        return (uint32_t)count; /* 32 KiB not to be had: nothing can be claimed */
    ladder.count = count < BH_QUEUE_MEMBERS ? count : BH_QUEUE_MEMBERS;
    memcpy(ladder.members, members, ladder.count * sizeof *members);
    open_group(&ladder);
    uint32_t left = run_ladder(&ladder, charge);
    *ret_proven = left == 0 && group_empty(&ladder);
    if (ladder.group.dir_fd >= 0)
        (void)close(ladder.group.dir_fd);
    free(ladder.members);
    return left;
}
