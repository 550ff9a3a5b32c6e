/*
 * Interning of Python stacks. The walk yields a 64-bit hash; a stack seen before costs one look-up
 * and nothing else. On a miss the frames are read again and written to the arena: file, function
 * and line of every new frame, then the stack. A code object that was written down is kept alive
 * for good, or another one could appear at its address and be taken for it.
 *
 * Look-ups run on whichever thread holds the GIL, changes under bh_arena_lock as well; so a look-up
 * never meets a change.
 *
 * Programs go round: the stack that followed this one the last time will most likely follow it
 * again. So each entry remembers its successor, and the successor's cache line is asked for while
 * the program is on its way there; otherwise that line would be the dearest thing about a look-up.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/record/record.h"

struct code_names {
    uint32_t file, function;
};

#define STACKS_MIN 1024u
#define STACKS_MAX (1u << 26)

struct known_stack {
    uint64_t hash; /* of the walk, 0 = free */
    uint32_t id;
    uint32_t next; /* place of the one that was met after it, any place while not known */
};

static BH_HOT struct {
    struct known_stack *table; /* NULL until the first */
    uint64_t mask;
    uint64_t count;
    struct known_stack *last; /* met before */
} stacks;

static struct bh_map frames; /* hash of (code, at) -> frame id */
static struct bh_map codes;  /* code -> its two string ids */

/* The arena is full: new stacks are counted and not looked at any more. */
static bool full;

static uint32_t intern_frame(const struct bh_python_frame *frame)
{
    uint64_t key = bh_map_hash(frame->code) * 3 + bh_map_hash(frame->at ^ 0x5bd1e995u);
    struct bh_python_place place;
    uint64_t known = bh_map_get(&frames, key);
    uint64_t names;
    uint32_t id;

    if (known != 0) {
        return (uint32_t)known;
    }
    bh_python_place(frame, &place);
    names = bh_map_get(&codes, frame->code);
    if (names == 0) {
        uint32_t file = bh_names_intern(place.file, place.file_bytes);
        uint32_t function = bh_names_intern(place.function, place.function_bytes);

        names = (uint64_t)file << 32 | function;
        if (file == 0 || function == 0 || bh_map_put(&codes, frame->code, names) != 0) {
            return 0;
        }
        bh_python_keep(frame->code);
    }
    id = bh_emit_frame((uint32_t)(names >> 32), (uint32_t)names, place.line);
    if (id == 0 || bh_map_put(&frames, key, id) != 0) {
        return 0;
    }
    return id;
}

static uint32_t write_stack(uint32_t depth)
{
    struct bh_python_frame walk[BH_RING_DEPTH_MAX];
    uint32_t ids[BH_RING_DEPTH_MAX];
    uint32_t count = bh_python_frames(walk, depth);
    uint32_t at;

    for (at = 0; at < count; at++) {
        ids[at] = intern_frame(&walk[at]);
        if (ids[at] == 0) {
            return 0;
        }
    }
    return bh_emit_stack(ids, count);
}

static struct known_stack *place_of(uint64_t hash)
{
    uint64_t at = bh_map_hash(hash) & stacks.mask;

    while (stacks.table[at].hash != 0 && stacks.table[at].hash != hash) {
        at = (at + 1) & stacks.mask;
    }
    return &stacks.table[at];
}

static int grow(void)
{
    struct known_stack *old = stacks.table;
    uint64_t at, places = old == NULL ? 0 : stacks.mask + 1;
    uint64_t wanted = places == 0 ? STACKS_MIN : places * 2;
    struct known_stack *table = wanted > STACKS_MAX ? NULL : bh_map_pages(wanted * sizeof(*table));

    if (table == NULL) {
        return -1;
    }
    stacks.table = table;
    stacks.mask = wanted - 1;
    stacks.last = &table[0];
    for (at = 0; at < places; at++) {
        if (old[at].hash != 0) {
            struct known_stack *place = place_of(old[at].hash);

            place->hash = old[at].hash;
            place->id = old[at].id;
        }
    }
    if (old != NULL) {
        munmap(old, places * sizeof(*old));
    }
    return 0;
}

static int keep(uint64_t hash, uint32_t id)
{
    struct known_stack *place;

    if (stacks.count * 2 >= (stacks.table == NULL ? 0 : stacks.mask + 1) && grow() != 0) {
        return -1;
    }
    place = place_of(hash);
    place->hash = hash;
    place->id = id;
    stacks.count++;
    return 0;
}

static __attribute__((noinline)) uint32_t miss(uint64_t hash, uint32_t depth)
{
    int saved = errno;
    uint32_t id = 0;

    bh_lock_take(&bh_arena_lock);
    if (bh_emit.header != NULL) {
        id = full ? 0 : write_stack(depth);
        if (id == 0 || keep(hash, id) != 0) {
            full = true;
            bh_emit.header->stacks_lost++;
            bh_emit.header->flags |= BH_RING_FLAG_LOSSY;
        }
    }
    bh_lock_give(&bh_arena_lock);
    errno = saved;
    return id;
}

static inline void follows(struct known_stack *found)
{
    uint32_t place = (uint32_t)(found - stacks.table);

    if (BH_UNLIKELY(stacks.last->next != place)) {
        stacks.last->next = place;
    }
    stacks.last = found;
    __builtin_prefetch(&stacks.table[found->next]);
}

uint32_t bh_stack_capture(void)
{
    struct known_stack *found;
    uint64_t hash;

    if (bh_python_walk == BH_RING_WALK_NONE) {
        return 0;
    }
    hash = bh_python_hash(bh_options.depth);
    if (hash == 0) {
        return 0;
    }
    found = BH_LIKELY(stacks.table != NULL) ? place_of(hash) : NULL;
    if (BH_LIKELY(found != NULL && found->hash == hash)) {
        follows(found);
        return found->id;
    }
    return miss(hash, bh_options.depth);
}
