/* One walk over the log that stops at every instant a question needs. */
#include "core/viz/live.h"

#include <stdlib.h>

#include "core/viz/events.h"
#include "core/viz/live_groups.h"
#include "core/viz/replay.h"

struct instant {
    bool wanted, done;
    enum bh_live_when when; /* AT_US, AT_SEQUENCE or AT_END */
    int64_t at_us;
    uint64_t sequence;
    uint64_t keyframe; /* sequence of the newest keyframe at or before it; 0 = none */
};

struct walk {
    const struct bh_trace_source *source;
    const struct bh_keyframe_store *keyframes; /* NULL = none */
    struct bh_live *live;
    struct bh_live_groups groups;
    struct instant instants[BH_LIVE_COLUMNS];
    struct bh_replay replay;
    struct bh_join join;
    bool joined;
};

static int far_link(void *context, const struct bh_evlog_record *link)
{
    struct walk *walk = context;
    return bh_replay_apply(&walk->replay, link);
}

/* ---- positions ---- */

static int start_at(struct walk *walk, uint64_t segment)
{
    if (walk->joined)
        bh_join_done(&walk->join);
    walk->joined = false;
    int error = bh_join_begin(&walk->join, walk->source, segment);
    if (error < 0)
        return error;
    walk->join.far = far_link;
    walk->join.context = walk;
    walk->joined = true;
    return BH_OK;
}

/* The newest keyframe at or before an instant: 1 and the blob, or 0. */
static int keyframe_for(const struct walk *walk, const struct instant *instant,
                        struct bh_bytes *ret_blob)
{
    const struct bh_keyframe_store *store = walk->keyframes;
    bh_bytes_clear(ret_blob);
    if (instant->when == BH_LIVE_AT_US)
        return store->by_time(store->context, instant->at_us, ret_blob);
    /* "right after this event": a keyframe with the same sequence may hold more than that */
    uint64_t sequence = instant->when == BH_LIVE_AT_END ? UINT64_MAX : instant->sequence;
    return sequence == 0 ? 0 : store->by_sequence(store->context, sequence - 1, ret_blob);
}

/* Looks once for every instant's keyframe; only its sequence is kept. */
static int find_keyframes(struct walk *walk)
{
    struct bh_bytes blob = {0};
    int found = 0;
    for (int i = 0; walk->keyframes && i < BH_LIVE_COLUMNS && found >= 0; i++) {
        struct instant *instant = &walk->instants[i];
        struct bh_keyframe_info info;
        if (!instant->wanted)
            continue;
        found = keyframe_for(walk, instant, &blob);
        if (found > 0 && bh_keyframe_peek(blob.data, blob.length, &info) >= 0)
            instant->keyframe = info.sequence;
    }
    bh_bytes_done(&blob);
    return found < 0 ? found : BH_OK;
}

/* The furthest keyframe that passes no open instant, if it lies ahead: 1 and its blob. */
static int find_jump(const struct walk *walk, struct bh_bytes *ret_blob)
{
    const struct instant *nearest = NULL;
    for (int i = 0; i < BH_LIVE_COLUMNS; i++) {
        const struct instant *instant = &walk->instants[i];
        if (instant->wanted && !instant->done &&
            (!nearest || instant->keyframe < nearest->keyframe))
            nearest = instant;
    }
    if (!nearest || nearest->keyframe <= walk->replay.sequence)
        return 0;
    return keyframe_for(walk, nearest, ret_blob);
}

static int jump(struct walk *walk)
{
    struct bh_bytes blob = {0};
    struct bh_keyframe_info info;
    int found = find_jump(walk, &blob);
    if (found > 0) {
        bh_replay_done(&walk->replay);
        int error = bh_keyframe_decode(blob.data, blob.length, &walk->replay, &info);
        if (error >= 0) {
            found = start_at(walk, info.next_segment);
        } else { /* a damaged keyframe costs time, not the answer */
            for (int i = 0; i < BH_LIVE_COLUMNS; i++)
                walk->instants[i].keyframe = 0;
            bh_replay_done(&walk->replay);
            found = error == BH_E_NOMEM ? error : start_at(walk, 0);
        }
    }
    bh_bytes_done(&blob);
    return found < 0 ? found : BH_OK;
}

/* ---- instants ---- */

static void note_crossing(struct walk *walk)
{
    uint32_t at = bh_replay_crossing(&walk->replay);
    if (at == BH_REPLAY_NONE)
        return;
    const struct bh_buffer *buffer = &walk->replay.pool[at];
    walk->live->crossed_by = (struct bh_live_crossing){
        .known = true,
        .sequence = buffer->sequence,
        .bytes = buffer->size_bytes,
        .at_us = buffer->at_us,
        .stack = buffer->stack,
        .primitive = buffer->primitive,
    };
}

static int reach(struct walk *walk, enum bh_live_column column)
{
    struct instant *instant = &walk->instants[column];
    instant->done = true;
    int error = bh_join_look_ahead(&walk->join, &walk->replay.pending);
    if (error < 0)
        return error;
    if (column == BH_LIVE_CROSSING) {
        note_crossing(walk);
        return BH_OK;
    }
    if (column == BH_LIVE_MAIN) {
        walk->live->sequence = walk->replay.sequence;
        walk->live->at_us = instant->when == BH_LIVE_AT_US ? instant->at_us : walk->replay.event_us;
    }
    return bh_live_groups_add(&walk->groups, &walk->replay, column,
                              instant->when == BH_LIVE_AT_END);
}

/* Reaches every open instant for which `reached` holds; 1 when one was, to look for a jump. */
static int reach_all(struct walk *walk,
                     bool (*reached)(const struct instant *instant, int64_t at_us,
                                     uint64_t sequence),
                     int64_t at_us, uint64_t sequence)
{
    int any = 0;
    for (int i = 0; i < BH_LIVE_COLUMNS; i++) {
        const struct instant *instant = &walk->instants[i];
        if (!instant->wanted || instant->done || !reached(instant, at_us, sequence))
            continue;
        int error = reach(walk, (enum bh_live_column)i);
        if (error < 0)
            return error;
        any = 1;
    }
    return any;
}

static bool passed_by_time(const struct instant *instant, int64_t at_us, uint64_t sequence)
{
    (void)sequence;
    return instant->when == BH_LIVE_AT_US && at_us > instant->at_us;
}

static bool passed_by_sequence(const struct instant *instant, int64_t at_us, uint64_t sequence)
{
    (void)at_us;
    return instant->when == BH_LIVE_AT_SEQUENCE && sequence >= instant->sequence;
}

static bool passed_by_end(const struct instant *instant, int64_t at_us, uint64_t sequence)
{
    (void)instant;
    (void)at_us;
    (void)sequence;
    return true;
}

static bool all_done(const struct walk *walk)
{
    for (int i = 0; i < BH_LIVE_COLUMNS; i++) {
        if (walk->instants[i].wanted && !walk->instants[i].done)
            return false;
    }
    return true;
}

/* ---- walking ---- */

static int walk_on(struct walk *walk)
{
    const struct bh_event *event;
    int more = jump(walk);
    while (more >= 0 && !all_done(walk)) {
        more = bh_join_next(&walk->join, &event);
        if (more <= 0)
            break;
        struct bh_event taken = *event; /* looking ahead may move the ring */
        int reached = reach_all(walk, passed_by_time, taken.at_us, 0);
        more = reached < 0 ? reached : bh_replay_apply(&walk->replay, &taken.record);
        if (more < 0 || all_done(walk))
            break;
        if (taken.record.sequence) {
            int past = reach_all(walk, passed_by_sequence, 0, taken.record.sequence);
            if (past < 0)
                return past;
            reached |= past;
        }
        more = reached > 0 && !all_done(walk) ? jump(walk) : BH_OK;
    }
    return more < 0 ? more : reach_all(walk, passed_by_end, 0, 0);
}

/* ---- questions ---- */

/* Peak, first and last of the run, by a pass over everything. */
static int find_hint(const struct bh_trace_source *source, struct bh_live_hint *ret_hint)
{
    struct bh_trace_reader reader;
    struct bh_evlog_record record;
    struct bh_replay replay;
    bh_replay_init(&replay, source->header.anchor);
    int more = bh_trace_reader_begin(&reader, source, 0, false);
    while (more >= 0 && (more = bh_trace_reader_next(&reader, &record)) > 0)
        more = bh_replay_apply(&replay, &record);
    *ret_hint = (struct bh_live_hint){
        .events = replay.events,
        .peak_sequence = replay.peak_sequence,
        .last_sequence = replay.sequence,
        .began_us = replay.began_us,
        .event_us = replay.event_us,
    };
    bh_replay_done(&replay);
    return more;
}

static void want(struct walk *walk, enum bh_live_column column, enum bh_live_when when,
                 int64_t at_us, uint64_t sequence)
{
    walk->instants[column] =
        (struct instant){.wanted = true, .when = when, .at_us = at_us, .sequence = sequence};
}

static void want_quarters(struct walk *walk, const struct bh_live_hint *hint)
{
    int64_t quarter = (hint->event_us - hint->began_us) / 4;
    for (int i = 0; i < 3; i++)
        want(walk, (enum bh_live_column)(BH_LIVE_QUARTER_1 + i), BH_LIVE_AT_US,
             hint->began_us + quarter * (i + 1), 0);
    /* by sequence: after it the images end, and everything is gone */
    want(walk, BH_LIVE_QUARTER_4, BH_LIVE_AT_SEQUENCE, 0, hint->last_sequence);
    walk->live->growing_known = hint->events > 0;
}

static int want_main(struct walk *walk, const struct bh_live_hint *hint, struct bh_diag *diag)
{
    const struct bh_live_query *query = &walk->live->query;
    switch (query->when) {
    case BH_LIVE_AT_US:
        want(walk, BH_LIVE_MAIN, BH_LIVE_AT_US, query->at_us, 0);
        return BH_OK;
    case BH_LIVE_AT_SEQUENCE:
        want(walk, BH_LIVE_MAIN, BH_LIVE_AT_SEQUENCE, 0, query->sequence);
        return BH_OK;
    case BH_LIVE_AT_END:
        want(walk, BH_LIVE_MAIN, BH_LIVE_AT_END, 0, 0);
        return BH_OK;
    case BH_LIVE_AT_LIMIT:
        if (!query->limit_crossed)
            return bh_err_set(diag, BH_E_LIMIT_NOT_CROSSED, "at",
                              "The job never reached its limit; ask for the peak instead");
        want(walk, BH_LIVE_MAIN, BH_LIVE_AT_US, query->limit_us, 0);
        return BH_OK;
    case BH_LIVE_AT_PEAK:
        if (hint->peak_sequence == 0)
            return bh_err_set(diag, BH_E_NO_TRACE, "at", "No allocation was recorded");
        want(walk, BH_LIVE_MAIN, BH_LIVE_AT_SEQUENCE, 0, hint->peak_sequence);
        return BH_OK;
    }
    return bh_err_set(diag, BH_E_INVALID_VALUE, "at", "No such instant");
}

static int prepare(struct walk *walk, const struct bh_live_hint *given, struct bh_diag *diag)
{
    const struct bh_live_query *query = &walk->live->query;
    struct bh_live_hint hint = {0};
    int error = BH_OK;
    if (given)
        hint = *given;
    else if (query->when == BH_LIVE_AT_PEAK || query->growing)
        error = find_hint(walk->source, &hint);
    if (error < 0)
        return bh_err_set(diag, error, NULL, "The trace cannot be read");
    if (query->since)
        want(walk, BH_LIVE_SINCE, BH_LIVE_AT_US, query->since_us, 0);
    if (query->limit_crossed)
        want(walk, BH_LIVE_CROSSING, BH_LIVE_AT_US, query->limit_us, 0);
    if (query->growing)
        want_quarters(walk, &hint);
    return want_main(walk, &hint, diag);
}

int bh_live_compute(const struct bh_trace_source *source, const struct bh_dictionary *dictionary,
                    const struct bh_keyframe_store *keyframes, const struct bh_live_hint *hint,
                    const struct bh_live_query *query, struct bh_live *ret_live,
                    struct bh_diag *diag)
{
    struct bh_live live = {.query = *query};
    struct walk walk = {.source = source, .keyframes = keyframes, .live = &live};
    bh_live_groups_begin(&walk.groups, dictionary, query->by_primitive);
    bh_replay_init(&walk.replay, source->header.anchor);
    int error = prepare(&walk, hint, diag);
    if (error >= 0) {
        error = start_at(&walk, 0);
        if (error >= 0)
            error = find_keyframes(&walk);
        if (error >= 0)
            error = walk_on(&walk);
        if (error >= 0)
            error = bh_live_groups_take(&walk.groups, &live);
        if (error < 0)
            (void)bh_err_set(diag, error, NULL, "The live set cannot be made: %s",
                             bh_err_title(error));
    }
    if (walk.joined)
        bh_join_done(&walk.join);
    bh_replay_done(&walk.replay);
    bh_live_groups_done(&walk.groups);
    if (error < 0) {
        bh_live_done(&live);
        return error;
    }
    *ret_live = live;
    return BH_OK;
}

void bh_live_done(struct bh_live *live)
{
    free(live->groups);
    live->groups = NULL;
    live->group_count = 0;
}
