/* Series over time (active, reserved, charge) as a pyramid that answers "least and greatest value
 * in each of N equal spans of any range" exactly, in time that hardly grows with the trace.
 *
 * A series is a step function: a value holds from its point until the next one. Level 0 keeps every
 * point, in chunks of BH_LEVEL_POINTS, delta coded; each higher level keeps one node (first, last,
 * least, greatest, times) per chunk of the level below, in chunks of BH_LEVEL_NODES nodes; a root
 * blob names counts and the peak. Chunks are blobs that the owner stores under (series, level,
 * index): SQLite in the server, memory in bulkhead-tool. Only the last chunk of each level ever
 * changes, so a flush rewrites at most one chunk a level and series.
 *
 * Builder: one thread, bytes in memory bounded by the open chunks. Blob layouts: level.h. */
#ifndef BH_VIZ_TIMELINE_H
#define BH_VIZ_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/base/err.h"

enum bh_series {
    BH_SERIES_ACTIVE = 0,
    BH_SERIES_RESERVED = 1,
    BH_SERIES_CHARGE = 2,
};
#define BH_SERIES_COUNT 3

/* A value that is not known, from this point to the next: lost events, unusable samples. */
#define BH_SERIES_UNKNOWN UINT64_MAX

#define BH_LEVEL_POINTS 1024u /* of a chunk of level 0 */
#define BH_LEVEL_NODES  64u   /* of a chunk of a higher level */
#define BH_LEVEL_MAX    10u   /* levels above 0: 64^10 x 1024 points */
#define BH_LEVEL_ROOT   255u  /* level under which the root blob is stored, index 0 */

struct bh_level_store {
    void *context;
    /* Inserts or replaces. */
    int (*put)(void *context, unsigned series, unsigned level, uint64_t index, const void *data,
               size_t length);
    /* Appends the blob to ret_bytes; BH_E_NOT_FOUND when there is none. */
    int (*get)(void *context, unsigned series, unsigned level, uint64_t index,
               struct bh_bytes *ret_bytes);
};

/* ---- building ---- */
struct bh_series_builder;
int bh_series_new(enum bh_series series, struct bh_series_builder **ret_builder);
void bh_series_free(struct bh_series_builder *builder);
/* Goes on where the stored chunks end; fine when nothing is stored. */
int bh_series_restore(struct bh_series_builder *builder, const struct bh_level_store *store);
/* A time before the last one counts as the last one. A point that repeats the last value is left
 * out. No store is needed here: full chunks wait in memory for the next flush. */
int bh_series_add(struct bh_series_builder *builder, int64_t at_us, uint64_t value);
/* Stores what is new: full chunks, the open chunk of each level, the root. Nothing when nothing is
 * new. */
int bh_series_flush(struct bh_series_builder *builder, const struct bh_level_store *store);

/* ---- asking ---- */
struct bh_series_summary {
    uint64_t points; /* 0: nothing else is set */
    int64_t first_us, last_us;
    uint64_t last;     /* value, maybe BH_SERIES_UNKNOWN */
    uint64_t min, max; /* of known values; min > max = none known */
    int64_t max_us;    /* first time of max */
};
int bh_series_summary(const struct bh_level_store *store, enum bh_series series,
                      struct bh_series_summary *ret_summary);

/* Start of cell i of [from_us, to_us] cut into `cells`; the last one reaches to to_us inclusive. */
int64_t bh_timeline_cell_us(int64_t from_us, int64_t to_us, uint32_t cells, uint32_t i);
/* How many cells a range gets that was asked for with `points`: fewer when it is shorter. */
uint32_t bh_timeline_cells(int64_t from_us, int64_t to_us, uint32_t points);

/* Exact extremes of each cell, the value carried in at its start included; BH_SERIES_UNKNOWN in
 * both where nothing is known. Nothing is known after `until_us` (the end of the job; INT64_MAX =
 * open). BH_E_BAD_QUERY when from_us > to_us; BH_E_MALFORMED, CHECKSUM for a blob that is not
 * right. */
int bh_series_query(const struct bh_level_store *store, enum bh_series series, int64_t from_us,
                    int64_t to_us, int64_t until_us, uint32_t cells, uint64_t *ret_min,
                    uint64_t *ret_max);

/* A store in memory. */
struct bh_level_memory;
int bh_level_memory_new(struct bh_level_memory **ret_memory);
void bh_level_memory_free(struct bh_level_memory *memory);
struct bh_level_store bh_level_memory_store(struct bh_level_memory *memory);
uint64_t bh_level_memory_bytes(const struct bh_level_memory *memory);

#endif
