/* The scribe's side of events.bhe: one segment in memory, written whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/io.h"
#include "core/wire/evlog_layout.h"
#include "core/wire/evlog_record.h"
#include "core/wire/le.h"

struct bh_evlog_writer {
    int fd; /* borrowed */
    int error;
    uint64_t bytes; /* of the file */
    uint64_t lost;
    uint64_t latest_ns;              /* greatest time written so far */
    struct bh_evlog_segment segment; /* the one under way */
    struct bh_evlog_running running;
    bool timed;
    unsigned char data[BH_EVLOG_SEGMENT_BYTES];
};

static void begin_segment(struct bh_evlog_writer *writer, uint64_t number)
{
    writer->segment = (struct bh_evlog_segment){
        .number = number,
        .first_sequence = 1,
        .last_sequence = 0,
        .first_at.ns = writer->latest_ns,
        .body = writer->data + BH_EVLOG_HEADER_BYTES,
    };
    writer->running = (struct bh_evlog_running){.time_ns = writer->latest_ns};
    writer->timed = false;
}

/* Greatest time of a segment, which starts with the greatest of all before. */
static int read_latest(struct bh_evlog_writer *writer, uint64_t offset, struct bh_diag *diag)
{
    struct bh_evlog_segment segment;
    struct bh_evlog_cursor cursor;
    struct bh_evlog_record record;
    size_t got;
    int error = bh_io_pread(writer->fd, writer->data, sizeof writer->data, offset, &got);
    if (error >= 0)
        error = bh_evlog_segment_decode(writer->data, got, &segment);
    if (error <= 0)
        return bh_err_set(diag, error < 0 ? error : BH_E_TRUNCATED, NULL,
                          "The event log's last segment cannot be read: resume it first");
    writer->latest_ns = segment.first_at.ns;
    bh_evlog_cursor_open(&cursor, &segment);
    while ((error = bh_evlog_cursor_next(&cursor, &record)) > 0) {
        if (record.at.ns > writer->latest_ns)
            writer->latest_ns = record.at.ns;
    }
    return error < 0 ? bh_err_set(diag, error, NULL, "The event log's last segment is damaged")
                     : BH_OK;
}

/* Number of segments in a file of whole segments, by hopping over the headers. */
static int count_segments(struct bh_evlog_writer *writer, uint64_t file_bytes, uint64_t *ret_count,
                          struct bh_diag *diag)
{
    uint64_t offset = BH_EVLOG_HEADER_BYTES, count = 0, last = 0;
    while (offset < file_bytes) {
        unsigned char header[BH_EVLOG_HEADER_BYTES];
        size_t got;
        int error = bh_io_pread(writer->fd, header, sizeof header, offset, &got);
        if (error < 0)
            return bh_err_set(diag, error, NULL, "The event log cannot be read");
        if (got < sizeof header || bh_le_get32(header) != BH_EVLOG_SEGMENT_MAGIC)
            return bh_err_set(diag, BH_E_MALFORMED, NULL,
                              "The event log does not end with a whole segment: resume it first");
        last = offset;
        offset += BH_EVLOG_HEADER_BYTES + bh_le_get32(header + 20);
        count++;
    }
    *ret_count = count;
    return count ? read_latest(writer, last, diag) : BH_OK;
}

static int start_file(struct bh_evlog_writer *writer, const struct bh_evlog_header *header,
                      struct bh_diag *diag)
{
    struct stat status;
    if (fstat(writer->fd, &status) != 0)
        return bh_err_sys(diag, errno, "The event log cannot be inspected");
    uint64_t segments = 0;
    int error;
    if (status.st_size == 0) {
        unsigned char bytes[BH_EVLOG_HEADER_BYTES];
        bh_evlog_header_encode(header, bytes);
        error = bh_io_write_full(writer->fd, bytes, sizeof bytes);
        if (error < 0)
            return bh_err_set(diag, error, NULL, "The event log cannot be written");
        writer->bytes = sizeof bytes;
    } else {
        writer->bytes = (uint64_t)status.st_size;
        error = count_segments(writer, writer->bytes, &segments, diag);
        if (error < 0)
            return error;
    }
    begin_segment(writer, segments);
    return BH_OK;
}

int bh_evlog_writer_new(int fd, const char *run_id, struct bh_anchor anchor,
                        struct bh_evlog_writer **ret_writer, struct bh_diag *diag)
{
    struct bh_evlog_header header = {.anchor = anchor};
    memcpy(header.run_id, run_id, strnlen(run_id, BH_JOB_ID_SIZE - 1));
    struct bh_evlog_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "No memory for the event log's segment");
    writer->fd = fd;
    int error = start_file(writer, &header, diag);
    if (error < 0) {
        free(writer);
        return error;
    }
    *ret_writer = writer;
    return BH_OK;
}

int bh_evlog_writer_flush(struct bh_evlog_writer *writer)
{
    struct bh_evlog_segment *segment = &writer->segment;
    if (writer->error < 0 || segment->records == 0)
        return writer->error;
    bh_evlog_segment_encode(segment, writer->data);
    size_t length = BH_EVLOG_HEADER_BYTES + segment->body_bytes;
    int error = bh_io_write_full(writer->fd, writer->data, length);
    if (error < 0) {
        writer->error = error;
        return error;
    }
    writer->bytes += length;
    begin_segment(writer, segment->number + 1);
    return BH_OK;
}

bool bh_evlog_writer_has_room(const struct bh_evlog_writer *writer, size_t records)
{
    size_t room = BH_EVLOG_SEGMENT_BYTES - BH_EVLOG_HEADER_BYTES - writer->segment.body_bytes;
    return room >= BH_EVLOG_RECORD_BYTES + records * BH_EVLOG_SMALL_RECORD_BYTES;
}

int bh_evlog_writer_add(struct bh_evlog_writer *writer, const struct bh_evlog_record *record)
{
    struct bh_evlog_segment *segment = &writer->segment;
    size_t room = BH_EVLOG_SEGMENT_BYTES - BH_EVLOG_HEADER_BYTES - segment->body_bytes;
    if (room < BH_EVLOG_RECORD_BYTES) {
        int error = bh_evlog_writer_flush(writer);
        if (error < 0)
            return error;
    }
    if (writer->error < 0)
        return writer->error;
    if (segment->records == 0)
        segment->lost_before = writer->lost;
    if (bh_evlog_kind_has_time(record->kind)) {
        if (record->at.ns > writer->latest_ns)
            writer->latest_ns = record->at.ns;
        if (!writer->timed) {
            segment->first_at.ns = writer->latest_ns;
            writer->running.time_ns = writer->latest_ns;
            writer->timed = true;
        }
    }
    unsigned char *at = writer->data + BH_EVLOG_HEADER_BYTES + segment->body_bytes;
    int length = bh_evlog_record_encode(&writer->running, record, at);
    if (length < 0)
        return length;
    segment->body_bytes += (uint32_t)length;
    segment->records++;
    segment->definitions += bh_evlog_kind_defines(record->kind);
    if (bh_evlog_kind_has_sequence(record->kind)) {
        if (segment->last_sequence == 0)
            segment->first_sequence = record->sequence;
        segment->last_sequence = record->sequence;
    }
    return BH_OK;
}

void bh_evlog_writer_set_lost(struct bh_evlog_writer *writer, uint64_t lost)
{
    writer->lost = lost;
}

uint64_t bh_evlog_writer_bytes(const struct bh_evlog_writer *writer)
{
    return writer->bytes;
}

void bh_evlog_writer_free(struct bh_evlog_writer *writer)
{
    free(writer);
}
