#include "core/viz/replay_table.h"

#include <stdlib.h>

#include "core/viz/hash.h"

/* Both indexes: open addressing, linear probing, at most half full, removal shifts back. A slot
 * holds pool index + 1. */

static uint32_t address_hash(const struct bh_buffer *buffer)
{
    return bh_viz_hash(buffer->address ^ (uint64_t)buffer->image << 48);
}

static uint32_t sequence_hash(const struct bh_buffer *buffer)
{
    return bh_viz_hash(buffer->sequence);
}

typedef uint32_t hash_of(const struct bh_buffer *buffer);

/* Room for one entry more than `used`. */
static int index_reserve(const struct bh_replay *replay, uint32_t **slots, uint32_t *mask,
                         uint32_t used, hash_of *hash)
{
    if (*slots && used < *mask / 2)
        return BH_OK;
    if (used > UINT32_MAX / 8)
        return BH_E_NOMEM;
    uint32_t size = 1024;
    while (size / 2 <= used + 1)
        size *= 2;
    uint32_t *grown = calloc(size, sizeof *grown);
    if (!grown)
        return BH_E_NOMEM;
    for (uint32_t i = 0; *slots && i <= *mask; i++) {
        if (!(*slots)[i])
            continue;
        uint32_t at = hash(&replay->pool[(*slots)[i] - 1]) & (size - 1);
        while (grown[at])
            at = (at + 1) & (size - 1);
        grown[at] = (*slots)[i];
    }
    free(*slots);
    *slots = grown;
    *mask = size - 1;
    return BH_OK;
}

static void index_insert(uint32_t *slots, uint32_t mask, uint32_t hash, uint32_t at)
{
    uint32_t slot = hash & mask;
    while (slots[slot])
        slot = (slot + 1) & mask;
    slots[slot] = at + 1;
}

/* Empties the slot that holds `at` and closes the gap. */
static bool index_remove(const struct bh_replay *replay, uint32_t *slots, uint32_t mask,
                         uint32_t hash, uint32_t at, hash_of *rehash)
{
    uint32_t slot = hash & mask;
    while (slots[slot] && slots[slot] != at + 1)
        slot = (slot + 1) & mask;
    if (!slots[slot])
        return false;
    for (uint32_t next = (slot + 1) & mask; slots[next]; next = (next + 1) & mask) {
        uint32_t home = rehash(&replay->pool[slots[next] - 1]) & mask;
        /* It may move to the gap unless its home lies after it (cyclically). */
        if (((next - home) & mask) >= ((next - slot) & mask)) {
            slots[slot] = slots[next];
            slot = next;
        }
    }
    slots[slot] = 0;
    return true;
}

static int pool_take(struct bh_replay *replay, uint32_t *ret_at)
{
    if (replay->pool_free != BH_REPLAY_NONE) {
        *ret_at = replay->pool_free;
        replay->pool_free = (uint32_t)replay->pool[*ret_at].address; /* next of the free list */
        return BH_OK;
    }
    if (replay->pool_used == replay->pool_capacity) {
        if (replay->pool_capacity > UINT32_MAX / 4)
            return BH_E_NOMEM;
        uint32_t capacity = replay->pool_capacity ? replay->pool_capacity * 2 : 256;
        struct bh_buffer *grown = realloc(replay->pool, capacity * sizeof *grown);
        if (!grown)
            return BH_E_NOMEM;
        replay->pool = grown;
        replay->pool_capacity = capacity;
    }
    *ret_at = replay->pool_used++;
    return BH_OK;
}

int bh_replay_reserve(struct bh_replay *replay, uint32_t buffers)
{
    if (buffers > replay->pool_capacity) {
        struct bh_buffer *grown = realloc(replay->pool, buffers * sizeof *grown);
        if (!grown)
            return BH_E_NOMEM;
        replay->pool = grown;
        replay->pool_capacity = buffers;
    }
    return index_reserve(replay, &replay->by_address, &replay->address_mask, buffers, address_hash);
}

int bh_replay_table_add(struct bh_replay *replay, const struct bh_buffer *buffer, uint32_t *ret_at)
{
    uint32_t at;
    int error = index_reserve(replay, &replay->by_address, &replay->address_mask, replay->live,
                              address_hash);
    if (error >= 0)
        error = pool_take(replay, &at);
    if (error < 0)
        return error;
    replay->pool[at] = *buffer;
    index_insert(replay->by_address, replay->address_mask, address_hash(buffer), at);
    replay->live++;
    *ret_at = at;
    return BH_OK;
}

void bh_replay_table_remove(struct bh_replay *replay, uint32_t at)
{
    struct bh_buffer *buffer = &replay->pool[at];
    bh_replay_table_settle(replay, at);
    (void)index_remove(replay, replay->by_address, replay->address_mask, address_hash(buffer), at,
                       address_hash);
    *buffer = (struct bh_buffer){.state = BH_BUFFER_FREE, .address = replay->pool_free};
    replay->pool_free = at;
    replay->live--;
}

int bh_replay_table_await(struct bh_replay *replay, uint32_t at)
{
    int error = index_reserve(replay, &replay->by_sequence, &replay->sequence_mask, replay->pending,
                              sequence_hash);
    if (error < 0)
        return error;
    index_insert(replay->by_sequence, replay->sequence_mask, sequence_hash(&replay->pool[at]), at);
    replay->pending++;
    return BH_OK;
}

void bh_replay_table_settle(struct bh_replay *replay, uint32_t at)
{
    if (replay->pending == 0)
        return;
    if (index_remove(replay, replay->by_sequence, replay->sequence_mask,
                     sequence_hash(&replay->pool[at]), at, sequence_hash))
        replay->pending--;
}

uint32_t bh_replay_find(const struct bh_replay *replay, uint32_t image, uint64_t address)
{
    if (!replay->by_address)
        return BH_REPLAY_NONE;
    struct bh_buffer key = {.image = image, .address = address};
    uint32_t slot = address_hash(&key) & replay->address_mask;
    for (; replay->by_address[slot]; slot = (slot + 1) & replay->address_mask) {
        uint32_t at = replay->by_address[slot] - 1;
        if (replay->pool[at].address == address && replay->pool[at].image == image)
            return at;
    }
    return BH_REPLAY_NONE;
}

uint32_t bh_replay_find_pending(const struct bh_replay *replay, uint64_t sequence)
{
    if (replay->pending == 0)
        return BH_REPLAY_NONE;
    struct bh_buffer key = {.sequence = sequence};
    uint32_t slot = sequence_hash(&key) & replay->sequence_mask;
    for (; replay->by_sequence[slot]; slot = (slot + 1) & replay->sequence_mask) {
        uint32_t at = replay->by_sequence[slot] - 1;
        if (replay->pool[at].sequence == sequence)
            return at;
    }
    return BH_REPLAY_NONE;
}
