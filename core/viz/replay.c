#include "core/viz/replay.h"

#include <stdlib.h>

#include "core/viz/replay_table.h"
#include "core/wire/evlog_record.h"

void bh_replay_init(struct bh_replay *replay, struct bh_anchor anchor)
{
    *replay = (struct bh_replay){.anchor = anchor, .pool_free = BH_REPLAY_NONE};
}

void bh_replay_done(struct bh_replay *replay)
{
    free(replay->pool);
    free(replay->by_address);
    free(replay->by_sequence);
    free(replay->images);
    free(replay->baseline);
    bh_replay_init(replay, replay->anchor);
}

int64_t bh_replay_time(const struct bh_replay *replay, const struct bh_evlog_record *record)
{
    if (!bh_evlog_kind_has_time(record->kind))
        return replay->at_us;
    int64_t us = bh_clock_epoch_us(replay->anchor, record->at);
    return replay->began && us < replay->at_us ? replay->at_us : us;
}

static int reserve_images(struct bh_replay *replay, uint32_t image)
{
    if (image < replay->image_count)
        return BH_OK;
    if (image > replay->image_count + 1) /* ids are dense from 1; 0 is "no image" */
        return BH_E_MALFORMED;
    struct bh_replay_image *grown = realloc(replay->images, (image + 1) * sizeof *grown);
    if (!grown)
        return BH_E_NOMEM;
    for (uint32_t i = replay->image_count; i <= image; i++)
        grown[i] = (struct bh_replay_image){0};
    replay->images = grown;
    replay->image_count = image + 1;
    return BH_OK;
}

/* ---- changes of one buffer ---- */

static int notify(struct bh_replay *replay, enum bh_change change, const struct bh_buffer *buffer,
                  bool implied, bool base)
{
    if (!replay->observer.change)
        return BH_OK;
    return replay->observer.change(replay->observer.context, change, buffer, implied, base);
}

/* Adds to or takes from the sums what a buffer in that state counts for. */
static void count(struct bh_replay *replay, uint32_t image, uint8_t state, uint64_t bytes, bool add)
{
    struct bh_replay_image *of = &replay->images[image];
    uint64_t *held = state == BH_BUFFER_ACTIVE ? &of->active_bytes : &of->cached_bytes;
    uint64_t difference = add ? bytes : -bytes;
    *held += difference;
    if (of->ended)
        return;
    replay->reserved_bytes += difference;
    if (state == BH_BUFFER_ACTIVE)
        replay->active_bytes += difference;
}

static int take_away(struct bh_replay *replay, uint32_t at, bool implied)
{
    struct bh_buffer buffer = replay->pool[at];
    enum bh_change change = buffer.state == BH_BUFFER_ACTIVE ? BH_CHANGE_TO_OS : BH_CHANGE_EVICT;
    bh_replay_table_remove(replay, at);
    count(replay, buffer.image, buffer.state, buffer.size_bytes, false);
    return notify(replay, change, &buffer, implied, false);
}

static int put(struct bh_replay *replay, const struct bh_buffer *buffer, bool implied, bool base)
{
    uint32_t at;
    int error = bh_replay_table_add(replay, buffer, &at);
    if (error < 0)
        return error;
    count(replay, buffer->image, buffer->state, buffer->size_bytes, true);
    bool waits = buffer->state == BH_BUFFER_ACTIVE && !buffer->linked;
    error = waits ? bh_replay_table_await(replay, at) : BH_OK;
    if (error < 0)
        return error;
    enum bh_change change = buffer->state == BH_BUFFER_ACTIVE ? BH_CHANGE_NEW : BH_CHANGE_CACHED;
    return notify(replay, change, buffer, implied, base);
}

static int to_cache(struct bh_replay *replay, uint32_t at, uint64_t sequence, bool implied)
{
    struct bh_buffer *buffer = &replay->pool[at];
    bh_replay_table_settle(replay, at);
    count(replay, buffer->image, BH_BUFFER_ACTIVE, buffer->size_bytes, false);
    buffer->state = BH_BUFFER_CACHED;
    buffer->sequence = sequence;
    buffer->at_us = replay->at_us;
    count(replay, buffer->image, BH_BUFFER_CACHED, buffer->size_bytes, true);
    return notify(replay, BH_CHANGE_TO_CACHE, buffer, implied, false);
}

static int reuse(struct bh_replay *replay, uint32_t at, const struct bh_buffer *wanted)
{
    struct bh_buffer *buffer = &replay->pool[at];
    count(replay, buffer->image, BH_BUFFER_CACHED, buffer->size_bytes, false);
    *buffer = *wanted;
    count(replay, buffer->image, BH_BUFFER_ACTIVE, buffer->size_bytes, true);
    int error = wanted->linked ? BH_OK : bh_replay_table_await(replay, at);
    return error < 0 ? error : notify(replay, BH_CHANGE_REUSE, buffer, false, false);
}

static struct bh_buffer buffer_of(const struct bh_replay *replay,
                                  const struct bh_evlog_record *record)
{
    uint64_t size = record->size_bytes, requested = record->requested_bytes;
    return (struct bh_buffer){
        .address = record->address,
        .size_bytes = size,
        .requested_bytes = requested < size ? requested : size,
        .sequence = record->sequence,
        .at_us = replay->at_us,
        .image = record->image,
        .stack = record->stack,
        .primitive = record->primitive,
        .stream = record->stream,
        .state = record->cached ? BH_BUFFER_CACHED : BH_BUFFER_ACTIVE,
        .linked = record->stack && record->primitive, /* nothing is left for a LINK to say */
    };
}

/* ---- events ---- */

static int apply_alloc(struct bh_replay *replay, const struct bh_evlog_record *record)
{
    struct bh_buffer wanted = buffer_of(replay, record);
    wanted.state = BH_BUFFER_ACTIVE;
    wanted.fresh = record->kind != BH_EVLOG_ALLOC_REUSE;
    uint32_t at = bh_replay_find(replay, record->image, record->address);
    if (at == BH_REPLAY_NONE)
        return put(replay, &wanted, false, false);
    const struct bh_buffer *there = &replay->pool[at];
    if (record->kind != BH_EVLOG_ALLOC_REUSE || there->size_bytes != wanted.size_bytes) {
        int error = take_away(replay, at, true);
        return error < 0 ? error : put(replay, &wanted, false, false);
    }
    if (there->state == BH_BUFFER_ACTIVE) {
        int error = to_cache(replay, at, record->sequence, true);
        if (error < 0)
            return error;
    }
    return reuse(replay, at, &wanted);
}

/* What the recorder knew at the free, where the LINK did not say it. */
static void complete(struct bh_buffer *buffer, const struct bh_evlog_record *record)
{
    if (!buffer->stack)
        buffer->stack = record->stack;
    if (!buffer->primitive)
        buffer->primitive = record->primitive;
    if (buffer->stream == -1)
        buffer->stream = record->stream;
}

static int apply_free(struct bh_replay *replay, const struct bh_evlog_record *record)
{
    uint32_t at = bh_replay_find(replay, record->image, record->address);
    if (at == BH_REPLAY_NONE)
        return BH_OK; /* freed twice, or allocated in a gap */
    struct bh_buffer *buffer = &replay->pool[at];
    if (buffer->state == BH_BUFFER_ACTIVE)
        complete(buffer, record);
    if (record->kind == BH_EVLOG_FREE_TO_CACHE)
        return buffer->state == BH_BUFFER_CACHED ? BH_OK
                                                 : to_cache(replay, at, record->sequence, false);
    bool cached = buffer->state == BH_BUFFER_CACHED;
    return take_away(replay, at, cached != (record->kind == BH_EVLOG_CACHE_TO_OS));
}

static void apply_link(struct bh_replay *replay, const struct bh_evlog_record *record)
{
    uint32_t at = bh_replay_find_pending(replay, record->sequence);
    if (at == BH_REPLAY_NONE || replay->pool[at].image != record->image)
        return;
    complete(&replay->pool[at], record);
    replay->pool[at].linked = true;
    bh_replay_table_settle(replay, at);
}

/* ---- baselines ---- */

static int collect(struct bh_replay *replay, const struct bh_evlog_record *record)
{
    if (replay->baseline_used == replay->baseline_capacity) {
        uint32_t capacity = replay->baseline_capacity ? replay->baseline_capacity * 2 : 64;
        struct bh_buffer *grown =
            capacity > UINT32_MAX / 4 ? NULL : realloc(replay->baseline, capacity * sizeof *grown);
        if (!grown)
            return BH_E_NOMEM;
        replay->baseline = grown;
        replay->baseline_capacity = capacity;
    }
    struct bh_buffer entry = buffer_of(replay, record);
    entry.linked = true; /* allocated long ago: no LINK will come */
    replay->baseline[replay->baseline_used++] = entry;
    return BH_OK;
}

/* Buffers that the baseline does not show, or shows otherwise, are gone. */
static int drop_unseen(struct bh_replay *replay, uint32_t image)
{
    for (uint32_t i = 0; i < replay->pool_used; i++) {
        if (replay->pool[i].image == image)
            replay->pool[i].seen = false;
    }
    for (uint32_t i = 0; i < replay->baseline_used; i++) {
        const struct bh_buffer *entry = &replay->baseline[i];
        uint32_t at =
            entry->image == image ? bh_replay_find(replay, image, entry->address) : BH_REPLAY_NONE;
        if (at != BH_REPLAY_NONE && replay->pool[at].state == entry->state &&
            replay->pool[at].size_bytes == entry->size_bytes)
            replay->pool[at].seen = true;
    }
    for (uint32_t i = 0; i < replay->pool_used; i++) {
        const struct bh_buffer *buffer = &replay->pool[i];
        if (buffer->state == BH_BUFFER_FREE || buffer->image != image || buffer->seen)
            continue;
        int error = take_away(replay, i, true);
        if (error < 0)
            return error;
    }
    return BH_OK;
}

/* The baseline collected for an image becomes its state. One that was cut short says what exists,
 * not what is gone. */
static int settle_image(struct bh_replay *replay, uint32_t image)
{
    struct bh_replay_image *of = &replay->images[image];
    bool base = !of->based, whole = of->baseline_left == 0;
    of->based = true;
    if (!of->collecting)
        return BH_OK;
    of->collecting = false;
    of->baseline_left = 0;
    int error = whole ? drop_unseen(replay, image) : BH_OK;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < replay->baseline_used && error >= 0; i++) {
        const struct bh_buffer *entry = &replay->baseline[i];
        if (entry->image != image)
            replay->baseline[kept++] = *entry;
        else if (bh_replay_find(replay, image, entry->address) == BH_REPLAY_NONE)
            error = put(replay, entry, true, base);
    }
    replay->baseline_used = kept;
    return error;
}

static int apply_baseline(struct bh_replay *replay, const struct bh_evlog_record *record)
{
    struct bh_replay_image *of = &replay->images[record->image];
    if (record->kind == BH_EVLOG_BASELINE_BEGIN) {
        int error = of->collecting ? settle_image(replay, record->image) : BH_OK;
        of->collecting = true;
        of->baseline_left = record->count;
        if (error < 0 || record->count > 0)
            return error;
        return settle_image(replay, record->image);
    }
    if (!of->collecting) { /* its beginning was lost: what it shows exists at least */
        struct bh_buffer entry = buffer_of(replay, record);
        entry.linked = true;
        bool there = bh_replay_find(replay, record->image, record->address) != BH_REPLAY_NONE;
        return there ? BH_OK : put(replay, &entry, true, !of->based);
    }
    int error = collect(replay, record);
    if (error < 0)
        return error;
    of->baseline_left -= of->baseline_left > 0;
    return of->baseline_left > 0 ? BH_OK : settle_image(replay, record->image);
}

static void apply_image_end(struct bh_replay *replay, uint32_t image)
{
    struct bh_replay_image *of = &replay->images[image];
    if (of->ended)
        return;
    replay->active_bytes -= of->active_bytes;
    replay->reserved_bytes -= of->active_bytes + of->cached_bytes;
    of->ended = true;
}

static int apply_record(struct bh_replay *replay, const struct bh_evlog_record *record)
{
    uint32_t image = record->image;
    switch (record->kind) {
    case BH_EVLOG_BASELINE:
    case BH_EVLOG_BASELINE_BEGIN:
        return replay->images[image].ended ? BH_OK : apply_baseline(replay, record);
    case BH_EVLOG_LINK:
        apply_link(replay, record);
        return BH_OK;
    case BH_EVLOG_FULL:
        replay->full = true;
        return BH_OK;
    case BH_EVLOG_IMAGE:
        replay->images[image].known = true;
        return BH_OK;
    case BH_EVLOG_MARK:
    case BH_EVLOG_HOLE:
    case BH_EVLOG_TAKEN:
    case BH_EVLOG_STRING:
    case BH_EVLOG_FRAME:
    case BH_EVLOG_STACK:
        return BH_OK;
    case BH_EVLOG_ALLOC_NEW:
    case BH_EVLOG_ALLOC_REUSE:
    case BH_EVLOG_ALLOC_MAKE_BUFFER:
    case BH_EVLOG_FREE_TO_CACHE:
    case BH_EVLOG_FREE_TO_OS:
    case BH_EVLOG_RELEASE:
    case BH_EVLOG_CACHE_TO_OS:
    case BH_EVLOG_LOST:
    case BH_EVLOG_OFF:
    case BH_EVLOG_IMAGE_END:
        break;
    }
    int error = settle_image(replay, image);
    if (error < 0)
        return error;
    if (record->kind == BH_EVLOG_LOST)
        replay->lost += record->count;
    if (record->kind == BH_EVLOG_IMAGE_END)
        apply_image_end(replay, image);
    if (record->kind > BH_EVLOG_CACHE_TO_OS || replay->images[image].ended)
        return BH_OK;
    return record->kind <= BH_EVLOG_ALLOC_MAKE_BUFFER ? apply_alloc(replay, record)
                                                      : apply_free(replay, record);
}

int bh_replay_apply(struct bh_replay *replay, const struct bh_evlog_record *record)
{
    int error = reserve_images(replay, record->image);
    if (error < 0)
        return error;
    if (bh_evlog_kind_has_time(record->kind)) {
        replay->at_us = bh_replay_time(replay, record);
        if (!replay->began)
            replay->began_us = replay->at_us;
        replay->began = true;
    }
    if (bh_evlog_kind_has_sequence(record->kind)) {
        replay->sequence = record->sequence;
        replay->event_us = replay->at_us;
        replay->events++;
    }
    error = apply_record(replay, record);
    if (error >= 0 && replay->active_bytes > replay->peak_bytes) {
        replay->peak_bytes = replay->active_bytes;
        replay->peak_sequence = replay->sequence;
        replay->peak_us = replay->at_us;
    }
    return error;
}

uint32_t bh_replay_crossing(const struct bh_replay *replay)
{
    uint32_t best = BH_REPLAY_NONE;
    for (uint32_t i = 0; i < replay->pool_used; i++) {
        const struct bh_buffer *buffer = &replay->pool[i];
        if (buffer->state != BH_BUFFER_ACTIVE || replay->images[buffer->image].ended)
            continue;
        const struct bh_buffer *than = best == BH_REPLAY_NONE ? NULL : &replay->pool[best];
        if (!than || buffer->fresh > than->fresh ||
            (buffer->fresh == than->fresh && buffer->sequence > than->sequence))
            best = i;
    }
    return best;
}

int bh_replay_put(struct bh_replay *replay, const struct bh_buffer *buffer)
{
    uint32_t at;
    int error = reserve_images(replay, buffer->image);
    if (error >= 0)
        error = bh_replay_table_add(replay, buffer, &at);
    if (error < 0)
        return error;
    count(replay, buffer->image, buffer->state, buffer->size_bytes, true);
    bool waits = buffer->state == BH_BUFFER_ACTIVE && !buffer->linked;
    return waits ? bh_replay_table_await(replay, at) : BH_OK;
}

int bh_replay_image_put(struct bh_replay *replay, uint32_t image,
                        const struct bh_replay_image *state)
{
    int error = reserve_images(replay, image);
    if (error < 0)
        return error;
    replay->images[image].known = state->known;
    replay->images[image].ended = state->ended;
    replay->images[image].based = state->based;
    return BH_OK;
}
