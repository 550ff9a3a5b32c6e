/* What frames of a supervisor mean for the registry: part of sup_link.h, apart so that a test can
 * feed frames without a socket. BH_E_MALFORMED ends the connection. */
#ifndef BH_SERVER_LINK_EVENTS_H
#define BH_SERVER_LINK_EVENTS_H

#include "core/wire/frame.h"
#include "server/jobs.h"

int bh_link_take_event(struct bh_job *job, const struct bh_frame *frame);
/* The STATUS item of a reply or event, if there is one; a bad one is ignored. */
void bh_link_take_status(struct bh_job *job, const struct bh_frame *frame);
/* While a job is stopping: asks the supervisor who is left, for `waiting_for`. */
void bh_link_ask_waiting(struct bh_job *job);
/* The MEMBER groups of a MEMBERS reply; visit is called for each. */
int bh_link_read_members(const struct bh_frame *frame,
                         void (*visit)(void *user, const struct bh_member_view *member),
                         void *user);

#endif
