/* One connection to a supervisor's control socket: HELLO, WATCH, then events into the registry and
 * requests with their replies in order. Loop thread. Bytes that make no sense end the connection;
 * supervise.h then finds out what became of the job. */
#ifndef BH_SERVER_SUP_LINK_H
#define BH_SERVER_SUP_LINK_H

#include "core/wire/frame.h"
#include "server/jobs.h"

struct bh_link;

/* result: BH_OK with the reply's frame, or an error with its diag: what the supervisor refused, or
 * BH_E_SUPERVISOR_LOST when the connection ended first, BH_E_AGAIN when it has not answered for 10
 * s (a stopped supervisor: it does what was asked when it goes on). Called exactly once, on the
 * loop.
 */
typedef void (*bh_link_reply)(void *user, int result, const struct bh_frame *frame,
                              const struct bh_diag *diag);

/* Connects to ctl.sock of the job's run directory and sets job->link. on_ready is called once, with
 * BH_OK when WELCOME and the reply to WATCH are there, or with an error; may be NULL. The
 * connection later ends by itself: job->link is NULL then, and bh_supervise_look was called. */
int bh_link_open(struct bh_job *job, void (*on_ready)(void *user, struct bh_job *job, int result),
                 void *user);
/* Ends it without looking at the job again; pending requests get BH_E_SUPERVISOR_LOST. */
void bh_link_close(struct bh_link *link);

/* Sends a request; body is copied. */
void bh_link_request(struct bh_link *link, enum bh_msg type, const void *body, size_t length,
                     bh_link_reply reply, void *user);
/* The command of an API call as a frame. */
void bh_link_command(struct bh_link *link, const struct bh_command *command, bh_link_reply reply,
                     void *user);

#endif
