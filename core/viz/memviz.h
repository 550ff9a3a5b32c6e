/* Event log -> memory_viz snapshot: a pickle that PyTorch's stock viewer and
 * torch/cuda/_memory_viz.py read. Streamed: memory grows with what is live at one instant and with
 * distinct names, not with the number of events. Two passes over the source, and one more per
 * further process image. Runs in the server's pool and in bulkhead-tool. */
#ifndef BH_VIZ_MEMVIZ_H
#define BH_VIZ_MEMVIZ_H

#include "core/viz/keyframe.h"
#include "core/viz/sink.h"
#include "core/viz/source.h"

/* Something at one instant, shown by the viewer as an annotation. */
struct bh_annotation {
    int64_t at_us;
    const char *name; /* "SIGTERM", "checkpoint verified", "limit crossed" … valid UTF-8 */
};

struct bh_memviz_options {
    int64_t from_us, to_us; /* [from, to); INT64_MIN and INT64_MAX = all */
    uint64_t max_entries;   /* only the last N events of the window; 0 = all */
    bool limit_crossed;     /* an `oom` entry at limit_us */
    int64_t limit_us;
    uint64_t limit_bytes; /* 0 = none */
    uint64_t warning_bytes, recovery_bytes, emergency_bytes;
    uint64_t crossed_bytes; /* the charge then */
    /* borrowed, in order of time; the log's own marks join them unless they are among them */
    const struct bh_annotation *annotations;
    size_t annotation_count;
    /* NULL = none. With them only the log from the newest one before the window on is read. The
     * file is the same, but for LINKs more than BH_JOIN_EVENTS records behind the window's end. */
    const struct bh_keyframe_store *keyframes;
};
#define BH_MEMVIZ_ALL                                                                              \
    (struct bh_memviz_options)                                                                     \
    {                                                                                              \
        .from_us = INT64_MIN, .to_us = INT64_MAX                                                   \
    }

/* source NULL or without events: an empty, valid snapshot (job_id then names the job).
 * BH_E_BAD_QUERY when from_us > to_us; BH_E_NOMEM; source and sink errors. */
int bh_memviz_write(const struct bh_trace_source *source, const char *job_id,
                    const struct bh_memviz_options *options, struct bh_sink sink,
                    struct bh_diag *diag);

#endif
