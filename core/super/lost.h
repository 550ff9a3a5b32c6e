/* Stopping a tree whose decider is gone: the same order as the decider's (the spec's stop signal,
 * grace, SIGKILL until nothing is left), over the members that queue.bin names and their
 * descendants, each checked by its identity before every signal. Where the job had a control group
 * of its own, that names everyone, kills at once, and proves emptiness; without one emptiness is
 * `sampled`: an orphan that left the tree before the decider died cannot be seen from here. Blocks
 * as long as the grace and kill_wait last. */
#ifndef BH_SUPER_LOST_H
#define BH_SUPER_LOST_H

#include "core/super/store.h"

/* charge: the last one known, for the proportional grace. Adds SIGNAL records to the store. Returns
 * how many members are still alive at the end, 0 when none; ret_proven: the control group says so.
 */
uint32_t bh_lost_stop(struct bh_store *store, const struct bh_job_spec *spec,
                      const struct bh_queue_member *members, size_t count,
                      struct bh_observed charge, bool *ret_proven);

#endif
