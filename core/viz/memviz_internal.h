/* The parts of the memory_viz exporter: survey (first pass: window, images, far links), names (what
 * is shared through the pickle's memo), trace (second pass: entries), and memviz.c that puts them
 * in order. Nobody else includes this. */
#ifndef BH_VIZ_MEMVIZ_INTERNAL_H
#define BH_VIZ_MEMVIZ_INTERNAL_H

#include "core/viz/events.h"
#include "core/viz/memviz.h"
#include "core/viz/pickle.h"
#include "core/viz/replay.h"

#define BH_VIZ_ENTRY(name, text) BH_VIZ_ENTRY_##name,
enum bh_viz_entry {
#include "core/viz/actions.def"
    BH_VIZ_ENTRIES
};
#undef BH_VIZ_ENTRY

/* ---- survey ---- */
struct bh_survey_image {
    bool seen; /* it was recorded before the window's end */
};

struct bh_survey {
    struct bh_dictionary *dictionary; /* owned */
    struct bh_survey_image *images;   /* by id */
    uint32_t image_count;
    uint64_t first_sequence; /* of the window; 0 = nothing inside */
    uint64_t last_sequence;
    uint64_t events; /* inside the window */
    uint64_t marks;  /* read, inside or not */
    int64_t last_us; /* time of the last record before the window's end */
    bool full;
    /* the allocation that crossed the limit */
    uint64_t crossing_sequence, crossing_bytes;
    uint32_t crossing_image;
    /* where both passes begin: a keyframe (empty = the log's beginning) and the segment after it */
    struct bh_bytes keyframe;
    uint64_t start_segment;
    /* LINKs too far from their allocation for bh_join */
    struct bh_far_link *far; /* by sequence, sorted after the pass */
    size_t far_count, far_capacity;
};
struct bh_far_link {
    uint64_t sequence;
    uint32_t image, stack, primitive;
    int32_t stream;
};

/* ---- start (memviz_start.c) ---- */
/* Chooses keyframe and start_segment. */
int bh_memviz_start_choose(struct bh_survey *survey, const struct bh_trace_source *source,
                           const struct bh_memviz_options *options);
/* The state there into a fresh replay: of one image, or of all (UINT32_MAX). */
int bh_memviz_start_state(const struct bh_survey *survey, uint32_t image, struct bh_replay *replay);
/* Finds the allocation that crossed the limit. */
int bh_memviz_find_crossing(struct bh_survey *survey, const struct bh_trace_source *source,
                            const struct bh_memviz_options *options);

int bh_survey_run(struct bh_survey *survey, const struct bh_trace_source *source,
                  const struct bh_memviz_options *options);
void bh_survey_done(struct bh_survey *survey);
const struct bh_far_link *bh_survey_far(const struct bh_survey *survey, uint64_t sequence);

/* ---- names ---- */
enum bh_name {
    BH_NAME_ACTION,
    BH_NAME_ADDR,
    BH_NAME_SIZE,
    BH_NAME_STREAM,
    BH_NAME_TIME_US,
    BH_NAME_FRAMES,
    BH_NAME_CATEGORY,
    BH_NAME_USER_METADATA,
    BH_NAME_REQUESTED_SIZE,
    BH_NAME_UNKNOWN,
    BH_NAME_PRIMITIVE,
    BH_NAME_ALLOCATED_AT,
    BH_NAME_FILENAME,
    BH_NAME_LINE,
    BH_NAME_NAME,
    BH_NAME_DEVICE,
    BH_NAME_DEVICE_FREE,
    BH_NAME_ADDRESS,
    BH_NAME_TOTAL_SIZE,
    BH_NAME_SEGMENT_TYPE,
    BH_NAME_ALLOCATED_SIZE,
    BH_NAME_ACTIVE_SIZE,
    BH_NAME_SEGMENT_POOL_ID,
    BH_NAME_IS_EXPANDABLE,
    BH_NAME_BLOCKS,
    BH_NAME_STATE,
    BH_NAME_ACTIVE_ALLOCATED,
    BH_NAME_INACTIVE,
    BH_NAME_LARGE,
    BH_NAME_SMALL,
    BH_NAME_STAGE,
    BH_NAME_START,
    BH_NAME_END,
    BH_NAMES
};

struct bh_names {
    struct bh_pickle *pickle;               /* borrowed */
    const struct bh_dictionary *dictionary; /* borrowed */
    uint32_t fixed[BH_NAMES], entries[BH_VIZ_ENTRIES];
    struct bh_memo_table {
        uint32_t *memo; /* by id; memo + 1, 0 = none */
        uint32_t count;
    } strings, frames, stacks;
    struct bh_metadata_slot {
        uint64_t key;  /* primitive << 32 | stack */
        uint32_t memo; /* + 1, 0 = empty */
    } * metadata;
    uint32_t metadata_mask, metadata_used;
    int error;
};

void bh_names_begin(struct bh_names *names, struct bh_pickle *pickle,
                    const struct bh_dictionary *dictionary);
void bh_names_done(struct bh_names *names);
/* Each writes one value, whole the first time and by its memo afterwards. */
void bh_names_fixed(struct bh_names *names, enum bh_name name);
void bh_names_entry(struct bh_names *names, enum bh_viz_entry entry);
void bh_names_string(struct bh_names *names, uint32_t string); /* "unknown" for 0 */
void bh_names_frames(struct bh_names *names, uint32_t stack);  /* [] for 0 */
/* {primitive[, allocated_at]}: the second for frees (stack != 0). */
void bh_names_metadata(struct bh_names *names, uint32_t primitive, uint32_t stack);

/* ---- trace ---- */
/* All entries of one image within the window, oldest first, as one list. final is fresh from
 * bh_replay_init and afterwards holds the image's state at the window's end; ret_lost: events lost
 * within it. */
int bh_memviz_trace(struct bh_names *names, const struct bh_survey *survey,
                    const struct bh_trace_source *source, const struct bh_memviz_options *options,
                    uint32_t image, struct bh_replay *final, uint64_t *ret_lost);
/* The list with nothing but the snapshot entry. */
void bh_memviz_trace_empty(struct bh_names *names, int64_t at_us);
/* Segment dicts of one image's state, by address; device = index of its trace. */
int bh_memviz_segments(struct bh_names *names, const struct bh_replay *state, uint32_t device);

#endif
