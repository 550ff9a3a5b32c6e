/*
 * The mirror: one entry for every buffer that MLX's allocator holds, active or cached, with what is
 * known about its last allocation. The entries are the hash table, so that an event finds all it
 * needs in one cache line; it is doubled when five eighths are taken. Cached ones are chained by
 * age, because MLX evicts the oldest first. Everything here runs under bh_live.lock.
 */
#include <string.h>
#include <sys/mman.h>

#include "core/record/record.h"

#define ENTRIES_MIN 1024u
#define ENTRIES_MAX (1u << 25)

BH_HOT struct bh_mirror bh_mirror;

struct bh_buffer *bh_mirror_at(uint64_t place)
{
    return &bh_mirror.table[place];
}

uint64_t bh_mirror_end(void)
{
    return bh_mirror.table == NULL ? 0 : bh_mirror.mask + 1;
}

static inline struct bh_buffer *chained(uint32_t link)
{
    return &bh_mirror.table[link - 1];
}

static inline uint32_t link_of(const struct bh_buffer *buffer)
{
    return (uint32_t)(buffer - bh_mirror.table) + 1;
}

struct bh_buffer *bh_mirror_oldest(void)
{
    return bh_live.oldest == 0 ? NULL : chained(bh_live.oldest);
}

/* ---- the chain --------------------------------------------------------------------- */

static void chain_last(struct bh_buffer *buffer)
{
    uint32_t link = link_of(buffer);

    buffer->older = bh_live.newest;
    buffer->newer = 0;
    if (bh_live.newest != 0) {
        chained(bh_live.newest)->newer = link;
    } else {
        bh_live.oldest = link;
    }
    bh_live.newest = link;
}

/* Lets the neighbours of an entry point to `older_now` and `newer_now` in its place. */
static void point_neighbours(const struct bh_buffer *buffer, uint32_t older_now, uint32_t newer_now)
{
    if (buffer->older != 0) {
        chained(buffer->older)->newer = newer_now;
    } else {
        bh_live.oldest = newer_now;
    }
    if (buffer->newer != 0) {
        chained(buffer->newer)->older = older_now;
    } else {
        bh_live.newest = older_now;
    }
}

static void unchain(struct bh_buffer *buffer)
{
    point_neighbours(buffer, buffer->older, buffer->newer);
    buffer->older = 0;
    buffer->newer = 0;
}

/* ---- the table --------------------------------------------------------------------- */

static struct bh_buffer *free_place(uint64_t address)
{
    uint64_t at = bh_map_hash(address) & bh_mirror.mask;

    while (bh_mirror.table[at].address != 0) {
        at = (at + 1) & bh_mirror.mask;
    }
    return &bh_mirror.table[at];
}

/* Copies every entry into the new table, the cached ones in order of age. */
static void move_all(const struct bh_buffer *from, uint64_t places, uint32_t oldest)
{
    uint64_t at;
    uint32_t link;

    bh_live.oldest = 0;
    bh_live.newest = 0;
    for (at = 0; at < places; at++) {
        if (from[at].address != 0 && from[at].state != BH_BUFFER_CACHED) {
            *free_place(from[at].address) = from[at];
        }
    }
    for (link = oldest; link != 0; link = from[link - 1].newer) {
        struct bh_buffer *buffer = free_place(from[link - 1].address);

        *buffer = from[link - 1];
        chain_last(buffer);
    }
}

static int double_table(void)
{
    struct bh_buffer *old = bh_mirror.table;
    uint64_t places = bh_mirror_end();
    uint64_t wanted = places == 0 ? ENTRIES_MIN : places * 2;
    struct bh_buffer *table =
        wanted > ENTRIES_MAX ? NULL : bh_map_pages(wanted * sizeof(struct bh_buffer));

    if (table == NULL) {
        return -1;
    }
    bh_mirror.table = table;
    bh_mirror.mask = wanted - 1;
    if (old != NULL) {
        move_all(old, places, bh_live.oldest);
        munmap(old, places * sizeof(*old));
    }
    return 0;
}

struct bh_buffer *bh_mirror_add(uint64_t address)
{
    struct bh_buffer *buffer;

    if ((bh_live.buffers + 1) * 8 > bh_mirror_end() * 5 && double_table() != 0 &&
        bh_live.buffers + 1 >= bh_mirror_end()) {
        return NULL; /* and until then it only gets slower */
    }
    buffer = free_place(address);
    *buffer = (struct bh_buffer){
        .address = address, .state = BH_BUFFER_ACTIVE, .ticket = BH_NO_TICKET, .stream = -1};
    bh_live.buffers++;
    return buffer;
}

/* Backward shift: every entry after the hole that may move closer to its home does, so that probes
 * never meet a hole in the middle of a run. */
static void close_hole(uint64_t hole)
{
    struct bh_buffer *table = bh_mirror.table;
    uint64_t mask = bh_mirror.mask;
    uint64_t at;

    for (at = (hole + 1) & mask; table[at].address != 0; at = (at + 1) & mask) {
        uint64_t home = bh_map_hash(table[at].address) & mask;

        if (((at - home) & mask) >= ((at - hole) & mask)) {
            table[hole] = table[at];
            if (table[hole].state == BH_BUFFER_CACHED) {
                point_neighbours(&table[hole], (uint32_t)hole + 1, (uint32_t)hole + 1);
            }
            hole = at;
        }
    }
    memset(&table[hole], 0, sizeof(table[hole]));
}

void bh_mirror_drop(struct bh_buffer *buffer)
{
    if (buffer->state == BH_BUFFER_CACHED) {
        unchain(buffer);
        bh_live.cache_bytes -= buffer->size_bytes;
    } else if (!buffer->foreign) {
        bh_live.active_bytes -= buffer->size_bytes;
    }
    bh_live.buffers--;
    close_hole((uint64_t)(buffer - bh_mirror.table));
}

void bh_mirror_to_cache(struct bh_buffer *buffer)
{
    buffer->state = BH_BUFFER_CACHED;
    chain_last(buffer);
    bh_live.active_bytes -= buffer->size_bytes;
    bh_live.cache_bytes += buffer->size_bytes;
}

void bh_mirror_to_active(struct bh_buffer *buffer)
{
    unchain(buffer);
    buffer->state = BH_BUFFER_ACTIVE;
    bh_live.cache_bytes -= buffer->size_bytes;
    bh_live.active_bytes += buffer->size_bytes;
}

_Static_assert(sizeof(struct bh_buffer) == 64, "an entry is one cache line");
