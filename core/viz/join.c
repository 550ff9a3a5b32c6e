/* Events with their LINKs joined, by looking ahead. Interface: events.h. */
#include <stdlib.h>

#include "core/viz/events.h"
#include "core/wire/evlog_record.h"

int bh_join_begin(struct bh_join *join, const struct bh_trace_source *source, uint64_t number)
{
    *join = (struct bh_join){.anchor = source->header.anchor};
    join->ring = calloc(BH_JOIN_EVENTS, sizeof *join->ring);
    join->by_sequence = calloc(BH_JOIN_EVENTS, sizeof *join->by_sequence);
    if (!join->ring || !join->by_sequence) {
        bh_join_done(join);
        return BH_E_NOMEM;
    }
    int error = bh_trace_reader_begin(&join->reader, source, number, false);
    if (error < 0)
        bh_join_done(join);
    return error;
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
    uint32_t at = join->by_sequence[link->sequence % BH_JOIN_EVENTS];
    uint32_t distance = (at - join->first) % BH_JOIN_EVENTS;
    struct bh_event *event = &join->ring[at];
    if (distance >= join->count || event->record.sequence != link->sequence)
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
    uint32_t at = (join->first + join->count) % BH_JOIN_EVENTS;
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
        join->by_sequence[record->sequence % BH_JOIN_EVENTS] = at;
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
    join->first = (join->first + 1) % BH_JOIN_EVENTS;
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
