/* Builds event logs in memory for tests of core/viz: an allocator in miniature that writes the
 * records the drain would write, and remembers what is live. Header-only; include after cmocka.h.
 */
#ifndef BH_TESTS_VIZ_LOG_H
#define BH_TESTS_VIZ_LOG_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/viz/source.h"
#include "core/wire/evlog.h"

#define VIZ_RUN_ID   "0mhq2v9k3dx7c1p5n8tb"
#define VIZ_BOOT_NS  5000000000ull
#define VIZ_EPOCH_US 1796002200000000ll

struct viz_log {
    int fd;
    struct bh_evlog_writer *writer;
    uint64_t sequence; /* last one used */
    uint64_t now_ns;   /* time of the next record */
    uint64_t step_ns;  /* added after each */
    uint32_t image, images, strings, frames, stacks;
    struct bh_bytes bytes; /* after viz_log_source */
    struct bh_trace_file *file;
};

static inline void viz_log_open(struct viz_log *log)
{
    char path[] = "/tmp/bh-viz-XXXXXX";
    *log = (struct viz_log){.now_ns = VIZ_BOOT_NS, .step_ns = 1000};
    log->fd = mkstemp(path);
    assert_true(log->fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fcntl(log->fd, F_SETFL, O_APPEND), 0);
    struct bh_anchor anchor = {{VIZ_BOOT_NS}, {VIZ_EPOCH_US}};
    assert_int_equal(bh_evlog_writer_new(log->fd, VIZ_RUN_ID, anchor, &log->writer, NULL), 0);
}

static inline void viz_log_add(struct viz_log *log, struct bh_evlog_record record)
{
    record.at.ns = log->now_ns;
    log->now_ns += log->step_ns;
    assert_int_equal(bh_evlog_writer_add(log->writer, &record), 0);
}

static inline uint32_t viz_log_string(struct viz_log *log, const char *text)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_STRING,
                                     .id = ++log->strings,
                                     .string = text,
                                     .string_length = strlen(text)};
    assert_int_equal(bh_evlog_writer_add(log->writer, &record), 0);
    return log->strings;
}

static inline uint32_t viz_log_frame(struct viz_log *log, const char *file, const char *function,
                                     uint32_t line)
{
    uint32_t file_id = viz_log_string(log, file), function_id = viz_log_string(log, function);
    struct bh_evlog_record record = {.kind = BH_EVLOG_FRAME,
                                     .id = ++log->frames,
                                     .file = file_id,
                                     .function = function_id,
                                     .line = line};
    assert_int_equal(bh_evlog_writer_add(log->writer, &record), 0);
    return log->frames;
}

/* Innermost first. */
static inline uint32_t viz_log_stack(struct viz_log *log, const uint32_t *frames, uint32_t count)
{
    struct bh_evlog_record record = {
        .kind = BH_EVLOG_STACK, .stack = ++log->stacks, .frames = frames, .frame_count = count};
    assert_int_equal(bh_evlog_writer_add(log->writer, &record), 0);
    return log->stacks;
}

static inline uint32_t viz_log_image(struct viz_log *log, int pid)
{
    viz_log_add(log, (struct bh_evlog_record){.kind = BH_EVLOG_IMAGE,
                                              .image = ++log->images,
                                              .pid = pid,
                                              .start_token = 77,
                                              .stream = -1});
    log->image = log->images;
    return log->images;
}

/* An event of the present image; answers its sequence. */
static inline uint64_t viz_log_event(struct viz_log *log, enum bh_evlog_kind kind, uint64_t address,
                                     uint64_t size, uint64_t requested)
{
    viz_log_add(log, (struct bh_evlog_record){.kind = kind,
                                              .sequence = ++log->sequence,
                                              .image = log->image,
                                              .address = address,
                                              .size_bytes = size,
                                              .requested_bytes = requested,
                                              .thread = 11,
                                              .stream = -1});
    return log->sequence;
}

static inline void viz_log_link(struct viz_log *log, uint64_t sequence, uint32_t stack,
                                uint32_t primitive, int32_t stream)
{
    viz_log_add(log, (struct bh_evlog_record){.kind = BH_EVLOG_LINK,
                                              .sequence = sequence,
                                              .image = log->image,
                                              .stack = stack,
                                              .primitive = primitive,
                                              .stream = stream});
}

/* Ends the writing and opens the log as a source. */
static inline const struct bh_trace_source *viz_log_source(struct viz_log *log)
{
    assert_int_equal(bh_evlog_writer_flush(log->writer), 0);
    if (log->file)
        bh_trace_file_close(log->file);
    off_t size = lseek(log->fd, 0, SEEK_END);
    size_t got;
    bh_bytes_clear(&log->bytes);
    unsigned char *room = bh_bytes_reserve(&log->bytes, (size_t)size);
    assert_non_null(room);
    assert_int_equal(bh_io_pread(log->fd, room, (size_t)size, 0, &got), 0);
    log->bytes.length = got;
    struct bh_diag diag = {"", ""};
    int error = bh_trace_memory_open(log->bytes.data, log->bytes.length, &log->file, &diag);
    if (error < 0)
        fail_msg("%s", diag.detail);
    return bh_trace_file_source(log->file);
}

static inline void viz_log_close(struct viz_log *log)
{
    bh_trace_file_close(log->file);
    bh_evlog_writer_free(log->writer);
    bh_bytes_done(&log->bytes);
    close(log->fd);
}

#endif
