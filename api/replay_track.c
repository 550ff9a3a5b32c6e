#include "api/replay_track.h"

#include <string.h>

#include "core/model/policy.h"

void bh_track_done(struct bh_track *track)
{
    bh_bytes_done(&track->points);
    bh_bytes_done(&track->gaps);
}

struct bh_track_point *bh_track_points(struct bh_track *track, size_t *ret_count)
{
    *ret_count = track->points.length / sizeof(struct bh_track_point);
    return (struct bh_track_point *)(void *)track->points.data;
}

static void append(struct bh_track *track, struct bh_track_point point)
{
    (void)bh_track_points(track, &point.order);
    bh_bytes_append(&track->points, &point, sizeof point);
}

static bool is_known(struct bh_observed value)
{
    return value.status == BH_VALUE_AVAILABLE;
}

static void add_of_span(struct bh_track *track, const struct bh_record_samples *span,
                        uint64_t at_ns, uint64_t bytes)
{
    append(track, (struct bh_track_point){.origin = BH_TRACK_SPAN,
                                          .has_bytes = true,
                                          .at_ns = at_ns,
                                          .bytes = bytes,
                                          .from_ns = span->from.ns,
                                          .to_ns = span->to.ns,
                                          .captured_at_ns = at_ns});
}

static uint64_t width_of(const struct bh_record_samples *span)
{
    return span->to.ns > span->from.ns ? span->to.ns - span->from.ns : 0;
}

static void add_unusable(struct bh_track *track, const struct bh_record_samples *span)
{
    uint64_t step = span->unusable > 1 ? width_of(span) / (span->unusable - 1) : 0;
    for (uint32_t i = 0; i < span->unusable; i++)
        append(track, (struct bh_track_point){.origin = BH_TRACK_SPAN,
                                              .at_ns = span->from.ns + step * i,
                                              .captured_at_ns = span->from.ns + step * i});
}

static void add_span(struct bh_track *track, const struct bh_record_samples *span)
{
    if (span->count == 0 || !is_known(span->max)) {
        add_unusable(track, span);
        return;
    }
    uint64_t least = is_known(span->min) ? span->min.value : span->max.value;
    bool last_apart = is_known(span->last) && span->to.ns > span->max_at.ns;
    if (least < span->max.value && !(last_apart && span->last.value == least)) {
        /* its time is not kept: the begin, or behind the greatest where that is the begin */
        bool at_begin = span->max_at.ns > span->from.ns;
        uint64_t at_ns = at_begin ? span->from.ns : span->from.ns + width_of(span) / 2;
        add_of_span(track, span, at_ns, least);
    }
    add_of_span(track, span, span->max_at.ns, span->max.value);
    if (last_apart)
        add_of_span(track, span, span->to.ns, span->last.value);
}

static void add_sample(struct bh_track *track, const struct bh_sample *sample)
{
    append(track, (struct bh_track_point){.origin = BH_TRACK_SAMPLE,
                                          .has_bytes = is_known(sample->bytes),
                                          .at_ns = sample->processed_at.ns,
                                          .bytes = sample->bytes.value,
                                          .captured_at_ns = sample->captured_at.ns,
                                          .window_ns = sample->window_ns});
}

static void add_precise(struct bh_track *track, enum bh_track_origin origin, uint64_t at_ns,
                        uint64_t bytes)
{
    append(track, (struct bh_track_point){.origin = origin,
                                          .has_bytes = true,
                                          .at_ns = at_ns,
                                          .bytes = bytes,
                                          .captured_at_ns = at_ns});
}

/* A transition that a reading at or above the limit made. */
static bool is_decision(const struct bh_track *track, const struct bh_record_transition *transition)
{
    bool was_running = transition->from == BH_POLICY_STATE_NORMAL ||
                       transition->from == BH_POLICY_STATE_WARNING ||
                       transition->from == BH_POLICY_STATE_CHECKPOINT_REQUESTED;
    bool by_reading = strcmp(transition->reason, "footprint") == 0 ||
                      strcmp(transition->reason, "not_negotiated") == 0 ||
                      strcmp(transition->reason, "emergency") == 0;
    return was_running && by_reading && is_known(transition->bytes) && track->limit_bytes > 0 &&
           transition->bytes.value >= track->limit_bytes;
}

static void add_decision(struct bh_track *track, uint64_t at_ns,
                         const struct bh_record_transition *transition)
{
    size_t count;
    struct bh_track_point *points = bh_track_points(track, &count);
    /* these are decided on one reading, which may be the one that crossed: then it counts once */
    bool one = track->breach_count == 1 || strcmp(transition->reason, "emergency") == 0;
    for (size_t i = 0; i < count && one; i++) {
        if (points[i].origin == BH_TRACK_CROSSING && points[i].bytes == transition->bytes.value)
            points[i].dropped = true;
    }
    add_precise(track, BH_TRACK_DECISION, at_ns, transition->bytes.value);
}

/* EMPTY says when, OUTCOME how much: one exit. */
static void add_exit(struct bh_track *track, uint64_t at_ns, struct bh_observed final)
{
    size_t count;
    struct bh_track_point *points = bh_track_points(track, &count);
    struct bh_track_point *exit = NULL;
    for (size_t i = count; i > 0 && !exit; i--) {
        if (points[i - 1].origin == BH_TRACK_EXIT)
            exit = &points[i - 1];
    }
    if (!exit) {
        append(track, (struct bh_track_point){.origin = BH_TRACK_EXIT,
                                              .at_ns = at_ns,
                                              .has_bytes = is_known(final),
                                              .bytes = final.value});
    } else if (is_known(final)) {
        exit->has_bytes = true;
        exit->bytes = final.value;
    }
}

static void add_run_record(struct bh_track *track, const struct bh_record *record)
{
    if (record->kind == BH_RECORD_CONFIG) {
        track->limit_bytes = record->config.limit_bytes;
        track->breach_count = record->config.breach_count;
    } else if (record->kind == BH_RECORD_CONFIG_CHANGE) {
        track->limit_bytes = record->config_change.limit_bytes;
    } else if (record->kind == BH_RECORD_LAUNCHED) {
        track->zero_ns = record->at.ns;
    } else if (record->kind == BH_RECORD_CLOCK_GAP) {
        const struct bh_track_gap gap = {record->at.ns, record->clock_gap.gap_ns};
        bh_bytes_append(&track->gaps, &gap, sizeof gap);
    }
}

void bh_track_add(struct bh_track *track, const struct bh_record *record)
{
    if (record->pool != BH_POOL_HOST)
        return; /* the limit replayed is the host's */
    if (record->kind == BH_RECORD_SAMPLES)
        add_span(track, &record->samples);
    else if (record->kind == BH_RECORD_SAMPLE)
        add_sample(track, &record->sample);
    else if (record->kind == BH_RECORD_LIMIT_CROSSED)
        add_precise(track, BH_TRACK_CROSSING, record->at.ns, record->limit_crossed.bytes);
    else if (record->kind == BH_RECORD_TRANSITION && is_decision(track, &record->transition))
        add_decision(track, record->at.ns, &record->transition);
    else if (record->kind == BH_RECORD_EMPTY)
        add_exit(track, record->at.ns, (struct bh_observed){0});
    else if (record->kind == BH_RECORD_OUTCOME)
        add_exit(track, record->at.ns, record->outcome.final_bytes);
    else
        add_run_record(track, record);
}

/* A precise point is noted shortly after its reading was captured, an exact round between. */
#define SAME_READING_NS 1000000000ull

static bool is_same_reading(const struct bh_track_point *span, const struct bh_track_point *precise)
{
    return span->has_bytes && span->bytes == precise->bytes && precise->at_ns >= span->from_ns &&
           precise->at_ns <= span->to_ns + SAME_READING_NS;
}

/* From the first to the last sample every reading is known: nothing else is needed there. */
static void settle_covered(struct bh_track_point *points, size_t count)
{
    uint64_t from = UINT64_MAX;
    uint64_t to = 0;
    for (size_t i = 0; i < count; i++) {
        if (points[i].origin != BH_TRACK_SAMPLE)
            continue;
        if (points[i].captured_at_ns < from)
            from = points[i].captured_at_ns;
        if (points[i].at_ns > to)
            to = points[i].at_ns;
    }
    for (size_t i = 0; i < count; i++) {
        if (points[i].origin == BH_TRACK_SPAN && points[i].at_ns >= from && points[i].at_ns <= to)
            points[i].dropped = true;
        /* noted shortly after their reading was taken */
        if ((points[i].origin == BH_TRACK_CROSSING || points[i].origin == BH_TRACK_DECISION) &&
            points[i].at_ns >= from && points[i].at_ns <= to + SAME_READING_NS)
            points[i].dropped = true;
    }
}

static void settle_precise(struct bh_track_point *points, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (points[i].dropped ||
            (points[i].origin != BH_TRACK_CROSSING && points[i].origin != BH_TRACK_DECISION))
            continue;
        for (size_t k = 0; k < count; k++) {
            if (points[k].origin == BH_TRACK_SPAN && is_same_reading(&points[k], &points[i]))
                points[k].dropped = true;
        }
    }
}

void bh_track_settle(struct bh_track *track)
{
    size_t count;
    struct bh_track_point *points = bh_track_points(track, &count);
    settle_covered(points, count);
    settle_precise(points, count);
}

uint64_t bh_track_policy_time(const struct bh_track *track, uint64_t at_ns)
{
    const struct bh_track_gap *gaps = (const struct bh_track_gap *)(const void *)track->gaps.data;
    size_t count = track->gaps.length / sizeof *gaps;
    uint64_t off = track->zero_ns;
    for (size_t i = 0; i < count && gaps[i].at_ns <= at_ns; i++)
        off = gaps[i].gap_ns > UINT64_MAX - off ? UINT64_MAX : off + gaps[i].gap_ns;
    uint64_t time = at_ns > off ? at_ns - off : 0;
    return time < BH_POLICY_MAX ? time : BH_POLICY_MAX;
}
