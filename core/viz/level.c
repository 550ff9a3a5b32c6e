#include "core/viz/level.h"

#include <string.h>

#include "core/base/crc32c.h"
#include "core/viz/varint.h"
#include "core/wire/le.h"

#define CHUNK_MAGIC  0x434c4842u /* "BHLC" */
#define ROOT_MAGIC   0x524c4842u /* "BHLR" */
#define VERSION      1
#define CHUNK_HEADER 16u
#define BLOCK_ENTRY  (BH_LEVEL_NODE_BYTES + 8u)
#define ROOT_BYTES   (64u + BH_LEVEL_NODE_BYTES)

/* ---- nodes ---- */

static void widen(struct bh_level_node *node, uint64_t min, uint64_t max, int64_t max_us)
{
    if (min > max)
        return;
    bool known = node->min <= node->max;
    if (!known || min < node->min)
        node->min = min;
    if (!known || max > node->max) {
        node->max = max;
        node->max_us = max_us;
    }
}

void bh_level_node_add_point(struct bh_level_node *node, const struct bh_level_point *point)
{
    if (node->points == 0) {
        *node = (struct bh_level_node){
            .first_us = point->at_us, .first = point->value, .min = UINT64_MAX};
    }
    node->last_us = point->at_us;
    node->last = point->value;
    node->points++;
    if (point->value != BH_SERIES_UNKNOWN)
        widen(node, point->value, point->value, point->at_us);
}

void bh_level_node_add_node(struct bh_level_node *node, const struct bh_level_node *next)
{
    if (node->points == 0) {
        *node = *next;
        return;
    }
    node->last_us = next->last_us;
    node->last = next->last;
    node->points += next->points;
    widen(node, next->min, next->max, next->max_us);
}

static void put_node(unsigned char *at, const struct bh_level_node *node)
{
    bh_le_put64(at, (uint64_t)node->first_us);
    bh_le_put64(at + 8, (uint64_t)node->last_us);
    bh_le_put64(at + 16, node->first);
    bh_le_put64(at + 24, node->last);
    bh_le_put64(at + 32, node->min);
    bh_le_put64(at + 40, node->max);
    bh_le_put64(at + 48, (uint64_t)node->max_us);
    bh_le_put64(at + 56, node->points);
}

static struct bh_level_node get_node(const unsigned char *at)
{
    return (struct bh_level_node){
        .first_us = (int64_t)bh_le_get64(at),
        .last_us = (int64_t)bh_le_get64(at + 8),
        .first = bh_le_get64(at + 16),
        .last = bh_le_get64(at + 24),
        .min = bh_le_get64(at + 32),
        .max = bh_le_get64(at + 40),
        .max_us = (int64_t)bh_le_get64(at + 48),
        .points = bh_le_get64(at + 56),
    };
}

/* Of everything but the checksum itself. */
static uint32_t chunk_crc(const unsigned char *chunk, size_t length)
{
    return bh_crc32c(bh_crc32c(0, chunk, 12), chunk + CHUNK_HEADER, length - CHUNK_HEADER);
}

/* ---- encoding ---- */

static void finish_chunk(unsigned char *chunk, bool nodes, uint32_t count, size_t length)
{
    bh_le_put32(chunk, CHUNK_MAGIC);
    bh_le_put16(chunk + 4, VERSION);
    bh_le_put16(chunk + 6, nodes);
    bh_le_put32(chunk + 8, count);
    bh_le_put32(chunk + 12, chunk_crc(chunk, length));
}

/* One block's entry and points; returns the end of the points. */
static unsigned char *put_block(unsigned char *entry, const unsigned char *body, unsigned char *at,
                                const struct bh_level_point *points, uint32_t count)
{
    struct bh_level_node node = {0};
    struct bh_level_point last = points[0];
    bh_le_put32(entry + BH_LEVEL_NODE_BYTES, (uint32_t)(at - body));
    bh_le_put32(entry + BH_LEVEL_NODE_BYTES + 4, 0);
    for (uint32_t i = 0; i < count; i++) {
        bh_level_node_add_point(&node, &points[i]);
        at = bh_varint_put(at, (uint64_t)points[i].at_us - (uint64_t)last.at_us);
        at = bh_varint_put_signed(at, points[i].value - last.value);
        last = points[i];
    }
    put_node(entry, &node);
    return at;
}

int bh_level_points_encode(const struct bh_level_point *points, uint32_t count,
                           struct bh_bytes *ret_bytes)
{
    uint32_t blocks = (count + BH_LEVEL_BLOCK - 1) / BH_LEVEL_BLOCK;
    size_t head = CHUNK_HEADER + blocks * BLOCK_ENTRY;
    unsigned char *chunk = bh_bytes_reserve(ret_bytes, head + (size_t)count * 2 * BH_VARINT_BYTES);
    if (!chunk)
        return BH_E_NOMEM;
    unsigned char *body = chunk + head, *at = body;
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t first = i * BH_LEVEL_BLOCK, left = count - first;
        at = put_block(chunk + CHUNK_HEADER + i * BLOCK_ENTRY, body, at, points + first,
                       left < BH_LEVEL_BLOCK ? left : BH_LEVEL_BLOCK);
    }
    finish_chunk(chunk, false, count, (size_t)(at - chunk));
    ret_bytes->length += (size_t)(at - chunk);
    return BH_OK;
}

int bh_level_nodes_encode(const struct bh_level_node *nodes, uint32_t count,
                          struct bh_bytes *ret_bytes)
{
    size_t length = CHUNK_HEADER + (size_t)count * BH_LEVEL_NODE_BYTES;
    unsigned char *chunk = bh_bytes_reserve(ret_bytes, length);
    if (!chunk)
        return BH_E_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        put_node(chunk + CHUNK_HEADER + i * BH_LEVEL_NODE_BYTES, &nodes[i]);
    finish_chunk(chunk, true, count, length);
    ret_bytes->length += length;
    return BH_OK;
}

static uint32_t root_crc(const unsigned char *root)
{
    return bh_crc32c(bh_crc32c(0, root, 60), root + 64, BH_LEVEL_NODE_BYTES);
}

int bh_level_root_encode(const struct bh_level_node *all, uint32_t top, struct bh_bytes *ret_bytes)
{
    unsigned char *root = bh_bytes_reserve(ret_bytes, ROOT_BYTES);
    if (!root)
        return BH_E_NOMEM;
    memset(root, 0, ROOT_BYTES);
    bh_le_put32(root, ROOT_MAGIC);
    bh_le_put16(root + 4, VERSION);
    bh_le_put16(root + 6, (uint16_t)top);
    bh_le_put64(root + 8, all->points);
    put_node(root + 64, all);
    bh_le_put32(root + 60, root_crc(root));
    ret_bytes->length += ROOT_BYTES;
    return BH_OK;
}

/* ---- decoding ---- */

int bh_level_chunk_open(const void *data, size_t length, struct bh_level_chunk *ret_chunk)
{
    const unsigned char *bytes = data;
    if (length < CHUNK_HEADER || bh_le_get32(bytes) != CHUNK_MAGIC)
        return BH_E_MALFORMED;
    if (bh_le_get16(bytes + 4) != VERSION || bh_le_get16(bytes + 6) > 1)
        return BH_E_VERSION;
    if (bh_le_get32(bytes + 12) != chunk_crc(bytes, length))
        return BH_E_CHECKSUM;
    bool nodes = bh_le_get16(bytes + 6) == 1;
    uint32_t count = bh_le_get32(bytes + 8);
    if (count == 0 || count > (nodes ? BH_LEVEL_NODES : BH_LEVEL_POINTS))
        return BH_E_MALFORMED;
    uint32_t blocks = nodes ? count : (count + BH_LEVEL_BLOCK - 1) / BH_LEVEL_BLOCK;
    size_t entries = (size_t)blocks * (nodes ? BH_LEVEL_NODE_BYTES : BLOCK_ENTRY);
    if (length - CHUNK_HEADER < entries || (nodes && length - CHUNK_HEADER != entries))
        return BH_E_MALFORMED;
    *ret_chunk = (struct bh_level_chunk){
        .data = bytes, .length = length, .nodes = nodes, .count = count, .blocks = blocks};
    return BH_OK;
}

struct bh_level_node bh_level_chunk_node(const struct bh_level_chunk *chunk, uint32_t i)
{
    size_t size = chunk->nodes ? BH_LEVEL_NODE_BYTES : BLOCK_ENTRY;
    return get_node(chunk->data + CHUNK_HEADER + i * size);
}

int bh_level_chunk_points(const struct bh_level_chunk *chunk, uint32_t i,
                          struct bh_level_point *ret_points)
{
    const unsigned char *entry = chunk->data + CHUNK_HEADER + i * BLOCK_ENTRY;
    const unsigned char *body = chunk->data + CHUNK_HEADER + chunk->blocks * BLOCK_ENTRY;
    const unsigned char *end = chunk->data + chunk->length;
    uint32_t offset = bh_le_get32(entry + BH_LEVEL_NODE_BYTES);
    uint32_t count = chunk->count - i * BH_LEVEL_BLOCK;
    if (count > BH_LEVEL_BLOCK)
        count = BH_LEVEL_BLOCK;
    if (offset > (size_t)(end - body))
        return BH_E_MALFORMED;
    struct bh_level_node node = get_node(entry);
    struct bh_varint_reader reader = {body + offset, end, false};
    struct bh_level_point last = {node.first_us, node.first};
    for (uint32_t j = 0; j < count; j++) {
        last.at_us = (int64_t)((uint64_t)last.at_us + bh_varint_get(&reader));
        last.value += bh_varint_get_signed(&reader);
        ret_points[j] = last;
    }
    return reader.bad ? BH_E_MALFORMED : (int)count;
}

int bh_level_root_decode(const void *data, size_t length, struct bh_level_node *ret_all,
                         uint32_t *ret_top)
{
    const unsigned char *root = data;
    if (length != ROOT_BYTES || bh_le_get32(root) != ROOT_MAGIC)
        return BH_E_MALFORMED;
    if (bh_le_get16(root + 4) != VERSION)
        return BH_E_VERSION;
    if (bh_le_get32(root + 60) != root_crc(root))
        return BH_E_CHECKSUM;
    uint32_t top = bh_le_get16(root + 6);
    struct bh_level_node all = get_node(root + 64);
    if (top > BH_LEVEL_MAX || all.points != bh_le_get64(root + 8))
        return BH_E_MALFORMED;
    *ret_all = all;
    *ret_top = top;
    return BH_OK;
}
