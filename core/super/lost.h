/* Stopping a tree whose decider is gone: the same ladder as the decider's and by the same machine
 * (the spec's stop signal, a grace that sees memory fall, SIGKILL until nothing is left), over the
 * members that queue.bin names and their descendants, each checked by its identity before every
 * signal. Where the job had a control group
 * of its own, that names everyone, kills at once, and proves emptiness; without one emptiness is
 * `sampled`: an orphan that left the tree before the decider died cannot be seen from here. Blocks
 * as long as the grace and kill_wait last. */
#ifndef BH_SUPER_LOST_H
#define BH_SUPER_LOST_H

#include "core/super/store.h"

/* status: the decider's last, NULL = none: its charge where nothing can be read, and whether it was
 * killing already. Adds SIGNAL records to the store. Returns how many members are still alive at
 * the end, 0 when none; ret_proven: the control group says so. */
uint32_t bh_lost_stop(struct bh_store *store, const struct bh_job_spec *spec,
                      const struct bh_queue_member *members, size_t count,
                      const struct bh_status *status, bool *ret_proven);

#endif
