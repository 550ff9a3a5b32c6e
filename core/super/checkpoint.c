#include "core/super/checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/random.h"
#include "core/base/text.h"
#include "core/super/checkpoint_look.h"

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
}

static void note(struct bh_checkpoint *checkpoint, const struct bh_ckpt_frame *ack)
{
    struct bh_record record = bh_notes_begin(checkpoint->notes, BH_RECORD_CHECKPOINT);
    record.checkpoint.word = checkpoint->word;
    record.checkpoint.request_id = checkpoint->request_id;
    (void)snprintf(record.checkpoint.reason, sizeof record.checkpoint.reason, "%s",
                   checkpoint->reason);
    record.checkpoint.rejected = checkpoint->rejected_said = checkpoint->rejected;
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

void bh_checkpoint_prepare(struct bh_checkpoint *checkpoint, uint64_t nofile, int look_fd)
{
    const struct bh_job_spec *spec = checkpoint->spec;
    if (spec->checkpoint_kind == BH_CHECKPOINT_PROTOCOL && nofile > BH_CHECKPOINT_JOB_FD)
        open_channel(checkpoint);
    if (spec->checkpoint_kind == BH_CHECKPOINT_SIGNAL)
        checkpoint->fd = look_fd;
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
}

bool bh_checkpoint_available(const struct bh_checkpoint *checkpoint)
{
    if (checkpoint->active)
        return false;
    if (checkpoint->spec->checkpoint_kind == BH_CHECKPOINT_SIGNAL)
        return checkpoint->fd >= 0;
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

/* ---- a signal, and a file to look for ---- */

/* The members in the order of their coming, for whoever looks which of them runs Python. */
static void list_processes(const struct bh_members *members, struct bh_look_request *request)
{
    for (size_t i = 0; i < members->count && request->count < BH_LOOK_PROCESSES; i++) {
        const struct bh_member *member = &members->items[i];
        if (member->zombie)
            continue;
        request->processes[request->count++] =
            (struct bh_look_process){.start_token = member->proc.start_token,
                                     .pid = member->proc.pid,
                                     .python = strncmp(member->name, "python", 6) == 0};
    }
}

static struct bh_member *root_of(struct bh_checkpoint *checkpoint)
{
    return bh_members_find(checkpoint->members, checkpoint->members->root_pid);
}

/* First what lies there now is remembered, by the helper; the signal follows when it says so. */
static bool send_look(struct bh_checkpoint *checkpoint)
{
    static struct bh_look_request request; /* single-threaded; 4 KiB */
    struct bh_member *root = root_of(checkpoint);
    request.kind = BH_LOOK_BEGIN;
    request.count = 0;
    request.id = checkpoint->request_id;
    checkpoint->announced = false;
    if (checkpoint->spec->checkpoint_process_python)
        list_processes(checkpoint->members, &request);
    else if (!root || !catches(checkpoint, root, checkpoint->spec->checkpoint_signal))
        return false; /* it would die of it: no need to look */
    return bh_look_ask(checkpoint->fd, &request) == BH_OK;
}

static void end_look(const struct bh_checkpoint *checkpoint)
{
    struct bh_look_request request = {.kind = BH_LOOK_END, .id = checkpoint->request_id};
    if (checkpoint->spec->checkpoint_kind == BH_CHECKPOINT_SIGNAL && checkpoint->fd >= 0)
        (void)bh_look_ask(checkpoint->fd, &request);
}

/* ---- request ----------------------------------------------------------------------------------
 */

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
                    ? send_look(checkpoint)
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
    end_look(checkpoint);
    note(checkpoint, NULL);
}

void bh_checkpoint_settle(struct bh_checkpoint *checkpoint)
{
    if (checkpoint->rejected != checkpoint->rejected_said)
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

static enum bh_checkpoint_news read_socket(struct bh_checkpoint *checkpoint)
{
    int sender = checkpoint->worker_pid;
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

/* ---- answers of the helper that looks ---------------------------------------------------------
 */

static enum bh_checkpoint_news take_marked(struct bh_checkpoint *checkpoint,
                                           const struct bh_look_answer *answer)
{
    struct bh_member *target = root_of(checkpoint);
    if (checkpoint->announced)
        return BH_CHECKPOINT_NOTHING; /* said twice, by a helper that took over */
    if (checkpoint->spec->checkpoint_process_python) {
        target = answer->pid > 0 ? bh_members_find(checkpoint->members, answer->pid) : NULL;
        if (target && target->proc.start_token != answer->start_token)
            target = NULL; /* another one of that number */
    }
    checkpoint->announced = announce(checkpoint, target, checkpoint->spec->checkpoint_signal);
    if (checkpoint->announced)
        return BH_CHECKPOINT_NOTHING;
    bh_checkpoint_close_request(checkpoint, BH_CKPT_FAILED);
    return BH_CHECKPOINT_FAILED;
}

static enum bh_checkpoint_news take_found(struct bh_checkpoint *checkpoint,
                                          const struct bh_look_answer *answer)
{
    struct bh_ckpt_frame found = {.artifact_kind = (uint8_t)answer->artifact_kind,
                                  .has_size = true,
                                  .size_bytes = answer->size_bytes};
    checkpoint->active = false;
    checkpoint->word = BH_CKPT_VERIFIED_FILE;
    note(checkpoint, &found);
    return BH_CHECKPOINT_DONE;
}

static enum bh_checkpoint_news read_look(struct bh_checkpoint *checkpoint)
{
    struct bh_look_answer answer;
    int result = bh_look_hear(checkpoint->fd, &answer);
    if (result < 0)
        return lose(checkpoint);
    if (result == 0 || !checkpoint->active || answer.id != checkpoint->request_id)
        return BH_CHECKPOINT_NOTHING; /* late: of a request that is over */
    if (answer.kind == BH_LOOK_MARKED)
        return take_marked(checkpoint, &answer);
    if (answer.kind == BH_LOOK_FOUND && checkpoint->announced)
        return take_found(checkpoint, &answer);
    return BH_CHECKPOINT_NOTHING;
}

enum bh_checkpoint_news bh_checkpoint_read(struct bh_checkpoint *checkpoint)
{
    if (checkpoint->fd < 0)
        return BH_CHECKPOINT_NOTHING;
    return checkpoint->spec->checkpoint_kind == BH_CHECKPOINT_SIGNAL ? read_look(checkpoint)
                                                                     : read_socket(checkpoint);
}
