/*
 * The mirror: one entry for every buffer that MLX's allocator holds, active or cached, with what is
 * known about its last allocation. Entries live in chunks of anonymous pages and never move; the
 * map address -> index finds them; cached ones are chained by age, because MLX evicts the oldest
 * first. Everything here runs under bh_life_lock.
 */
#include <string.h>

#include "core/record/record.h"

#define CHUNK_ENTRIES 4096u
#define CHUNKS_MAX    4096u

struct bh_mirror bh_mirror;

static struct bh_map by_address;
static struct bh_buffer *chunks[CHUNKS_MAX];
static uint32_t end = 1; /* index 0 means none */
static uint32_t first_free;

struct bh_buffer *bh_mirror_at(uint32_t index)
{
    return &chunks[index / CHUNK_ENTRIES][index % CHUNK_ENTRIES];
}

uint32_t bh_mirror_end(void)
{
    return end;
}

static uint32_t take_entry(void)
{
    uint32_t index = first_free;

    if (index != 0) {
        first_free = bh_mirror_at(index)->older;
        return index;
    }
    if (end >= CHUNKS_MAX * CHUNK_ENTRIES) {
        return 0;
    }
    if (chunks[end / CHUNK_ENTRIES] == NULL) {
        chunks[end / CHUNK_ENTRIES] = bh_map_pages(CHUNK_ENTRIES * sizeof(struct bh_buffer));
        if (chunks[end / CHUNK_ENTRIES] == NULL) {
            return 0;
        }
    }
    return end++;
}

static void give_entry(uint32_t index)
{
    struct bh_buffer *buffer = bh_mirror_at(index);

    memset(buffer, 0, sizeof(*buffer));
    buffer->older = first_free;
    first_free = index;
}

struct bh_buffer *bh_mirror_find(uint64_t address)
{
    uint64_t index = bh_map_get(&by_address, address);

    return index == 0 ? NULL : bh_mirror_at((uint32_t)index);
}

struct bh_buffer *bh_mirror_add(uint64_t address)
{
    uint32_t index = take_entry();
    struct bh_buffer *buffer;

    if (index == 0) {
        return NULL;
    }
    buffer = bh_mirror_at(index);
    if (bh_map_put(&by_address, address, index) != 0) {
        give_entry(index);
        return NULL;
    }
    memset(buffer, 0, sizeof(*buffer));
    buffer->address = address;
    buffer->index = index;
    buffer->state = BH_BUFFER_ACTIVE;
    buffer->ticket = BH_NO_TICKET;
    buffer->stream = -1;
    bh_mirror.buffers++;
    return buffer;
}

static void unchain(struct bh_buffer *buffer)
{
    if (buffer->older != 0) {
        bh_mirror_at(buffer->older)->newer = buffer->newer;
    } else {
        bh_mirror.oldest = buffer->newer;
    }
    if (buffer->newer != 0) {
        bh_mirror_at(buffer->newer)->older = buffer->older;
    } else {
        bh_mirror.newest = buffer->older;
    }
    buffer->older = 0;
    buffer->newer = 0;
}

void bh_mirror_drop(struct bh_buffer *buffer)
{
    if (buffer->state == BH_BUFFER_CACHED) {
        unchain(buffer);
        bh_mirror.cache_bytes -= buffer->size_bytes;
    } else if (!buffer->foreign) {
        bh_mirror.active_bytes -= buffer->size_bytes;
    }
    bh_map_remove(&by_address, buffer->address);
    bh_mirror.buffers--;
    give_entry(buffer->index);
}

void bh_mirror_to_cache(struct bh_buffer *buffer)
{
    buffer->state = BH_BUFFER_CACHED;
    buffer->older = bh_mirror.newest;
    buffer->newer = 0;
    if (bh_mirror.newest != 0) {
        bh_mirror_at(bh_mirror.newest)->newer = buffer->index;
    } else {
        bh_mirror.oldest = buffer->index;
    }
    bh_mirror.newest = buffer->index;
    bh_mirror.active_bytes -= buffer->size_bytes;
    bh_mirror.cache_bytes += buffer->size_bytes;
}

void bh_mirror_to_active(struct bh_buffer *buffer)
{
    unchain(buffer);
    buffer->state = BH_BUFFER_ACTIVE;
    bh_mirror.cache_bytes -= buffer->size_bytes;
    bh_mirror.active_bytes += buffer->size_bytes;
}

struct bh_buffer *bh_mirror_oldest(void)
{
    return bh_mirror.oldest == 0 ? NULL : bh_mirror_at(bh_mirror.oldest);
}
