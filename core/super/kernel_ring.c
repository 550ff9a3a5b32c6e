/* The kernel ring of one job: limits of its control group, the brake, its last word on who was
 * killed. */
#include <string.h>

#include "core/base/io.h"
#include "core/super/loop.h"

/* With emergency_action term the kernel must not kill what the policy would only ask to end. */
static uint64_t max_bytes(const struct bh_loop *loop)
{
    bool enforce = loop->config.mode == BH_POLICY_MODE_ENFORCE;
    bool kill = loop->config.emergency_action == BH_POLICY_EMERGENCY_KILL;
    return enforce && kill ? loop->config.bands.emergency_bytes : 0;
}

/* Once the policy acts the job has to save and to end: both need what the brake withholds. */
static uint64_t high_bytes(const struct bh_loop *loop)
{
    bool enforce = loop->config.mode == BH_POLICY_MODE_ENFORCE;
    bool acting = loop->stop != BH_STOP_NONE;
    return enforce && loop->spec->brake && !acting ? loop->config.bands.limit_bytes : 0;
}

void bh_loop_make_cgroup(struct bh_loop *loop)
{
    struct bh_cgroup_wish wish = {
        .run_id = loop->run->id, .max_bytes = max_bytes(loop), .high_bytes = high_bytes(loop)};
    (void)loop->os->cgroup_make(loop->os->self, &wish, &loop->cgroup, loop->cgroup_reason,
                                sizeof loop->cgroup_reason);
    loop->braked =
        loop->cgroup.memory && loop->cgroup.limits && loop->cgroup.high && wish.high_bytes > 0;
    loop->sampler.cgroup = &loop->cgroup;
    loop->members.cgroup = loop->cgroup.made ? &loop->cgroup : NULL;
    /* for whoever cleans up after a decider that was killed */
    if (loop->cgroup.made && loop->run->runtime_fd >= 0)
        (void)bh_io_replace(loop->run->runtime_fd, BH_RUN_CGROUP_NAME, loop->cgroup.path,
                            strlen(loop->cgroup.path), false, NULL);
}

void bh_loop_follow_limits(struct bh_loop *loop)
{
    if (loop->cgroup.memory)
        (void)loop->os->cgroup_limit(loop->os->self, &loop->cgroup, max_bytes(loop),
                                     high_bytes(loop));
}

void bh_loop_watch_brake(struct bh_loop *loop)
{
    struct bh_cgroup_events events;
    if (!loop->braked || loop->os->cgroup_events(loop->os->self, &loop->cgroup, &events) < 0 ||
        events.highs == loop->highs)
        return;
    loop->highs = events.highs;
    loop->sampler.held = true;
    loop->sampler.repeats = false; /* whoever stands still is stopped by the kernel, perhaps */
    /* page cache alone can make it grow a hundred times a second: then the budget says when */
    struct bh_mono now = loop->os->now(loop->os->self);
    if (now.ns < loop->next_sample.ns && bh_governor_wait_ns(&loop->schedule, &loop->governor) == 0)
        loop->next_sample = now;
}

void bh_loop_let_brake_go(struct bh_loop *loop)
{
    if (!loop->braked || loop->stop == BH_STOP_NONE)
        return;
    loop->braked = false;
    bh_loop_follow_limits(loop);
}

bool bh_loop_kernel_enforced(const struct bh_loop *loop)
{
    return loop->cgroup.memory && loop->cgroup.limits && max_bytes(loop) > 0;
}

const char *bh_loop_mechanism(const struct bh_loop *loop)
{
    if (bh_loop_kernel_enforced(loop))
        return loop->braked ? "cgroup_v2 memory.max, memory.high" : "cgroup_v2 memory.max";
    return loop->braked ? "cgroup_v2 memory.high" : "";
}

bool bh_loop_kernel_killed(const struct bh_loop *loop)
{
    struct bh_cgroup_events events;
    /* its own group tells of its own processes only; the host's counter is taken with a root that
     * died of a KILL which was not ours */
    if (loop->cgroup.memory)
        return loop->os->cgroup_events(loop->os->self, &loop->cgroup, &events) == BH_OK &&
               events.oom_kills > 0;
    return loop->os->oom_kills(loop->os->self) > loop->account.oom_kills_before;
}
