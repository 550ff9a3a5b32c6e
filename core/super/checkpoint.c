#include "core/super/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/random.h"
#include "core/base/text.h"
#include "core/super/checkpoint_file.h"

void bh_checkpoint_init(struct bh_checkpoint *checkpoint, const struct bh_job_spec *spec,
                        const struct bh_platform *os, struct bh_members *members,
                        struct bh_notes *notes)
{
    memset(checkpoint, 0, sizeof *checkpoint);
    checkpoint->spec = spec;
    checkpoint->os = os;
    checkpoint->members = members;
    checkpoint->notes = notes;
    checkpoint->fd = -1;
    checkpoint->job_fd = -1;
    checkpoint->cwd_fd = -1;
}

static void note(struct bh_checkpoint *checkpoint, const struct bh_ckpt_frame *ack)
{
    struct bh_record record = bh_notes_begin(checkpoint->notes, BH_RECORD_CHECKPOINT);
    record.checkpoint.word = checkpoint->word;
    record.checkpoint.request_id = checkpoint->request_id;
    (void)snprintf(record.checkpoint.reason, sizeof record.checkpoint.reason, "%s",
                   checkpoint->reason);
    record.checkpoint.rejected = checkpoint->rejected;
    if (ack) {
        record.checkpoint.artifact_kind = ack->artifact_kind;
        if (ack->has_size)
            record.checkpoint.artifact_bytes =
                (struct bh_observed){.status = BH_VALUE_AVAILABLE, .value = ack->size_bytes};
    }
    bh_notes_put(checkpoint->notes, &record);
}

static void close_channel(struct bh_checkpoint *checkpoint)
{
    if (checkpoint->fd >= 0)
        (void)close(checkpoint->fd);
    checkpoint->fd = -1;
    checkpoint->negotiated = false;
}

/* ---- before launch ----------------------------------------------------------------------------
 */

static bool say_hello(struct bh_checkpoint *checkpoint)
{
    struct bh_ckpt_frame hello = {.kind = BH_CKPT_KIND_HELLO};
    unsigned char bytes[BH_CKPT_MAX_FRAME];
    memcpy(hello.nonce, checkpoint->nonce, sizeof hello.nonce);
    int length = bh_ckpt_encode(&hello, bytes);
    return send(checkpoint->fd, bytes, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) == length;
}

static void open_channel(struct bh_checkpoint *checkpoint)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return;
    checkpoint->fd = fds[0];
    checkpoint->job_fd = fds[1];
    if (bh_platform_want_sender(checkpoint->fd) == BH_OK &&
        bh_random_bytes(checkpoint->nonce, sizeof checkpoint->nonce) == BH_OK &&
        say_hello(checkpoint))
        return;
    close_channel(checkpoint);
    (void)close(checkpoint->job_fd);
    checkpoint->job_fd = -1;
}

void bh_checkpoint_prepare(struct bh_checkpoint *checkpoint, uint64_t nofile)
{
    const struct bh_job_spec *spec = checkpoint->spec;
    if (spec->checkpoint_kind == BH_CHECKPOINT_PROTOCOL && nofile > BH_CHECKPOINT_JOB_FD)
        open_channel(checkpoint);
    if (spec->checkpoint_kind == BH_CHECKPOINT_SIGNAL) {
        checkpoint->cwd_fd = open(spec->cwd ? spec->cwd : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bh_checkpoint_file_mark(checkpoint->cwd_fd, spec->checkpoint_path, &checkpoint->before);
    }
}

void bh_checkpoint_launched(struct bh_checkpoint *checkpoint)
{
    if (checkpoint->job_fd >= 0)
        (void)close(checkpoint->job_fd);
    checkpoint->job_fd = -1;
}

void bh_checkpoint_done(struct bh_checkpoint *checkpoint)
{
    bh_checkpoint_launched(checkpoint);
    close_channel(checkpoint);
    if (checkpoint->cwd_fd >= 0)
        (void)close(checkpoint->cwd_fd);
    checkpoint->cwd_fd = -1;
}

bool bh_checkpoint_available(const struct bh_checkpoint *checkpoint)
{
    if (checkpoint->active)
        return false;
    if (checkpoint->spec->checkpoint_kind == BH_CHECKPOINT_SIGNAL)
        return checkpoint->cwd_fd >= 0;
    return checkpoint->negotiated && (!checkpoint->used || checkpoint->spec->checkpoint_repeat);
}

/* ---- request ----------------------------------------------------------------------------------
 */

/* A worker that closed its end has restored the default action of the signal: it would die of it.
 */
static bool is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static bool catches(struct bh_checkpoint *checkpoint, struct bh_member *member, int signal)
{
    struct bh_proc_rest rest;
    return checkpoint->os->proc_rest(checkpoint->os->self, &member->proc, &rest) == BH_OK &&
           (rest.caught_signals >> (signal - 1) & 1);
}

static bool announce(struct bh_checkpoint *checkpoint, struct bh_member *member, int signal)
{
    return member && catches(checkpoint, member, signal) &&
           checkpoint->os->proc_signal(checkpoint->os->self, &member->proc, signal) == BH_OK;
}

static bool send_request(struct bh_checkpoint *checkpoint, uint64_t deadline_ns)
{
    struct bh_ckpt_frame request = {.kind = BH_CKPT_KIND_REQUEST,
                                    .request_id = checkpoint->request_id,
                                    .deadline_ns = deadline_ns};
    unsigned char bytes[BH_CKPT_MAX_FRAME];
    memcpy(request.nonce, checkpoint->nonce, sizeof request.nonce);
    int length = bh_ckpt_encode(&request, bytes);
    struct bh_member *worker = bh_members_find(checkpoint->members, checkpoint->worker_pid);
    if (!worker || is_closed(checkpoint->fd))
        return false;
    checkpoint->used = true;
    if (send(checkpoint->fd, bytes, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) != length)
        return false;
    return announce(checkpoint, worker, SIGUSR1);
}

static struct bh_member *signal_target(struct bh_checkpoint *checkpoint)
{
    struct bh_members *members = checkpoint->members;
    if (!checkpoint->spec->checkpoint_process_python)
        return bh_members_find(members, members->root_pid);
    for (size_t i = 0; i < members->count; i++) {
        if (strncmp(members->items[i].name, "python", 6) == 0 && !members->items[i].zombie)
            return &members->items[i];
    }
    return NULL;
}

static bool send_signal(struct bh_checkpoint *checkpoint)
{
    /* what lies there now is no answer to this request */
    bh_checkpoint_file_mark(checkpoint->cwd_fd, checkpoint->spec->checkpoint_path,
                            &checkpoint->before);
    checkpoint->last = checkpoint->before;
    return announce(checkpoint, signal_target(checkpoint), checkpoint->spec->checkpoint_signal);
}

int bh_checkpoint_request(struct bh_checkpoint *checkpoint, uint64_t id, uint64_t deadline_ns,
                          const char *reason)
{
    if (!bh_checkpoint_available(checkpoint))
        return BH_E_CHECKPOINT_UNAVAILABLE;
    checkpoint->request_id = id;
    checkpoint->answer_due = checkpoint->os->now(checkpoint->os->self);
    checkpoint->answer_due.ns += checkpoint->spec->checkpoint_timeout_ns;
    (void)snprintf(checkpoint->reason, sizeof checkpoint->reason, "%s", reason);
    bool sent = checkpoint->spec->checkpoint_kind == BH_CHECKPOINT_SIGNAL
                    ? send_signal(checkpoint)
                    : send_request(checkpoint, deadline_ns);
    checkpoint->active = sent;
    checkpoint->word = sent ? BH_CKPT_REQUESTED_UNVERIFIED : BH_CKPT_FAILED;
    note(checkpoint, NULL);
    return sent ? BH_OK : BH_E_CHECKPOINT_UNAVAILABLE;
}

void bh_checkpoint_close_request(struct bh_checkpoint *checkpoint, enum bh_checkpoint_word word)
{
    if (!checkpoint->active)
        return;
    checkpoint->active = false;
    checkpoint->word = word;
    note(checkpoint, NULL);
}

/* ---- answers ----------------------------------------------------------------------------------
 */

static enum bh_checkpoint_news lose(struct bh_checkpoint *checkpoint)
{
    bool was_active = checkpoint->active;
    close_channel(checkpoint);
    if (was_active)
        bh_checkpoint_close_request(checkpoint, BH_CKPT_FAILED);
    return was_active ? BH_CHECKPOINT_FAILED : BH_CHECKPOINT_LOST;
}

static enum bh_checkpoint_news reject(struct bh_checkpoint *checkpoint)
{
    checkpoint->rejected++;
    if (!checkpoint->negotiated)
        return lose(checkpoint); /* before ready every doubt ends the negotiation */
    return BH_CHECKPOINT_NOTHING;
}

static enum bh_checkpoint_news take_ready(struct bh_checkpoint *checkpoint, int sender)
{
    /* a worker can be ready before the next look finds it */
    if (!bh_members_find(checkpoint->members, sender))
        (void)bh_members_scan(checkpoint->members, true, BH_RELIST_ALL);
    if (checkpoint->negotiated || !bh_members_find(checkpoint->members, sender))
        return reject(checkpoint);
    checkpoint->negotiated = true;
    checkpoint->worker_pid = sender;
    checkpoint->word = BH_CKPT_READY;
    note(checkpoint, NULL);
    return BH_CHECKPOINT_BECAME_READY;
}

static enum bh_checkpoint_news take_ack(struct bh_checkpoint *checkpoint,
                                        const struct bh_ckpt_frame *ack)
{
    if (!checkpoint->active || ack->request_id != checkpoint->request_id)
        return reject(checkpoint); /* late, twice, or of another request */
    checkpoint->active = false;
    switch (ack->status) {
    case BH_CKPT_STATUS_COMPLETED:
        checkpoint->word = BH_CKPT_ACKNOWLEDGED;
        break;
    case BH_CKPT_STATUS_FAILED:
        checkpoint->word = BH_CKPT_FAILED;
        break;
    case BH_CKPT_STATUS_CANCELLED:
        checkpoint->word = BH_CKPT_CANCELLED;
        break;
    }
    note(checkpoint, ack);
    return checkpoint->word == BH_CKPT_ACKNOWLEDGED ? BH_CHECKPOINT_DONE : BH_CHECKPOINT_FAILED;
}

static enum bh_checkpoint_news take_frame(struct bh_checkpoint *checkpoint, int length, int sender)
{
    struct bh_ckpt_frame frame;
    int result = bh_ckpt_decode(checkpoint->input, checkpoint->input_length, &frame);
    checkpoint->input_length -= (size_t)length;
    memmove(checkpoint->input, checkpoint->input + length, checkpoint->input_length);
    if (result <= 0 || !bh_text_equal_secret(frame.nonce, checkpoint->nonce, sizeof frame.nonce))
        return reject(checkpoint);
    if (frame.kind == BH_CKPT_KIND_WORKER_READY)
        return take_ready(checkpoint, sender);
    if (frame.kind == BH_CKPT_KIND_ACK && checkpoint->negotiated)
        return take_ack(checkpoint, &frame);
    return reject(checkpoint);
}

enum bh_checkpoint_news bh_checkpoint_read(struct bh_checkpoint *checkpoint)
{
    int sender = checkpoint->worker_pid;
    if (checkpoint->fd < 0)
        return BH_CHECKPOINT_NOTHING;
    int length = bh_ckpt_frame_length(checkpoint->input, checkpoint->input_length);
    if (length == 0) {
        int n =
            bh_platform_read_sender(checkpoint->fd, checkpoint->input + checkpoint->input_length,
                                    sizeof checkpoint->input - checkpoint->input_length, &sender);
        if (n == BH_E_AGAIN)
            return BH_CHECKPOINT_NOTHING;
        if (n <= 0)
            return lose(checkpoint);
        checkpoint->input_length += (size_t)n;
        length = bh_ckpt_frame_length(checkpoint->input, checkpoint->input_length);
    }
    if (length < 0)
        return lose(checkpoint); /* nothing after it can be found again */
    return length == 0 ? BH_CHECKPOINT_NOTHING : take_frame(checkpoint, length, sender);
}

enum bh_checkpoint_news bh_checkpoint_watch(struct bh_checkpoint *checkpoint, struct bh_mono now)
{
    if (!checkpoint->active || checkpoint->spec->checkpoint_kind != BH_CHECKPOINT_SIGNAL ||
        now.ns < checkpoint->next_watch.ns)
        return BH_CHECKPOINT_NOTHING;
    checkpoint->next_watch.ns = now.ns + BH_CHECKPOINT_WATCH_NS;
    struct bh_checkpoint_mark mark;
    bh_checkpoint_file_mark(checkpoint->cwd_fd, checkpoint->spec->checkpoint_path, &mark);
    if (!bh_checkpoint_mark_equal(&mark, &checkpoint->last)) {
        checkpoint->last = mark;
        checkpoint->last_changed = now;
        return BH_CHECKPOINT_NOTHING;
    }
    if (!mark.exists || bh_checkpoint_mark_equal(&mark, &checkpoint->before) ||
        now.ns - checkpoint->last_changed.ns < BH_CHECKPOINT_STABLE_NS ||
        !bh_checkpoint_file_whole(checkpoint->cwd_fd, checkpoint->spec->checkpoint_path))
        return BH_CHECKPOINT_NOTHING;
    struct bh_ckpt_frame found = {
        .artifact_kind = 1, .has_size = true, .size_bytes = mark.size_bytes};
    checkpoint->active = false;
    checkpoint->word = BH_CKPT_VERIFIED_FILE;
    note(checkpoint, &found);
    return BH_CHECKPOINT_DONE;
}
