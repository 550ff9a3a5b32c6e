/* The event list as JSON or NDJSON. */
#include "core/viz/events.h"

#include "core/base/json_out.h"
#include "core/viz/traceback.h"
#include "core/wire/evlog_record.h"

#define PIECE_BYTES 32768

struct writer {
    const struct bh_dictionary *dictionary;
    const struct bh_events_query *query;
    struct bh_sink sink;
    struct bh_traceback_cache tracebacks;
    struct bh_bytes out;
    int64_t began_us;
    uint64_t written;
    uint64_t next_from; /* 0 = nothing follows */
};

static int push_out(struct writer *writer, size_t least)
{
    if (writer->out.failed)
        return BH_E_NOMEM;
    if (writer->out.length < least || writer->out.length == 0)
        return BH_OK;
    int error = writer->sink.write(writer->sink.context, writer->out.data, writer->out.length);
    bh_bytes_clear(&writer->out);
    return error;
}

/* Foreign entries may lack both: unknown is null, not process 0. */
static void put_image(struct bh_json *json, const struct bh_dictionary *dictionary, uint32_t id)
{
    const struct bh_image *image = bh_dictionary_image(dictionary, id);
    if (image && image->pid > 0)
        bh_json_i64(json, "pid", image->pid);
    else
        bh_json_null(json, "pid");
    if (image && (image->pid > 0 || image->number > 0))
        bh_json_u64(json, "image", image->number);
    else
        bh_json_null(json, "image");
}

/* What only some actions have. */
static void put_special(struct bh_json *json, const struct bh_dictionary *dictionary,
                        const struct bh_evlog_record *record)
{
    if (record->kind == BH_EVLOG_LOST)
        bh_json_u64(json, "count", record->count);
    if (record->kind == BH_EVLOG_BASELINE)
        bh_json_string(json, "state", record->cached ? "cached" : "active");
    if (record->kind == BH_EVLOG_MARK) {
        struct bh_text label = bh_dictionary_string(dictionary, record->text);
        bh_json_text(json, "label", label.bytes, label.length);
    }
}

static int put_event(struct writer *writer, const struct bh_event *event)
{
    const struct bh_evlog_record *record = &event->record;
    bool buffer = record->kind <= BH_EVLOG_CACHE_TO_OS || record->kind == BH_EVLOG_BASELINE;
    uint64_t requested = record->requested_bytes;
    struct bh_text name = bh_dictionary_string(writer->dictionary, record->primitive);
    size_t length;
    const char *traceback = bh_traceback_get(&writer->tracebacks, record->stack, &length);
    if (!traceback)
        return BH_E_NOMEM;
    if (!writer->query->ndjson && writer->written > 0)
        bh_bytes_append(&writer->out, ",", 1);
    struct bh_json json;
    bh_json_begin(&json, &writer->out, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_u64(&json, "seq", record->sequence);
    put_image(&json, writer->dictionary, record->image);
    bh_json_u64(&json, "addr", buffer ? record->address : 0);
    bh_json_u64(&json, "size", buffer ? record->size_bytes : 0);
    if (requested > record->size_bytes)
        requested = record->size_bytes;
    bh_json_u64(&json, "requested_size", buffer ? requested : 0);
    bh_json_i64(&json, "timestamp_us", event->at_us);
    bh_json_i64(&json, "elapsed_us", event->at_us - writer->began_us);
    bh_json_string(&json, "action", bh_evlog_action_text((int)record->kind));
    if (record->primitive)
        bh_json_text(&json, "primitive_name", name.bytes, name.length);
    else
        bh_json_null(&json, "primitive_name");
    bh_json_i64(&json, "stream", record->stream);
    bh_json_raw(&json, "traceback", traceback, length);
    put_special(&json, writer->dictionary, record);
    bh_json_end(&json);
    if (writer->query->ndjson)
        bh_bytes_append(&writer->out, "\n", 1);
    writer->written++;
    return push_out(writer, PIECE_BYTES);
}

static int write_all(struct writer *writer, struct bh_join *join)
{
    const struct bh_event *event;
    int more;
    while ((more = bh_join_next(join, &event)) > 0) {
        if (!bh_evlog_kind_has_sequence(event->record.kind) ||
            event->record.sequence < writer->query->from)
            continue;
        if (writer->query->limit && writer->written == writer->query->limit) {
            writer->next_from = event->record.sequence;
            return BH_OK;
        }
        int error = put_event(writer, event);
        if (error < 0)
            return error;
    }
    return more;
}

/* The first time in the log: where elapsed_us counts from. */
static int find_beginning(struct writer *writer, const struct bh_trace_source *source)
{
    struct bh_evlog_segment segment;
    const unsigned char *data;
    size_t length;
    int more = source->seek(source->context, 0, false);
    if (more >= 0)
        more = source->next(source->context, &data, &length);
    if (more > 0)
        more = bh_evlog_segment_decode(data, length, &segment);
    if (more > 0)
        writer->began_us = bh_clock_epoch_us(source->header.anchor, segment.first_at);
    return more;
}

static int write_source(struct writer *writer, const struct bh_trace_source *source)
{
    struct bh_join join;
    uint64_t number = 0;
    int error = find_beginning(writer, source);
    if (error >= 0)
        error = source->locate(source->context, writer->query->from, &number);
    if (error >= 0)
        error = bh_join_begin(&join, source, number);
    if (error < 0)
        return error;
    error = write_all(writer, &join);
    bh_join_done(&join);
    return error;
}

static int write_body(struct writer *writer, const struct bh_trace_source *source)
{
    if (!writer->query->ndjson)
        bh_bytes_append_text(&writer->out, "{\"events\":[");
    int error = source ? write_source(writer, source) : BH_OK;
    if (error < 0)
        return error;
    if (!writer->query->ndjson && writer->next_from)
        bh_bytes_printf(&writer->out, "],\"next_from\":%llu}",
                        (unsigned long long)writer->next_from);
    else if (!writer->query->ndjson)
        bh_bytes_append_text(&writer->out, "],\"next_from\":null}");
    return push_out(writer, 0);
}

int bh_events_write(const struct bh_trace_source *source, const struct bh_dictionary *dictionary,
                    const struct bh_events_query *query, struct bh_sink sink, struct bh_diag *diag)
{
    struct writer writer = {.dictionary = dictionary, .query = query, .sink = sink};
    struct bh_dictionary *own = NULL;
    int error = BH_OK;
    if (!dictionary) {
        error = bh_dictionary_new(&own);
        if (error >= 0 && source)
            error = bh_dictionary_load(own, source);
        writer.dictionary = own;
    }
    if (error >= 0) {
        bh_traceback_begin(&writer.tracebacks, writer.dictionary);
        error = write_body(&writer, source);
        bh_traceback_done(&writer.tracebacks);
    }
    bh_bytes_done(&writer.out);
    bh_dictionary_free(own);
    if (error < 0)
        return bh_err_set(diag, error, NULL, "The events cannot be written: %s",
                          bh_err_title(error));
    return BH_OK;
}
