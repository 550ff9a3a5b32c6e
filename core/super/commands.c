/* What clients of ctl.sock ask for, and signals to the supervisor itself. Each request gets one
 * answer; a stop that is repeated is answered and not passed on, so that a client that retries
 * never cuts the grace of the first. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/super/foreground.h"
#include "core/super/loop.h"

/* ---- answers ----------------------------------------------------------------------------------
 */

static void put_status(struct bh_loop *loop, struct bh_tlv_writer *writer)
{
    unsigned char bytes[BH_STATUS_FILE_BYTES];
    struct bh_status status;
    bh_account_status(loop, &status);
    bh_status_file_encode(&status, bytes);
    bh_tlv_bytes(writer, BH_TAG_STATUS, bytes, sizeof bytes);
}

static void answer_status(struct bh_loop *loop, struct bh_peer *peer, const struct bh_frame *frame)
{
    unsigned char body[512];
    struct bh_tlv_writer writer;
    bh_tlv_begin(&writer, body, sizeof body);
    put_status(loop, &writer);
    bh_peer_reply(peer, frame, body, writer.length);
}

static void greet(struct bh_loop *loop, struct bh_peer *peer, const struct bh_frame *frame)
{
    unsigned char body[512];
    struct bh_tlv_writer writer;
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_u64(&writer, BH_TAG_VERSION, BH_FRAME_VERSION);
    bh_tlv_text(&writer, BH_TAG_RUN_ID, loop->run->id);
    put_status(loop, &writer);
    peer->greeted = true;
    bh_peer_reply(peer, frame, body, writer.length);
}

static void watch(struct bh_loop *loop, struct bh_peer *peer, const struct bh_frame *frame)
{
    unsigned char body[512];
    struct bh_tlv_writer writer;
    answer_status(loop, peer, frame);
    bh_tlv_begin(&writer, body, sizeof body);
    put_status(loop, &writer);
    bh_peer_event(peer, BH_MSG_STATUS, body, writer.length);
    peer->watching = true;
}

static void list_members(struct bh_loop *loop, struct bh_peer *peer, const struct bh_frame *frame)
{
    static unsigned char body[BH_FRAME_MAX_BODY];
    struct bh_tlv_writer writer;
    bh_tlv_begin(&writer, body, sizeof body);
    for (size_t i = 0; i < loop->members.count; i++) {
        const struct bh_member *member = &loop->members.items[i];
        if (sizeof body - writer.length < 256)
            break; /* some 500 of them: the rest is counted in STATUS */
        size_t mark = bh_tlv_group(&writer, BH_TAG_MEMBER);
        bh_tlv_u64(&writer, BH_TAG_PID, (uint64_t)member->proc.pid);
        bh_tlv_u64(&writer, BH_TAG_START_TOKEN, member->proc.start_token);
        bh_tlv_text(&writer, BH_TAG_BASENAME, member->name);
        bh_tlv_u64(&writer, BH_TAG_BYTES, bh_sampler_member_bytes(&loop->sampler, member));
        bh_tlv_u64(&writer, BH_TAG_ESCAPED, member->left_group || member->left_session);
        bh_tlv_u64(&writer, BH_TAG_PARENT_PID, (uint64_t)member->parent_pid);
        bh_tlv_group_end(&writer, mark);
    }
    bh_peer_reply(peer, frame, body, writer.length);
}

/* ---- requests with members --------------------------------------------------------------------
 */

#define REQUEST_TAGS 32

struct request {
    bool given[REQUEST_TAGS];
    uint64_t number[REQUEST_TAGS];
    char mark[128];
};

static int read_request(const struct bh_frame *frame, struct request *ret_request)
{
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    memset(ret_request, 0, sizeof *ret_request);
    bh_tlv_open(&reader, frame->body, frame->body_length);
    int result;
    while ((result = bh_tlv_next(&reader, &item)) == 1) {
        if (item.tag >= REQUEST_TAGS) {
            if (item.required)
                return BH_E_UNSUPPORTED;
            continue;
        }
        if (item.tag == BH_TAG_MARK && item.kind == BH_TLV_TEXT)
            result = bh_tlv_copy_text(&item, ret_request->mark, sizeof ret_request->mark);
        if (result < 0)
            return result;
        ret_request->given[item.tag] = true;
        ret_request->number[item.tag] = item.number;
    }
    return result;
}

static struct bh_policy_event event_of(const struct bh_loop *loop, enum bh_policy_event_kind kind)
{
    return (struct bh_policy_event){
        .kind = kind, .at_ns = bh_loop_policy_time(loop, loop->os->now(loop->os->self))};
}

static void stop(struct bh_loop *loop, const struct request *request)
{
    if (loop->policy.started || loop->policy.current == BH_POLICY_STATE_EMERGENCY)
        return; /* repeated: answered, not passed on */
    if (request->given[BH_TAG_GRACE_NS]) {
        uint64_t grace_ns = request->number[BH_TAG_GRACE_NS];
        grace_ns = grace_ns ? grace_ns : 1; /* none at all: KILL with the next tick */
        if (grace_ns > BH_POLICY_MAX)
            grace_ns = BH_POLICY_MAX;
        loop->config.grace_base_ns = grace_ns;
        loop->config.grace_per_gib_ns = 0;
        loop->config.grace_max_ns = grace_ns;
    }
    struct bh_policy_event event = event_of(loop, BH_POLICY_EVENT_STOP_REQUEST);
    event.stop =
        request->number[BH_TAG_CHECKPOINT] ? BH_POLICY_STOP_CHECKPOINT : BH_POLICY_STOP_TERM;
    bh_loop_feed(loop, &event);
}

static void kill_job(struct bh_loop *loop)
{
    struct bh_policy_event event = event_of(loop, BH_POLICY_EVENT_STOP_REQUEST);
    event.stop = BH_POLICY_STOP_KILL;
    bh_loop_feed(loop, &event);
}

static int send_signal(struct bh_loop *loop, const struct request *request)
{
    uint64_t number = request->number[BH_TAG_SIGNAL];
    if (!request->given[BH_TAG_SIGNAL] || number < 1 || number > 64)
        return BH_E_INVALID_VALUE;
    struct bh_member *root = bh_members_find(&loop->members, loop->members.root_pid);
    int result = root && !root->zombie
                     ? loop->os->proc_signal(loop->os->self, &root->proc, (int)number)
                     : BH_E_NOT_FOUND;
    struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_SIGNAL);
    record.signal.signal = (int)number;
    record.signal.target = BH_TARGET_ROOT;
    record.signal.result = result == BH_OK             ? BH_SIGNAL_DELIVERED
                           : result == BH_E_NOT_FOUND  ? BH_SIGNAL_PROCESS_MISSING
                           : result == BH_E_PERMISSION ? BH_SIGNAL_PERMISSION_DENIED
                                                       : BH_SIGNAL_FAILED;
    record.signal.reached = result == BH_OK;
    (void)snprintf(record.signal.reason, sizeof record.signal.reason, "requested");
    bh_notes_put(&loop->notes, &record);
    if (result == BH_OK) {
        loop->ours_reached_root[number] = true;
        loop->requested_signal[number] = true;
    }
    return result == BH_E_NOT_FOUND ? BH_E_WRONG_STATE : result;
}

static int ask_checkpoint(struct bh_loop *loop)
{
    const struct bh_checkpoint *checkpoint = &loop->checkpoint;
    if (loop->policy.current != BH_POLICY_STATE_OBSERVE &&
        loop->policy.current != BH_POLICY_STATE_NORMAL &&
        loop->policy.current != BH_POLICY_STATE_WARNING)
        return BH_E_WRONG_STATE;
    if (loop->spec->checkpoint_kind == BH_CHECKPOINT_PROTOCOL && checkpoint->negotiated &&
        !loop->spec->checkpoint_repeat)
        return BH_E_CHECKPOINT_RESERVED; /* a published worker dies of a second request */
    if (checkpoint->active)
        return BH_E_BUSY;
    if (!bh_checkpoint_available(checkpoint))
        return BH_E_CHECKPOINT_UNAVAILABLE;
    bh_loop_feed_simple(loop, BH_POLICY_EVENT_CHECKPOINT_REQUEST);
    return checkpoint->active ? BH_OK : BH_E_CHECKPOINT_UNAVAILABLE;
}

static bool any_band(const struct request *request)
{
    return request->given[BH_TAG_WARNING_BYTES] || request->given[BH_TAG_RECOVERY_BYTES] ||
           request->given[BH_TAG_EMERGENCY_BYTES];
}

static void take(const struct request *request, int tag, uint64_t *value)
{
    if (request->given[tag])
        *value = request->number[tag];
}

static int change_limits(struct bh_loop *loop, const struct request *request, struct bh_diag *diag)
{
    struct bh_policy_config changed = loop->config;
    if (loop->config.mode != BH_POLICY_MODE_ENFORCE)
        return bh_err_set(diag, BH_E_WRONG_STATE, NULL, "an observed job has no limits");
    if (request->given[BH_TAG_REVISION] &&
        request->number[BH_TAG_REVISION] != loop->limits_revision)
        return bh_err_set(diag, BH_E_PRECONDITION_FAILED, NULL,
                          "the limits are at revision %u meanwhile", loop->limits_revision);
    int result = BH_OK;
    if (request->given[BH_TAG_LIMIT_BYTES] && !any_band(request))
        result =
            bh_policy_bands_from_limit(request->number[BH_TAG_LIMIT_BYTES], &changed.bands, diag);
    take(request, BH_TAG_LIMIT_BYTES, &changed.bands.limit_bytes);
    take(request, BH_TAG_WARNING_BYTES, &changed.bands.warning_bytes);
    take(request, BH_TAG_RECOVERY_BYTES, &changed.bands.recovery_bytes);
    take(request, BH_TAG_EMERGENCY_BYTES, &changed.bands.emergency_bytes);
    if (result == BH_OK)
        result = bh_policy_validate(&changed, diag);
    if (result < 0)
        return result;
    loop->config = changed;
    bh_loop_follow_limits(loop);
    struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_CONFIG_CHANGE);
    record.config_change.revision = ++loop->limits_revision;
    record.config_change.limit_bytes = changed.bands.limit_bytes;
    record.config_change.warning_bytes = changed.bands.warning_bytes;
    record.config_change.recovery_bytes = changed.bands.recovery_bytes;
    record.config_change.emergency_bytes = changed.bands.emergency_bytes;
    bh_notes_put(&loop->notes, &record);
    loop->next_sample = record.at; /* judged by the new bands at once */
    bh_account_publish(loop);
    return BH_OK;
}

static int change_recording(struct bh_loop *loop, const struct request *request)
{
    if (request->given[BH_TAG_ENABLED] && loop->run->queue)
        bh_queue_set_recording(loop->run->queue, request->number[BH_TAG_ENABLED] != 0);
    if (request->given[BH_TAG_MARK]) {
        struct bh_record record = bh_notes_begin(&loop->notes, BH_RECORD_MARK);
        memcpy(record.mark.label, request->mark, sizeof request->mark);
        bh_notes_put(&loop->notes, &record);
    }
    loop->notes.wake_wanted = true;
    return BH_OK;
}

/* ---- dispatch ---------------------------------------------------------------------------------
 */

static int run_command(struct bh_loop *loop, const struct bh_frame *frame,
                       const struct request *request, struct bh_diag *diag)
{
    if (loop->empty || loop->given_up)
        return BH_E_WRONG_STATE;
    switch ((int)frame->type) {
    case BH_MSG_STOP:
        stop(loop, request);
        return BH_OK;
    case BH_MSG_KILL:
        kill_job(loop);
        return BH_OK;
    case BH_MSG_SIGNAL:
        return send_signal(loop, request);
    case BH_MSG_CHECKPOINT:
        return ask_checkpoint(loop);
    case BH_MSG_LIMITS:
        return change_limits(loop, request, diag);
    case BH_MSG_RECORDING:
        return change_recording(loop, request);
    default:
        return BH_E_UNSUPPORTED;
    }
}

static void command(struct bh_loop *loop, struct bh_peer *peer, const struct bh_frame *frame)
{
    struct request request;
    struct bh_diag diag = {0};
    int result = read_request(frame, &request);
    if (result == BH_OK)
        result = run_command(loop, frame, &request, &diag);
    if (result < 0)
        bh_peer_refuse(peer, frame, result, diag.detail[0] ? diag.detail : bh_err_title(result));
    else
        answer_status(loop, peer, frame);
}

void bh_loop_command(void *context, struct bh_peer *peer, const struct bh_frame *frame)
{
    struct bh_loop *loop = context;
    if (!peer->greeted && frame->type != BH_MSG_HELLO) {
        bh_peer_refuse(peer, frame, BH_E_USAGE, "say HELLO first");
        return;
    }
    switch ((int)frame->type) {
    case BH_MSG_HELLO:
        greet(loop, peer, frame);
        break;
    case BH_MSG_STATUS:
        answer_status(loop, peer, frame);
        break;
    case BH_MSG_WATCH:
        watch(loop, peer, frame);
        break;
    case BH_MSG_MEMBERS:
        list_members(loop, peer, frame);
        break;
    case BH_MSG_BYE:
        peer->closing = true;
        break;
    default:
        command(loop, peer, frame);
        break;
    }
}

/* ---- signals to the supervisor ----------------------------------------------------------------
 */

void bh_loop_own_signals(struct bh_loop *loop, uint64_t signals)
{
    static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        if (!(signals >> (stops[i] - 1) & 1))
            continue;
        struct bh_policy_event event = event_of(loop, BH_POLICY_EVENT_EXTERNAL_SIGNAL);
        event.signal = stops[i];
        bh_loop_feed(loop, &event);
    }
    if (signals >> (SIGTSTP - 1) & 1)
        bh_foreground_stop(loop);
    else if (signals >> (SIGCONT - 1) & 1)
        bh_foreground_continue(loop);
}
