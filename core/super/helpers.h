/* The helper processes of a run: scribe, mrelease and who looks for a checkpoint. Forked twice by
 * the decider before it becomes a subreaper, so that they are nobody's children and never stand in
 * the way of the proof that the tree is empty. Called once per run, by boot.c. */
#ifndef BH_SUPER_HELPERS_H
#define BH_SUPER_HELPERS_H

#include "core/super/super.h"

/* Forks the scribe and waits until its standby is there; run->scribe_alive_fd and
 * run->decider_token_fd are the decider's from then on. */
int bh_helpers_start_scribe(struct bh_run *run, struct bh_diag *diag);

/* Forks the helper that gives back the memory of killed processes (process_mrelease can take as
 * long as the victim is large), which brings its standby. ret_fd: the decider's end, non-blocking;
 * -1 when there is none. */
int bh_helpers_start_mrelease(int *ret_fd, struct bh_diag *diag);
/* Forks the helper of a signal checkpoint (checkpoint_look.h), with its standby. ret_fd: the
 * decider's end; untouched when the job's directory cannot be opened or there is no process. */
int bh_helpers_start_look(struct bh_run *run, int *ret_fd, struct bh_diag *diag);
/* Asks for one killed process; never waits, may be lost when the helper is behind. */
void bh_helpers_release_memory(int fd, int pid, uint64_t start_token);

#endif
