#include "core/super/scribe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/log.h"
#include "core/platform/platform.h"
#include "core/super/finish.h"
#include "core/super/twin.h"

/* How long the scribe sleeps when nobody wakes it: rings are looked for ten times a second and read
 * as often as the drain wants, so that none overflows; without a recorder there are only samples to
 * be stored, and the queue has room for seconds of the densest ones. */
#define WAIT_SOME_NS  (20 * BH_NS_PER_MS)
#define WAIT_IDLE_NS  (100 * BH_NS_PER_MS)
#define WAIT_QUIET_NS (250 * BH_NS_PER_MS)
#define BUSY_SLOTS    4096

/* Without any ring, a few members at a time are looked at: has one loaded MLX all the same? */
#define LOOK_NS      (200 * BH_NS_PER_MS)
#define LOOK_MEMBERS 4

/* A scribe that dies again and again dies of its own fault: then there is none rather than a storm.
 */
#define MAX_TAKEOVERS 64

/* A decider that does not end after the report is in place is left to itself. */
#define FAREWELL_NS (30 * BH_NS_PER_S)

struct scribe {
    struct bh_run *run;
    struct bh_queue *queue;
    struct bh_drain *drain; /* NULL: recording was not asked for, or the event log cannot be kept */
    int drain_error;
    struct bh_record_recorder recorder; /* as last published */
    enum bh_recorder_state told_state;  /* as last journalled */
    char told_reason[160];
    int told_recording;
    struct bh_mono second;   /* of the last once-a-second duties */
    struct bh_mono slots_at; /* when the rings last gave anything */
    uint64_t looked_bytes;   /* of the rings at the last look */
    struct bh_mono looked;   /* for MLX without a ring */
    size_t look_next;        /* which member is next */
    struct bh_twin standby;
    bool report_done, report_failed;
    struct bh_store store;
};

/* ---- the decider ---- */

static void on_sigio(int signal)
{
    (void)signal; /* only interrupts the wait */
}

/* The end of the decider closes its pipe: ask to be told at once, not at the next look. */
static void watch_decider(const struct bh_run *run)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_sigio;
    (void)sigaction(SIGIO, &action, NULL);
    if (run->decider_alive_fd < 0)
        return;
    (void)fcntl(run->decider_alive_fd, F_SETOWN, getpid());
    int flags = fcntl(run->decider_alive_fd, F_GETFL);
    if (flags >= 0)
        (void)fcntl(run->decider_alive_fd, F_SETFL, flags | O_ASYNC);
}

static bool decider_gone(const struct bh_run *run)
{
    struct pollfd fd = {.fd = run->decider_alive_fd, .events = POLLIN};
    if (fd.fd < 0)
        return true;
    return poll(&fd, 1, 0) == 1 && (fd.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

static void wait_decider(const struct bh_run *run)
{
    uint64_t end = bh_clock_mono().ns + FAREWELL_NS;
    while (!decider_gone(run) && bh_clock_mono().ns < end) {
        struct pollfd fd = {.fd = run->decider_alive_fd, .events = POLLIN};
        (void)poll(&fd, 1, 1000);
    }
}

/* ---- opening ---- */

static void on_mark(void *context, const struct bh_record *record)
{
    struct scribe *scribe = context;
    if (scribe->drain)
        (void)bh_drain_mark(scribe->drain, record->mark.label, record->at);
}

static void open_drain(struct scribe *scribe)
{
    struct bh_run *run = scribe->run;
    struct bh_diag diag;
    int fd = -1;
    if (!run->spec->record || run->rings_fd < 0)
        return;
    int result = bh_io_create(run->run_fd, BH_RUN_EVLOG_NAME, O_RDWR | O_APPEND, &fd, &diag);
    if (result == BH_E_EXISTS)
        result = bh_io_open(run->run_fd, BH_RUN_EVLOG_NAME, O_RDWR | O_APPEND, &fd, &diag);
    if (result == BH_OK)
        result = bh_drain_new(run->rings_fd, fd, run->id, run->anchor, run->spec->trace_max_bytes,
                              &scribe->drain, &diag);
    if (result < 0) {
        bh_log(BH_LOG_ERROR, "event log: %s; continuing without recorder", diag.detail);
        if (fd >= 0)
            (void)close(fd);
    }
}

static int open_scribe(struct scribe *scribe)
{
    struct bh_diag diag;
    struct bh_run *run = scribe->run;
    int result = bh_queue_open(run->runtime_fd, run->id, &scribe->queue, &diag);
    if (result < 0) {
        bh_log(BH_LOG_ERROR, "%s; the scribe cannot work", diag.detail);
        return result;
    }
    watch_decider(run);
    (void)bh_store_open(&scribe->store, run, scribe->queue, NULL);
    scribe->store.on_mark = on_mark;
    scribe->store.mark_context = scribe;
    open_drain(scribe);
    scribe->told_state = BH_RECORDER_OFF;
    scribe->second = bh_clock_mono();
    return BH_OK;
}

/* ---- a round ---- */

static void publish(struct scribe *scribe, bool idle)
{
    int error = scribe->store.error ? scribe->store.error : scribe->drain_error;
    struct bh_queue_scribe words = {
        .pid = (int)getpid(),
        .ready = idle && !scribe->store.dirty,
        .artifact_error = error,
        .report_done = scribe->report_done,
        .report_failed = scribe->report_failed,
        .journal_sequence = scribe->store.synced_sequence,
        .evlog_bytes = scribe->drain ? bh_drain_evlog_bytes(scribe->drain) : 0,
        .recorder = scribe->recorder,
    };
    bh_queue_set_scribe(scribe->queue, &words);
}

static void journal_recorder(struct scribe *scribe)
{
    if (scribe->recorder.state == scribe->told_state &&
        strcmp(scribe->recorder.reason, scribe->told_reason) == 0)
        return;
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = BH_RECORD_RECORDER;
    record.at = bh_clock_mono();
    record.recorder = scribe->recorder;
    bh_store_add(&scribe->store, &record);
    scribe->told_state = scribe->recorder.state;
    memcpy(scribe->told_reason, scribe->recorder.reason, sizeof scribe->told_reason);
}

/* A member that has libmlx in memory while there is no ring: its calls do not come to the recorder.
 * (While MLX is being imported this is so for a moment; a ring that appears makes it forgotten.) */
static void look_for_mlx(struct scribe *scribe)
{
    struct bh_mono now = bh_clock_mono();
    if (!bh_drain_misses_mlx(scribe->drain) || now.ns - scribe->looked.ns < LOOK_NS)
        return;
    scribe->looked = now;
    struct bh_queue_member *members = calloc(BH_QUEUE_MEMBERS, sizeof *members);
    size_t count = members ? bh_queue_members(scribe->queue, members, BH_QUEUE_MEMBERS) : 0;
    for (size_t i = 0; i < count && i < LOOK_MEMBERS; i++) {
        const struct bh_queue_member *one = &members[scribe->look_next++ % count];
        if (bh_platform_maps_file((int)one->pid, one->start_token, "libmlx.so") == 1) {
            bh_drain_saw_mlx(scribe->drain);
            break;
        }
    }
    free(members);
}

/* Returns the slots taken from the rings. */
static int step_drain(struct scribe *scribe)
{
    if (!scribe->drain)
        return 0;
    int wanted = bh_queue_recording(scribe->queue);
    if (wanted != 0 && wanted != scribe->told_recording) {
        bh_drain_set_recording(scribe->drain, wanted == 1);
        scribe->told_recording = wanted;
    }
    look_for_mlx(scribe);
    int slots = bh_drain_step(scribe->drain);
    if (slots < 0)
        scribe->drain_error = slots;
    bh_drain_stats(scribe->drain, &scribe->recorder);
    scribe->recorder.ring_bytes = bh_drain_ring_bytes(scribe->drain);
    scribe->store.active = scribe->recorder.active;
    scribe->store.reserved = scribe->recorder.reserved;
    if (scribe->recorder.ring_bytes > scribe->store.ring_bytes)
        scribe->store.ring_bytes = scribe->recorder.ring_bytes;
    journal_recorder(scribe);
    return slots;
}

/* The decider's newest status with the recorder's newest numbers. */
static void write_status(struct scribe *scribe, bool force)
{
    struct bh_status status;
    if (!bh_queue_status(scribe->queue, &status))
        return;
    if (scribe->drain) {
        status.recorder = scribe->recorder.state;
        status.active = scribe->recorder.active;
        status.reserved = scribe->recorder.reserved;
        status.events = scribe->recorder.events;
        status.lost = scribe->recorder.lost;
    }
    bh_store_status(&scribe->store, &status, force);
}

/* 1: this process is a standby that has to start anew. */
static int once_a_second(struct scribe *scribe)
{
    struct bh_mono now = bh_clock_mono();
    if (now.ns - scribe->second.ns < BH_NS_PER_S)
        return 0;
    scribe->second = now;
    bh_logs_trim(scribe->run);
    if (!bh_sample_span_empty(&scribe->store.span) &&
        now.ns - scribe->store.span.record.from.ns >= 2 * BH_SAMPLE_SPAN_NS)
        bh_store_flush_span(&scribe->store); /* sampling slower than once a second, or stopped */
    return bh_twin_check(&scribe->standby);
}

static uint64_t pause_ns(struct scribe *scribe, size_t records, int slots)
{
    uint64_t now_ns = bh_clock_mono().ns;
    /* a new ring is about to be written to, whatever came before */
    if (slots > 0 || scribe->recorder.ring_bytes != scribe->looked_bytes)
        scribe->slots_at.ns = now_ns;
    scribe->looked_bytes = scribe->recorder.ring_bytes;
    if (slots >= BUSY_SLOTS)
        return 0; /* there is more */
    uint64_t idle = scribe->drain ? WAIT_IDLE_NS : WAIT_QUIET_NS;
    uint64_t pause = slots > 0 || records > 64 ? WAIT_SOME_NS : idle;
    /* a quiet ring can fill at full speed from one moment to the next */
    bool quiet = now_ns - scribe->slots_at.ns >= BH_NS_PER_S;
    uint64_t rings = scribe->drain ? bh_drain_pause_ns(scribe->drain, quiet) : pause;
    return rings < pause ? rings : pause;
}

/* Until the decider says final or is gone; 1: start anew as the scribe. */
static int work(struct scribe *scribe)
{
    for (;;) {
        bool gone = decider_gone(scribe->run); /* looked at before the queue: nothing is missed */
        bool final = bh_queue_is_final(scribe->queue);
        size_t records = bh_store_take(&scribe->store);
        int slots = step_drain(scribe);
        write_status(scribe, false);
        publish(scribe, records == 0);
        if (final || gone)
            return 0;
        if (once_a_second(scribe) == 1)
            return 1;
        bh_queue_wait(scribe->queue, pause_ns(scribe, records, slots));
    }
}

/* ---- the end ---- */

static void stop_lost(struct scribe *scribe)
{
    struct bh_queue_member *members = calloc(BH_QUEUE_MEMBERS, sizeof *members);
    size_t count = members ? bh_queue_members(scribe->queue, members, BH_QUEUE_MEMBERS) : 0;
    bh_log(BH_LOG_ERROR, "the decider is gone; stopping what it watched");
    bh_finish_lost(&scribe->store, scribe->run->spec, members, count, false);
    free(members);
}

/* The last status: what a reader of status.bin sees once nobody writes it any more. */
static void last_status(struct scribe *scribe, int report_error)
{
    struct bh_status status;
    if (!bh_queue_status(scribe->queue, &status))
        return;
    if (status.state != BH_JOB_FAILED_TO_START)
        status.state = BH_JOB_FINISHED;
    if (scribe->store.has_empty)
        status.members = 0;
    if (report_error)
        status.outcome = BH_OUTCOME_PARTIAL_ARTIFACT_FAILURE;
    else if (status.outcome == BH_OUTCOME_NONE) {
        status.outcome = BH_OUTCOME_SUPERVISOR_LOST;
        status.cause = BH_CAUSE_SUPERVISOR_LOST;
    }
    if (scribe->drain) {
        bh_drain_stats(scribe->drain, &scribe->recorder);
        status.recorder = scribe->recorder.state;
        status.active = scribe->recorder.active;
        status.reserved = scribe->recorder.reserved;
        status.events = scribe->recorder.events;
        status.lost = scribe->recorder.lost;
    }
    bh_store_status(&scribe->store, &status, true);
}

static void finish(struct scribe *scribe)
{
    struct bh_run *run = scribe->run;
    struct bh_reclaim_facts facts;
    struct bh_diag diag;
    int result = bh_finish_run(&scribe->store, scribe->drain, &facts, &diag);
    if (result < 0) {
        bh_log(BH_LOG_ERROR, "no report: %s", diag.detail);
        if (!scribe->store.error)
            scribe->store.error = result;
    }
    last_status(scribe, result < 0 ? result : 0);
    scribe->report_done = result == BH_OK;
    scribe->report_failed = !scribe->report_done;
    publish(scribe, true);
    bh_logs_trim(run);
    wait_decider(run);
    bh_drain_free(scribe->drain);
    scribe->drain = NULL;
    bh_store_close(&scribe->store);
    bh_rundir_remove_runtime(run);
    if (run->lock_fd >= 0)
        (void)flock(run->lock_fd, LOCK_UN);
    if (!run->temporary && result == BH_OK)
        (void)bh_reclaim_watch(run, &facts);
}

/* The decider launches nothing before it has heard this once: until then a scribe that is killed
 * has nobody to go on for it. */
static void tell_ready(const struct bh_run *run)
{
    static const char ready = 'r';
    if (run->scribe_token_fd >= 0)
        (void)bh_io_write_full(run->scribe_token_fd, &ready, 1);
}

static void forget(struct scribe *scribe, struct bh_run *run)
{
    memset(scribe, 0, sizeof *scribe);
    scribe->run = run;
    scribe->standby = BH_TWIN_NONE;
}

int bh_scribe_main(struct bh_run *run)
{
    struct scribe *scribe = calloc(1, sizeof *scribe);
    if (!scribe)
        return 1;
    bh_log_setup("scribe", BH_LOG_INFO);
    /* the caller's `ulimit -f` is a full disk to us, not a death */
    (void)signal(SIGXFSZ, SIG_IGN);
    for (int takeovers = 0; takeovers < MAX_TAKEOVERS; takeovers++) {
        forget(scribe, run);
        if (bh_twin_start(&scribe->standby) == 1)
            continue; /* the scribe before us died: begin again, with a standby of our own */
        tell_ready(run);
        if (open_scribe(scribe) < 0)
            break;
        if (work(scribe) == 1)
            continue;
        if (!bh_queue_is_final(scribe->queue))
            stop_lost(scribe);
        finish(scribe);
        break;
    }
    bh_twin_release(&scribe->standby);
    bh_queue_free(scribe->queue);
    free(scribe);
    return 0;
}
