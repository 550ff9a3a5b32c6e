#include "core/super/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/super/super.h"
#include "core/wire/journal.h"

void bh_peers_init(struct bh_peers *peers, const char *run_id,
                   void (*request)(void *, struct bh_peer *, const struct bh_frame *),
                   void *context)
{
    peers->listen_fd = -1;
    peers->run_id = run_id;
    peers->request = request;
    peers->context = context;
    peers->dropped = 0;
    peers->used = 0;
}

/* A socket's path holds at most 107 bytes and a run directory may be deeper: it is bound through
 * the directory's descriptor. */
static int short_path(int run_fd, struct sockaddr_un *ret_address)
{
    memset(ret_address, 0, sizeof *ret_address);
    ret_address->sun_family = AF_UNIX;
    char directory[64];
    int result = bh_platform_dir_path(run_fd, directory, sizeof directory);
    if (result < 0)
        return result;
    int n = snprintf(ret_address->sun_path, sizeof ret_address->sun_path, "%s/%s", directory,
                     BH_RUN_SOCKET_NAME);
    return n > 0 && (size_t)n < sizeof ret_address->sun_path ? BH_OK : BH_E_TOO_LONG;
}

int bh_peers_listen(struct bh_peers *peers, int run_fd, struct bh_diag *diag)
{
    struct sockaddr_un address;
    if (short_path(run_fd, &address) < 0)
        return bh_err_set(diag, BH_E_TOO_LONG, NULL, "the control socket's path is too long");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return bh_err_sys(diag, errno, "no control socket");
    (void)unlinkat(run_fd, BH_RUN_SOCKET_NAME, 0); /* ours by the lock: a leftover */
    mode_t before = umask(0177);
    int bound = bind(fd, (const struct sockaddr *)&address, sizeof address);
    int error = errno;
    (void)umask(before);
    if (bound < 0 || listen(fd, BH_PEERS_MAX) < 0) {
        error = bound < 0 ? error : errno;
        (void)close(fd);
        return bh_err_sys(diag, error, "cannot open the control socket");
    }
    peers->listen_fd = fd;
    return BH_OK;
}

static void drop(struct bh_peers *peers, struct bh_peer *peer)
{
    (void)close(peer->fd);
    peer->fd = -1;
    peers->dropped++;
    while (peers->used && peers->items[peers->used - 1].fd < 0)
        peers->used--;
}

int bh_peers_adopt(struct bh_peers *peers, int fd)
{
    unsigned uid = 0;
    if (bh_platform_peer_uid(fd, &uid) < 0 || (uid != geteuid() && uid != 0))
        return BH_E_FORBIDDEN_UID;
    for (size_t i = 0; i < BH_PEERS_MAX; i++) {
        struct bh_peer *peer = &peers->items[i];
        if (i < peers->used && peer->fd >= 0)
            continue;
        if (i == peers->used)
            peers->used++;
        peer->fd = fd;
        peer->greeted = peer->watching = peer->closing = false;
        peer->event_sequence = 0;
        peer->input_length = peer->output_start = peer->output_length = 0;
        return BH_OK;
    }
    return BH_E_BUSY;
}

void bh_peers_done(struct bh_peers *peers)
{
    for (size_t i = 0; i < peers->used; i++) {
        if (peers->items[i].fd >= 0)
            (void)close(peers->items[i].fd);
    }
    peers->used = 0;
    if (peers->listen_fd >= 0)
        (void)close(peers->listen_fd);
    peers->listen_fd = -1;
}

size_t bh_peers_poll(const struct bh_peers *peers, struct pollfd *ret_fds, size_t capacity)
{
    size_t count = 0;
    if (peers->listen_fd >= 0 && count < capacity)
        ret_fds[count++] = (struct pollfd){.fd = peers->listen_fd, .events = POLLIN};
    for (size_t i = 0; i < peers->used && count < capacity; i++) {
        const struct bh_peer *peer = &peers->items[i];
        if (peer->fd < 0)
            continue;
        short events = (short)(peer->closing ? 0 : POLLIN);
        if (peer->output_length)
            events = (short)(events | POLLOUT);
        ret_fds[count++] = (struct pollfd){.fd = peer->fd, .events = events};
    }
    return count;
}

/* ---- out --------------------------------------------------------------------------------------
 */

static bool queue_bytes(struct bh_peer *peer, const void *data, size_t length)
{
    if (length > sizeof peer->output - peer->output_length)
        return false;
    if (length > sizeof peer->output - peer->output_start - peer->output_length) {
        memmove(peer->output, peer->output + peer->output_start, peer->output_length);
        peer->output_start = 0;
    }
    memcpy(peer->output + peer->output_start + peer->output_length, data, length);
    peer->output_length += length;
    return true;
}

static void queue_frame(struct bh_peer *peer, const struct bh_frame *frame)
{
    static unsigned char buffer[BH_FRAME_HEADER_BYTES + BH_FRAME_MAX_BODY];
    if (peer->fd < 0 || peer->closing)
        return;
    int length = bh_frame_encode(frame, buffer, sizeof buffer);
    /* too slow, or an answer that cannot be said: the end of this conversation */
    if (length < 0 || !queue_bytes(peer, buffer, (size_t)length)) {
        peer->closing = true;
        peer->output_length = 0;
    }
}

void bh_peer_reply(struct bh_peer *peer, const struct bh_frame *request, const void *body,
                   size_t length)
{
    struct bh_frame frame = {.type = request->type == BH_MSG_HELLO ? BH_MSG_WELCOME : request->type,
                             .flags = BH_FRAME_REPLY,
                             .sequence = request->sequence,
                             .body = body,
                             .body_length = length};
    queue_frame(peer, &frame);
}

void bh_peer_refuse(struct bh_peer *peer, const struct bh_frame *request, int error,
                    const char *detail)
{
    unsigned char body[512];
    struct bh_tlv_writer writer;
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_i64(&writer, BH_TAG_ERROR, error);
    bh_tlv_text(&writer, BH_TAG_DETAIL, detail);
    struct bh_frame frame = {.type = BH_MSG_ERROR,
                             .flags = BH_FRAME_REPLY | BH_FRAME_ERROR,
                             .sequence = request->sequence,
                             .body = body,
                             .body_length = writer.length};
    queue_frame(peer, &frame);
}

void bh_peer_event(struct bh_peer *peer, enum bh_msg type, const void *body, size_t length)
{
    struct bh_frame frame = {
        .type = type, .sequence = ++peer->event_sequence, .body = body, .body_length = length};
    queue_frame(peer, &frame);
}

void bh_peers_event(struct bh_peers *peers, enum bh_msg type, const void *body, size_t length)
{
    for (size_t i = 0; i < peers->used; i++) {
        if (peers->items[i].fd >= 0 && peers->items[i].watching)
            bh_peer_event(&peers->items[i], type, body, length);
    }
}

bool bh_peers_any_watching(const struct bh_peers *peers)
{
    for (size_t i = 0; i < peers->used; i++) {
        if (peers->items[i].fd >= 0 && peers->items[i].watching)
            return true;
    }
    return false;
}

void bh_peers_record(struct bh_peers *peers, const struct bh_record *record)
{
    static unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    static unsigned char body[BH_JOURNAL_MAX_RECORD + 64];
    if (!bh_peers_any_watching(peers))
        return;
    int length = bh_record_encode(record, peers->run_id, bytes, sizeof bytes);
    if (length < 0)
        return;
    struct bh_tlv_writer writer;
    bh_tlv_begin(&writer, body, sizeof body);
    bh_tlv_bytes(&writer, BH_TAG_RECORD, bytes, (size_t)length);
    bh_peers_event(peers, BH_MSG_EV_RECORD, body, writer.length);
}

static void flush_one(struct bh_peers *peers, struct bh_peer *peer)
{
    while (peer->output_length) {
        ssize_t n = send(peer->fd, peer->output + peer->output_start, peer->output_length,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            drop(peers, peer);
            return;
        }
        peer->output_start += (size_t)n;
        peer->output_length -= (size_t)n;
    }
    if (!peer->output_length) {
        peer->output_start = 0;
        if (peer->closing)
            drop(peers, peer);
    }
}

void bh_peers_flush(struct bh_peers *peers)
{
    for (size_t i = 0; i < peers->used; i++) {
        if (peers->items[i].fd >= 0)
            flush_one(peers, &peers->items[i]);
    }
}

/* ---- in ---------------------------------------------------------------------------------------
 */

static void accept_one(struct bh_peers *peers)
{
    int fd = accept4(peers->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0 && bh_peers_adopt(peers, fd) < 0)
        (void)close(fd);
}

/* Whole frames at the start of the input; false when the stream is beyond repair. */
static bool take_frames(struct bh_peers *peers, struct bh_peer *peer)
{
    size_t used = 0;
    while (used < peer->input_length && !peer->closing) {
        struct bh_frame frame;
        int length = bh_frame_decode(peer->input + used, peer->input_length - used, &frame);
        if (length < 0)
            return false;
        if (length == 0)
            break;
        peers->request(peers->context, peer, &frame);
        used += (size_t)length;
    }
    memmove(peer->input, peer->input + used, peer->input_length - used);
    peer->input_length -= used;
    return peer->input_length < sizeof peer->input;
}

static void read_one(struct bh_peers *peers, struct bh_peer *peer)
{
    ssize_t n = recv(peer->fd, peer->input + peer->input_length,
                     sizeof peer->input - peer->input_length, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(peers, peer);
        return;
    }
    peer->input_length += (size_t)n;
    if (!take_frames(peers, peer))
        drop(peers, peer);
}

void bh_peers_serve(struct bh_peers *peers, const struct pollfd *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!fds[i].revents)
            continue;
        if (fds[i].fd == peers->listen_fd) {
            accept_one(peers);
            continue;
        }
        for (size_t k = 0; k < peers->used; k++) {
            if (peers->items[k].fd == fds[i].fd && (fds[i].revents & (POLLIN | POLLHUP | POLLERR)))
                read_one(peers, &peers->items[k]);
        }
    }
}
