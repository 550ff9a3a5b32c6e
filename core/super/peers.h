/* ctl.sock: the control connections of a supervised run (wire/frame.h). Accepts, checks the peer's
 * uid, cuts the stream into frames and queues what goes out. Never waits for a peer: one whose
 * queue passes BH_FRAME_QUEUE_BYTES, or that sends nonsense, is dropped. Static buffers only. */
#ifndef BH_SUPER_PEERS_H
#define BH_SUPER_PEERS_H

#include <poll.h>

#include "core/model/record.h"
#include "core/platform/platform.h"
#include "core/wire/frame.h"

#define BH_PEERS_MAX        16
#define BH_PEER_INPUT_BYTES 4096 /* no request is longer: its texts are bounded */

struct bh_peer {
    int fd; /* -1 = free */
    bool greeted, watching, closing;
    uint32_t event_sequence;
    size_t input_length;
    size_t output_start, output_length; /* unsent part of output */
    unsigned char input[BH_PEER_INPUT_BYTES];
    unsigned char output[BH_FRAME_QUEUE_BYTES];
};

struct bh_peers {
    int listen_fd; /* -1 = no socket */
    const char *run_id;
    void (*request)(void *context, struct bh_peer *peer, const struct bh_frame *frame);
    void *context;
    uint64_t dropped; /* peers that were too slow or wrong */
    size_t used;      /* items from here on are free and untouched: a quarter MiB apart each, they
                         would cost every turn its cold pages */
    struct bh_peer items[BH_PEERS_MAX];
};

void bh_peers_init(struct bh_peers *peers, const char *run_id,
                   void (*request)(void *, struct bh_peer *, const struct bh_frame *),
                   void *context);
/* Binds ctl.sock in the run directory, 0600. */
int bh_peers_listen(struct bh_peers *peers, int run_fd, struct bh_diag *diag);
/* A connected socket, given away (tests, and what accept gives). */
int bh_peers_adopt(struct bh_peers *peers, int fd);
void bh_peers_done(struct bh_peers *peers);

/* Descriptors to wait for; the count, at most BH_PEERS_MAX + 1. */
size_t bh_peers_poll(const struct bh_peers *peers, struct pollfd *ret_fds, size_t capacity);
/* What the wait found: accepts, reads, calls request for each frame. */
void bh_peers_serve(struct bh_peers *peers, const struct pollfd *fds, size_t count);
/* Sends what is queued, as far as it goes without waiting. */
void bh_peers_flush(struct bh_peers *peers);
bool bh_peers_any_watching(const struct bh_peers *peers);

/* Answers a request: same type, REPLY, its sequence. */
void bh_peer_reply(struct bh_peer *peer, const struct bh_frame *request, const void *body,
                   size_t length);
void bh_peer_refuse(struct bh_peer *peer, const struct bh_frame *request, int error,
                    const char *detail);
/* An event to one, and to all that watch. */
void bh_peer_event(struct bh_peer *peer, enum bh_msg type, const void *body, size_t length);
void bh_peers_event(struct bh_peers *peers, enum bh_msg type, const void *body, size_t length);
/* EV_RECORD with the whole journal record. */
void bh_peers_record(struct bh_peers *peers, const struct bh_record *record);

#endif
