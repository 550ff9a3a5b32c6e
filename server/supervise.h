/* What the server does about supervisors: starting one for a new job, and finding out what became
 * of one that is not connected (adoption). Loop thread.
 *
 * The lock of a run directory is the one sign of life: held = a supervisor or its scribe works on
 * the job; free = both are gone. So a job that is not connected is looked at until its lock is
 * free; then its report is there, or `bulkhead-supervise adopt` makes it. */
#ifndef BH_SERVER_SUPERVISE_H
#define BH_SERVER_SUPERVISE_H

#include "server/jobs.h"

/* Launches a job whose run directory and row exist. on_started is called once: BH_OK when the
 * program was executed (the job is linked, or over already), else the typed error with a sentence;
 * the job is still in the registry then. */
void bh_supervise_start(struct bh_job *job,
                        void (*on_started)(void *user, struct bh_job *job, int result,
                                           const struct bh_diag *diag),
                        void *user);

/* Looks at a job that is not connected: connects, waits, adopts or ends it. */
void bh_supervise_look(struct bh_job *job);
/* The supervisor said FINAL, or the lock is free and the report is in place or lost. */
void bh_supervise_ended(struct bh_job *job);

/* Reads the journal's anchor once it is there. */
void bh_supervise_read_anchor(struct bh_job *job);

/* At start: every job that the store calls unfinished. */
int bh_supervise_adopt_all(struct bh_app *app, struct bh_diag *diag);
/* Whether somebody holds the lock of this run directory. */
bool bh_supervise_locked(int dirfd);

#endif
