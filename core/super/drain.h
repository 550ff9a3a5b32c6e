/* Rings -> event log. Runs in the scribe (and in adopt, and in `run` after the tree is empty):
 * finds the *.ring files of a folder, copies what their processes stored, gives every event its
 * job-wide sequence, job-wide ids to strings, frames and stacks, and appends to the event log.
 * Never trusts a byte of a ring. May allocate; stays below about 4 MiB besides the interned tables.
 *
 * Order: per image the ring's own order; across images by time within one step. Served history is
 * consistent per address and image. */
#ifndef BH_SUPER_DRAIN_H
#define BH_SUPER_DRAIN_H

#include "core/model/record.h"
#include "core/wire/evlog.h"

struct bh_drain;

/* rings_fd: the ring folder, kept (the caller's). evlog_fd: events.bhe opened O_RDWR | O_APPEND,
 * possibly with content from a scribe that died (it goes on after the last whole segment).
 * trace_max_bytes: 0 = no bound. */
int bh_drain_new(int rings_fd, int evlog_fd, const char *run_id, struct bh_anchor anchor,
                 uint64_t trace_max_bytes, struct bh_drain **ret_drain, struct bh_diag *diag);
void bh_drain_free(struct bh_drain *drain);

/* One bounded round over all rings: looks for new ones, takes at most about 65,536 slots, ends
 * images whose process is gone. Returns the number of slots taken (call again at once while it is
 * large), or the event log's write error (sticky; rings are still emptied and counted as lost). */
int bh_drain_step(struct bh_drain *drain);

/* How long the caller may wait before the next step so that no ring overflows even if its process
 * starts to allocate at full speed. quiet: no step has taken a slot for a second. A new ring is
 * another matter: whoever sees one appear wakes the caller. */
uint64_t bh_drain_pause_ns(const struct bh_drain *drain, bool quiet);

/* The tree is empty: takes everything that is left, counts holes, ends all images, flushes. */
int bh_drain_finish(struct bh_drain *drain);

/* No ring was seen yet, and no reason is known why: is MLX in use without the recorder? The caller
 * finds out, and says so when it is; the reason then is hooks_not_reached instead of no_mlx. */
bool bh_drain_misses_mlx(const struct bh_drain *drain);
void bh_drain_saw_mlx(struct bh_drain *drain);

/* State, reason, counts and sums as of the last step. */
void bh_drain_stats(const struct bh_drain *drain, struct bh_record_recorder *ret_stats);

/* Bytes of ring files mapped into the job's processes right now, for the charge to subtract. */
uint64_t bh_drain_ring_bytes(const struct bh_drain *drain);
uint64_t bh_drain_evlog_bytes(const struct bh_drain *drain);

/* Control flag of every ring, present and future. */
void bh_drain_set_recording(struct bh_drain *drain, bool enabled);
/* Appends a Mark event (label: UTF-8, cut at 128 bytes). */
int bh_drain_mark(struct bh_drain *drain, const char *label, struct bh_mono at);

#endif
