/* The blobs of a series' pyramid (timeline.h), little-endian.
 *
 *     chunk, of any level
 *       offset 0   u32 magic "BHLC"
 *       offset 4   u16 version, 1
 *       offset 6   u16 0 = points (level 0), 1 = nodes
 *       offset 8   u32 count of points or nodes
 *       offset 12  u32 CRC-32C of all but these four bytes
 *       offset 16  nodes: count x 64 bytes
 *                  points: per BH_LEVEL_BLOCK points one node, u32 offset of its points in the
 * body, u32 0; then the body: per point varints, time difference and signed value difference to the
 * point before (the first of a block: to its node's first) node, 64 bytes: i64 first time, i64 last
 * time, u64 first value, u64 last value, u64 least, u64 greatest (least > greatest: none is known),
 * i64 first time of the greatest, u64 points root, 64 + 64 bytes offset 0   u32 magic "BHLR", u16
 * version, u16 top level offset 8   u64 points; 44 bytes 0; offset 60 u32 CRC-32C of the rest (60
 * bytes + node) offset 64  node of everything */
#ifndef BH_VIZ_LEVEL_H
#define BH_VIZ_LEVEL_H

#include "core/viz/timeline.h"

#define BH_LEVEL_BLOCK      128u
#define BH_LEVEL_NODE_BYTES 64u

struct bh_level_node {
    int64_t first_us, last_us;
    uint64_t first, last, min, max;
    int64_t max_us;
    uint64_t points;
};

struct bh_level_point {
    int64_t at_us;
    uint64_t value;
};

void bh_level_node_add_point(struct bh_level_node *node, const struct bh_level_point *point);
/* `next` lies after node; a node with points 0 takes it as it is. */
void bh_level_node_add_node(struct bh_level_node *node, const struct bh_level_node *next);

/* Appended to ret_bytes; BH_E_NOMEM. */
int bh_level_points_encode(const struct bh_level_point *points, uint32_t count,
                           struct bh_bytes *ret_bytes);
int bh_level_nodes_encode(const struct bh_level_node *nodes, uint32_t count,
                          struct bh_bytes *ret_bytes);
int bh_level_root_encode(const struct bh_level_node *all, uint32_t top, struct bh_bytes *ret_bytes);

/* A chunk looked into; data is borrowed. */
struct bh_level_chunk {
    const unsigned char *data;
    size_t length;
    bool nodes;
    uint32_t count;  /* points or nodes */
    uint32_t blocks; /* points: how many blocks; nodes: count */
};
int bh_level_chunk_open(const void *data, size_t length, struct bh_level_chunk *ret_chunk);
/* Node i of a chunk of nodes, or the node of block i of a chunk of points. */
struct bh_level_node bh_level_chunk_node(const struct bh_level_chunk *chunk, uint32_t i);
/* Points of block i, BH_LEVEL_BLOCK at most; returns the count, or BH_E_MALFORMED. */
int bh_level_chunk_points(const struct bh_level_chunk *chunk, uint32_t i,
                          struct bh_level_point *ret_points);
int bh_level_root_decode(const void *data, size_t length, struct bh_level_node *ret_all,
                         uint32_t *ret_top);

#endif
