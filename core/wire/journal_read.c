#include <stdlib.h>
#include <string.h>

#include "core/base/io.h"
#include "core/wire/journal.h"

#define BUFFER_BYTES 65536u
_Static_assert(BUFFER_BYTES >= 2 * BH_JOURNAL_MAX_RECORD, "a record always fits");

/* The three counters of the format. */
struct sequences {
    uint64_t decider;
    uint64_t scribe;
    uint64_t sample;
};

struct bh_journal_reader {
    int fd; /* borrowed */
    struct bh_journal_header header;
    struct sequences last;
    uint64_t offset; /* of the record at `start`: end of the valid prefix */
    int broken;      /* sticky error, 0 none */
    bool has_outcome;
    bool torn; /* bytes behind the last whole record */
    size_t start, used;
    unsigned char buffer[BUFFER_BYTES];
};

int bh_journal_reader_new(int fd, struct bh_journal_reader **ret_reader, struct bh_diag *diag)
{
    unsigned char bytes[BH_JOURNAL_HEADER_BYTES];
    size_t length = 0;
    struct bh_journal_header header;
    int result = bh_io_pread(fd, bytes, sizeof bytes, 0, &length);
    if (result == BH_OK)
        result = bh_journal_header_decode(bytes, length, &header);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "the journal's header cannot be read: %s",
                          bh_err_title(result));
    struct bh_journal_reader *reader = malloc(sizeof *reader);
    if (!reader)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "no memory to read the journal");
    memset(reader, 0, offsetof(struct bh_journal_reader, buffer));
    reader->fd = fd;
    reader->header = header;
    reader->offset = BH_JOURNAL_HEADER_BYTES;
    *ret_reader = reader;
    return BH_OK;
}

void bh_journal_reader_free(struct bh_journal_reader *reader)
{
    free(reader);
}

const struct bh_journal_header *bh_journal_reader_header(const struct bh_journal_reader *reader)
{
    return &reader->header;
}

uint64_t bh_journal_reader_offset(const struct bh_journal_reader *reader)
{
    return reader->offset;
}

enum bh_journal_end bh_journal_reader_end(const struct bh_journal_reader *reader)
{
    if (reader->broken)
        return BH_JOURNAL_CORRUPT;
    return reader->has_outcome && !reader->torn ? BH_JOURNAL_COMPLETE : BH_JOURNAL_TRUNCATED;
}

/* More bytes behind the buffered ones; ret_any false at the present end of the file. */
static int fill(struct bh_journal_reader *reader, bool *ret_any)
{
    size_t left = reader->used - reader->start;
    memmove(reader->buffer, reader->buffer + reader->start, left);
    reader->start = 0;
    reader->used = left;
    size_t length = 0;
    int result = bh_io_pread(reader->fd, reader->buffer + left, BUFFER_BYTES - left,
                             reader->offset + left, &length);
    if (result < 0)
        return result;
    reader->used += length;
    *ret_any = length > 0;
    return BH_OK;
}

/* Whether the record continues its counter; moves the counter on. */
static bool follows(struct sequences *last, const struct bh_record *record)
{
    uint64_t *counter = &last->decider;
    uint64_t gap = 0;
    if (record->by_scribe) {
        counter = &last->scribe;
    } else if (record->kind == BH_RECORD_SAMPLE) {
        counter = &last->sample;
        if (*counter == 0) /* a samples file begins anywhere */
            *counter = record->sequence - 1;
        if (record->sequence > *counter) /* samples may be dropped when the queue is short */
            gap = record->sequence - *counter - 1;
    } else if (record->kind == BH_RECORD_LOSSES) {
        gap = record->losses.records;
    }
    if (record->sequence == 0 || gap > INT64_MAX || record->sequence - *counter != 1 + gap)
        return false;
    *counter = record->sequence;
    return true;
}

/* 1, 0 (more bytes needed) or an error, as bh_record_decode. */
static int take(struct bh_journal_reader *reader, struct bh_record *ret_record)
{
    struct bh_record record;
    int length = bh_record_decode(reader->buffer + reader->start, reader->used - reader->start,
                                  reader->header.run_id, &record);
    if (length <= 0)
        return length;
    if (!follows(&reader->last, &record))
        return BH_E_MALFORMED;
    reader->start += (size_t)length;
    reader->offset += (uint64_t)length;
    reader->has_outcome |= record.kind == BH_RECORD_OUTCOME;
    *ret_record = record;
    return 1;
}

int bh_journal_reader_next(struct bh_journal_reader *reader, struct bh_record *ret_record)
{
    if (reader->broken)
        return reader->broken;
    for (;;) {
        int result = take(reader, ret_record);
        if (result < 0) {
            reader->broken = result;
            return result;
        }
        if (result == 1) {
            reader->torn = false;
            return 1;
        }
        bool any = false;
        result = fill(reader, &any);
        if (result < 0)
            return result;
        if (!any) {
            reader->torn = reader->used > reader->start;
            return 0;
        }
    }
}
