/* events.bhe, or the same bytes in memory, as a source: an index of segment headers read once, then
 * one segment at a time. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/viz/source.h"
#include "core/wire/le.h"

struct entry {
    uint64_t offset;
    uint64_t first_sequence; /* UINT64_MAX: no events inside */
    uint32_t length;
    bool defines;
};

struct bh_trace_file {
    struct bh_trace_source source;
    int fd;                      /* -1: memory */
    const unsigned char *memory; /* borrowed */
    uint64_t bytes;              /* of all */
    uint64_t covered;            /* up to the last whole segment */
    struct entry *entries;
    size_t count, capacity;
    size_t at;
    bool defining_only;
    unsigned char buffer[BH_EVLOG_SEGMENT_BYTES];
};

static int read_at(struct bh_trace_file *file, uint64_t offset, size_t length,
                   const unsigned char **ret_data)
{
    if (offset > file->bytes || length > file->bytes - offset)
        return BH_E_TRUNCATED;
    if (file->memory) {
        *ret_data = file->memory + offset;
        return BH_OK;
    }
    size_t got;
    int error = bh_io_pread(file->fd, file->buffer, length, offset, &got);
    if (error < 0)
        return error;
    *ret_data = file->buffer;
    return got == length ? BH_OK : BH_E_TRUNCATED;
}

static int source_seek(void *context, uint64_t number, bool defining_only)
{
    struct bh_trace_file *file = context;
    file->at = number < file->count ? (size_t)number : file->count;
    file->defining_only = defining_only;
    return BH_OK;
}

static int source_next(void *context, const unsigned char **ret_data, size_t *ret_length)
{
    struct bh_trace_file *file = context;
    while (file->at < file->count && file->defining_only && !file->entries[file->at].defines)
        file->at++;
    if (file->at == file->count)
        return 0;
    const struct entry *entry = &file->entries[file->at++];
    int error = read_at(file, entry->offset, entry->length, ret_data);
    if (error < 0)
        return error;
    *ret_length = entry->length;
    return 1;
}

static int source_locate(void *context, uint64_t sequence, uint64_t *ret_number)
{
    const struct bh_trace_file *file = context;
    uint64_t number = 0;
    /* Sequences rise, but segments without events have none: a plain scan of the small index. */
    for (size_t i = 0; i < file->count; i++) {
        if (file->entries[i].first_sequence == UINT64_MAX)
            continue;
        if (file->entries[i].first_sequence > sequence)
            break;
        number = i;
    }
    *ret_number = number;
    return BH_OK;
}

static int add_entry(struct bh_trace_file *file, const struct entry *entry)
{
    if (file->count == file->capacity) {
        size_t capacity = file->capacity ? file->capacity * 2 : 64;
        struct entry *grown = realloc(file->entries, capacity * sizeof *grown);
        if (!grown)
            return BH_E_NOMEM;
        file->entries = grown;
        file->capacity = capacity;
    }
    file->entries[file->count++] = *entry;
    return BH_OK;
}

/* The index of the whole segments, by their headers. Bodies are checked when they are read. */
static int build_index(struct bh_trace_file *file)
{
    uint64_t offset = BH_EVLOG_HEADER_BYTES;
    const unsigned char *header;
    while (read_at(file, offset, BH_EVLOG_HEADER_BYTES, &header) == BH_OK) {
        if (bh_le_get32(header) != BH_EVLOG_SEGMENT_MAGIC)
            break;
        struct entry entry = {
            .offset = offset,
            .first_sequence = bh_le_get64(header + 24),
            .length = BH_EVLOG_HEADER_BYTES + bh_le_get32(header + 20),
            .defines = bh_le_get32(header + 12) > 0,
        };
        if (bh_le_get64(header + 32) < entry.first_sequence)
            entry.first_sequence = UINT64_MAX;
        if (entry.length > BH_EVLOG_SEGMENT_BYTES || bh_le_get32(header + 8) != file->count ||
            entry.length > file->bytes - offset)
            break;
        int error = add_entry(file, &entry);
        if (error < 0)
            return error;
        offset += entry.length;
    }
    file->covered = offset;
    return BH_OK;
}

static int open_file(struct bh_trace_file *file, struct bh_diag *diag)
{
    const unsigned char *header;
    int error = read_at(file, 0, BH_EVLOG_HEADER_BYTES, &header);
    if (error < 0)
        return bh_err_set(diag, error == BH_E_TRUNCATED ? BH_E_NO_TRACE : error, NULL,
                          "The event log is empty: nothing was recorded");
    error = bh_evlog_header_decode(header, BH_EVLOG_HEADER_BYTES, &file->source.header);
    if (error < 0)
        return bh_err_set(diag, error, NULL, "This is not an event log that can be read");
    error = build_index(file);
    if (error < 0)
        return bh_err_set(diag, error, NULL, "No memory for the event log's index");
    return BH_OK;
}

static struct bh_trace_file *new_file(void)
{
    struct bh_trace_file *file = calloc(1, sizeof *file);
    if (!file)
        return NULL;
    file->fd = -1;
    file->source = (struct bh_trace_source){
        .context = file, .seek = source_seek, .next = source_next, .locate = source_locate};
    return file;
}

int bh_trace_file_open(int dirfd, const char *name, struct bh_trace_file **ret_file,
                       struct bh_diag *diag)
{
    struct bh_trace_file *file = new_file();
    if (!file)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "No memory to read the event log");
    struct stat status;
    int error = bh_io_open(dirfd, name, O_RDONLY, &file->fd, diag);
    if (error == BH_E_NOT_FOUND)
        error =
            bh_err_set(diag, BH_E_NO_TRACE, NULL, "There is no event log: nothing was recorded");
    if (error >= 0 && fstat(file->fd, &status) != 0)
        error = bh_err_set(diag, BH_E_IO, NULL, "The event log cannot be inspected");
    if (error >= 0) {
        file->bytes = (uint64_t)status.st_size;
        error = open_file(file, diag);
    }
    if (error < 0) {
        bh_trace_file_close(file);
        return error;
    }
    *ret_file = file;
    return BH_OK;
}

int bh_trace_memory_open(const void *data, size_t length, struct bh_trace_file **ret_file,
                         struct bh_diag *diag)
{
    struct bh_trace_file *file = new_file();
    if (!file)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "No memory to read the event log");
    file->memory = data;
    file->bytes = length;
    int error = open_file(file, diag);
    if (error < 0) {
        bh_trace_file_close(file);
        return error;
    }
    *ret_file = file;
    return BH_OK;
}

void bh_trace_file_close(struct bh_trace_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        (void)close(file->fd);
    free(file->entries);
    free(file);
}

const struct bh_trace_source *bh_trace_file_source(const struct bh_trace_file *file)
{
    return &file->source;
}

uint64_t bh_trace_file_segments(const struct bh_trace_file *file)
{
    return file->count;
}

uint64_t bh_trace_file_rest_bytes(const struct bh_trace_file *file)
{
    return file->bytes - file->covered;
}
