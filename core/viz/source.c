#include "core/viz/source.h"

int bh_trace_reader_begin(struct bh_trace_reader *reader, const struct bh_trace_source *source,
                          uint64_t number, bool defining_only)
{
    reader->source = source;
    reader->open = false;
    return source->seek(source->context, number, defining_only);
}

/* Opens the next segment: 1, or 0 at the end. */
static int open_segment(struct bh_trace_reader *reader)
{
    const unsigned char *data;
    size_t length;
    int more = reader->source->next(reader->source->context, &data, &length);
    if (more <= 0)
        return more;
    int used = bh_evlog_segment_decode(data, length, &reader->segment);
    if (used < 0)
        return used;
    if (used == 0 || (size_t)used != length)
        return BH_E_TRUNCATED;
    bh_evlog_cursor_open(&reader->cursor, &reader->segment);
    reader->open = true;
    return 1;
}

int bh_trace_reader_next(struct bh_trace_reader *reader, struct bh_evlog_record *ret_record)
{
    for (;;) {
        int more = reader->open ? bh_evlog_cursor_next(&reader->cursor, ret_record) : 0;
        if (more != 0)
            return more;
        more = open_segment(reader);
        if (more <= 0)
            return more;
    }
}
