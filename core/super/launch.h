/* From a spec to a running root process: streams, environment, limits (supervision.md, section 4).
 * Called once by boot.c after the helpers were forked. */
#ifndef BH_SUPER_LAUNCH_H
#define BH_SUPER_LAUNCH_H

#include "core/super/loop.h"

/* What the process was given before it changed anything for itself; the job gets it back. */
struct bh_inherited {
    uint64_t nofile_soft, nofile_hard;
    int nice_value;
    unsigned umask;
};
/* First of all, in main: what this program writes is for its user alone, whatever the caller's
 * umask, and a caller's `ulimit -f` is a full disk to it, not a death. */
void bh_launch_own_files(void);
void bh_launch_remember(struct bh_inherited *ret_inherited);
/* More descriptors for the decider's own use. */
void bh_launch_raise_limits(const struct bh_inherited *inherited);

/* Launches; typed errors as in platform.h, and the environment's. */
int bh_launch_job(struct bh_loop *loop, const struct bh_inherited *inherited, char *const *own,
                  int *ret_pid, struct bh_diag *diag);

#endif
