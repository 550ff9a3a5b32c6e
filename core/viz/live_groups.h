/* The table of groups behind a live set: one row a group, one column an instant. Used by live.c. */
#ifndef BH_VIZ_LIVE_GROUPS_H
#define BH_VIZ_LIVE_GROUPS_H

#include "core/viz/live.h"
#include "core/viz/replay.h"

enum bh_live_column {
    BH_LIVE_MAIN = 0,
    BH_LIVE_SINCE,
    BH_LIVE_QUARTER_1,
    BH_LIVE_QUARTER_2,
    BH_LIVE_QUARTER_3,
    BH_LIVE_QUARTER_4,
    BH_LIVE_CROSSING, /* only passed, for crossed_by */
    BH_LIVE_COLUMNS,
};

struct bh_live_row {
    uint64_t key; /* stack or primitive key */
    uint64_t bytes[BH_LIVE_COLUMNS - 1];
    uint64_t count;      /* main */
    uint64_t best_bytes; /* by stack: of the primitive with most bytes, main */
    uint32_t best_primitive;
};

struct bh_live_pair {
    uint64_t key; /* stack key << 32 | primitive key */
    uint64_t bytes;
};

/* key -> index + 1; open addressing. */
struct bh_live_index {
    uint32_t *slots;
    uint32_t mask;
};

struct bh_live_groups {
    const struct bh_dictionary *dictionary; /* borrowed */
    bool by_primitive;
    struct bh_live_row *rows;
    uint32_t row_count, row_capacity;
    struct bh_live_pair *pairs; /* by stack, main: bytes per primitive */
    uint32_t pair_count, pair_capacity;
    struct bh_live_index row_index, pair_index;
};

void bh_live_groups_begin(struct bh_live_groups *groups, const struct bh_dictionary *dictionary,
                          bool by_primitive);
void bh_live_groups_done(struct bh_live_groups *groups);
/* Adds every active buffer of the state to a column; ended images only when asked. */
int bh_live_groups_add(struct bh_live_groups *groups, const struct bh_replay *state,
                       enum bh_live_column column, bool ended_too);
/* Rows into groups of *live, largest first: groups, other, totals. */
int bh_live_groups_take(struct bh_live_groups *groups, struct bh_live *live);

#endif
