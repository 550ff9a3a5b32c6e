/* Inside the journal replay: a run's records as points on its own clock. Used by replay_journal.c.
 */
#ifndef BH_API_REPLAY_TRACK_H
#define BH_API_REPLAY_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/model/record.h"

enum bh_track_origin {
    BH_TRACK_SPAN,     /* least, greatest or last of a second, or one of its unusable readings */
    BH_TRACK_CROSSING, /* first reading at or above the run's limit */
    BH_TRACK_DECISION, /* the reading the run acted on */
    BH_TRACK_SAMPLE,   /* from a samples file */
    BH_TRACK_EXIT,     /* the tree is empty */
};

struct bh_track_point {
    enum bh_track_origin origin;
    bool has_bytes;
    bool dropped;            /* another point is the same reading */
    uint64_t at_ns;          /* monotonic, as in the journal */
    uint64_t bytes;          /* meaningful when has_bytes */
    uint64_t from_ns, to_ns; /* of the span it comes from */
    uint64_t captured_at_ns, window_ns;
    size_t order; /* of appearance, for equal times */
};

/* Zero-initialise. `points` and `gaps` are arrays in growing buffers, owned; their `failed` says
 * that memory ran out. */
struct bh_track {
    struct bh_bytes points;
    struct bh_bytes gaps;
    uint64_t zero_ns; /* launch */
    uint64_t limit_bytes;
    uint32_t breach_count;
};

struct bh_track_gap {
    uint64_t at_ns;
    uint64_t gap_ns;
};

void bh_track_done(struct bh_track *track);
void bh_track_add(struct bh_track *track, const struct bh_record *record);
/* Marks points that stand for a reading which another point tells better: where full-rate samples
 * are there, all others; else those of spans that are the crossing or the decision. */
void bh_track_settle(struct bh_track *track);

struct bh_track_point *bh_track_points(struct bh_track *track, size_t *ret_count);
/* Policy time of a monotonic one: since launch, without the gaps before it. */
uint64_t bh_track_policy_time(const struct bh_track *track, uint64_t at_ns);

#endif
