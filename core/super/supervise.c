#include "core/super/supervise.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/super/correlation.h"
#include "core/super/foreground.h"
#include "core/super/helpers.h"
#include "core/super/launch.h"

/* The report is waited for while the scribe lives; a scribe that makes no headway for this long (a
 * disk that does not answer) is given up: the report is lost then. */
#define REPORT_WAIT_NS (120 * BH_NS_PER_S)

static struct bh_loop loop; /* one per process; in .bss, so that unused tables cost nothing */

/* ---- first records ----------------------------------------------------------------------------
 */

static void note_config(struct bh_loop *one)
{
    const struct bh_job_spec *spec = one->spec;
    const struct bh_policy_config *policy = &one->config;
    struct bh_record record = bh_notes_begin(&one->notes, BH_RECORD_CONFIG);
    struct bh_record_config *config = &record.config;
    config->mode = spec->mode;
    config->limit_bytes = spec->limit_bytes;
    config->warning_bytes = spec->warning_bytes;
    config->recovery_bytes = spec->recovery_bytes;
    config->emergency_bytes = spec->emergency_bytes;
    config->breach_count = spec->breach_count;
    config->max_unusable = spec->max_unusable;
    config->breach_hold_ns = spec->breach_hold_ns;
    config->interval_ns = spec->interval_ns;
    config->min_interval_ns = spec->min_interval_ns;
    config->max_sample_age_ns = policy->max_sample_age_ns;
    config->max_sample_window_ns = policy->max_sample_window_ns;
    config->wall_time_ns = spec->wall_time_ns;
    config->checkpoint_kind = spec->checkpoint_kind;
    if (spec->checkpoint_kind != BH_CHECKPOINT_NONE)
        config->checkpoint_timeout_ns = spec->checkpoint_timeout_ns;
    config->grace_base_ns = spec->grace_base_ns;
    config->grace_per_gib_ns = spec->grace_per_gib_ns;
    config->grace_max_ns = spec->grace_max_ns;
    config->kill_retry_ns = spec->kill_retry_ns;
    config->kill_wait_ns = spec->kill_wait_ns;
    config->emergency_action = spec->emergency_action;
    config->growth_kill = policy->growth_kill;
    config->brake = spec->brake;
    config->stop_signal = spec->stop_signal;
    config->first_request_id = policy->first_request_id;
    config->record = spec->record;
    config->stacks = spec->stacks;
    config->depth = spec->depth;
    (void)snprintf(config->executable, sizeof config->executable, "%s",
                   spec->argc ? bh_text_basename(spec->argv[0]) : "");
    config->argument_count = (uint32_t)(spec->argc ? spec->argc - 1 : 0);
    bh_correlation_hash(one->run, config->correlation);
    bh_notes_put(&one->notes, &record);
}

static void copy_text(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);
    length = length < size ? length : size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

static void note_host(struct bh_loop *one, const struct bh_platform_host *facts)
{
    struct bh_record record = bh_notes_begin(&one->notes, BH_RECORD_HOST);
    struct bh_record_host *host = &record.host;
    copy_text(host->os, sizeof host->os, facts->os);
    copy_text(host->kernel, sizeof host->kernel, facts->kernel);
    copy_text(host->machine, sizeof host->machine, facts->machine);
    host->page_bytes = facts->page_bytes;
    host->memory_bytes = facts->memory_bytes;
    host->available_bytes = facts->available_bytes;
    host->boundary = bh_loop_kernel_enforced(one) ? BH_BOUNDARY_KERNEL : BH_BOUNDARY_SAMPLED;
    host->cgroup = one->cgroup.made;
    copy_text(host->mechanism, sizeof host->mechanism, bh_loop_mechanism(one));
    host->brake = one->braked;
    copy_text(host->metric, sizeof host->metric,
              one->cgroup.memory ? "cgroup anon + shmem + pagetables + swap + hugetlb"
                                 : facts->metric);
    copy_text(host->metric_note, sizeof host->metric_note, facts->metric_note);
    copy_text(host->cgroup_reason, sizeof host->cgroup_reason, one->cgroup_reason);
    host->outer_limit_bytes = facts->outer_limit_bytes;
    host->subreaper = one->subreaper;
    host->pidfd = facts->pidfd;
    host->memory_locked = one->memory_locked;
    host->realtime = one->realtime;
    host->runtime_on_disk = one->run->runtime_on_disk;
    host->checkpoint_channel_possible = one->checkpoint.job_fd >= 0;
    copy_text(host->package_version, sizeof host->package_version, BH_VERSION);
    copy_text(host->boot_id, sizeof host->boot_id, facts->boot_id);
    bh_notes_put(&one->notes, &record);
}

/* ---- begin ------------------------------------------------------------------------------------
 */

static int random_request_id(struct bh_loop *one)
{
    uint64_t id = 0;
    int result = bh_random_bytes(&id, sizeof id);
    id &= ((uint64_t)1 << 62) - 1;
    one->config.first_request_id = id ? id : 1;
    return result;
}

static int begin(const struct bh_supervise *supervise, const struct bh_inherited *inherited,
                 struct bh_diag *diag)
{
    struct bh_run *run = supervise->run;
    run->decider_pid = (int)getpid();
    run->anchor = bh_clock_anchor();
    /* from here on a signal waits for the loop: half a run is nobody's to clean up */
    int result = supervise->os->collect_signals(supervise->os->self);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "signals cannot be collected");
    result = bh_queue_create(run->runtime_fd, run->id, run->anchor, &run->queue, diag);
    if (result < 0)
        return result;
    bh_loop_init(&loop, supervise->os, run);
    loop.notes.tap = supervise->tap;
    loop.notes.tap_context = supervise->tap_context;
    result = random_request_id(&loop);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "the system gives no random numbers");
    note_config(&loop);
    result = bh_helpers_start_scribe(run, diag);
    if (result < 0)
        return result;
    if (bh_helpers_start_mrelease(&loop.mrelease_fd, NULL) < 0)
        loop.mrelease_fd = -1; /* KILL works without; the memory of a starved victim comes later */
    int look_fd = -1;
    if (run->spec->checkpoint_kind == BH_CHECKPOINT_SIGNAL)
        (void)bh_helpers_start_look(run, &look_fd, NULL);
    bh_checkpoint_prepare(&loop.checkpoint, inherited->nofile_soft, look_fd);
    return BH_OK;
}

/* What changes this process; the helpers are forked and untouched by it. */
static int prepare(const struct bh_supervise *supervise, const struct bh_inherited *inherited,
                   struct bh_diag *diag)
{
    const struct bh_platform *os = supervise->os;
    struct bh_platform_host facts;
    int result = os->host(os->self, &facts);
    if (result == BH_OK)
        result = os->become_reaper(os->self, &loop.subreaper);
    if (result == BH_OK && !facts.children_files)
        return bh_err_set(diag, BH_E_UNSUPPORTED, NULL,
                          "this kernel does not tell who forked whom (CONFIG_PROC_CHILDREN)");
    if (result < 0)
        return bh_err_set(diag, result, NULL, "this process cannot be set up as a supervisor");
    bh_launch_raise_limits(inherited);
    loop.sampler.page_bytes = facts.page_bytes;
    loop.realtime = os->raise_priority(os->self);
    loop.memory_locked = os->lock_memory(os->self);
    loop.account.oom_kills_before = os->oom_kills(os->self);
    bh_members_note_foreign(&loop.members);
    bh_loop_make_cgroup(&loop);
    if (supervise->run->spec->end_with_server && !supervise->run->foreground)
        bh_server_watch_open(&loop.server, supervise->run->run_fd);
    note_host(&loop, &facts);
    return BH_OK;
}

/* ---- end --------------------------------------------------------------------------------------
 */

static bool scribes_gone(const struct bh_run *run)
{
    struct pollfd end = {.fd = run->scribe_alive_fd};
    return poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR));
}

/* Peers are served meanwhile: a status asked for now is answered. */
static void wait_once(struct bh_run *run)
{
    struct pollfd fds[BH_PEERS_MAX + 2];
    size_t count = bh_peers_poll(&loop.peers, fds, BH_PEERS_MAX + 1);
    size_t own = count;
    fds[count++] = (struct pollfd){.fd = run->scribe_alive_fd}; /* its end wakes us */
    (void)poll(fds, (nfds_t)count, 1);
    bh_peers_serve(&loop.peers, fds, own);
    bh_peers_flush(&loop.peers);
}

/* BH_OK when the report is in place, else why it is not. */
static int wait_for_report(struct bh_run *run, int *ret_artifact_error)
{
    uint64_t give_up = bh_clock_mono().ns + REPORT_WAIT_NS;
    struct bh_queue_scribe scribe;
    bh_queue_set_final(run->queue);
    bh_queue_wake(run->queue);
    for (;;) {
        bh_queue_scribe(run->queue, &scribe);
        *ret_artifact_error = scribe.artifact_error;
        if (scribe.report_done)
            return BH_OK;
        if (scribes_gone(run)) {
            bh_queue_scribe(run->queue, &scribe); /* its last word may be newer than our look */
            *ret_artifact_error = scribe.artifact_error;
            return scribe.report_done ? BH_OK : BH_E_REPORT_SUPPRESSED;
        }
        if (scribe.report_failed) /* it waits for us now, not we for it */
            return BH_E_REPORT_SUPPRESSED;
        if (bh_clock_mono().ns > give_up)
            return BH_E_REPORT_SUPPRESSED;
        wait_once(run);
    }
}

static void say_final(int report_error)
{
    unsigned char bytes[BH_STATUS_FILE_BYTES];
    unsigned char body[512];
    struct bh_status status;
    struct bh_tlv_writer writer;
    bh_account_status(&loop, &status);
    status.state = loop.launched ? BH_JOB_FINISHED : BH_JOB_FAILED_TO_START;
    bh_status_file_encode(&status, bytes);
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_bytes(&writer, BH_TAG_STATUS, bytes, sizeof bytes);
    if (report_error < 0)
        bh_tlv_i64(&writer, BH_TAG_ERROR, report_error);
    bh_peers_event(&loop.peers, BH_MSG_EV_FINAL, body, writer.length);
    bh_peers_event(&loop.peers, BH_MSG_BYE, NULL, 0);
    bh_peers_flush(&loop.peers);
}

static void finish(const struct bh_supervise *supervise, struct bh_supervise_end *ret_end)
{
    struct bh_run *run = supervise->run;
    int artifact_error = 0;
    int report_error = wait_for_report(run, &artifact_error);
    if (report_error < 0 && artifact_error == 0)
        artifact_error = report_error;
    say_final(report_error);
    bh_peers_done(&loop.peers);
    bh_checkpoint_done(&loop.checkpoint);
    bh_server_watch_close(&loop.server);
    if (loop.cgroup.made)
        loop.os->cgroup_remove(loop.os->self, &loop.cgroup);
    (void)flock(run->lock_fd, LOCK_UN);
    *ret_end = (struct bh_supervise_end){
        .outcome = loop.outcome,
        .artifact_error = artifact_error,
        .exit_code = artifact_error ? 74 : loop.outcome.reported_exit_code,
    };
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static void tell_verdict(const struct bh_supervise *supervise, int result,
                         const struct bh_diag *diag)
{
    if (supervise->verdict)
        supervise->verdict(supervise->verdict_context, result, diag);
}

static int launch(const struct bh_supervise *supervise, const struct bh_inherited *inherited,
                  struct bh_diag *diag)
{
    struct bh_run *run = supervise->run;
    int root_pid = 0;
    if (run->foreground)
        loop.terminal_fd = bh_foreground_terminal();
    int result = run->foreground ? BH_OK : bh_peers_listen(&loop.peers, run->run_fd, diag);
    if (result == BH_OK)
        result = bh_launch_job(&loop, inherited, supervise->own_environment, &root_pid, diag);
    bh_checkpoint_launched(&loop.checkpoint);
    if (result < 0)
        return result;
    result = bh_loop_launched(&loop, root_pid, diag);
    if (result < 0) {
        loop.stop_error = result;
        bh_loop_feed_simple(&loop, BH_POLICY_EVENT_SUPERVISOR_FAULT);
        bh_log(BH_LOG_ERROR, "%s, stopping it", diag->detail);
    }
    return BH_OK;
}

int bh_supervise_run(const struct bh_supervise *supervise, struct bh_supervise_end *ret_end,
                     struct bh_diag *diag)
{
    struct bh_inherited inherited;
    bh_launch_remember(&inherited);
    int result = begin(supervise, &inherited, diag);
    if (result < 0)
        return result;
    result = prepare(supervise, &inherited, diag);
    if (result == BH_OK)
        result = launch(supervise, &inherited, diag);
    tell_verdict(supervise, result, diag);
    if (result == BH_OK) {
        while (bh_loop_turn(&loop))
            ;
        bh_foreground_take_back(&loop);
    } else {
        bh_foreground_take_back(&loop);
        bh_loop_failed(&loop, result);
    }
    finish(supervise, ret_end);
    return BH_OK;
}
