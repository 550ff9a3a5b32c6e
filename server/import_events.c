#include "server/import_events.h"

#include <string.h>

#include "server/foreign.h"

void bh_import_events_done(struct bh_import_events *events)
{
    bh_bytes_done(&events->bytes);
    bh_bytes_done(&events->names);
    bh_bytes_done(&events->segments);
}

bool bh_import_events_any(const struct bh_import_events *events)
{
    return events->segments.length > 0;
}

/* ---- reading ---- */

/* The log's header: its anchor is the clock of every time in the trace. */
static int take_header(struct bh_import *import, struct bh_import_job *job,
                       struct bh_store_job *row, struct bh_import_place *place,
                       struct bh_diag *diag)
{
    struct bh_evlog_header header;
    int result;

    if (import->buffer.length < BH_EVLOG_HEADER_BYTES)
        return 0; /* not written yet */
    result = bh_evlog_header_decode(import->buffer.data, import->buffer.length, &header);
    if (result >= 0 && strcmp(header.run_id, job->row.id) != 0)
        result = BH_E_MALFORMED;
    if (result < 0)
        return bh_err_set(diag, result, NULL, "The event log's header is not this job's");
    place->events_offset = BH_EVLOG_HEADER_BYTES;
    place->trace_mono_ns = header.anchor.mono.ns;
    place->trace_wall_us = header.anchor.wall.us;
    if (row->anchor.wall.us == 0) /* an external job has no journal */
        row->anchor = header.anchor;
    return 0;
}

static struct bh_anchor trace_anchor(const struct bh_import_place *place)
{
    return (struct bh_anchor){{place->trace_mono_ns}, {place->trace_wall_us}};
}

/* A segment twice, or a hole in the events, must not get in: the file is not what the scribe wrote.
 */
static bool follows(const struct bh_evlog_segment *segment, const struct bh_import_place *place,
                    const struct bh_store_job *row)
{
    if (segment->number != place->segments)
        return false;
    if (row->external) /* its sender may leave numbers out */
        return segment->last_sequence == 0 || segment->first_sequence > row->event_sequence;
    return segment->last_sequence == 0 || segment->first_sequence == row->event_sequence + 1;
}

static void note_segment(const struct bh_evlog_segment *segment, const unsigned char *data,
                         uint32_t length, struct bh_store_job *row, struct bh_import_place *place,
                         struct bh_import_events *events)
{
    struct bh_import_segment entry = {
        .number = segment->number,
        .first_sequence = segment->first_sequence,
        .last_sequence = segment->last_sequence,
        .lost = segment->lost_before,
        .offset = (uint32_t)events->bytes.length,
        .length = length,
        .names_offset = (uint32_t)events->names.length,
    };

    bh_import_names_pack(segment, &events->names);
    entry.names_length = (uint32_t)events->names.length - entry.names_offset;
    bh_bytes_append(&events->bytes, data, length);
    bh_bytes_append(&events->segments, &entry, sizeof entry);
    if (segment->last_sequence > 0)
        row->event_sequence = segment->last_sequence;
    row->bytes += length;
    place->segments++;
    place->events_offset += length;
}

/* One segment at data: its length, 0 when it is not whole yet. */
static int take_segment(struct bh_import_job *job, const unsigned char *data, size_t left,
                        struct bh_store_job *row, struct bh_import_place *place,
                        struct bh_import_events *events, struct bh_diag *diag)
{
    struct bh_evlog_segment segment;
    int length = bh_evlog_segment_decode(data, left, &segment);
    int result = length;

    if (length == 0)
        return 0;
    if (result > 0 && !follows(&segment, place, row))
        result = BH_E_MALFORMED;
    if (result > 0)
        result = bh_ingest_segment(job->ingest, data, (size_t)length, NULL);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "The event log is damaged behind event %llu",
                          (unsigned long long)row->event_sequence);
    note_segment(&segment, data, (uint32_t)length, row, place, events);
    return length;
}

/* What the row says about the trace. A job with a journal gets its counts from there too. */
static void note_totals(const struct bh_import_job *job, struct bh_store_job *row,
                        struct bh_import_place *place)
{
    const struct bh_replay *replay = bh_ingest_replay(job->ingest);

    place->trace_events = replay->events;
    place->peak_sequence = replay->peak_sequence;
    place->began_us = replay->began_us;
    place->event_us = replay->event_us;
    if (row->events < replay->events)
        row->events = replay->events;
    if (row->lost < replay->lost)
        row->lost = replay->lost;
    row->active = (struct bh_observed){BH_VALUE_AVAILABLE, replay->active_bytes};
    row->reserved = (struct bh_observed){BH_VALUE_AVAILABLE, replay->reserved_bytes};
    if (row->external)
        row->recorder = row->lost ? BH_RECORDER_LOSSY : BH_RECORDER_ATTACHED;
}

static int take_segments(struct bh_import *import, struct bh_import_job *job,
                         struct bh_store_job *row, struct bh_import_place *place, size_t at,
                         struct bh_import_events *events, struct bh_diag *diag)
{
    int result = 0;

    while (at < import->buffer.length) {
        result = take_segment(job, import->buffer.data + at, import->buffer.length - at, row, place,
                              events, diag);
        if (result <= 0)
            break;
        at += (size_t)result;
    }
    if (events->segments.length > 0)
        note_totals(job, row, place);
    if (events->bytes.failed || events->names.failed || events->segments.failed)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    return result < 0 ? result : 0;
}

/* A foreign log counts as far as its requests were committed. */
static int bound_foreign(int dirfd, uint64_t offset, uint32_t *budget, struct bh_diag *diag)
{
    uint64_t committed;
    int result = bh_foreign_place(dirfd, &committed);

    if (result < 0)
        return bh_err_set(diag, result, NULL, "The mark of what is stored cannot be read");
    if (committed <= offset)
        *budget = 0;
    else if (committed - offset < *budget)
        *budget = (uint32_t)(committed - offset);
    return 0;
}

int bh_import_events_read(struct bh_import *import, struct bh_import_job *job, int dirfd,
                          uint32_t budget, struct bh_store_job *row, struct bh_import_place *place,
                          struct bh_import_events *ret_events, bool *ret_more, struct bh_diag *diag)
{
    uint64_t before = place->events_offset;
    bool end = true;
    int result;

    *ret_more = false;
    if (budget < 2 * BH_EVLOG_SEGMENT_BYTES)
        budget = 2 * BH_EVLOG_SEGMENT_BYTES;
    result = row->external ? bound_foreign(dirfd, before, &budget, diag) : 0;
    if (result < 0 || budget == 0)
        return result;
    result = bh_import_read(import, dirfd, BH_EVLOG_FILE_NAME, before, budget, &end, diag);
    if (result >= 0 && before == 0)
        result = take_header(import, job, row, place, diag);
    if (result < 0 || place->events_offset == 0)
        return result;
    if (!job->ingest) {
        result = bh_ingest_new(trace_anchor(place), &job->ingest);
        if (result < 0)
            return bh_err_set(diag, result, NULL, "Out of memory");
    }
    result = take_segments(import, job, row, place, before == 0 ? BH_EVLOG_HEADER_BYTES : 0,
                           ret_events, diag);
    *ret_more = result >= 0 && !end && place->events_offset > before;
    return result;
}

/* ---- storing ---- */

/* Where the callbacks of a flush find their job. */
struct flush {
    struct bh_import *import;
    int64_t key;
    struct bh_diag *diag;
};

static int put_keyframe(void *context, const struct bh_keyframe_info *info, const void *data,
                        size_t length)
{
    struct flush *flush = context;

    return bh_db_run(&flush->import->db, BH_IMPORT_SQL_KEYFRAME_INSERT, flush->diag, "iiiib",
                     flush->key, (int64_t)info->sequence, info->at_us, (int64_t)info->next_segment,
                     data, length);
}

static int put_loss(void *context, const struct bh_loss *loss)
{
    struct flush *flush = context;

    return bh_db_run(&flush->import->db, BH_IMPORT_SQL_LOSS_INSERT, flush->diag, "idiiii",
                     flush->key, (int)BH_LOSS_EVENTS, (int64_t)loss->sequence, loss->from_us,
                     loss->to_us, (int64_t)loss->count);
}

static int put_mark(void *context, const struct bh_mark *mark)
{
    struct flush *flush = context;

    return bh_db_run(&flush->import->db, BH_IMPORT_SQL_MARK_INSERT, flush->diag, "iiit", flush->key,
                     (int64_t)mark->sequence, mark->at_us, mark->label.bytes);
}

static int store_segments(struct bh_import *import, int64_t key,
                          const struct bh_import_events *events, struct bh_diag *diag)
{
    const struct bh_import_segment *list = (const void *)events->segments.data;
    size_t count = events->segments.length / sizeof *list;

    for (size_t i = 0; i < count; i++) {
        int result = bh_db_run(&import->db, BH_IMPORT_SQL_SEGMENT_INSERT, diag, "iiiiib", key,
                               (int64_t)list[i].number, (int64_t)list[i].first_sequence,
                               (int64_t)list[i].last_sequence, (int64_t)list[i].lost,
                               events->bytes.data + list[i].offset, (size_t)list[i].length);
        if (result >= 0 && list[i].names_length > 0)
            result = bh_db_run(&import->db, BH_IMPORT_SQL_DEFINITION_INSERT, diag, "iib", key,
                               (int64_t)list[i].number, events->names.data + list[i].names_offset,
                               (size_t)list[i].names_length);
        if (result < 0)
            return result;
    }
    return 0;
}

int bh_import_events_store(struct bh_import *import, const struct bh_import_job *job,
                           const struct bh_import_events *events, struct bh_diag *diag)
{
    struct flush flush = {.import = import, .key = job->row.key, .diag = diag};
    struct bh_import_levels levels;
    const struct bh_ingest_store store = {
        .levels = bh_import_levels(&levels, import, job, diag),
        .context = &flush,
        .keyframe = put_keyframe,
        .loss = put_loss,
        .mark = put_mark,
    };
    int result;

    if (!bh_import_events_any(events))
        return 0;
    result = store_segments(import, job->row.key, events, diag);
    if (result < 0)
        return result;
    result = bh_ingest_flush(job->ingest, &store);
    if (result < 0 && diag && diag->detail[0] == '\0')
        return bh_err_set(diag, result, NULL, "The trace cannot be stored");
    return result;
}

int bh_import_events_restore(struct bh_import *import, struct bh_import_job *job,
                             struct bh_diag *diag)
{
    struct bh_keyframe_store keyframes;
    struct bh_level_store levels;
    struct bh_trace_rows rows;
    int result = bh_ingest_new(trace_anchor(&job->place), &job->ingest);

    if (result < 0)
        return bh_err_set(diag, result, NULL, "Out of memory");
    bh_trace_rows_init(&rows, &import->db, job->row.key, job->row.id, trace_anchor(&job->place),
                       job->place.segments);
    keyframes = bh_trace_rows_keyframes(&rows);
    levels = bh_trace_rows_levels(&rows);
    result = bh_ingest_restore(job->ingest, &rows.source, &keyframes, &levels, job->place.segments);
    bh_trace_rows_done(&rows);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "The stored trace cannot be continued");
    return 0;
}
