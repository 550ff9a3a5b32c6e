/*
 * Interning of Python stacks. The walk yields a 64-bit hash; a stack seen before costs one look-up
 * and nothing else. On a miss the frames are read again and written to the arena: file, function
 * and line of every new frame, then the stack. A code object that was written down is kept alive
 * for good, or another one could appear at its address and be taken for it.
 *
 * Look-ups run on whichever thread holds the GIL, changes under bh_arena_lock as well; so a look-up
 * never meets a change.
 */
#include <string.h>

#include "core/record/record.h"

struct code_names {
    uint32_t file, function;
};

static struct bh_map stacks; /* hash of the walk -> stack id */
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

static __attribute__((noinline)) uint32_t miss(uint64_t hash, uint32_t depth)
{
    uint32_t id = 0;

    pthread_mutex_lock(&bh_arena_lock);
    if (bh_emit.header != NULL) {
        id = full ? 0 : write_stack(depth);
        if (id == 0 || bh_map_put(&stacks, hash, id) != 0) {
            full = true;
            bh_emit.header->stacks_lost++;
            bh_emit.header->flags |= BH_RING_FLAG_LOSSY;
        }
    }
    pthread_mutex_unlock(&bh_arena_lock);
    return id;
}

uint32_t bh_stack_capture(void)
{
    uint64_t hash, known;

    if (bh_python_walk == BH_RING_WALK_NONE) {
        return 0;
    }
    hash = bh_python_hash(bh_options.depth);
    if (hash == 0) {
        return 0;
    }
    known = bh_map_get(&stacks, hash);
    if (BH_LIKELY(known != 0)) {
        return (uint32_t)known;
    }
    return miss(hash, bh_options.depth);
}
