/* What is kept for the report while the job runs: peaks, growth, latencies, the status, the
 * outcome. Nothing here decides. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "core/super/loop.h"
#include "core/wire/journal.h"

#define EVENT_PERIOD_NS (250 * BH_NS_PER_MS) /* EV_SAMPLE and EV_DRAIN at most 4 a second */

static struct bh_observed available(uint64_t value)
{
    return (struct bh_observed){.status = BH_VALUE_AVAILABLE, .value = value};
}

/* ---- samples ----------------------------------------------------------------------------------
 */

static void take_breakdown(struct bh_loop *loop)
{
    struct bh_account *account = &loop->account;
    account->peak_member_count = 0;
    for (size_t i = 0; i < loop->members.count; i++) {
        const struct bh_member *member = &loop->members.items[i];
        uint64_t bytes = bh_sampler_member_bytes(&loop->sampler, member);
        if (!bytes)
            continue;
        size_t at = account->peak_member_count;
        if (at == BH_PEAK_MEMBERS) {
            if (account->peak_members[at - 1].bytes >= bytes)
                continue;
            at--;
        } else {
            account->peak_member_count++;
        }
        while (at > 0 && account->peak_members[at - 1].bytes < bytes) {
            account->peak_members[at] = account->peak_members[at - 1];
            at--;
        }
        account->peak_members[at].pid = member->proc.pid;
        account->peak_members[at].bytes = bytes;
        memcpy(account->peak_members[at].basename, member->name, sizeof member->name);
    }
}

static void note_limit_crossed(struct bh_loop *loop, uint64_t bytes)
{
    struct bh_account *account = &loop->account;
    if (account->limit_crossed || loop->config.mode != BH_POLICY_MODE_ENFORCE ||
        bytes < loop->config.bands.limit_bytes)
        return;
    account->limit_crossed = true;
    struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_LIMIT_CROSSED);
    record.limit_crossed.bytes = bytes;
    record.limit_crossed.limit_bytes = loop->config.bands.limit_bytes;
    bh_notes_put(&loop->notes, &record);
}

/* Growth between consecutive complete samples; a peak of it is said only between two bounds that
 * stand (a fork of a large process doubles the plain sum in an instant). */
static void take_growth(struct bh_account *account, const struct bh_sample *sample, bool confirmed)
{
    uint64_t bytes = sample->bytes.value;
    account->growth_bytes_s = 0;
    if (account->has_earlier)
        account->growth_bytes_s = bh_schedule_growth(account->earlier_at.ns, account->earlier_bytes,
                                                     sample->captured_at.ns, bytes);
    if (confirmed && account->earlier_confirmed &&
        account->growth_bytes_s > account->peak_growth_per_s)
        account->peak_growth_per_s = account->growth_bytes_s;
    account->has_earlier = true;
    account->earlier_confirmed = confirmed;
    account->earlier_at = sample->captured_at;
    account->earlier_bytes = bytes;
}

/* A sum over sharers that no round confirmed is no peak, unless nothing better is known. */
static void take_peak(struct bh_loop *loop, const struct bh_sample *sample)
{
    struct bh_account *account = &loop->account;
    bool known = account->peak.status == BH_VALUE_AVAILABLE;
    uint64_t bytes = loop->sampler.confirmed ? loop->sampler.confirmed_bytes : sample->bytes.value;
    if (known && (!loop->sampler.confirmed || bytes <= account->peak.value))
        return;
    account->peak = available(bytes);
    account->peak_at = sample->captured_at;
    /* a new breakdown for each per cent of growth is enough, and cheap */
    if (account->peak_member_count > 0 && bytes >= account->breakdown_bytes &&
        bytes - account->breakdown_bytes < account->breakdown_bytes / 100)
        return;
    account->breakdown_bytes = bytes;
    take_breakdown(loop);
}

static void take_usable(struct bh_loop *loop, const struct bh_sample *sample)
{
    struct bh_account *account = &loop->account;
    uint64_t bytes = sample->bytes.value;
    account->charge = sample->bytes;
    account->complete_samples++;
    take_growth(account, sample, loop->sampler.confirmed);
    note_limit_crossed(loop, bytes);
    take_peak(loop, sample);
    uint64_t limit = loop->config.bands.limit_bytes;
    bool enforce = loop->config.mode == BH_POLICY_MODE_ENFORCE;
    if (enforce && bytes > limit && bytes - limit > account->peak_overshoot_bytes)
        account->peak_overshoot_bytes = bytes - limit;
    if (account->first_signal_at.ns && bytes < account->bytes_at_signal &&
        account->signal_to_lower_ns.status != BH_VALUE_AVAILABLE)
        account->signal_to_lower_ns =
            available(sample->captured_at.ns - account->first_signal_at.ns);
}

static void send_span(struct bh_loop *loop, const struct bh_record *record)
{
    struct bh_account *account = &loop->account;
    static unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    static unsigned char body[BH_JOURNAL_MAX_RECORD + 128];
    if (record->at.ns - account->event_at.ns < EVENT_PERIOD_NS)
        return;
    account->event_at = record->at;
    uint32_t count = account->span_count;
    account->span_count = 0;
    if (!bh_peers_any_watching(&loop->peers))
        return;
    int length = bh_record_encode(record, loop->run->id, bytes, sizeof bytes);
    if (length < 0)
        return;
    struct bh_tlv_writer writer;
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_bytes(&writer, BH_TAG_SAMPLE, bytes, (size_t)length);
    if (count) {
        bh_tlv_u64(&writer, BH_TAG_BYTES_MIN, account->span_min_bytes);
        bh_tlv_u64(&writer, BH_TAG_BYTES_MAX, account->span_max_bytes);
    }
    bh_peers_event(&loop->peers, BH_MSG_EV_SAMPLE, body, writer.length);
}

void bh_account_sample(struct bh_loop *loop, const struct bh_sample *sample)
{
    struct bh_account *account = &loop->account;
    struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_SAMPLE);
    record.sample = *sample;
    record.at = sample->captured_at;
    bh_notes_put(&loop->notes, &record);
    if (sample->bytes.status == BH_VALUE_AVAILABLE) {
        uint64_t bytes = sample->bytes.value;
        if (account->span_count == 0 || bytes < account->span_min_bytes)
            account->span_min_bytes = bytes;
        if (account->span_count == 0 || bytes > account->span_max_bytes)
            account->span_max_bytes = bytes;
        account->span_count++;
        take_usable(loop, sample);
    } else {
        account->incomplete_samples++;
        account->has_earlier = account->earlier_confirmed =
            false; /* growth is between consecutive complete samples only */
        account->growth_bytes_s = 0;
        if (account->charge.status == BH_VALUE_AVAILABLE)
            account->charge.status = BH_VALUE_STALE;
    }
    send_span(loop, &record);
}

/* ---- four times a second
 * ---------------------------------------------------------------------------- */

static void note_host_memory(struct bh_loop *loop)
{
    struct bh_platform_memory memory;
    struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_ADVISORY);
    if (loop->os->memory(loop->os->self, &memory) == BH_OK) {
        record.advisory.host_available = available(memory.available_bytes);
        record.advisory.host_total = available(memory.total_bytes);
        record.advisory.pressure_some_x100 = memory.pressure_some_x100;
    }
    bh_notes_put(&loop->notes, &record);
}

/* Ours is the newer number; the scribe's holds where a pid in a ring's name is not the one we see
 * (a job in a process namespace of its own). */
uint64_t bh_account_ring_bytes(struct bh_loop *loop)
{
    struct bh_queue_scribe scribe;
    uint64_t changes = loop->rings.changes;
    uint64_t own = bh_rings_mapped_bytes(&loop->rings, &loop->members);
    if (!loop->run->queue)
        return loop->run->runtime_on_disk ? 0 : own;
    if (loop->rings.changes != changes)
        bh_queue_wake(loop->run->queue);
    bh_queue_scribe(loop->run->queue, &scribe);
    if (loop->run->runtime_on_disk)
        return 0; /* file pages there: no charge has them in it */
    return own > scribe.recorder.ring_bytes ? own : scribe.recorder.ring_bytes;
}

static void take_recorder(struct bh_loop *loop)
{
    struct bh_queue_scribe scribe;
    struct bh_account *account = &loop->account;
    if (!loop->run->queue)
        return;
    bh_queue_scribe(loop->run->queue, &scribe);
    if (scribe.recorder.events == account->drained_events &&
        scribe.recorder.lost == account->drained_lost &&
        scribe.evlog_bytes == account->drained_bytes)
        return;
    account->drained_events = scribe.recorder.events;
    account->drained_lost = scribe.recorder.lost;
    account->drained_bytes = scribe.evlog_bytes;
    unsigned char body[64];
    struct bh_tlv_writer writer;
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_u64(&writer, BH_TAG_EVENTS, scribe.recorder.events);
    bh_tlv_u64(&writer, BH_TAG_LOST, scribe.recorder.lost);
    bh_tlv_u64(&writer, BH_TAG_EVLOG_BYTES, scribe.evlog_bytes);
    bh_peers_event(&loop->peers, BH_MSG_EV_DRAIN, body, writer.length);
}

void bh_account_quarter(struct bh_loop *loop)
{
    bool whole_second = loop->account.quarters++ % 4 == 0;
    take_recorder(loop);
    if (whole_second) {
        note_host_memory(loop);
        bh_notes_second(&loop->notes);
    }
    bh_account_publish(loop);
}

/* ---- status -----------------------------------------------------------------------------------
 */

static enum bh_job_state job_state(const struct bh_loop *loop)
{
    if (!loop->launched)
        return BH_JOB_STARTING;
    switch (loop->policy.current) {
    case BH_POLICY_STATE_OBSERVE:
    case BH_POLICY_STATE_NORMAL:
    case BH_POLICY_STATE_WARNING:
        return BH_JOB_RUNNING;
    case BH_POLICY_STATE_CHECKPOINT_REQUESTED:
        return BH_JOB_CHECKPOINTING;
    case BH_POLICY_STATE_SUPERVISOR_ERROR:
        return loop->policy.started ? BH_JOB_STOPPING : BH_JOB_RUNNING;
    case BH_POLICY_STATE_TERMINATING:
    case BH_POLICY_STATE_EMERGENCY:
    case BH_POLICY_STATE_EXITED: /* finished is said when the report is there */
        return BH_JOB_STOPPING;
    }
    return BH_JOB_RUNNING;
}

static void add_recorder(const struct bh_loop *loop, struct bh_status *status)
{
    struct bh_queue_scribe scribe;
    if (!loop->run->queue)
        return;
    bh_queue_scribe(loop->run->queue, &scribe);
    status->recorder = scribe.recorder.state;
    status->active = scribe.recorder.active;
    status->reserved = scribe.recorder.reserved;
    status->events = scribe.recorder.events;
    status->lost = scribe.recorder.lost;
}

void bh_account_status(const struct bh_loop *loop, struct bh_status *ret_status)
{
    struct bh_status status;
    memset(&status, 0, sizeof status);
    memcpy(status.run_id, loop->run->id, sizeof status.run_id);
    status.state = job_state(loop);
    status.policy_state = (uint8_t)loop->policy.current;
    status.mode = loop->spec->mode;
    status.boundary = bh_loop_kernel_enforced(loop) ? BH_BOUNDARY_KERNEL : BH_BOUNDARY_SAMPLED;
    status.supervisor_pid = loop->run->decider_pid;
    status.root_pid = loop->members.root_pid;
    status.root_start_token = loop->root_start_token;
    status.members = (uint32_t)bh_members_live(&loop->members);
    status.limits_revision = loop->limits_revision;
    status.at = loop->os->now(loop->os->self);
    status.started.ns = loop->started_ns;
    status.sequence = loop->notes.sequence;
    status.charge = loop->account.charge;
    status.peak_charge = loop->account.peak;
    status.limit_bytes = loop->config.bands.limit_bytes;
    status.warning_bytes = loop->config.bands.warning_bytes;
    status.recovery_bytes = loop->config.bands.recovery_bytes;
    status.emergency_bytes = loop->config.bands.emergency_bytes;
    status.checkpoint = loop->checkpoint.word;
    status.outcome = loop->outcome.kind;
    status.cause = loop->outcome.cause;
    status.exit_code = loop->outcome.exit_code;
    status.signal = loop->outcome.signal;
    add_recorder(loop, &status);
    *ret_status = status;
}

static void publish_members(struct bh_loop *loop)
{
    static struct bh_queue_member members[BH_QUEUE_MEMBERS];
    size_t count = bh_members_export(&loop->members, members, BH_QUEUE_MEMBERS);
    bh_queue_set_members(loop->run->queue, members, count);
    loop->published_arrivals = loop->members.arrivals;
}

void bh_account_publish(struct bh_loop *loop)
{
    struct bh_status status;
    if (!loop->run->queue)
        return;
    bh_account_status(loop, &status);
    bh_queue_put_status(loop->run->queue, &status);
    publish_members(loop);
}

void bh_account_publish_newcomers(struct bh_loop *loop)
{
    if (loop->run->queue && loop->members.arrivals != loop->published_arrivals)
        publish_members(loop);
}

/* ---- outcome ----------------------------------------------------------------------------------
 */

static bool kernel_killed(const struct bh_loop *loop)
{
    bool strange = loop->root_exited && WIFSIGNALED(loop->root_status) &&
                   WTERMSIG(loop->root_status) == 9 && !loop->ours_reached_root[9];
    return strange && bh_loop_kernel_killed(loop);
}

static struct bh_outcome_facts facts_of(const struct bh_loop *loop, int error)
{
    struct bh_outcome_facts facts = {.mode = loop->spec->mode,
                                     .error = error ? error : loop->stop_error,
                                     .launched = loop->launched,
                                     .exit_code = -1,
                                     .stop = loop->stop,
                                     .stop_signal_number = loop->stop_signal_number,
                                     .unkillable = loop->given_up,
                                     .kernel_oom = kernel_killed(loop)};
    /* its own group ran into memory.max: that is our emergency band, held by the kernel for us. The
     * root may have been seen to go before the others did */
    bool by_kernel = facts.stop == BH_STOP_NONE || facts.stop == BH_STOP_ROOT_EXITED;
    if (by_kernel && bh_loop_kernel_enforced(loop) && kernel_killed(loop))
        facts.stop = BH_STOP_EMERGENCY;
    if (loop->root_exited && WIFEXITED(loop->root_status))
        facts.exit_code = WEXITSTATUS(loop->root_status);
    if (loop->root_exited && WIFSIGNALED(loop->root_status)) {
        facts.signal = WTERMSIG(loop->root_status);
        facts.signal_was_ours = loop->ours_reached_root[facts.signal];
        facts.signal_was_requested = loop->requested_signal[facts.signal];
    }
    return facts;
}

static void note_peak_members(struct bh_loop *loop)
{
    for (uint32_t i = 0; i < loop->account.peak_member_count; i++) {
        struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_PEAK_MEMBER);
        record.peak_member = loop->account.peak_members[i];
        bh_notes_put(&loop->notes, &record);
    }
}

static void note_empty(struct bh_loop *loop)
{
    struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_EMPTY);
    record.empty.proven = loop->empty_proven;
    struct bh_account *account = &loop->account;
    if (account->first_signal_at.ns)
        account->signal_to_empty_ns = available(record.at.ns - account->first_signal_at.ns);
    bh_notes_put(&loop->notes, &record);
}

void bh_account_outcome(struct bh_loop *loop, int error)
{
    struct bh_account *account = &loop->account;
    bh_checkpoint_settle(&loop->checkpoint);
    note_peak_members(loop);
    note_host_memory(loop);
    if (loop->empty && loop->launched)
        note_empty(loop);
    struct bh_outcome_facts facts = facts_of(loop, error);
    struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_OUTCOME);
    struct bh_record_outcome *outcome = &record.outcome;
    bh_outcome_decide(&facts, outcome);
    outcome->final_bytes = account->charge;
    outcome->samples_after_signal = loop->policy.samples_after_signal;
    outcome->peak_bytes = account->peak;
    outcome->peak_at = account->peak_at;
    outcome->peak_growth_per_s = account->peak_growth_per_s;
    outcome->decision_overshoot_bytes = account->decision_overshoot_bytes;
    outcome->peak_overshoot_bytes = account->peak_overshoot_bytes;
    outcome->decision_to_signal_ns = account->decision_to_signal_ns;
    outcome->signal_to_lower_ns = account->signal_to_lower_ns;
    outcome->signal_to_empty_ns = account->signal_to_empty_ns;
    outcome->complete_samples = account->complete_samples;
    outcome->incomplete_samples = account->incomplete_samples;
    outcome->exact_rounds = loop->sampler.exact_rounds;
    outcome->cpu_ns = loop->os->cpu_ns(loop->os->self);
    outcome->survivors = loop->given_up ? (uint32_t)bh_members_live(&loop->members) : 0;
    outcome->members_seen = loop->notes.came;
    outcome->members_escaped = loop->notes.escaped;
    outcome->member_records_omitted = loop->notes.members_unsaid;
    outcome->rollups_refused = loop->sampler.rollups_refused;
    loop->outcome = *outcome;
    bh_notes_put(&loop->notes, &record);
    bh_account_publish(loop);
}
