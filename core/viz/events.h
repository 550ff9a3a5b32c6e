/* Event log -> the JSON entries of core/record/recorder.md, section 5, links joined, times never
 * going back. Also the joined events themselves, for other exporters. */
#ifndef BH_VIZ_EVENTS_H
#define BH_VIZ_EVENTS_H

#include "core/viz/dictionary.h"
#include "core/viz/sink.h"

struct bh_events_query {
    uint64_t from;  /* first sequence, inclusive */
    uint64_t limit; /* events at most; 0 = all */
    bool ndjson;    /* one event a line; else {"events":[…],"next_from":N|null} */
};

/* source NULL = a job without events. dictionary NULL = loaded here. */
int bh_events_write(const struct bh_trace_source *source, const struct bh_dictionary *dictionary,
                    const struct bh_events_query *query, struct bh_sink sink, struct bh_diag *diag);

/* ---- joined events ----
 * An allocation without stack is held back until its LINK has come, or BH_JOIN_EVENTS records after
 * it have been read, so that it leaves with the stack, primitive and stream the LINK gave it. A
 * LINK that comes later still is reported as far. */
#define BH_JOIN_EVENTS 16384u

struct bh_event {
    struct bh_evlog_record record; /* without string and frames */
    int64_t at_us;                 /* running maximum of the job's times */
    bool linked;
};

struct bh_join {
    struct bh_trace_reader reader;
    struct bh_anchor anchor;
    struct bh_dictionary *dictionary; /* borrowed; NULL = definitions are passed over */
    /* A LINK whose allocation has left already, or lay before the start; NULL = passed over. */
    int (*far)(void *context, const struct bh_evlog_record *link);
    void *context;
    struct bh_event *ring; /* owned, capacity cells */
    uint32_t *by_sequence; /* owned: sequence modulo capacity -> index into ring */
    uint32_t capacity, first, count;
    int64_t at_us;
    bool began, ended;
};
/* Begins at segment `number`; the hooks above are set after it. What comes out, in file order:
 * events and IMAGE, IMAGE_END, BASELINE_BEGIN, OFF, HOLE, FULL. */
int bh_join_begin(struct bh_join *join, const struct bh_trace_source *source, uint64_t number);
/* 1 and an event, valid until the next call; 0 at the end. */
int bh_join_next(struct bh_join *join, const struct bh_event **ret_event);
/* Reads ahead as far as the ring has room, or until *waiting is 0, so that far LINKs are seen now.
 */
int bh_join_look_ahead(struct bh_join *join, const uint32_t *waiting);
void bh_join_done(struct bh_join *join);

#endif
