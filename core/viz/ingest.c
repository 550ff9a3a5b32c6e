#include "core/viz/ingest.h"

#include <stdlib.h>
#include <string.h>

#include "core/viz/replay.h"

/* What waits for the next flush beside the levels. */
struct waiting_keyframe {
    struct bh_keyframe_info info;
    size_t offset, length; /* into blobs */
};

struct waiting_mark {
    int64_t at_us;
    uint64_t sequence;
    uint32_t text;
};

struct bh_ingest {
    struct bh_replay replay;
    struct bh_dictionary *dictionary;
    struct bh_series_builder *active, *reserved;
    uint64_t segments;        /* taken */
    uint64_t keyframe_events; /* replay.events at the last keyframe */
    bool quiet;               /* restoring: nothing is handed out */
    struct bh_bytes blobs;    /* of waiting keyframes */
    struct waiting_keyframe *keyframes;
    size_t keyframe_count, keyframe_capacity;
    struct bh_loss *losses;
    size_t loss_count, loss_capacity;
    struct waiting_mark *marks;
    size_t mark_count, mark_capacity;
};

int bh_ingest_new(struct bh_anchor anchor, struct bh_ingest **ret_ingest)
{
    struct bh_ingest *ingest = calloc(1, sizeof *ingest);
    if (!ingest)
        return BH_E_NOMEM;
    bh_replay_init(&ingest->replay, anchor);
    int error = bh_dictionary_new(&ingest->dictionary);
    if (error >= 0)
        error = bh_series_new(BH_SERIES_ACTIVE, &ingest->active);
    if (error >= 0)
        error = bh_series_new(BH_SERIES_RESERVED, &ingest->reserved);
    if (error < 0) {
        bh_ingest_free(ingest);
        return error;
    }
    *ret_ingest = ingest;
    return BH_OK;
}

void bh_ingest_free(struct bh_ingest *ingest)
{
    if (!ingest)
        return;
    bh_replay_done(&ingest->replay);
    bh_dictionary_free(ingest->dictionary);
    bh_series_free(ingest->active);
    bh_series_free(ingest->reserved);
    bh_bytes_done(&ingest->blobs);
    free(ingest->keyframes);
    free(ingest->losses);
    free(ingest->marks);
    free(ingest);
}

static int reserve(void **items, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return BH_OK;
    size_t wanted = *capacity ? *capacity * 2 : 8;
    void *grown = realloc(*items, wanted * size);
    if (!grown)
        return BH_E_NOMEM;
    *items = grown;
    *capacity = wanted;
    return BH_OK;
}

/* ---- one record ---- */

static int add_points(struct bh_ingest *ingest, int64_t at_us, uint64_t active, uint64_t reserved)
{
    int error = bh_series_add(ingest->active, at_us, active);
    return error < 0 ? error : bh_series_add(ingest->reserved, at_us, reserved);
}

/* From the last thing known until the gap's report: nothing is known. */
static int note_loss(struct bh_ingest *ingest, const struct bh_evlog_record *record,
                     int64_t known_us)
{
    int error = reserve((void **)&ingest->losses, &ingest->loss_capacity, ingest->loss_count,
                        sizeof *ingest->losses);
    if (error < 0)
        return error;
    ingest->losses[ingest->loss_count++] = (struct bh_loss){
        .from_us = known_us,
        .to_us = ingest->replay.at_us,
        .count = record->count,
        .sequence = record->sequence,
    };
    return add_points(ingest, known_us, BH_SERIES_UNKNOWN, BH_SERIES_UNKNOWN);
}

static int note_mark(struct bh_ingest *ingest, const struct bh_evlog_record *record)
{
    int error = reserve((void **)&ingest->marks, &ingest->mark_capacity, ingest->mark_count,
                        sizeof *ingest->marks);
    if (error < 0)
        return error;
    ingest->marks[ingest->mark_count++] = (struct waiting_mark){
        .at_us = ingest->replay.at_us, .sequence = record->sequence, .text = record->text};
    return BH_OK;
}

static int take_record(struct bh_ingest *ingest, const struct bh_evlog_record *record)
{
    struct bh_replay *replay = &ingest->replay;
    int64_t known_us = replay->at_us;
    bool began = replay->began;
    int error = bh_dictionary_add(ingest->dictionary, record);
    if (error >= 0)
        error = bh_replay_apply(replay, record);
    if (error < 0 || ingest->quiet)
        return error;
    if (record->kind == BH_EVLOG_LOST)
        error = note_loss(ingest, record, began ? known_us : replay->at_us);
    if (record->kind == BH_EVLOG_MARK)
        error = note_mark(ingest, record);
    /* Nothing is drawn before the first image: an empty log has no line. */
    if (error >= 0 && replay->image_count > 1)
        error = add_points(ingest, replay->at_us, replay->active_bytes, replay->reserved_bytes);
    return error;
}

static int keep_keyframe(struct bh_ingest *ingest)
{
    if (!bh_keyframe_due(&ingest->replay, ingest->keyframe_events))
        return BH_OK;
    ingest->keyframe_events = ingest->replay.events;
    if (ingest->quiet)
        return BH_OK;
    int error = reserve((void **)&ingest->keyframes, &ingest->keyframe_capacity,
                        ingest->keyframe_count, sizeof *ingest->keyframes);
    size_t offset = ingest->blobs.length;
    if (error >= 0)
        error = bh_keyframe_encode(&ingest->replay, ingest->segments, &ingest->blobs);
    if (error < 0)
        return error;
    ingest->keyframes[ingest->keyframe_count++] = (struct waiting_keyframe){
        .info = {.next_segment = ingest->segments,
                 .sequence = ingest->replay.sequence,
                 .at_us = ingest->replay.at_us},
        .offset = offset,
        .length = ingest->blobs.length - offset,
    };
    return BH_OK;
}

/* A segment whose records do not all decode must not count by half: looked through first. */
static int check_records(const struct bh_evlog_segment *segment)
{
    struct bh_evlog_cursor cursor;
    struct bh_evlog_record record;
    int more;
    bh_evlog_cursor_open(&cursor, segment);
    while ((more = bh_evlog_cursor_next(&cursor, &record)) > 0)
        continue;
    return more;
}

static int take_segment(struct bh_ingest *ingest, const struct bh_evlog_segment *segment)
{
    struct bh_evlog_cursor cursor;
    struct bh_evlog_record record;
    int more;
    bh_evlog_cursor_open(&cursor, segment);
    while ((more = bh_evlog_cursor_next(&cursor, &record)) > 0) {
        int error = take_record(ingest, &record);
        if (error < 0)
            return error;
    }
    if (more < 0)
        return more;
    ingest->segments++;
    return keep_keyframe(ingest);
}

int bh_ingest_segment(struct bh_ingest *ingest, const void *data, size_t length,
                      struct bh_evlog_segment *ret_segment)
{
    struct bh_evlog_segment segment;
    int used = bh_evlog_segment_decode(data, length, &segment);
    if (used < 0)
        return used;
    if (used == 0 || (size_t)used != length)
        return BH_E_TRUNCATED;
    if (segment.number != ingest->segments)
        return BH_E_SEQUENCE_BACK;
    int error = check_records(&segment);
    if (error >= 0)
        error = take_segment(ingest, &segment);
    if (error >= 0 && ret_segment)
        *ret_segment = segment;
    return error;
}

/* ---- handing out ---- */

static int flush_keyframes(struct bh_ingest *ingest, const struct bh_ingest_store *store)
{
    for (size_t i = 0; i < ingest->keyframe_count; i++) {
        const struct waiting_keyframe *keyframe = &ingest->keyframes[i];
        int error = store->keyframe(store->context, &keyframe->info,
                                    ingest->blobs.data + keyframe->offset, keyframe->length);
        if (error < 0)
            return error;
    }
    ingest->keyframe_count = 0;
    bh_bytes_clear(&ingest->blobs);
    return BH_OK;
}

static int flush_notes(struct bh_ingest *ingest, const struct bh_ingest_store *store)
{
    for (size_t i = 0; i < ingest->loss_count; i++) {
        int error = store->loss(store->context, &ingest->losses[i]);
        if (error < 0)
            return error;
    }
    for (size_t i = 0; i < ingest->mark_count; i++) {
        struct bh_mark mark = {
            .at_us = ingest->marks[i].at_us,
            .sequence = ingest->marks[i].sequence,
            .label = bh_dictionary_string(ingest->dictionary, ingest->marks[i].text),
        };
        int error = store->mark(store->context, &mark);
        if (error < 0)
            return error;
    }
    ingest->loss_count = 0;
    ingest->mark_count = 0;
    return BH_OK;
}

int bh_ingest_flush(struct bh_ingest *ingest, const struct bh_ingest_store *store)
{
    int error = bh_series_flush(ingest->active, &store->levels);
    if (error >= 0)
        error = bh_series_flush(ingest->reserved, &store->levels);
    if (error >= 0)
        error = flush_keyframes(ingest, store);
    return error < 0 ? error : flush_notes(ingest, store);
}

/* ---- restoring ---- */

static int restore_keyframe(struct bh_ingest *ingest, const struct bh_keyframe_store *keyframes)
{
    struct bh_bytes blob = {0};
    struct bh_keyframe_info info;
    int found = keyframes ? keyframes->by_sequence(keyframes->context, UINT64_MAX, &blob) : 0;
    if (found > 0) {
        struct bh_anchor anchor = ingest->replay.anchor;
        found = bh_keyframe_decode(blob.data, blob.length, &ingest->replay, &info);
        if (found >= 0) {
            ingest->segments = info.next_segment;
            ingest->keyframe_events = ingest->replay.events;
        } else if (found != BH_E_NOMEM) { /* damaged: the log itself has it all */
            bh_replay_done(&ingest->replay);
            bh_replay_init(&ingest->replay, anchor);
            found = BH_OK;
        }
    }
    bh_bytes_done(&blob);
    return found < 0 ? found : BH_OK;
}

static int replay_rest(struct bh_ingest *ingest, const struct bh_trace_source *source,
                       uint64_t segments)
{
    int error = source->seek(source->context, ingest->segments, false);
    while (error >= 0 && ingest->segments < segments) {
        const unsigned char *data;
        size_t length;
        int more = source->next(source->context, &data, &length);
        if (more <= 0)
            return more < 0 ? more : BH_E_TRUNCATED;
        error = bh_ingest_segment(ingest, data, length, NULL);
    }
    return error;
}

/* Names of the segments taken; the source may hold more of them. */
static int restore_names(struct bh_ingest *ingest, const struct bh_trace_source *source,
                         uint64_t segments)
{
    struct bh_trace_reader reader;
    struct bh_evlog_record record;
    int more = bh_trace_reader_begin(&reader, source, 0, true);
    while (more >= 0 && (more = bh_trace_reader_next(&reader, &record)) > 0) {
        if (reader.segment.number >= segments)
            return BH_OK;
        more = bh_dictionary_add(ingest->dictionary, &record);
    }
    return more;
}

int bh_ingest_restore(struct bh_ingest *ingest, const struct bh_trace_source *source,
                      const struct bh_keyframe_store *keyframes,
                      const struct bh_level_store *levels, uint64_t segments)
{
    int error = restore_keyframe(ingest, keyframes);
    if (error >= 0 && ingest->segments > segments)
        error = BH_E_MALFORMED; /* a keyframe of segments that are not stored */
    if (error >= 0)
        error = restore_names(ingest, source, ingest->segments);
    ingest->quiet = true;
    if (error >= 0)
        error = replay_rest(ingest, source, segments);
    ingest->quiet = false;
    if (error >= 0)
        error = bh_series_restore(ingest->active, levels);
    return error < 0 ? error : bh_series_restore(ingest->reserved, levels);
}

const struct bh_replay *bh_ingest_replay(const struct bh_ingest *ingest)
{
    return &ingest->replay;
}

const struct bh_dictionary *bh_ingest_dictionary(const struct bh_ingest *ingest)
{
    return ingest->dictionary;
}

uint64_t bh_ingest_segments(const struct bh_ingest *ingest)
{
    return ingest->segments;
}
