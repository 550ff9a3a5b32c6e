/* The buffers an image holds, as far as the log tells, so that every served history is consistent
 * per address: Reuse only from the cache, New never where something lives. The recorder writes it
 * that way; losses, and rings that lie, do not. */
#include <stdlib.h>

#include "core/super/drain_parts.h"

#define LIVE_MIN 256u

static size_t home(const struct bh_drain_live *live, uint64_t address)
{
    uint64_t value = address * 0x9e3779b97f4a7c15u;

    return (size_t)(value ^ value >> 32) & live->mask;
}

static size_t slot_of(const struct bh_drain_live *live, uint64_t address)
{
    size_t at = home(live, address);

    while (live->buffers[at].place != BH_DRAIN_NOWHERE && live->buffers[at].address != address) {
        at = (at + 1) & live->mask;
    }
    return at;
}

struct bh_drain_buffer *bh_drain_live_find(const struct bh_drain_live *live, uint64_t address)
{
    struct bh_drain_buffer *found;

    if (live->buffers == NULL) {
        return NULL;
    }
    found = &live->buffers[slot_of(live, address)];
    return found->place == BH_DRAIN_NOWHERE ? NULL : found;
}

static int grow(struct bh_drain_live *live)
{
    struct bh_drain_live bigger = *live;
    size_t size = live->buffers == NULL ? LIVE_MIN : (live->mask + 1) * 2;
    size_t at;

    bigger.buffers = calloc(size, sizeof(*bigger.buffers));
    if (bigger.buffers == NULL) {
        return BH_E_NOMEM;
    }
    bigger.mask = size - 1;
    for (at = 0; live->buffers != NULL && at <= live->mask; at++) {
        if (live->buffers[at].place != BH_DRAIN_NOWHERE) {
            bigger.buffers[slot_of(&bigger, live->buffers[at].address)] = live->buffers[at];
        }
    }
    free(live->buffers);
    *live = bigger;
    return BH_OK;
}

struct bh_drain_buffer *bh_drain_live_put(struct bh_drain_live *live, uint64_t address)
{
    struct bh_drain_buffer *buffer = bh_drain_live_find(live, address);

    if (buffer != NULL) {
        return buffer;
    }
    if (live->count >= BH_DRAIN_LIVE_MAX) {
        live->overflowed = true;
        return NULL;
    }
    if (live->buffers == NULL || live->count * 2 > live->mask) {
        if (grow(live) != BH_OK) {
            live->overflowed = true;
            return NULL;
        }
    }
    buffer = &live->buffers[slot_of(live, address)];
    *buffer = (struct bh_drain_buffer){.address = address, .place = BH_DRAIN_ACTIVE};
    live->count++;
    return buffer;
}

void bh_drain_live_remove(struct bh_drain_live *live, uint64_t address)
{
    size_t hole, at;

    if (bh_drain_live_find(live, address) == NULL) {
        return;
    }
    hole = slot_of(live, address);
    for (at = (hole + 1) & live->mask; live->buffers[at].place != BH_DRAIN_NOWHERE;
         at = (at + 1) & live->mask) {
        size_t wanted = home(live, live->buffers[at].address);

        if (((at - wanted) & live->mask) >= ((at - hole) & live->mask)) {
            live->buffers[hole] = live->buffers[at];
            hole = at;
        }
    }
    live->buffers[hole].place = BH_DRAIN_NOWHERE;
    live->count--;
}

void bh_drain_live_clear(struct bh_drain_live *live)
{
    bh_drain_live_done(live);
}

void bh_drain_live_done(struct bh_drain_live *live)
{
    free(live->buffers);
    *live = (struct bh_drain_live){0};
}

static struct bh_drain_repair judge_new(enum bh_evlog_kind kind, enum bh_drain_place place)
{
    struct bh_drain_repair repair = {0, kind};

    if (place == BH_DRAIN_ACTIVE) {
        repair.first = BH_EVLOG_FREE_TO_OS;
    } else if (place == BH_DRAIN_CACHED) {
        repair.first = BH_EVLOG_CACHE_TO_OS;
    }
    return repair;
}

static struct bh_drain_repair judge_reuse(enum bh_drain_place place, bool same_size)
{
    if (place == BH_DRAIN_NOWHERE || !same_size) {
        return judge_new(BH_EVLOG_ALLOC_NEW, place);
    }
    return (struct bh_drain_repair){place == BH_DRAIN_ACTIVE ? BH_EVLOG_FREE_TO_CACHE : 0,
                                    BH_EVLOG_ALLOC_REUSE};
}

struct bh_drain_repair bh_drain_live_judge(enum bh_evlog_kind kind, enum bh_drain_place place,
                                           bool same_size)
{
    enum bh_drain_place needed = kind == BH_EVLOG_CACHE_TO_OS ? BH_DRAIN_CACHED : BH_DRAIN_ACTIVE;

    if (kind == BH_EVLOG_ALLOC_NEW || kind == BH_EVLOG_ALLOC_MAKE_BUFFER) {
        return judge_new(kind, place);
    }
    if (kind == BH_EVLOG_ALLOC_REUSE) {
        return judge_reuse(place, same_size);
    }
    /* a free of what is not there says nothing to anybody: its allocation was lost before it */
    return (struct bh_drain_repair){0, place == needed ? kind : 0};
}
