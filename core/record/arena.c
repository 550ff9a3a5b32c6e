/* The ring's arena: strings, frames and stacks, appended once each. A record is whole before its
 * end is published, and always before a slot that names it. Under bh_arena_lock. */
#include <string.h>

#include "core/record/record.h"

/* Room for a record of `bytes` (before padding), its prefix written; NULL when the arena is full.
 */
static unsigned char *append(enum bh_ring_arena_kind kind, size_t bytes, size_t *ret_whole)
{
    size_t whole = (bytes + 7) & ~(size_t)7;
    unsigned char *record = bh_emit.arena + bh_emit.arena_used;
    uint16_t kind16 = (uint16_t)kind;
    uint32_t whole32 = (uint32_t)whole;

    if (bh_emit.header == NULL || bh_emit.arena_bytes - bh_emit.arena_used < whole) {
        if (bh_emit.header != NULL) {
            bh_emit.header->flags |= BH_RING_FLAG_LOSSY;
        }
        return NULL;
    }
    memset(record, 0, whole);
    memcpy(record, &kind16, 2);
    memcpy(record + 4, &whole32, 4);
    *ret_whole = whole;
    return record;
}

static void commit(size_t whole)
{
    bh_emit.arena_used += whole;
    __atomic_store_n(&bh_emit.header->arena_used, bh_emit.arena_used, __ATOMIC_RELEASE);
}

uint32_t bh_emit_string(const char *bytes, size_t length)
{
    uint32_t id = bh_emit.strings + 1;
    uint32_t length32 = (uint32_t)length;
    size_t whole;
    unsigned char *record =
        append(BH_RING_ARENA_STRING, BH_RING_ARENA_PREFIX_BYTES + length, &whole);

    if (record == NULL) {
        return 0;
    }
    memcpy(record + 8, &id, 4);
    memcpy(record + 12, &length32, 4);
    memcpy(record + 16, bytes, length);
    commit(whole);
    bh_emit.strings = id;
    return id;
}

uint32_t bh_emit_frame(uint32_t file, uint32_t function, uint32_t line)
{
    uint32_t fields[4] = {bh_emit.frames + 1, file, function, line};
    size_t whole;
    unsigned char *record = append(BH_RING_ARENA_FRAME, BH_RING_ARENA_FRAME_BYTES, &whole);

    if (record == NULL) {
        return 0;
    }
    memcpy(record + 8, fields, sizeof(fields));
    commit(whole);
    return bh_emit.frames = fields[0];
}

uint32_t bh_emit_stack(const uint32_t *frames, uint32_t count)
{
    uint32_t id = bh_emit.stacks + 1;
    size_t whole;
    unsigned char *record =
        append(BH_RING_ARENA_STACK, BH_RING_ARENA_PREFIX_BYTES + (size_t)count * 4, &whole);

    if (record == NULL) {
        return 0;
    }
    memcpy(record + 8, &id, 4);
    memcpy(record + 12, &count, 4);
    memcpy(record + 16, frames, (size_t)count * 4);
    commit(whole);
    return bh_emit.stacks = id;
}
