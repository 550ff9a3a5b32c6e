/* Taking over an event log whose scribe died: find the last whole segment, cut what is behind it,
 * and learn the next free numbers. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/wire/evlog.h"
#include "core/wire/evlog_record.h"

static void raise_to(uint32_t *next, uint32_t used)
{
    if (used >= *next && used < UINT32_MAX)
        *next = used + 1;
}

static void note_record(struct bh_evlog_resume *resume, const struct bh_evlog_record *record)
{
    if (bh_evlog_kind_has_sequence(record->kind) && record->sequence >= resume->next_sequence)
        resume->next_sequence = record->sequence + 1;
    if (record->kind == BH_EVLOG_LOST)
        resume->lost += record->count;
    if (record->kind == BH_EVLOG_IMAGE)
        raise_to(&resume->next_image, record->image);
    if (record->kind == BH_EVLOG_STRING)
        raise_to(&resume->next_string, record->id);
    if (record->kind == BH_EVLOG_FRAME)
        raise_to(&resume->next_frame, record->id);
    if (record->kind == BH_EVLOG_STACK)
        raise_to(&resume->next_stack, record->stack);
}

static int note_segment(struct bh_evlog_resume *resume, const struct bh_evlog_segment *segment)
{
    struct bh_evlog_cursor cursor;
    struct bh_evlog_record record;
    bh_evlog_cursor_open(&cursor, segment);
    int more;
    while ((more = bh_evlog_cursor_next(&cursor, &record)) > 0)
        note_record(resume, &record);
    return more;
}

/* All whole segments from the file's header on; stops at the first that is not one. */
static int scan(int fd, struct bh_evlog_resume *resume, struct bh_diag *diag)
{
    BH_SCOPED_FREE unsigned char *data = malloc(BH_EVLOG_SEGMENT_BYTES);
    if (!data)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "No memory to read the event log");
    for (;;) {
        size_t got;
        int error = bh_io_pread(fd, data, BH_EVLOG_SEGMENT_BYTES, resume->bytes, &got);
        if (error < 0)
            return bh_err_set(diag, error, NULL, "The event log cannot be read");
        struct bh_evlog_segment segment;
        int length = bh_evlog_segment_decode(data, got, &segment);
        if (length <= 0 || segment.number != resume->segments)
            return BH_OK;
        error = note_segment(resume, &segment);
        if (error < 0)
            return bh_err_set(diag, error, NULL,
                              "Segment %llu of the event log has a record that cannot be read",
                              (unsigned long long)segment.number);
        resume->bytes += (uint64_t)length;
        resume->segments++;
    }
}

int bh_evlog_resume(int fd, struct bh_evlog_resume *ret_resume, struct bh_diag *diag)
{
    struct bh_evlog_resume resume = {
        .next_sequence = 1,
        .next_image = 1,
        .next_string = 1,
        .next_frame = 1,
        .next_stack = 1,
    };
    unsigned char bytes[BH_EVLOG_HEADER_BYTES];
    size_t got;
    int error = bh_io_pread(fd, bytes, sizeof bytes, 0, &got);
    if (error < 0)
        return bh_err_set(diag, error, NULL, "The event log cannot be read");
    if (got == sizeof bytes) {
        struct bh_evlog_header header;
        error = bh_evlog_header_decode(bytes, got, &header);
        if (error < 0)
            return bh_err_set(diag, error, NULL, "This file is not an event log");
        resume.bytes = BH_EVLOG_HEADER_BYTES;
        error = scan(fd, &resume, diag);
        if (error < 0)
            return error;
    }
    /* A shorter file is a header whose writer died: nothing is lost by starting again. */
    if (ftruncate(fd, (off_t)resume.bytes) != 0)
        return bh_err_sys(diag, errno, "The event log's torn end cannot be cut off");
    *ret_resume = resume;
    return BH_OK;
}
