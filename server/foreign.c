#include "server/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/crc32c.h"
#include "core/base/io.h"
#include "core/wire/le.h"
#include "server/foreign_names.h"

/* ingest.bin: u32 magic "BHIN", u16 version 1, u16 bytes 32, u64 committed bytes of events.bhe,
 * u64 last sequence, u32 reserved 0, u32 CRC-32C of the first 28. */
#define PLACE_MAGIC 0x4e494842u
#define PLACE_BYTES 32

/* The clock of a foreign log is the epoch itself; the base leaves room for times before 1970. */
#define BASE_NS (1ull << 62)

struct bh_foreign {
    int dirfd, fd; /* dirfd borrowed */
    struct bh_evlog_writer *writer;
    struct bh_foreign_names names;
    uint64_t committed, committed_last;
    uint64_t last;                    /* sequence, added or committed */
    struct bh_evlog_record *baseline; /* owned: entries of the baseline under way */
    size_t baseline_count, baseline_capacity;
};

/* ---- the place ---- */

static int read_place(int dirfd, uint64_t *ret_bytes, uint64_t *ret_last)
{
    struct bh_bytes bytes = {0};
    int result = bh_io_read_file(dirfd, BH_FOREIGN_PLACE_NAME, PLACE_BYTES, &bytes, NULL);

    *ret_bytes = *ret_last = 0;
    if (result >= 0) {
        const unsigned char *at = bytes.data;
        if (bytes.length != PLACE_BYTES || bh_le_get32(at) != PLACE_MAGIC ||
            bh_crc32c(0, at, 28) != bh_le_get32(at + 28)) {
            result = BH_E_MALFORMED;
        } else {
            *ret_bytes = bh_le_get64(at + 8);
            *ret_last = bh_le_get64(at + 16);
        }
    }
    bh_bytes_done(&bytes);
    return result == BH_E_NOT_FOUND ? 0 : result;
}

int bh_foreign_place(int dirfd, uint64_t *ret_bytes)
{
    uint64_t last;

    return read_place(dirfd, ret_bytes, &last);
}

static int write_place(struct bh_foreign *foreign, uint64_t bytes, struct bh_diag *diag)
{
    unsigned char place[PLACE_BYTES] = {0};

    bh_le_put32(place, PLACE_MAGIC);
    bh_le_put16(place + 4, 1);
    bh_le_put16(place + 6, PLACE_BYTES);
    bh_le_put64(place + 8, bytes);
    bh_le_put64(place + 16, foreign->last);
    bh_le_put32(place + 28, bh_crc32c(0, place, 28));
    return bh_io_replace(foreign->dirfd, BH_FOREIGN_PLACE_NAME, place, sizeof place, true, diag);
}

/* ---- opening ---- */

static int open_log(int dirfd, int *ret_fd, struct bh_diag *diag)
{
    int result = bh_io_open(dirfd, BH_EVLOG_FILE_NAME, O_RDWR | O_APPEND, ret_fd, NULL);

    if (result == BH_E_NOT_FOUND)
        result = bh_io_create(dirfd, BH_EVLOG_FILE_NAME, O_RDWR | O_APPEND, ret_fd, diag);
    else if (result < 0)
        return bh_err_set(diag, result, NULL, "The event log cannot be opened");
    return result;
}

static int load_names(struct bh_foreign *foreign, struct bh_diag *diag)
{
    struct bh_trace_file *file;
    int result = bh_foreign_names_init(&foreign->names);

    if (result < 0)
        return bh_err_set(diag, result, NULL, "Out of memory");
    if (foreign->committed == 0)
        return 0;
    result = bh_trace_file_open(foreign->dirfd, BH_EVLOG_FILE_NAME, &file, diag);
    if (result == BH_E_NO_TRACE)
        return 0;
    if (result < 0)
        return result;
    result = bh_foreign_names_load(&foreign->names, bh_trace_file_source(file));
    bh_trace_file_close(file);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "The event log's names cannot be read");
    return 0;
}

static int open_parts(struct bh_foreign *foreign, const char *id, struct bh_diag *diag)
{
    const struct bh_anchor anchor = {{BASE_NS}, {0}};
    int result = read_place(foreign->dirfd, &foreign->committed, &foreign->committed_last);

    if (result < 0)
        return bh_err_set(diag, result, NULL, "The mark of what is stored cannot be read");
    foreign->last = foreign->committed_last;
    result = open_log(foreign->dirfd, &foreign->fd, diag);
    if (result < 0)
        return result;
    /* what a request left that never ended */
    if (ftruncate(foreign->fd, (off_t)foreign->committed) < 0)
        return bh_err_sys(diag, errno, "The event log cannot be cut");
    result = load_names(foreign, diag);
    if (result >= 0)
        result = bh_evlog_writer_new(foreign->fd, id, anchor, &foreign->writer, diag);
    foreign->names.writer = foreign->writer;
    return result;
}

int bh_foreign_open(int dirfd, const char *id, struct bh_foreign **ret_foreign,
                    struct bh_diag *diag)
{
    struct bh_foreign *foreign = calloc(1, sizeof *foreign);
    int result;

    if (!foreign)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    foreign->dirfd = dirfd;
    foreign->fd = -1;
    result = open_parts(foreign, id, diag);
    if (result < 0) {
        bh_foreign_free(foreign);
        return result;
    }
    *ret_foreign = foreign;
    return 0;
}

void bh_foreign_free(struct bh_foreign *foreign)
{
    if (!foreign)
        return;
    bh_evlog_writer_free(foreign->writer);
    bh_foreign_names_done(&foreign->names);
    free(foreign->baseline);
    if (foreign->fd >= 0) {
        /* best effort: the next opening cuts too, and nobody reads behind the mark */
        if (ftruncate(foreign->fd, (off_t)foreign->committed) < 0)
            (void)errno;
        (void)close(foreign->fd);
    }
    free(foreign);
}

uint64_t bh_foreign_last(const struct bh_foreign *foreign)
{
    return foreign->last;
}

/* ---- events ---- */

int bh_foreign_action(const char *text, enum bh_evlog_kind *ret_action)
{
    static const enum bh_evlog_kind actions[] = {BH_EVLOG_ALLOC_NEW,         BH_EVLOG_ALLOC_REUSE,
                                                 BH_EVLOG_ALLOC_MAKE_BUFFER, BH_EVLOG_FREE_TO_CACHE,
                                                 BH_EVLOG_FREE_TO_OS,        BH_EVLOG_RELEASE,
                                                 BH_EVLOG_CACHE_TO_OS,       BH_EVLOG_LOST,
                                                 BH_EVLOG_BASELINE,          BH_EVLOG_MARK};

    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(bh_evlog_action_text((int)actions[i]), text) == 0) {
            *ret_action = actions[i];
            return 0;
        }
    }
    return BH_E_INVALID_VALUE;
}

static int check_number(uint64_t value, const char *field, struct bh_diag *diag)
{
    if (value > BH_FOREIGN_MAX_NUMBER)
        return bh_err_set(diag, BH_E_INVALID_VALUE, field, "%s is above 2^53 - 1", field);
    return 0;
}

static int check_event(const struct bh_foreign *foreign, const struct bh_foreign_event *event,
                       struct bh_diag *diag)
{
    int result = check_number(event->address, "addr", diag);

    if (result >= 0)
        result = check_number(event->size_bytes, "size", diag);
    if (result >= 0)
        result = check_number(event->has_sequence ? event->sequence : 0, "seq", diag);
    if (result < 0)
        return result;
    if (event->timestamp_us < 0 || (uint64_t)event->timestamp_us > BH_FOREIGN_MAX_NUMBER / 4)
        return bh_err_set(diag, BH_E_INVALID_VALUE, "timestamp_us",
                          "timestamp_us is microseconds since 1970, below 2^51");
    if (event->requested_bytes > event->size_bytes)
        return bh_err_set(diag, BH_E_INVALID_VALUE, "requested_size",
                          "requested_size is above size, the buffer's real size");
    if (event->stream < -1)
        return bh_err_set(diag, BH_E_INVALID_VALUE, "stream", "stream is -1 or an index");
    if (event->has_sequence && event->sequence <= foreign->last)
        return bh_err_set(diag, BH_E_SEQUENCE_BACK, "seq",
                          "seq %llu is not above the last one stored, %llu",
                          (unsigned long long)event->sequence, (unsigned long long)foreign->last);
    return 0;
}

static struct bh_mono time_of(const struct bh_foreign_event *event)
{
    return (struct bh_mono){BASE_NS + (uint64_t)event->timestamp_us * 1000};
}

/* The names of an event, defined before it. */
static int name_event(struct bh_foreign *foreign, const struct bh_foreign_event *event,
                      struct bh_evlog_record *record)
{
    struct bh_foreign_names *names = &foreign->names;
    int result =
        bh_foreign_name_image(names, event->pid, event->image, time_of(event), &record->image);

    if (result >= 0 && event->primitive)
        result = bh_foreign_name_string(names, event->primitive, strlen(event->primitive),
                                        &record->primitive);
    if (result >= 0 && event->frames)
        result = bh_foreign_name_stack(names, event->frames, event->frame_count, &record->stack);
    if (result >= 0 && event->label)
        result = bh_foreign_name_string(names, event->label, strlen(event->label), &record->text);
    return result;
}

/* A gap in the sender's numbers is a loss, and shown as one. The first event may have any number.
 */
static int add_gap(struct bh_foreign *foreign, const struct bh_foreign_event *event)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_LOST, .at = time_of(event)};
    int result;

    if (!event->has_sequence || foreign->last == 0 || event->sequence == foreign->last + 1)
        return 0;
    result =
        bh_foreign_name_image(&foreign->names, event->pid, event->image, record.at, &record.image);
    if (result < 0)
        return result;
    record.sequence = foreign->last + 1;
    record.count = event->sequence - foreign->last - 1;
    return bh_evlog_writer_add(foreign->writer, &record);
}

/* A baseline says at its start how many entries it has: it is held back until it ends. */
static int keep_baseline(struct bh_foreign *foreign, const struct bh_evlog_record *record)
{
    if (foreign->baseline_count == foreign->baseline_capacity) {
        size_t capacity = foreign->baseline_capacity ? foreign->baseline_capacity * 2 : 256;
        void *grown = realloc(foreign->baseline, capacity * sizeof *foreign->baseline);
        if (!grown)
            return BH_E_NOMEM;
        foreign->baseline = grown;
        foreign->baseline_capacity = capacity;
    }
    foreign->baseline[foreign->baseline_count++] = *record;
    return 0;
}

static int end_baseline(struct bh_foreign *foreign)
{
    struct bh_evlog_record begin = {.kind = BH_EVLOG_BASELINE_BEGIN};
    int result;

    if (foreign->baseline_count == 0)
        return 0;
    begin.at = foreign->baseline[0].at;
    begin.image = foreign->baseline[0].image;
    begin.count = foreign->baseline_count;
    result = bh_evlog_writer_add(foreign->writer, &begin);
    for (size_t i = 0; i < foreign->baseline_count && result >= 0; i++)
        result = bh_evlog_writer_add(foreign->writer, &foreign->baseline[i]);
    foreign->baseline_count = 0;
    return result;
}

static int write_event(struct bh_foreign *foreign, const struct bh_foreign_event *event)
{
    struct bh_evlog_record record = {
        .kind = event->action,
        .sequence = event->has_sequence ? event->sequence : foreign->last + 1,
        .at = time_of(event),
        .address = event->address,
        .size_bytes = event->size_bytes,
        .requested_bytes = event->requested_bytes,
        .stream = event->stream,
        .count = event->count,
        .cached = event->cached,
    };
    bool based = event->action == BH_EVLOG_BASELINE;
    int result = name_event(foreign, event, &record);

    if (result >= 0 &&
        (!based || (foreign->baseline_count > 0 && foreign->baseline[0].image != record.image)))
        result = end_baseline(foreign);
    if (result >= 0)
        result = add_gap(foreign, event);
    if (result >= 0)
        result =
            based ? keep_baseline(foreign, &record) : bh_evlog_writer_add(foreign->writer, &record);
    if (result >= 0)
        foreign->last = record.sequence;
    return result;
}

int bh_foreign_add(struct bh_foreign *foreign, const struct bh_foreign_event *event,
                   struct bh_diag *diag)
{
    int result = check_event(foreign, event, diag);

    if (result < 0)
        return result;
    result = write_event(foreign, event);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "The event cannot be stored: %s",
                          bh_err_title(result));
    return 0;
}

int bh_foreign_commit(struct bh_foreign *foreign, uint64_t *ret_last, struct bh_diag *diag)
{
    uint64_t bytes;
    int result = end_baseline(foreign);

    if (result >= 0)
        result = bh_evlog_writer_flush(foreign->writer);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "The events cannot be stored: %s",
                          bh_err_title(result));
    if (fdatasync(foreign->fd) < 0)
        return bh_err_sys(diag, errno, "The event log cannot be synced");
    bytes = bh_evlog_writer_bytes(foreign->writer);
    result = write_place(foreign, bytes, diag);
    if (result < 0)
        return result;
    foreign->committed = bytes;
    foreign->committed_last = foreign->last;
    *ret_last = foreign->last;
    return 0;
}
