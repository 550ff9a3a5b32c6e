#include "core/platform/fake_host.h"

#include <stdio.h>
#include <unistd.h>

static struct bh_wall wall(void *self)
{
    return (struct bh_wall){(int64_t)(((struct bh_fake *)self)->clock.ns / 1000)};
}

static int host(void *self, struct bh_platform_host *ret_host)
{
    *ret_host = ((struct bh_fake *)self)->host;
    return BH_OK;
}

static int memory(void *self, struct bh_platform_memory *ret_memory)
{
    *ret_memory = ((struct bh_fake *)self)->memory;
    return BH_OK;
}

static uint64_t oom_kills(void *self)
{
    return ((struct bh_fake *)self)->oom_kills;
}

static uint64_t cpu_ns(void *self)
{
    return ((struct bh_fake *)self)->cpu_ns;
}

static int become_reaper(void *self, bool *ret_subreaper)
{
    (void)self;
    *ret_subreaper = true;
    return BH_OK;
}

static int collect_signals(void *self)
{
    (void)self;
    return BH_OK;
}

static bool answer_no(void *self)
{
    (void)self;
    return false;
}

static bool child_ended(void *self, int pid)
{
    const struct bh_fake_process *process = bh_fake_find(self, pid);
    return process && process->life == BH_FAKE_ZOMBIE && process->parent == getpid();
}

static bool child_stopped(void *self, int pid)
{
    (void)self;
    (void)pid;
    return false;
}

static int signal_group(void *self, int group, int number)
{
    (void)self;
    (void)group;
    (void)number;
    return BH_E_UNSUPPORTED; /* the loop addresses processes only */
}

static int cgroup_make(void *self, const struct bh_cgroup_wish *wish, struct bh_cgroup *ret_cgroup,
                       char *ret_reason, size_t reason_size)
{
    struct bh_fake *fake = self;
    *ret_cgroup =
        (struct bh_cgroup){.made = fake->cgroup_memory,
                           .memory = fake->cgroup_memory,
                           .kill = fake->cgroup_memory,
                           .limits = fake->cgroup_memory,
                           .high = fake->cgroup_memory,
                           .huge = fake->cgroup_memory && !fake->cgroup_without_huge,
                           .events_fd = fake->cgroup_events_fd > 0 ? fake->cgroup_events_fd : -1};
    fake->cgroup_max = wish->max_bytes;
    fake->cgroup_high = wish->high_bytes;
    (void)snprintf(ret_reason, reason_size, "%s", fake->cgroup_memory ? "" : "none in the script");
    return BH_OK;
}

static int cgroup_limit(void *self, const struct bh_cgroup *cgroup, uint64_t max_bytes,
                        uint64_t high_bytes)
{
    (void)cgroup;
    ((struct bh_fake *)self)->cgroup_max = max_bytes;
    ((struct bh_fake *)self)->cgroup_high = high_bytes;
    return BH_OK;
}

static int cgroup_charge(void *self, const struct bh_cgroup *cgroup, bool held,
                         struct bh_cgroup_charge *ret_charge)
{
    const struct bh_fake *fake = self;
    (void)cgroup;
    *ret_charge = (struct bh_cgroup_charge){.bytes = fake->cgroup_bytes,
                                            .shmem_bytes = fake->cgroup_shmem_bytes,
                                            .held_bytes = held ? fake->cgroup_held_bytes : 0};
    return BH_OK;
}

static int cgroup_events(void *self, const struct bh_cgroup *cgroup,
                         struct bh_cgroup_events *ret_events)
{
    (void)cgroup;
    *ret_events = ((struct bh_fake *)self)->cgroup_events;
    return BH_OK;
}

static int cgroup_members(void *self, const struct bh_cgroup *cgroup, int *ret_pids,
                          size_t capacity, size_t *ret_count)
{
    (void)self;
    (void)cgroup;
    (void)ret_pids;
    (void)capacity;
    (void)ret_count;
    return BH_E_UNSUPPORTED; /* the script's members are found by their parents */
}

static int cgroup_has(void *self, const struct bh_cgroup *cgroup, const struct bh_proc *proc)
{
    (void)cgroup;
    return !((struct bh_fake *)self)->processes[proc->dir_fd].left_cgroup;
}

static int cgroup_kill(void *self, const struct bh_cgroup *cgroup)
{
    struct bh_fake *fake = self;
    (void)cgroup;
    fake->cgroup_kills++;
    return BH_OK;
}

static int cgroup_populated(void *self, const struct bh_cgroup *cgroup)
{
    (void)self;
    (void)cgroup;
    return 0;
}

static void cgroup_remove(void *self, struct bh_cgroup *cgroup)
{
    (void)self;
    cgroup->made = false;
}

void bh_fake_fill_host(struct bh_platform *platform)
{
    platform->wall = wall;
    platform->host = host;
    platform->memory = memory;
    platform->oom_kills = oom_kills;
    platform->cpu_ns = cpu_ns;
    platform->become_reaper = become_reaper;
    platform->collect_signals = collect_signals;
    platform->child_ended = child_ended;
    platform->child_stopped = child_stopped;
    platform->signal_group = signal_group;
    platform->cgroup_make = cgroup_make;
    platform->cgroup_limit = cgroup_limit;
    platform->cgroup_charge = cgroup_charge;
    platform->cgroup_events = cgroup_events;
    platform->cgroup_members = cgroup_members;
    platform->cgroup_has = cgroup_has;
    platform->cgroup_kill = cgroup_kill;
    platform->cgroup_populated = cgroup_populated;
    platform->cgroup_remove = cgroup_remove;
    platform->lock_memory = answer_no;
    platform->raise_priority = answer_no;
}
