/* Events with their LINKs joined, by looking ahead. Interface: events.h. */
#include <stdlib.h>

#include "core/viz/events.h"
#include "core/wire/evlog_record.h"

#define FIRST_CAPACITY 256u

int bh_join_begin(struct bh_join *join, const struct bh_trace_source *source, uint64_t number)
{
    *join = (struct bh_join){.anchor = source->header.anchor};
    return bh_trace_reader_begin(&join->reader, source, number, false);
}

/* Most allocations get their LINK within a few records, so the ring is small until one does not.
 * capacity is a power of two; by_sequence has as many cells. */
static int grow(struct bh_join *join)
{
    uint32_t capacity = join->capacity ? join->capacity * 2 : FIRST_CAPACITY;
    struct bh_event *ring = calloc(capacity, sizeof *ring);
    uint32_t *by_sequence = calloc(capacity, sizeof *by_sequence);
    if (!ring || !by_sequence) {
        free(ring);
        free(by_sequence);
        return BH_E_NOMEM;
    }
    for (uint32_t i = 0; i < join->count; i++) {
        ring[i] = join->ring[(join->first + i) & (join->capacity - 1)];
        if (ring[i].record.sequence)
            by_sequence[ring[i].record.sequence & (capacity - 1)] = i;
    }
    free(join->ring);
    free(join->by_sequence);
    join->ring = ring;
    join->by_sequence = by_sequence;
    join->capacity = capacity;
    join->first = 0;
    return BH_OK;
}

void bh_join_done(struct bh_join *join)
{
    free(join->ring);
    free(join->by_sequence);
    join->ring = NULL;
    join->by_sequence = NULL;
}

static bool is_alloc(const struct bh_evlog_record *record)
{
    return record->kind >= BH_EVLOG_ALLOC_NEW && record->kind <= BH_EVLOG_ALLOC_MAKE_BUFFER;
}

static bool waits(const struct bh_event *event)
{
    return !event->linked && is_alloc(&event->record) &&
           !(event->record.stack && event->record.primitive);
}

static int take_link(struct bh_join *join, const struct bh_evlog_record *link)
{
    uint32_t mask = join->capacity - 1;
    uint32_t at = join->capacity ? join->by_sequence[link->sequence & mask] : 0;
    struct bh_event *event = join->capacity ? &join->ring[at] : NULL;
    if (!event || ((at - join->first) & mask) >= join->count ||
        event->record.sequence != link->sequence)
        return join->far ? join->far(join->context, link) : BH_OK;
    if (event->linked || event->record.image != link->image || !is_alloc(&event->record))
        return BH_OK;
    if (!event->record.stack)
        event->record.stack = link->stack;
    if (!event->record.primitive)
        event->record.primitive = link->primitive;
    if (event->record.stream == -1)
        event->record.stream = link->stream;
    event->linked = true;
    return BH_OK;
}

static void push(struct bh_join *join, const struct bh_evlog_record *record)
{
    uint32_t at = (join->first + join->count) & (join->capacity - 1);
    struct bh_event *event = &join->ring[at];
    if (bh_evlog_kind_has_time(record->kind)) {
        int64_t us = bh_clock_epoch_us(join->anchor, record->at);
        if (!join->began || us > join->at_us)
            join->at_us = us;
        join->began = true;
    }
    *event = (struct bh_event){.record = *record, .at_us = join->at_us};
    event->record.string = NULL;
    event->record.frames = NULL;
    if (bh_evlog_kind_has_sequence(record->kind))
        join->by_sequence[record->sequence & (join->capacity - 1)] = at;
    join->count++;
}

/* Reads one record into the ring or applies it: 1, or 0 at the end. */
static int read_one(struct bh_join *join)
{
    struct bh_evlog_record record;
    bool fresh = !join->reader.open;
    int more = bh_trace_reader_next(&join->reader, &record);
    if (more <= 0) {
        join->ended = more == 0;
        return more;
    }
    if (fresh) { /* what lies before a start in the middle has its part in the running maximum */
        join->at_us = bh_clock_epoch_us(join->anchor, join->reader.segment.first_at);
        join->began = true;
    }
    if (record.kind == BH_EVLOG_LINK) {
        int error = take_link(join, &record);
        return error < 0 ? error : 1;
    }
    if (bh_evlog_kind_defines(record.kind)) {
        int error = join->dictionary ? bh_dictionary_add(join->dictionary, &record) : BH_OK;
        if (error < 0)
            return error;
        if (record.kind != BH_EVLOG_IMAGE)
            return 1;
    }
    if (join->count == join->capacity) {
        int error = grow(join);
        if (error < 0)
            return error;
    }
    push(join, &record);
    return 1;
}

int bh_join_next(struct bh_join *join, const struct bh_event **ret_event)
{
    while (!join->ended && (join->count == 0 ||
                            (join->count < BH_JOIN_EVENTS && waits(&join->ring[join->first])))) {
        int more = read_one(join);
        if (more < 0)
            return more;
    }
    if (join->count == 0)
        return 0;
    *ret_event = &join->ring[join->first];
    join->first = (join->first + 1) & (join->capacity - 1);
    join->count--;
    return 1;
}

int bh_join_look_ahead(struct bh_join *join, const uint32_t *waiting)
{
    while (!join->ended && *waiting > 0 && join->count < BH_JOIN_EVENTS) {
        int more = read_one(join);
        if (more < 0)
            return more;
    }
    return BH_OK;
}
