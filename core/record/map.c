/* A hash map from u64 to u64 in anonymous pages: linear probing, doubled at half load. Key 0 means
 * free, so 0 is not a key. Never calls malloc: it serves code that runs inside an allocator. errno
 * is kept. */
#include <errno.h>
#include <sys/mman.h>

#include "core/record/record.h"

#define MAP_ENTRIES_MIN 1024u
#define MAP_ENTRIES_MAX (1u << 26)

void *bh_map_pages(size_t bytes)
{
    int saved = errno;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    errno = saved;
    return pages == MAP_FAILED ? NULL : pages;
}

static void place(struct bh_map_entry *entries, uint64_t mask, struct bh_map_entry entry)
{
    uint64_t at = bh_map_hash(entry.key) & mask;

    while (entries[at].key != 0) {
        at = (at + 1) & mask;
    }
    entries[at] = entry;
}

static int grow(struct bh_map *map)
{
    uint64_t size = map->entries == NULL ? MAP_ENTRIES_MIN : (map->mask + 1) * 2;
    struct bh_map_entry *entries;
    uint64_t at;

    if (size > MAP_ENTRIES_MAX) {
        return -1;
    }
    entries = bh_map_pages(size * sizeof(*entries));
    if (entries == NULL) {
        return -1;
    }
    if (map->entries != NULL) {
        for (at = 0; at <= map->mask; at++) {
            if (map->entries[at].key != 0) {
                place(entries, size - 1, map->entries[at]);
            }
        }
        munmap(map->entries, (map->mask + 1) * sizeof(*entries));
    }
    map->entries = entries;
    map->mask = size - 1;
    return 0;
}

int bh_map_put(struct bh_map *map, uint64_t key, uint64_t value)
{
    uint64_t at;

    if (map->entries == NULL || map->count * 2 >= map->mask) {
        if (grow(map) != 0) {
            return -1;
        }
    }
    for (at = bh_map_hash(key) & map->mask; map->entries[at].key != 0; at = (at + 1) & map->mask) {
        if (map->entries[at].key == key) {
            map->entries[at].value = value;
            return 0;
        }
    }
    map->entries[at] = (struct bh_map_entry){.key = key, .value = value};
    map->count++;
    return 0;
}

/* Backward shift: every entry after the hole that may move closer to its home does, so that probes
 * never meet a hole in the middle of a run and no tombstones pile up. */
void bh_map_remove(struct bh_map *map, uint64_t key)
{
    uint64_t hole, at, home;

    if (map->entries == NULL) {
        return;
    }
    hole = bh_map_hash(key) & map->mask;
    while (map->entries[hole].key != key) {
        if (map->entries[hole].key == 0) {
            return;
        }
        hole = (hole + 1) & map->mask;
    }
    for (at = (hole + 1) & map->mask; map->entries[at].key != 0; at = (at + 1) & map->mask) {
        home = bh_map_hash(map->entries[at].key) & map->mask;
        if (((at - home) & map->mask) >= ((at - hole) & map->mask)) {
            map->entries[hole] = map->entries[at];
            hole = at;
        }
    }
    map->entries[hole].key = 0;
    map->count--;
}
