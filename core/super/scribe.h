/* The scribe: everything of a run that may block. One process, forked twice by boot.c, so that it
 * is nobody's child and may die without touching the decider. It drains queue.bin into the journal
 * (synced after records that need it), keeps the last minute of full-rate samples in samples.0 and
 * samples.1 and their min/max per second in the journal, replaces status.bin, drives the drain of
 * the recorder's rings, publishes its own state and the recorder's numbers in queue.bin, trims
 * logs, and in the end hands over to finish.c.
 *
 * Around it sits the standby: bh_scribe_main forks a worker and waits; when the worker dies before
 * its work is done the waiting process becomes the scribe itself, after forking a new standby. What
 * queue.bin holds is not lost by that, records that were journalled but not yet taken from the
 * queue are recognised by their sequence.
 *
 * Never slows the decider: a full or unwritable disk ends persistence for good (artifact_error in
 * queue.bin, exit 74), the queue is still emptied, and enforcement goes on. */
#ifndef BH_SUPER_SCRIBE_H
#define BH_SUPER_SCRIBE_H

#include "core/super/super.h"

/* Body of the scribe process; returns its exit status when the run is finished, the report is in
 * place (or given up) and the readings of reclaim.h are done. Ends early only when it cannot work
 * at all. The run is inherited; run->queue is the parent's handle on the shared mapping and is not
 * used: the scribe opens its own. */
int bh_scribe_main(struct bh_run *run);

#endif
