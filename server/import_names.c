/* Definitions apart from events: loading the names of a long trace reads a few kilobytes instead of
 * every segment that defines something. */
#include "core/wire/evlog_layout.h"
#include "core/wire/evlog_record.h"
#include "server/import_internal.h"

static void add_definition(const struct bh_evlog_record *record, struct bh_evlog_running *running,
                           struct bh_bytes *bytes)
{
    unsigned char data[BH_EVLOG_RECORD_BYTES];
    int length = bh_evlog_record_encode(running, record, data);

    /* it was decoded a moment ago, so it can be encoded */
    BH_BUG_ON(length < 0);
    bh_bytes_append(bytes, data, (size_t)length);
}

void bh_import_names_pack(const struct bh_evlog_segment *segment, struct bh_bytes *ret_bytes)
{
    struct bh_evlog_running running = {.time_ns = segment->first_at.ns};
    struct bh_evlog_segment names = {.number = segment->number, .first_sequence = 1};
    unsigned char header[BH_EVLOG_HEADER_BYTES] = {0};
    size_t start = ret_bytes->length;
    struct bh_evlog_cursor cursor;
    struct bh_evlog_record record;

    if (segment->definitions == 0)
        return;
    bh_bytes_append(ret_bytes, header, sizeof header);
    bh_evlog_cursor_open(&cursor, segment);
    while (bh_evlog_cursor_next(&cursor, &record) == 1) {
        if (!bh_evlog_kind_defines(record.kind))
            continue;
        add_definition(&record, &running, ret_bytes);
        names.records++;
    }
    if (ret_bytes->failed)
        return;
    names.definitions = names.records;
    names.first_at = segment->first_at;
    names.body = ret_bytes->data + start + sizeof header;
    names.body_bytes = (uint32_t)(ret_bytes->length - start - sizeof header);
    bh_evlog_segment_encode(&names, ret_bytes->data + start);
}
