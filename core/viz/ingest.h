/* The server's running view of one job's trace: takes the log's segments in order, once each, and
 * makes what queries need: points of active and reserved, keyframes, sums, peak, losses.
 *
 *     bh_ingest_segment(ingest, data, length)   any number of times, outside of the transaction
 *     bh_ingest_flush(ingest, store)            inside of the transaction that stores the segments
 *
 * Everything it hands out is a function of the segments taken, so after a kill the server restores
 * it from the last stored keyframe, the segments after that and the stored levels, and goes on. If
 * a flush fails or its transaction is rolled back, throw the ingest away and restore. */
#ifndef BH_VIZ_INGEST_H
#define BH_VIZ_INGEST_H

#include "core/viz/dictionary.h"
#include "core/viz/keyframe.h"
#include "core/viz/timeline.h"

struct bh_ingest;

/* A stretch without knowledge of active and reserved. */
struct bh_loss {
    int64_t from_us, to_us;
    uint64_t count;
    uint64_t sequence; /* of the Lost event */
};
/* A user's mark. */
struct bh_mark {
    int64_t at_us;
    uint64_t sequence;
    struct bh_text label;
};

struct bh_ingest_store {
    struct bh_level_store levels;
    void *context;
    int (*keyframe)(void *context, const struct bh_keyframe_info *info, const void *data,
                    size_t length);
    int (*loss)(void *context, const struct bh_loss *loss);
    int (*mark)(void *context, const struct bh_mark *mark);
};

int bh_ingest_new(struct bh_anchor anchor, struct bh_ingest **ret_ingest);
void bh_ingest_free(struct bh_ingest *ingest);
/* Brings a new ingest to where segments 0..segments-1 were taken and flushed. source holds at least
 * these; keyframes and levels are those stored. */
int bh_ingest_restore(struct bh_ingest *ingest, const struct bh_trace_source *source,
                      const struct bh_keyframe_store *keyframes,
                      const struct bh_level_store *levels, uint64_t segments);
/* One whole segment. BH_E_MALFORMED, CHECKSUM: nothing of it counts. ret_segment may be NULL. */
int bh_ingest_segment(struct bh_ingest *ingest, const void *data, size_t length,
                      struct bh_evlog_segment *ret_segment);
int bh_ingest_flush(struct bh_ingest *ingest, const struct bh_ingest_store *store);

/* Read only, until the next call. */
const struct bh_replay *bh_ingest_replay(const struct bh_ingest *ingest);
const struct bh_dictionary *bh_ingest_dictionary(const struct bh_ingest *ingest);
uint64_t bh_ingest_segments(const struct bh_ingest *ingest); /* taken so far */

#endif
