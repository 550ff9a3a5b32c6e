/* Requests that wait for a job's next change (long polls): part of the registry (jobs.h). */
#ifndef BH_SERVER_JOBS_WAIT_H
#define BH_SERVER_JOBS_WAIT_H

#include "server/app.h"

struct bh_waiter;

struct bh_waiters {
    struct bh_app *app;
    struct bh_waiter *first;
    uv_timer_t timer; /* runs while somebody waits */
};

void bh_waiters_init(struct bh_waiters *waiters, struct bh_app *app);
void bh_waiters_close(struct bh_waiters *waiters);
/* Answers the call with the job's document at the next answer for this id, or after wait_ns with
 * what it is then. */
int bh_waiters_add(struct bh_waiters *waiters, const char *id, struct bh_call *call,
                   uint64_t wait_ns);
/* Answers everybody who waits for this job with the document. */
void bh_waiters_answer(struct bh_waiters *waiters, const char *id, const struct bh_bytes *document);
/* Answers everybody as if the time were over. */
void bh_waiters_release(struct bh_waiters *waiters);

#endif
