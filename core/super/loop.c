/* One turn of the loop: wait, then whatever is due. */
#include "core/super/loop.h"

#include <signal.h>
#include <unistd.h>

#include "core/super/foreground.h"

#define QUARTER_NS (250 * BH_NS_PER_MS)
/* What is due four times a second waits this long for a reading: one waking less. */
#define QUARTER_LATE_NS (60 * BH_NS_PER_MS)

void bh_loop_init(struct bh_loop *loop, const struct bh_platform *os, struct bh_run *run)
{
    loop->os = os;
    loop->run = run;
    loop->spec = run->spec;
    loop->mrelease_fd = -1;
    loop->terminal_fd = -1;
    loop->server.fd = -1;
    loop->own_group = getpgrp();
    loop->limits_revision = 1;
    loop->observing = true;
    bh_run_policy_config(run->spec, &loop->config);
    bh_schedule_config_default(run->spec->interval_ns, &loop->schedule);
    loop->schedule.min_interval_ns = run->spec->min_interval_ns;
    loop->notes = (struct bh_notes){.os = os,
                                    .queue = run->queue,
                                    .peers = &loop->peers,
                                    .member_records_left = BH_NOTES_MEMBER_BURST};
    bh_members_init(&loop->members, os, &loop->notes, &loop->tree);
    bh_peers_init(&loop->peers, run->id, bh_loop_command, loop);
    bh_checkpoint_init(&loop->checkpoint, run->spec, os, &loop->members, &loop->notes);
    loop->sampler = (struct bh_sampler){
        .os = os, .members = &loop->members, .tree = &loop->tree, .page_bytes = 4096};
    bh_rings_mapped_open(&loop->rings, run->spec->record ? run->rings_fd : -1);
}

/* Without a negotiated channel the graceful path goes straight to TERM(not_negotiated). */
static void follow_channel(struct bh_loop *loop)
{
    bool can_ask = bh_checkpoint_available(&loop->checkpoint) || loop->checkpoint.active;
    loop->config.checkpoint_timeout_ns = can_ask ? loop->spec->checkpoint_timeout_ns : 0;
}

/* ---- waiting ----------------------------------------------------------------------------------
 */

static void earlier(struct bh_mono *until, uint64_t at_ns)
{
    if (at_ns < until->ns)
        until->ns = at_ns;
}

static struct bh_mono next_wake(const struct bh_loop *loop)
{
    struct bh_mono until = loop->next_quarter;
    uint64_t deadline_ns;
    if (loop->observing && loop->next_sample.ns <= until.ns + QUARTER_LATE_NS)
        until = loop->next_sample;
    if (loop->killing)
        earlier(&until, loop->next_sweep.ns);
    if (bh_policy_next_deadline(&loop->config, &loop->policy, &deadline_ns))
        earlier(&until, loop->started_ns + loop->gap_ns + deadline_ns);
    return until;
}

/* A lid was closed, or nobody let us run: what exceeds the sample age is left out of the policy's
 * time, so that sleep alone never kills. before: not earlier than any time the policy has heard, or
 * what is left out would make the next one go back. */
static void notice_gap(struct bh_loop *loop, struct bh_mono before, struct bh_mono asked,
                       struct bh_mono now)
{
    uint64_t expected = asked.ns > before.ns ? asked.ns : before.ns;
    if (now.ns <= expected || now.ns - expected <= loop->config.max_sample_age_ns)
        return;
    struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_CLOCK_GAP);
    record.clock_gap.gap_ns = now.ns - expected - loop->config.max_sample_age_ns;
    loop->gap_ns += record.clock_gap.gap_ns;
    bh_notes_put(&loop->notes, &record);
}

/* ---- what may be due --------------------------------------------------------------------------
 */

static void tell_root_exit(struct bh_loop *loop)
{
    if (!loop->root_exited || loop->root_exit_told)
        return;
    (void)bh_members_scan(&loop->members, true, BH_RELIST_ALL);
    for (size_t i = 0; i < loop->members.count; i++)
        bh_members_refresh(&loop->members, &loop->members.items[i]);
    if (bh_members_live(&loop->members) == 0)
        return; /* only zombies: they are about to come to us */
    loop->root_exit_told = true;
    bh_loop_feed_simple(loop, BH_POLICY_EVENT_ROOT_EXITED);
}

static void tell_empty(struct bh_loop *loop)
{
    struct bh_policy_event event = {.kind = BH_POLICY_EVENT_PROCESS_EXITED,
                                    .at_ns =
                                        bh_loop_policy_time(loop, loop->os->now(loop->os->self))};
    event.exited.has_final_bytes = loop->account.charge.status == BH_VALUE_AVAILABLE;
    event.exited.final_bytes = loop->account.charge.value;
    loop->empty_proven =
        loop->subreaper ||
        (loop->cgroup.made && loop->os->cgroup_populated(loop->os->self, &loop->cgroup) == 0);
    loop->empty = true;
    bh_loop_feed(loop, &event);
}

/* While a child lives that was there before the job, waiting never says that nobody is left: then
 * our own list of children, on which every orphan of the job lands, has to. */
static bool only_foreign_left(struct bh_loop *loop)
{
    if (!loop->members.foreign_count || !loop->root_exited)
        return false;
    (void)bh_members_scan(&loop->members, true, BH_RELIST_ALL);
    return loop->members.count == 0 && !loop->members.incomplete;
}

static void reap_all(struct bh_loop *loop)
{
    struct bh_reaped reaped;
    int result;
    loop->child_ended = false;
    while ((result = loop->os->reap(loop->os->self, &reaped)) == 1) {
        if (reaped.pid == loop->members.root_pid && !loop->root_exited) {
            loop->root_exited = true;
            loop->root_status = reaped.wait_status;
        }
        bh_members_reaped(&loop->members, &reaped);
    }
    if (result == BH_E_NOT_FOUND || only_foreign_left(loop))
        tell_empty(loop);
    else
        tell_root_exit(loop);
}

/* All that was used since the last time: waking up and waiting cost as much as a reading. While
 * readings are a whole interval apart nothing hangs on it, and it is asked with the quarters. */
static void pay(struct bh_loop *loop, struct bh_mono now)
{
    if (!loop->dense && now.ns - loop->governor.updated_at_ns < QUARTER_NS)
        return;
    uint64_t cpu_ns = loop->os->cpu_ns(loop->os->self);
    bh_governor_pay(&loop->schedule, &loop->governor, now.ns, cpu_ns - loop->paid_cpu_ns);
    loop->paid_cpu_ns = cpu_ns;
}

/* On a busy machine, and without real time, somebody else may run in the middle of a reading for
 * longer than a reading may take. That says nothing of the job, and who just waited so long is let
 * run for a while: it is made again at once. One that stays too wide is unusable, as ever. */
#define READINGS 3

static void read_tree(struct bh_loop *loop, struct bh_sample *ret_sample)
{
    bool enforce = loop->config.mode == BH_POLICY_MODE_ENFORCE;
    loop->sampler.ring_bytes = bh_account_ring_bytes(loop);
    bool allow = bh_governor_wait_ns(&loop->schedule, &loop->governor) == 0;
    for (int reading = 0; reading < READINGS; reading++) {
        struct bh_mono before = loop->os->now(loop->os->self);
        bh_sampler_take(&loop->sampler, enforce ? &loop->config.bands : NULL, allow, ret_sample);
        if (ret_sample->window_ns <= loop->config.max_sample_window_ns)
            break;
        notice_gap(loop, before, before, loop->os->now(loop->os->self));
    }
}

static void take_sample(struct bh_loop *loop)
{
    struct bh_sample sample;
    read_tree(loop, &sample);
    bh_account_publish_newcomers(loop);
    bh_account_sample(loop, &sample);
    struct bh_policy_event event = {
        .kind = BH_POLICY_EVENT_SAMPLE,
        .at_ns = bh_loop_policy_time(loop, sample.processed_at),
        .sample = {.captured_at_ns = bh_loop_policy_time(loop, sample.captured_at),
                   .window_ns = sample.window_ns,
                   .bytes = sample.bytes.value,
                   .has_bytes = sample.bytes.status == BH_VALUE_AVAILABLE}};
    bh_loop_feed(loop, &event);
    struct bh_mono now = loop->os->now(loop->os->self);
    pay(loop, now);
    struct bh_schedule_reading reading = {.now_ns = bh_loop_policy_time(loop, now),
                                          .bound_bytes = sample.bytes.value,
                                          .growth_bytes_s = loop->account.growth_bytes_s,
                                          .has_bound = event.sample.has_bytes};
    uint64_t interval_ns = bh_schedule_next_interval(&loop->schedule, &loop->config, &loop->policy,
                                                     &reading, &loop->governor);
    loop->sampler.far = bh_schedule_is_far(&loop->schedule, &loop->config, &loop->policy, &reading);
    loop->dense = interval_ns < loop->schedule.base_interval_ns;
    loop->next_sample.ns = now.ns + interval_ns;
}

static void tick(struct bh_loop *loop, struct bh_mono now)
{
    uint64_t deadline_ns;
    /* one phase a tick: the next may be due at the same time */
    for (int phase = 0; phase < 4; phase++) {
        if (!bh_policy_next_deadline(&loop->config, &loop->policy, &deadline_ns) ||
            bh_loop_policy_time(loop, now) < deadline_ns)
            return;
        bh_loop_feed_simple(loop, BH_POLICY_EVENT_TICK);
    }
}

static void hear_checkpoint(struct bh_loop *loop, enum bh_checkpoint_news news)
{
    struct bh_policy_event event = {
        .at_ns = bh_loop_policy_time(loop, loop->os->now(loop->os->self)),
        .checkpoint = {.id = loop->checkpoint.request_id, .has_id = true, .authenticated = true}};
    follow_channel(loop);
    switch (news) {
    case BH_CHECKPOINT_NOTHING:
    case BH_CHECKPOINT_BECAME_READY:
    case BH_CHECKPOINT_LOST:
        return;
    case BH_CHECKPOINT_DONE:
        event.kind = BH_POLICY_EVENT_CHECKPOINT_ACK;
        break;
    case BH_CHECKPOINT_FAILED:
        event.kind = BH_POLICY_EVENT_CHECKPOINT_FAILED;
        break;
    }
    bh_loop_feed(loop, &event);
}

static void serve_checkpoint(struct bh_loop *loop, bool readable, struct bh_mono now)
{
    enum bh_checkpoint_news news = BH_CHECKPOINT_NOTHING;
    uint64_t rejected = loop->checkpoint.rejected;
    for (int frames = 0; readable && frames < 16; frames++) {
        news = bh_checkpoint_read(&loop->checkpoint);
        if (news != BH_CHECKPOINT_NOTHING)
            hear_checkpoint(loop, news);
        else if (loop->checkpoint.rejected == rejected)
            break;
        rejected = loop->checkpoint.rejected;
    }
    /* asked for while the job runs: the policy holds no deadline for it */
    if (loop->checkpoint.active && loop->policy.current != BH_POLICY_STATE_CHECKPOINT_REQUESTED &&
        now.ns >= loop->checkpoint.answer_due.ns)
        bh_checkpoint_close_request(&loop->checkpoint, BH_CKPT_TIMED_OUT);
}

static void lose_owner(struct bh_loop *loop)
{
    if (loop->owner_known)
        loop->os->proc_close(loop->os->self, &loop->owner);
    loop->owner_known = false;
    bh_loop_feed_simple(loop, BH_POLICY_EVENT_OWNER_EXITED);
}

/* The owner is watched as one process, not as a number. */
static void find_owner(struct bh_loop *loop)
{
    const struct bh_job_spec *spec = loop->spec;
    struct bh_proc_facts facts;
    if (spec->owner_pid <= 0 || !spec->stop_with_owner)
        return;
    int result = loop->os->proc_open(loop->os->self, spec->owner_pid, &loop->owner, &facts);
    loop->owner_known = result == BH_OK;
    bool same = loop->owner_known &&
                (!spec->owner_start_token || loop->owner.start_token == spec->owner_start_token);
    if (!same)
        lose_owner(loop); /* it went before the job came */
}

static void watch_owner(struct bh_loop *loop)
{
    struct bh_proc_facts facts;
    if (!loop->owner_known)
        return;
    int result = loop->os->proc_facts(loop->os->self, &loop->owner, &facts);
    if (result == BH_E_NOT_FOUND || (result == BH_OK && (facts.state == 'Z' || facts.state == 'X')))
        lose_owner(loop);
}

/* The same stop as the one that a server sends which is asked to end. */
static void watch_server(struct bh_loop *loop, struct bh_mono now)
{
    struct bh_policy_event event = {.kind = BH_POLICY_EVENT_STOP_REQUEST,
                                    .stop = BH_POLICY_STOP_TERM};
    if (loop->empty || !bh_server_watch_gone(&loop->server, bh_loop_policy_time(loop, now)))
        return;
    /* the turn began before this turn's sample was processed: its time would be one that goes back
     */
    event.at_ns = bh_loop_policy_time(loop, loop->os->now(loop->os->self));
    if (!loop->policy.started && loop->policy.current != BH_POLICY_STATE_EMERGENCY)
        bh_loop_feed(loop, &event);
}

static void quarter(struct bh_loop *loop, struct bh_mono now)
{
    loop->next_quarter.ns = now.ns + QUARTER_NS;
    loop->child_ended = true; /* in case a SIGCHLD was lost in another's shadow */
    watch_owner(loop);
    watch_server(loop, now);
    bh_account_quarter(loop);
}

/* ---- begin, and one turn ----------------------------------------------------------------------
 */

int bh_loop_launched(struct bh_loop *loop, int root_pid, struct bh_diag *diag)
{
    struct bh_mono now = loop->os->now(loop->os->self);
    struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_LAUNCHED);
    loop->launched = true;
    loop->started_ns = now.ns;
    loop->next_sample = now;
    loop->next_quarter.ns = now.ns + QUARTER_NS;
    follow_channel(loop);
    bh_policy_start(&loop->config, &loop->policy);
    bh_governor_start(&loop->schedule, now.ns, &loop->governor);
    loop->paid_cpu_ns = loop->os->cpu_ns(loop->os->self);
    /* a root that is gone already is reaped by the first turn: that is no failure */
    int result = bh_members_set_root(&loop->members, root_pid);
    const struct bh_member *root = bh_members_find(&loop->members, root_pid);
    loop->members.root_pid = root_pid;
    loop->root_start_token = root ? root->proc.start_token : 0;
    record.launched.root_pid = root_pid;
    record.launched.root_start_token = loop->root_start_token;
    record.launched.group = root_pid;
    record.launched.started_at = loop->os->wall(loop->os->self);
    bh_notes_put(&loop->notes, &record);
    loop->child_ended = true;
    bh_account_publish(loop);
    find_owner(loop);
    if (result < 0 && result != BH_E_NOT_FOUND)
        return bh_err_set(diag, result, NULL, "the job runs but cannot be watched: %s",
                          bh_err_title(result));
    return BH_OK;
}

static bool is_due(struct bh_mono at, struct bh_mono now)
{
    return now.ns >= at.ns;
}

bool bh_loop_turn(struct bh_loop *loop)
{
    struct pollfd fds[BH_PEERS_MAX + 3];
    size_t count = bh_peers_poll(&loop->peers, fds, BH_PEERS_MAX + 1);
    size_t channel = count;
    /* both are skipped by poll while they are -1 */
    fds[count++] = (struct pollfd){.fd = loop->checkpoint.fd, .events = POLLIN};
    fds[count++] =
        (struct pollfd){.fd = loop->braked ? loop->cgroup.events_fd : -1, .events = POLLPRI};
    struct bh_wait wait = {.fds = fds, .count = count, .until = next_wake(loop)};
    struct bh_mono before = loop->os->now(loop->os->self);
    if (loop->child_ended)
        wait.until = before;
    (void)loop->os->wait(loop->os->self, &wait);
    struct bh_mono now = loop->os->now(loop->os->self);
    notice_gap(loop, before, wait.until, now);

    if (wait.ret_signals >> (SIGCHLD - 1) & 1) {
        loop->child_ended = true;
        bh_foreground_child_changed(loop);
    }
    if (loop->child_ended)
        reap_all(loop);
    if (!loop->empty) {
        bh_loop_own_signals(loop, wait.ret_signals);
        serve_checkpoint(loop, fds[channel].revents, now);
        bh_peers_serve(&loop->peers, fds, channel);
        tick(loop, now);
    }
    if (!loop->empty && loop->killing && is_due(loop->next_sweep, now))
        bh_loop_sweep(loop);
    bh_loop_watch_brake(loop);
    if (!loop->empty && loop->observing && is_due(loop->next_sample, now))
        take_sample(loop);
    if (is_due(loop->next_quarter, now))
        quarter(loop, now);
    bh_notes_flush(&loop->notes);
    bh_peers_flush(&loop->peers);
    if (!loop->empty && !loop->given_up)
        return true;
    bh_account_outcome(loop, 0);
    return false;
}

void bh_loop_failed(struct bh_loop *loop, int error)
{
    bh_account_outcome(loop, error);
}
