/* Building a series: points into chunks, chunks into nodes above them. */
#include <stdlib.h>
#include <string.h>

#include "core/viz/level.h"

struct waiting { /* a full chunk that was not stored yet */
    uint32_t level;
    uint64_t index;
    size_t offset, length; /* into blobs */
};

struct bh_series_builder {
    enum bh_series series;
    struct bh_level_node all;
    bool dirty;
    /* the open chunk of level 0 */
    struct bh_level_point points[BH_LEVEL_POINTS];
    uint32_t point_count;
    uint64_t chunks; /* full ones of level 0 */
    /* the open chunk of each higher level: nodes of full chunks below. [0] is level 1 */
    struct bh_level_node nodes[BH_LEVEL_MAX][BH_LEVEL_NODES];
    uint32_t node_count[BH_LEVEL_MAX];
    uint64_t node_chunks[BH_LEVEL_MAX]; /* full ones */
    struct waiting *waiting;
    size_t waiting_count, waiting_capacity;
    struct bh_bytes blobs;
};

int bh_series_new(enum bh_series series, struct bh_series_builder **ret_builder)
{
    struct bh_series_builder *builder = calloc(1, sizeof *builder);
    if (!builder)
        return BH_E_NOMEM;
    builder->series = series;
    *ret_builder = builder;
    return BH_OK;
}

void bh_series_free(struct bh_series_builder *builder)
{
    if (!builder)
        return;
    bh_bytes_done(&builder->blobs);
    free(builder->waiting);
    free(builder);
}

/* ---- growing ---- */

/* The blob appended to blobs since `offset` waits for the next flush. */
static int await_flush(struct bh_series_builder *builder, uint32_t level, uint64_t index,
                       size_t offset)
{
    if (builder->waiting_count == builder->waiting_capacity) {
        size_t capacity = builder->waiting_capacity ? builder->waiting_capacity * 2 : 16;
        struct waiting *grown = realloc(builder->waiting, capacity * sizeof *grown);
        if (!grown)
            return BH_E_NOMEM;
        builder->waiting = grown;
        builder->waiting_capacity = capacity;
    }
    builder->waiting[builder->waiting_count++] = (struct waiting){
        .level = level, .index = index, .offset = offset, .length = builder->blobs.length - offset};
    return BH_OK;
}

/* A chunk of level `level` - 1 is full: its node goes into `level`, which may be full by it. */
static int add_node(struct bh_series_builder *builder, uint32_t level, struct bh_level_node node)
{
    for (; level <= BH_LEVEL_MAX; level++) {
        uint32_t *count = &builder->node_count[level - 1];
        struct bh_level_node *nodes = builder->nodes[level - 1];
        nodes[(*count)++] = node;
        if (*count < BH_LEVEL_NODES)
            return BH_OK;
        size_t offset = builder->blobs.length;
        int error = bh_level_nodes_encode(nodes, *count, &builder->blobs);
        if (error >= 0)
            error = await_flush(builder, level, builder->node_chunks[level - 1]++, offset);
        if (error < 0)
            return error;
        node = (struct bh_level_node){0};
        for (uint32_t i = 0; i < BH_LEVEL_NODES; i++)
            bh_level_node_add_node(&node, &nodes[i]);
        *count = 0;
    }
    return BH_E_TOO_LONG; /* 2^70 points */
}

static struct bh_level_node points_node(const struct bh_series_builder *builder)
{
    struct bh_level_node node = {0};
    for (uint32_t i = 0; i < builder->point_count; i++)
        bh_level_node_add_point(&node, &builder->points[i]);
    return node;
}

static int close_points(struct bh_series_builder *builder)
{
    size_t offset = builder->blobs.length;
    int error = bh_level_points_encode(builder->points, builder->point_count, &builder->blobs);
    if (error >= 0)
        error = await_flush(builder, 0, builder->chunks, offset);
    if (error < 0)
        return error;
    struct bh_level_node node = points_node(builder);
    builder->chunks++;
    builder->point_count = 0;
    return add_node(builder, 1, node);
}

int bh_series_add(struct bh_series_builder *builder, int64_t at_us, uint64_t value)
{
    if (builder->all.points && value == builder->all.last)
        return BH_OK;
    struct bh_level_point point = {at_us, value};
    if (builder->all.points && at_us < builder->all.last_us)
        point.at_us = builder->all.last_us;
    bh_level_node_add_point(&builder->all, &point);
    builder->points[builder->point_count++] = point;
    builder->dirty = true;
    return builder->point_count == BH_LEVEL_POINTS ? close_points(builder) : BH_OK;
}

/* ---- storing ---- */

static int put_blob(struct bh_series_builder *builder, const struct bh_level_store *store,
                    uint32_t level, uint64_t index, size_t offset)
{
    int error = store->put(store->context, (unsigned)builder->series, level, index,
                           builder->blobs.data + offset, builder->blobs.length - offset);
    builder->blobs.length = offset;
    return error;
}

/* The open chunk of a level with the node of the open chunk below (points > 0) at its end. */
static int put_open_nodes(struct bh_series_builder *builder, const struct bh_level_store *store,
                          uint32_t level, struct bh_level_node *below)
{
    uint32_t count = builder->node_count[level - 1];
    struct bh_level_node *nodes = builder->nodes[level - 1];
    size_t offset = builder->blobs.length;
    if (below->points)
        nodes[count++] = *below; /* room: a full chunk is closed at once */
    *below = (struct bh_level_node){0};
    if (count == 0)
        return BH_OK;
    for (uint32_t i = 0; i < count; i++)
        bh_level_node_add_node(below, &nodes[i]);
    int error = bh_level_nodes_encode(nodes, count, &builder->blobs);
    return error < 0 ? error
                     : put_blob(builder, store, level, builder->node_chunks[level - 1], offset);
}

static int put_open(struct bh_series_builder *builder, const struct bh_level_store *store)
{
    struct bh_level_node below = points_node(builder);
    size_t offset = builder->blobs.length;
    uint32_t top = 0;
    int error = BH_OK;
    if (builder->point_count) {
        error = bh_level_points_encode(builder->points, builder->point_count, &builder->blobs);
        if (error >= 0)
            error = put_blob(builder, store, 0, builder->chunks, offset);
    }
    uint64_t chunks = builder->chunks + (builder->point_count > 0);
    while (chunks > 1 && error >= 0) {
        top++;
        error = put_open_nodes(builder, store, top, &below);
        chunks = (chunks + BH_LEVEL_NODES - 1) / BH_LEVEL_NODES;
    }
    if (error < 0)
        return error;
    error = bh_level_root_encode(&builder->all, top, &builder->blobs);
    return error < 0 ? error : put_blob(builder, store, BH_LEVEL_ROOT, 0, offset);
}

int bh_series_flush(struct bh_series_builder *builder, const struct bh_level_store *store)
{
    if (!builder->dirty)
        return BH_OK;
    for (size_t i = 0; i < builder->waiting_count; i++) {
        const struct waiting *blob = &builder->waiting[i];
        int error = store->put(store->context, (unsigned)builder->series, blob->level, blob->index,
                               builder->blobs.data + blob->offset, blob->length);
        if (error < 0)
            return error;
    }
    builder->waiting_count = 0;
    bh_bytes_clear(&builder->blobs);
    int error = put_open(builder, store);
    if (error >= 0)
        builder->dirty = false;
    return error;
}

/* ---- restoring ---- */

static int get_chunk(struct bh_series_builder *builder, const struct bh_level_store *store,
                     uint32_t level, uint64_t index, struct bh_level_chunk *ret_chunk)
{
    bh_bytes_clear(&builder->blobs);
    int error =
        store->get(store->context, (unsigned)builder->series, level, index, &builder->blobs);
    if (error == BH_E_NOT_FOUND)
        return BH_E_TRUNCATED;
    if (error < 0)
        return error;
    error = bh_level_chunk_open(builder->blobs.data, builder->blobs.length, ret_chunk);
    return error < 0 ? error : ret_chunk->nodes != (level > 0) ? BH_E_MALFORMED : BH_OK;
}

static int restore_points(struct bh_series_builder *builder, const struct bh_level_store *store)
{
    struct bh_level_chunk chunk;
    builder->chunks = builder->all.points / BH_LEVEL_POINTS;
    uint32_t count = (uint32_t)(builder->all.points % BH_LEVEL_POINTS);
    if (count == 0)
        return BH_OK;
    int error = get_chunk(builder, store, 0, builder->chunks, &chunk);
    if (error < 0)
        return error;
    if (chunk.count != count)
        return BH_E_MALFORMED;
    for (uint32_t i = 0; i < chunk.blocks; i++) {
        int got = bh_level_chunk_points(&chunk, i, builder->points + builder->point_count);
        if (got < 0)
            return got;
        builder->point_count += (uint32_t)got;
    }
    return BH_OK;
}

static int restore_nodes(struct bh_series_builder *builder, const struct bh_level_store *store)
{
    uint64_t below = builder->chunks; /* full chunks of the level below */
    uint64_t each = BH_LEVEL_POINTS;  /* points in each of them */
    for (uint32_t level = 1; level <= BH_LEVEL_MAX && below > 0; level++) {
        struct bh_level_chunk chunk;
        uint32_t count = (uint32_t)(below % BH_LEVEL_NODES);
        builder->node_chunks[level - 1] = below / BH_LEVEL_NODES;
        builder->node_count[level - 1] = count;
        /* One full chunk that is everything: a level above it was never stored, its node is all. */
        if (below == 1 && builder->all.points == each) {
            builder->nodes[level - 1][0] = builder->all;
            return BH_OK;
        }
        int error =
            count ? get_chunk(builder, store, level, below / BH_LEVEL_NODES, &chunk) : BH_OK;
        if (error < 0)
            return error;
        if (count && chunk.count < count)
            return BH_E_MALFORMED;
        for (uint32_t i = 0; i < count; i++)
            builder->nodes[level - 1][i] = bh_level_chunk_node(&chunk, i);
        below /= BH_LEVEL_NODES;
        each *= BH_LEVEL_NODES;
    }
    return BH_OK;
}

int bh_series_restore(struct bh_series_builder *builder, const struct bh_level_store *store)
{
    uint32_t top;
    bh_bytes_clear(&builder->blobs);
    int error =
        store->get(store->context, (unsigned)builder->series, BH_LEVEL_ROOT, 0, &builder->blobs);
    if (error == BH_E_NOT_FOUND)
        return BH_OK;
    if (error >= 0)
        error =
            bh_level_root_decode(builder->blobs.data, builder->blobs.length, &builder->all, &top);
    if (error >= 0)
        error = restore_points(builder, store);
    if (error >= 0)
        error = restore_nodes(builder, store);
    bh_bytes_clear(&builder->blobs);
    return error;
}
