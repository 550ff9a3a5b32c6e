#include "core/super/lost.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/text.h"
#include "core/platform/platform.h"

#define LOOK_NS   (5 * BH_NS_PER_MS)
#define SAMPLE_NS (50 * BH_NS_PER_MS)

struct ladder {
    struct bh_store *store;
    const struct bh_job_spec *spec;
    struct bh_queue_member *members; /* BH_QUEUE_MEMBERS places */
    size_t count;
    struct bh_cgroup group; /* the job's own; made = false: none */
    int process_group;      /* the root's, 0 = not known */
    struct bh_policy_config config;
    struct bh_policy_state policy;
    uint64_t zero_ns;         /* the policy's time 0; moves with what a sleep leaves out */
    struct bh_mono looked_at; /* last look */
    struct bh_mono next_sample;
    bool killing, given_up;
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
    if (pid <= 1 || pid == (int)getpid() || ladder->count == BH_QUEUE_MEMBERS ||
        bh_platform_start_token(pid, &token) < 0 || known(ladder, (uint32_t)pid, token))
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
    *group = (struct bh_cgroup){.dir_fd = -1,
                                .stat_fd = -1,
                                .swap_fd = -1,
                                .current_fd = -1,
                                .events_fd = -1,
                                .procs_fd = -1};
    if (run->runtime_fd >= 0 &&
        bh_io_read_file(run->runtime_fd, BH_RUN_CGROUP_NAME, sizeof group->path, &path, NULL) ==
            BH_OK &&
        bh_io_open_dir(AT_FDCWD, (const char *)path.data, &group->dir_fd, NULL) == BH_OK) {
        group->made = true;
        group->kill = faccessat(group->dir_fd, "cgroup.kill", W_OK, 0) == 0;
        group->stat_fd = openat(group->dir_fd, "memory.stat", O_RDONLY | O_CLOEXEC);
        group->swap_fd = openat(group->dir_fd, "memory.swap.current", O_RDONLY | O_CLOEXEC);
        group->memory = group->stat_fd >= 0;
    }
    bh_bytes_done(&path);
}

static void close_group(struct ladder *ladder)
{
    const int fds[] = {ladder->group.dir_fd, ladder->group.stat_fd, ladder->group.swap_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
    }
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

/* Whether the job's process group is still the job's: one whom we know to be a member is in it. A
 * group's number is not given anew while somebody is. */
static bool group_is_ours(const struct ladder *ladder)
{
    const struct bh_platform *os = bh_platform_host();
    bool ours = false;
    for (size_t i = 0; i < ladder->count && !ours && ladder->process_group > 1; i++) {
        struct bh_proc proc;
        struct bh_proc_facts facts;
        if (os->proc_open(os->self, (int)ladder->members[i].pid, &proc, &facts) < 0)
            continue;
        ours = proc.start_token == ladder->members[i].start_token &&
               facts.group == ladder->process_group;
        os->proc_close(os->self, &proc);
    }
    return ours;
}

/* Orphans of the job that stayed in its process group: init's children by now, no list of ours
 * leads to them. */
static void add_process_group(struct ladder *ladder)
{
    static int pids[BH_QUEUE_MEMBERS];
    size_t found = 0;
    if (!group_is_ours(ladder))
        return;
    (void)bh_platform_group_members(ladder->process_group, pids, BH_QUEUE_MEMBERS, &found);
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

/* ---- signals ---- */

static void send(const struct ladder *ladder, int signal, struct bh_record_signal *words)
{
    for (size_t i = 0; i < ladder->count; i++) {
        const struct bh_queue_member *member = &ladder->members[i];
        int result = bh_platform_signal_exact((int)member->pid, member->start_token,
                                              member->identity, signal);
        if (result == BH_OK) {
            words->reached++;
            words->result = BH_SIGNAL_DELIVERED;
        } else if (result != BH_E_NOT_FOUND && words->reached == 0) {
            words->result =
                result == BH_E_PERMISSION ? BH_SIGNAL_PERMISSION_DENIED : BH_SIGNAL_FAILED;
        }
    }
}

static void signal_all(struct ladder *ladder, int signal, const char *reason)
{
    struct bh_record record;
    struct bh_record_signal ignored = {0};
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_SIGNAL;
    record.at = bh_store_now(ladder->store);
    record.signal.signal = signal;
    record.signal.target = BH_TARGET_TREE;
    record.signal.result = BH_SIGNAL_PROCESS_MISSING;
    (void)strncpy(record.signal.reason, reason, sizeof record.signal.reason - 1);
    send(ladder, signal, &record.signal);
    if (signal != SIGKILL) /* who is stopped acts on nothing but KILL */
        send(ladder, SIGCONT, &ignored);
    bh_store_add(ladder->store, &record);
}

static void kill_all(struct ladder *ladder, const char *reason)
{
    const struct bh_platform *os = bh_platform_host();
    ladder->killing = true;
    add_process_group(ladder);
    group_kill(ladder);
    /* at once for everybody in it: one that forks on cannot be ahead of that */
    if (group_is_ours(ladder))
        (void)os->signal_group(os->self, ladder->process_group, SIGKILL);
    signal_all(ladder, SIGKILL, reason);
}

/* ---- what is held ---- */

static bool member_charge(const struct bh_platform *os, const struct bh_queue_member *member,
                          uint64_t *total)
{
    struct bh_proc proc;
    struct bh_proc_facts facts;
    struct bh_proc_rest rest = {0};
    if (os->proc_open(os->self, (int)member->pid, &proc, &facts) < 0)
        return false;
    bool good =
        proc.start_token == member->start_token && os->proc_rest(os->self, &proc, &rest) == BH_OK;
    os->proc_close(os->self, &proc);
    *total += rest.anon_bytes + rest.rest_bytes;
    return good;
}

/* The plain sum, or the group's own: whether it falls is all that is asked here, and a shared page
 * that counts twice does so before and after. */
static bool read_charge(const struct ladder *ladder, uint64_t *ret_bytes)
{
    const struct bh_platform *os = bh_platform_host();
    if (ladder->group.memory) {
        struct bh_cgroup_charge group = {0};
        int result = os->cgroup_charge(os->self, &ladder->group, false, &group);
        *ret_bytes = group.bytes;
        return result == BH_OK;
    }
    uint64_t total = 0;
    bool whole = true;
    for (size_t i = 0; i < ladder->count; i++)
        whole = (member_charge(os, &ladder->members[i], &total) || !alive(&ladder->members[i])) &&
                whole;
    *ret_bytes = total;
    return whole;
}

/* ---- the policy's ladder ---- */

static const char *kill_reason(const struct bh_policy_event *event, bool again)
{
    if (event->kind == BH_POLICY_EVENT_TICK)
        return again ? "retry" : "grace_expired";
    return event->kind == BH_POLICY_EVENT_STOP_REQUEST ? "retry" : "emergency";
}

static void step(struct ladder *ladder, const struct bh_policy_event *event)
{
    struct bh_policy_actions actions;
    bool again = ladder->policy.kill_sent;
    bh_policy_step(&ladder->config, &ladder->policy, event, &actions);
    for (unsigned i = 0; i < actions.count; i++) {
        const struct bh_policy_action *action = &actions.items[i];
        if (action->kind == BH_POLICY_ACTION_SEND_TERM)
            signal_all(ladder, ladder->spec->stop_signal, bh_policy_reason_name(action->reason));
        else if (action->kind == BH_POLICY_ACTION_SEND_KILL)
            kill_all(ladder, kill_reason(event, again));
        else if (action->kind == BH_POLICY_ACTION_REPORT_SUPERVISOR_ERROR)
            ladder->given_up = true;
    }
}

static uint64_t policy_now(const struct ladder *ladder)
{
    uint64_t now = bh_clock_mono().ns;
    return now > ladder->zero_ns ? now - ladder->zero_ns : 0;
}

static void feed_sample(struct ladder *ladder, bool known, uint64_t bytes)
{
    struct bh_policy_event event = {.kind = BH_POLICY_EVENT_SAMPLE, .at_ns = policy_now(ladder)};
    event.sample.captured_at_ns = event.at_ns;
    event.sample.bytes = bytes;
    event.sample.has_bytes = known;
    step(ladder, &event);
}

/* Grace, its extension while memory falls, KILL and its repetition are the policy's, as in a run.
 * What decides about limits is out of it: nobody may be killed here for a plain sum. */
static void begin_policy(struct ladder *ladder, struct bh_observed charge)
{
    uint64_t bytes = 0;
    bh_run_policy_config(ladder->spec, &ladder->config);
    ladder->config.mode = BH_POLICY_MODE_ENFORCE;
    ladder->config.bands = (struct bh_policy_bands){.recovery_bytes = BH_POLICY_MAX - 3,
                                                    .warning_bytes = BH_POLICY_MAX - 2,
                                                    .limit_bytes = BH_POLICY_MAX - 1,
                                                    .emergency_bytes = BH_POLICY_MAX};
    ladder->config.max_unusable = UINT32_MAX;
    ladder->config.wall_time_ns = 0;
    ladder->config.checkpoint_timeout_ns = 0;
    bh_policy_start(&ladder->config, &ladder->policy);
    ladder->looked_at = bh_clock_mono();
    ladder->zero_ns = ladder->looked_at.ns;
    if (read_charge(ladder, &bytes))
        feed_sample(ladder, true, bytes);
    else if (charge.status == BH_VALUE_AVAILABLE)
        feed_sample(ladder, true, charge.value);
}

/* A lid that was closed is no time that the job had. */
static void notice_gap(struct ladder *ladder)
{
    struct bh_mono now = bh_clock_mono();
    uint64_t passed = now.ns - ladder->looked_at.ns;
    if (passed > ladder->config.max_sample_age_ns + LOOK_NS)
        ladder->zero_ns += passed - ladder->config.max_sample_age_ns;
    ladder->looked_at = now;
}

/* Whoever appeared since the KILL: a tree that forks never waits for the next one. */
static void kill_newcomers(const struct ladder *ladder)
{
    struct bh_record_signal ignored = {0};
    if (ladder->killing)
        send(ladder, SIGKILL, &ignored);
}

static bool nobody_left(const struct ladder *ladder)
{
    return ladder->count == 0 && (!ladder->group.made || group_empty(ladder));
}

static void look(struct ladder *ladder)
{
    uint64_t deadline_ns, bytes = 0;
    notice_gap(ladder);
    find_descendants(ladder);
    kill_newcomers(ladder);
    if (!ladder->killing && ladder->looked_at.ns >= ladder->next_sample.ns) {
        add_process_group(ladder);
        bool known = read_charge(ladder, &bytes);
        feed_sample(ladder, known, bytes);
        ladder->next_sample.ns = ladder->looked_at.ns + SAMPLE_NS;
    }
    struct bh_policy_event tick = {.kind = BH_POLICY_EVENT_TICK, .at_ns = policy_now(ladder)};
    if (bh_policy_next_deadline(&ladder->config, &ladder->policy, &deadline_ns) &&
        tick.at_ns >= deadline_ns)
        step(ladder, &tick);
}

/* killed: the decider was past asking. */
static uint32_t run_ladder(struct ladder *ladder, struct bh_observed charge, bool killed)
{
    forget_dead(ladder);
    add_process_group(ladder);
    find_descendants(ladder);
    if (nobody_left(ladder))
        return 0;
    begin_policy(ladder, charge);
    struct bh_policy_event event = {.kind = BH_POLICY_EVENT_SUPERVISOR_FAULT,
                                    .at_ns = policy_now(ladder)};
    if (killed) {
        event.kind = BH_POLICY_EVENT_STOP_REQUEST;
        event.stop = BH_POLICY_STOP_KILL;
    }
    step(ladder, &event);
    while (!ladder->given_up) {
        (void)bh_store_take(ladder->store); /* the queue is emptied meanwhile */
        forget_dead(ladder);
        if (nobody_left(ladder))
            return 0;
        struct timespec pause = {.tv_nsec = (long)LOOK_NS};
        (void)nanosleep(&pause, NULL);
        look(ladder);
    }
    return ladder->count ? (uint32_t)ladder->count : 1; /* one that only the group knows of */
}

uint32_t bh_lost_stop(struct bh_store *store, const struct bh_job_spec *spec,
                      const struct bh_queue_member *members, size_t count,
                      const struct bh_status *status, bool *ret_proven)
{
    struct ladder ladder = {.store = store, .spec = spec};
    struct bh_observed unknown = {BH_VALUE_UNKNOWN, 0};
    *ret_proven = false;
    ladder.members = calloc(BH_QUEUE_MEMBERS, sizeof *ladder.members);
    if (!ladder.members)
        return (uint32_t)count; /* 128 KiB not to be had: nothing can be claimed */
    ladder.count = count < BH_QUEUE_MEMBERS ? count : BH_QUEUE_MEMBERS;
    memcpy(ladder.members, members, ladder.count * sizeof *members);
    open_group(&ladder);
    if (status && status->root_pid != (int)getpgrp()) /* never our own */
        ladder.process_group = status->root_pid;
    uint32_t left = run_ladder(&ladder, status ? status->charge : unknown,
                               status && status->policy_state == BH_POLICY_STATE_EMERGENCY);
    *ret_proven = left == 0 && group_empty(&ladder);
    close_group(&ladder);
    free(ladder.members);
    return left;
}
