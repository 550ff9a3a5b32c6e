#include "server/sup_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/platform/platform.h"
#include "core/wire/status_file.h"
#include "server/link_events.h"
#include "server/supervise.h"

#define INPUT_BYTES (BH_FRAME_HEADER_BYTES + BH_FRAME_MAX_BODY)

/* A supervisor answers within a turn of its loop: one that does not for this long is stopped, or
 * the machine is. Whoever asked is told; the request stays with it. */
#define ANSWER_MS 10000
/* Requests that nobody answered yet; more are refused at once. */
#define PENDING_MAX 64

struct request {
    struct request *next;
    uint32_t sequence;
    uint64_t due_ms; /* of the loop's clock; 0 = it may take as long as it takes */
    bh_link_reply reply;
    void *user;
};

struct bh_link {
    uv_pipe_t pipe;
    uv_connect_t connect;
    struct bh_job *job; /* NULL once it is closed by us */
    struct request *first, **last;
    unsigned pending;
    uv_timer_t patience;
    unsigned handles; /* that are not closed yet */
    uint32_t sequence;
    struct bh_bytes input;
    char chunk[16384];
    void (*on_ready)(void *user, struct bh_job *job, int result);
    void *user;
    bool closing;
};

struct write {
    uv_write_t request;
    size_t length;
    unsigned char data[]; /* one frame */
};

static void ready(struct bh_link *link, int result)
{
    void (*on_ready)(void *, struct bh_job *, int) = link->on_ready;
    link->on_ready = NULL;
    if (on_ready && link->job)
        on_ready(link->user, link->job, result);
}

static void fail_requests(struct bh_link *link)
{
    struct bh_diag diag = {0};
    (void)bh_err_set(&diag, BH_E_SUPERVISOR_LOST, NULL,
                     "The connection to the job's supervisor ended. Read the job and try again.");
    while (link->first) {
        struct request *request = link->first;
        link->first = request->next;
        if (request->reply)
            request->reply(request->user, BH_E_SUPERVISOR_LOST, NULL, &diag);
        free(request);
    }
    link->last = &link->first;
    link->pending = 0;
}

/* Only the waiting ends: a later answer still finds its request, and is then nobody's. */
static void on_impatient(uv_timer_t *timer)
{
    struct bh_link *link = timer->data;
    uint64_t now = uv_now(timer->loop), next = 0;
    struct bh_diag diag = {0};
    (void)bh_err_set(&diag, BH_E_AGAIN, NULL,
                     "The job's supervisor has not answered for %d s; it may be stopped. It does "
                     "what was asked when it goes on.",
                     ANSWER_MS / 1000);
    for (struct request *request = link->first; request; request = request->next) {
        bh_link_reply reply = request->reply;
        if (!reply || !request->due_ms)
            continue;
        if (request->due_ms > now) {
            next = next && next < request->due_ms ? next : request->due_ms;
            continue;
        }
        request->reply = NULL;
        reply(request->user, BH_E_AGAIN, NULL, &diag);
    }
    if (next && !link->closing)
        (void)uv_timer_start(timer, on_impatient, next - now, 0);
}

static void on_closed(uv_handle_t *handle)
{
    struct bh_link *link = handle->data;
    if (--link->handles > 0)
        return;
    bh_bytes_done(&link->input);
    free(link);
}

static void close_link(struct bh_link *link)
{
    if (link->closing)
        return;
    link->closing = true;
    uv_close((uv_handle_t *)&link->pipe, on_closed);
    uv_close((uv_handle_t *)&link->patience, on_closed);
    fail_requests(link);
}

void bh_link_close(struct bh_link *link)
{
    if (link->job)
        link->job->link = NULL;
    link->job = NULL;
    close_link(link);
}

/* The connection ended by itself. */
static void lost(struct bh_link *link)
{
    struct bh_job *job = link->job;
    if (!job || link->closing)
        return;
    ready(link, BH_E_SUPERVISOR_LOST);
    job->link = NULL;
    link->job = NULL;
    close_link(link);
    bh_supervise_look(job);
}

/* ---- out ---------------------------------------------------------------------------------------
 */

static void on_written(uv_write_t *request, int status)
{
    struct bh_link *link = request->data;
    free((struct write *)request);
    if (status < 0)
        lost(link);
}

static void refuse(int error, bh_link_reply reply, void *user)
{
    struct bh_diag diag = {0};
    (void)bh_err_set(&diag, error, NULL, "The supervisor cannot be asked now. Try again.");
    if (reply)
        reply(user, error, NULL, &diag);
}

static void send_request(struct bh_link *link, enum bh_msg type, const void *body, size_t length,
                         bh_link_reply reply, void *user, uint64_t patience_ms)
{
    struct request *request = calloc(1, sizeof *request);
    struct write *write = malloc(sizeof *write + BH_FRAME_HEADER_BYTES + length);
    struct bh_frame frame = {
        .type = type, .sequence = ++link->sequence, .body = body, .body_length = length};
    int size = request && write
                   ? bh_frame_encode(&frame, write->data, BH_FRAME_HEADER_BYTES + length)
                   : BH_E_NOMEM;
    if (size < 0 || link->closing || link->pending >= PENDING_MAX) {
        free(request);
        free(write);
        refuse(size < 0 ? size : link->closing ? BH_E_SUPERVISOR_LOST : BH_E_AGAIN, reply, user);
        return;
    }
    *request = (struct request){.sequence = frame.sequence,
                                .due_ms = patience_ms ? uv_now(link->pipe.loop) + patience_ms : 0,
                                .reply = reply,
                                .user = user};
    *link->last = request;
    link->last = &request->next;
    link->pending++;
    if (patience_ms && !uv_is_active((uv_handle_t *)&link->patience))
        (void)uv_timer_start(&link->patience, on_impatient, patience_ms, 0);
    uv_buf_t buffer = uv_buf_init((char *)write->data, (unsigned)size);
    write->request.data = link;
    if (uv_write(&write->request, (uv_stream_t *)&link->pipe, &buffer, 1, on_written) < 0)
        free(write); /* the read side reports the end */
}

void bh_link_request(struct bh_link *link, enum bh_msg type, const void *body, size_t length,
                     bh_link_reply reply, void *user)
{
    send_request(link, type, body, length, reply, user, ANSWER_MS);
}

void bh_link_command(struct bh_link *link, const struct bh_command *command, bh_link_reply reply,
                     void *user)
{
    unsigned char body[512];
    struct bh_tlv_writer writer;
    enum bh_msg type = BH_MSG_STATUS;
    bh_tlv_begin(&writer, body, sizeof body);
    switch (command->kind) {
    case BH_COMMAND_STOP:
        type = BH_MSG_STOP;
        if (command->has_grace)
            bh_tlv_u64(&writer, BH_TAG_GRACE_NS, command->grace_ns);
        bh_tlv_u64(&writer, BH_TAG_CHECKPOINT, command->checkpoint);
        break;
    case BH_COMMAND_KILL:
        type = BH_MSG_KILL;
        break;
    case BH_COMMAND_CHECKPOINT:
        type = BH_MSG_CHECKPOINT;
        break;
    case BH_COMMAND_SIGNAL:
        type = BH_MSG_SIGNAL;
        bh_tlv_u64(&writer, BH_TAG_SIGNAL, (uint64_t)command->signal);
        break;
    case BH_COMMAND_LIMITS:
        type = BH_MSG_LIMITS;
        bh_tlv_u64(&writer, BH_TAG_LIMIT_BYTES, command->limit_bytes);
        bh_tlv_u64(&writer, BH_TAG_WARNING_BYTES, command->warning_bytes);
        bh_tlv_u64(&writer, BH_TAG_RECOVERY_BYTES, command->recovery_bytes);
        bh_tlv_u64(&writer, BH_TAG_EMERGENCY_BYTES, command->emergency_bytes);
        bh_tlv_u64(&writer, BH_TAG_REVISION, command->revision);
        break;
    case BH_COMMAND_RECORDING:
        type = BH_MSG_RECORDING;
        if (command->has_enabled)
            bh_tlv_u64(&writer, BH_TAG_ENABLED, command->enabled);
        bh_tlv_text(&writer, BH_TAG_MARK, command->mark[0] ? command->mark : NULL);
        break;
    }
    bh_link_request(link, type, body, writer.length, reply, user);
}

/* ---- in ----------------------------------------------------------------------------------------
 */

/* Error and sentence out of an ERROR reply. */
static int read_error(const struct bh_frame *frame, struct bh_diag *diag)
{
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    int error = BH_E_INTERNAL;
    char detail[sizeof diag->detail] = "The supervisor refused.";
    bh_tlv_open(&reader, frame->body, frame->body_length);
    while (bh_tlv_next(&reader, &item) > 0) {
        if (item.tag == BH_TAG_ERROR && (int64_t)item.number < 0 && (int64_t)item.number > -1000)
            error = (int)(int64_t)item.number;
        else if (item.tag == BH_TAG_DETAIL)
            (void)bh_tlv_copy_text(&item, detail, sizeof detail);
    }
    return bh_err_set(diag, error, NULL, "%s", detail);
}

static int take_reply(struct bh_link *link, const struct bh_frame *frame)
{
    struct request *request = link->first;
    struct bh_diag diag = {0};
    if (!request || request->sequence != frame->sequence)
        return BH_E_MALFORMED; /* replies come in order, one each */
    link->first = request->next;
    link->pending--;
    if (!link->first)
        link->last = &link->first;
    int result = frame->flags & BH_FRAME_ERROR ? read_error(frame, &diag) : BH_OK;
    if (result >= 0)
        bh_link_take_status(link->job, frame);
    if (request->reply)
        request->reply(request->user, result, frame, &diag);
    free(request);
    return BH_OK;
}

static int take_frame(struct bh_link *link, const struct bh_frame *frame)
{
    if (frame->flags & BH_FRAME_REPLY)
        return take_reply(link, frame);
    return bh_link_take_event(link->job, frame);
}

static int take_frames(struct bh_link *link)
{
    size_t used = 0;
    while (link->job && used < link->input.length) {
        struct bh_frame frame;
        int length = bh_frame_decode(link->input.data + used, link->input.length - used, &frame);
        if (length < 0)
            return length;
        if (length == 0)
            break;
        int result = take_frame(link, &frame);
        if (result < 0)
            return result;
        used += (size_t)length;
    }
    bh_bytes_consume(&link->input, used);
    return BH_OK;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct bh_link *link = handle->data;
    (void)suggested;
    *ret_buffer = uv_buf_init(link->chunk, sizeof link->chunk);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct bh_link *link = stream->data;
    if (n == 0 || link->closing)
        return;
    if (n < 0) {
        lost(link);
        return;
    }
    bh_bytes_append(&link->input, buffer->base, (size_t)n);
    int result =
        link->input.failed || link->input.length > 2 * INPUT_BYTES ? BH_E_NOMEM : take_frames(link);
    if (result < 0 && link->job) {
        bh_log(BH_LOG_WARNING,
               "job %s: its supervisor sent what makes no sense (%s); connecting "
               "again",
               link->job->id, bh_err_code(result));
        lost(link);
    }
}

/* ---- opening -------------------------------------------------------------------------------- */

static void on_watching(void *user, int result, const struct bh_frame *frame,
                        const struct bh_diag *diag)
{
    struct bh_link *link = user;
    (void)frame;
    (void)diag;
    ready(link, result);
}

static void on_connected(uv_connect_t *request, int status)
{
    struct bh_link *link = request->data;
    unsigned char body[128];
    struct bh_tlv_writer writer;
    if (link->closing)
        return;
    if (status < 0 || uv_read_start((uv_stream_t *)&link->pipe, on_alloc, on_read) < 0) {
        lost(link);
        return;
    }
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_u64(&writer, BH_TAG_VERSION, BH_FRAME_VERSION);
    bh_tlv_text(&writer, BH_TAG_PEER, "bulkheadd " BH_VERSION);
    /* who is stopped now is watched as soon as it goes on */
    send_request(link, BH_MSG_HELLO, body, writer.length, NULL, NULL, 0);
    send_request(link, BH_MSG_WATCH, NULL, 0, on_watching, link, 0);
}

int bh_link_open(struct bh_job *job, void (*on_ready)(void *user, struct bh_job *job, int result),
                 void *user)
{
    char directory[64];
    char path[96];
    struct bh_link *link = calloc(1, sizeof *link);
    if (!link)
        return BH_E_NOMEM;
    /* through the descriptor: a socket's path has at most 107 bytes, a run directory may be deeper
     */
    int result = bh_platform_dir_path(job->dirfd, directory, sizeof directory);
    if (result < 0) {
        free(link);
        return result;
    }
    (void)snprintf(path, sizeof path, "%s/ctl.sock", directory);
    link->job = job;
    link->last = &link->first;
    link->on_ready = on_ready;
    link->user = user;
    (void)uv_pipe_init(&job->app->loop, &link->pipe, 0);
    (void)uv_timer_init(&job->app->loop, &link->patience);
    link->handles = 2;
    link->pipe.data = link;
    link->patience.data = link;
    link->connect.data = link;
    job->link = link;
    uv_pipe_connect(&link->connect, &link->pipe, path, on_connected);
    return BH_OK;
}
