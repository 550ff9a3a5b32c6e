/* Event log -> the JSON entries of recorder.md section 5, links joined, times never going back.
 * Also the joined events themselves, for other exporters. */
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
 * Holds back up to BH_JOIN_EVENTS events, so that an allocation leaves with the stack, primitive
 * and stream that a LINK gave it later. A LINK that comes later still is reported as far. */
#define BH_JOIN_EVENTS 16384u

struct bh_event {
    struct bh_evlog_record record; /* string and frames are not kept */
    int64_t at_us;                 /* running maximum */
};

struct bh_join {
    struct bh_trace_reader reader;
    struct bh_anchor anchor;
    struct bh_event *ring; /* owned, BH_JOIN_EVENTS */
    uint32_t first, count;
    int64_t at_us;
    bool ended;
    /* A LINK whose allocation has left already (or lay before the start); NULL = ignore. */
    int (*far)(void *context, const struct bh_evlog_record *link);
    void *context;
};
/* Begins at segment `number`. All kinds but definitions and links come out, in file order. */
int bh_join_begin(struct bh_join *join, const struct bh_trace_source *source, uint64_t number);
/* 1 and an event, valid until the next call; 0 at the end. */
int bh_join_next(struct bh_join *join, const struct bh_event **ret_event);
void bh_join_done(struct bh_join *join);

#endif
