/* Synthetic runs for the store's tests and measurements: a state folder with run directories whose
 * journal and event log grow on demand, the same for the same seed, with the allocator's sums kept
 * beside them as the answer to compare with. Every write goes through the writers of core/wire. */
#ifndef BH_TESTS_TRACE_MAKER_H
#define BH_TESTS_TRACE_MAKER_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/wire/evlog.h"
#include "core/wire/journal.h"
#include "core/wire/spec_file.h"

#define MAKER_ID       "0mhq2v9k3dx7c1p5n8tb"
#define MAKER_MONO_NS  86400500000000ull
#define MAKER_EPOCH_US 1796002200120000ll
#define MAKER_LIVE_MAX 65536u

struct maker_buffer {
    uint64_t address, size, sequence;
    uint32_t stack, primitive;
    bool cached, linked;
};

/* The sums right after an event, when the history is kept. */
struct maker_instant {
    int64_t at_us;
    uint64_t active, reserved;
};

struct maker {
    char state[128]; /* the state folder */
    char id[BH_JOB_ID_SIZE];
    int jobs_fd, dirfd, events_fd, journal_fd;
    struct bh_evlog_writer *writer;
    uint64_t random;
    uint64_t now_ns;
    uint64_t sequence;         /* of the last event */
    uint64_t journal_sequence; /* of the last decider's record */
    uint64_t scribe_sequence;
    uint64_t sampled_ns; /* end of the last SAMPLES */
    uint32_t strings, frames, stacks, image;
    struct maker_buffer *live; /* owned */
    uint32_t live_count, live_wanted;
    uint64_t next_address;
    uint64_t active, reserved, peak, peak_sequence; /* the oracle */
    struct maker_buffer late;                       /* an allocation whose link comes later */
    bool has_late;
    bool keep_history;
    struct maker_instant *history; /* owned */
    size_t history_count, history_capacity;
};

static inline void maker_check(int result)
{
    if (result < 0) {
        (void)fprintf(stderr, "trace_maker: %s\n", bh_err_code(result));
        abort();
    }
}

static inline uint32_t maker_random(struct maker *maker, uint32_t below)
{
    maker->random = maker->random * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((maker->random >> 33) % below);
}

/* ---- the folder ---- */

static inline void maker_state_in(struct maker *maker, const char *folder)
{
    int fd = -1;

    (void)snprintf(maker->state, sizeof maker->state, "%s/bh-trace-XXXXXX", folder);
    if (!mkdtemp(maker->state))
        abort();
    maker_check(bh_io_open_dir(AT_FDCWD, maker->state, &fd, NULL));
    maker_check(bh_io_make_dir(fd, "jobs", false, &maker->jobs_fd, NULL));
    (void)close(fd);
}

static inline void maker_state(struct maker *maker)
{
    maker_state_in(maker, "/tmp");
}

static inline void maker_spec(struct maker *maker, bool external)
{
    static const char *const argv[] = {"python3", "leaky.py"};
    struct bh_bytes bytes = {0};
    struct bh_job_spec spec;

    bh_job_spec_init(&spec);
    (void)snprintf(spec.id, sizeof spec.id, "%s", maker->id);
    spec.name = "leaky";
    spec.argv = argv;
    spec.argc = 2;
    spec.mode = external ? BH_MODE_OBSERVE : BH_MODE_ENFORCE;
    spec.external = external;
    spec.limit_bytes = external ? 0 : 1u << 30;
    spec.created_at.us = MAKER_EPOCH_US - 35000;
    if (external)
        spec.argc = 0;
    maker_check(bh_spec_file_encode(&spec, &bytes, NULL));
    maker_check(
        bh_io_replace(maker->dirfd, BH_SPEC_FILE_NAME, bytes.data, bytes.length, false, NULL));
    bh_bytes_done(&bytes);
}

static inline struct bh_anchor maker_anchor(void)
{
    return (struct bh_anchor){{MAKER_MONO_NS}, {MAKER_EPOCH_US}};
}

/* A run directory with spec, journal header and event log header. */
static inline void maker_run(struct maker *maker, const char *id, uint64_t seed)
{
    struct bh_journal_header header = {.anchor = maker_anchor()};
    unsigned char bytes[BH_JOURNAL_HEADER_BYTES];

    (void)snprintf(maker->id, sizeof maker->id, "%s", id);
    (void)snprintf(header.run_id, sizeof header.run_id, "%s", id);
    maker->random = seed;
    maker->now_ns = MAKER_MONO_NS;
    maker->next_address = 0x7f0000000000ull;
    maker->live_wanted = 2000;
    maker->live = calloc(MAKER_LIVE_MAX, sizeof *maker->live);
    if (!maker->live)
        abort();
    maker_check(bh_io_make_dir(maker->jobs_fd, id, false, &maker->dirfd, NULL));
    maker_spec(maker, false);
    maker_check(bh_io_create(maker->dirfd, BH_JOURNAL_FILE_NAME, O_WRONLY | O_APPEND,
                             &maker->journal_fd, NULL));
    bh_journal_header_encode(&header, bytes);
    maker_check(bh_io_write_full(maker->journal_fd, bytes, sizeof bytes));
    maker_check(
        bh_io_create(maker->dirfd, BH_EVLOG_FILE_NAME, O_RDWR | O_APPEND, &maker->events_fd, NULL));
    maker_check(bh_evlog_writer_new(maker->events_fd, id, maker_anchor(), &maker->writer, NULL));
}

static inline void maker_run_close(struct maker *maker)
{
    bh_evlog_writer_free(maker->writer);
    (void)close(maker->events_fd);
    (void)close(maker->journal_fd);
    (void)close(maker->dirfd);
    free(maker->live);
    free(maker->history);
    maker->writer = NULL;
    maker->live = NULL;
    maker->history = NULL;
}

static inline void maker_done(struct maker *maker)
{
    (void)close(maker->jobs_fd);
    maker_check(bh_io_remove_tree(AT_FDCWD, maker->state, NULL));
}

/* ---- the journal ---- */

static inline void maker_record(struct maker *maker, struct bh_record *record)
{
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    int length;

    record->sequence = record->by_scribe ? ++maker->scribe_sequence : ++maker->journal_sequence;
    record->at.ns = maker->now_ns;
    length = bh_record_encode(record, maker->id, bytes, sizeof bytes);
    maker_check(length);
    maker_check(bh_io_write_full(maker->journal_fd, bytes, (size_t)length));
}

static inline struct bh_observed maker_bytes(uint64_t value)
{
    return (struct bh_observed){BH_VALUE_AVAILABLE, value};
}

static inline void maker_begin(struct maker *maker)
{
    struct bh_record record = {.kind = BH_RECORD_CONFIG};

    record.config.mode = BH_MODE_ENFORCE;
    record.config.limit_bytes = 1u << 30;
    record.config.warning_bytes = 966367641;
    record.config.recovery_bytes = 858993459;
    record.config.emergency_bytes = 1181116006;
    record.config.breach_count = 2;
    record.config.max_unusable = 3;
    record.config.interval_ns = 50000000;
    record.config.min_interval_ns = 250000;
    record.config.stop_signal = 15;
    (void)strcpy(record.config.executable, "python3");
    record.config.argument_count = 1;
    maker_record(maker, &record);
    record = (struct bh_record){.kind = BH_RECORD_HOST};
    record.host.boundary = BH_BOUNDARY_SAMPLED;
    record.host.page_bytes = 4096;
    record.host.memory_bytes = 16ull << 30;
    (void)strcpy(record.host.os, "linux");
    (void)strcpy(record.host.metric, "RssAnon");
    maker_record(maker, &record);
    record = (struct bh_record){.kind = BH_RECORD_LAUNCHED};
    record.launched.root_pid = 4121;
    record.launched.group = 4121;
    record.launched.started_at.us = MAKER_EPOCH_US;
    maker_record(maker, &record);
}

/* A second of samples that ends now, or what is left of it since the last ones. */
static inline void maker_samples(struct maker *maker, uint64_t min, uint64_t max)
{
    struct bh_record record = {.kind = BH_RECORD_SAMPLES, .by_scribe = true};

    record.samples.from.ns = maker->now_ns - 1000000000;
    if (record.samples.from.ns < maker->sampled_ns)
        record.samples.from.ns = maker->sampled_ns;
    record.samples.to.ns = maker->now_ns;
    record.samples.max_at.ns = maker->now_ns - 200000000;
    maker->sampled_ns = maker->now_ns;
    record.samples.count = 20;
    record.samples.min = maker_bytes(min);
    record.samples.max = maker_bytes(max);
    record.samples.last = maker_bytes(max - 1);
    record.samples.members = 1;
    maker_record(maker, &record);
}

/* samples.0 or samples.1: full-rate readings from a time on, 50 ms apart. */
static inline void maker_samples_file(struct maker *maker, const char *name, uint64_t from_ns,
                                      const uint64_t *bytes, size_t count)
{
    struct bh_journal_header header = {.anchor = maker_anchor()};
    unsigned char data[BH_JOURNAL_MAX_RECORD];
    struct bh_bytes file = {0};

    (void)snprintf(header.run_id, sizeof header.run_id, "%s", maker->id);
    bh_journal_header_encode(&header, data);
    bh_bytes_append(&file, data, BH_JOURNAL_HEADER_BYTES);
    for (size_t i = 0; i < count; i++) {
        struct bh_record record = {.kind = BH_RECORD_SAMPLE, .sequence = 100 + i};
        int length;
        record.at.ns = from_ns + i * 50000000;
        record.sample.captured_at = record.sample.processed_at = record.at;
        record.sample.bytes = maker_bytes(bytes[i]);
        length = bh_record_encode(&record, maker->id, data, sizeof data);
        maker_check(length);
        bh_bytes_append(&file, data, (size_t)length);
    }
    maker_check(bh_io_replace(maker->dirfd, name, file.data, file.length, false, NULL));
    bh_bytes_done(&file);
}

static inline void maker_limit_crossed(struct maker *maker, uint64_t bytes)
{
    struct bh_record record = {.kind = BH_RECORD_LIMIT_CROSSED};

    record.limit_crossed.bytes = bytes;
    record.limit_crossed.limit_bytes = 1u << 30;
    maker_record(maker, &record);
}

static inline void maker_transition(struct maker *maker, uint8_t from, uint8_t to)
{
    struct bh_record record = {.kind = BH_RECORD_TRANSITION};

    record.transition.from = from;
    record.transition.to = to;
    record.transition.bytes = maker_bytes(1096847360);
    maker_record(maker, &record);
}

static inline void maker_signal(struct maker *maker)
{
    struct bh_record record = {.kind = BH_RECORD_SIGNAL};

    record.signal.signal = 15;
    record.signal.target = BH_TARGET_TREE;
    record.signal.result = BH_SIGNAL_DELIVERED;
    record.signal.reached = 1;
    (void)strcpy(record.signal.reason, "not_negotiated");
    maker_record(maker, &record);
}

static inline void maker_outcome(struct maker *maker)
{
    struct bh_record record = {.kind = BH_RECORD_OUTCOME};

    record.outcome.kind = BH_OUTCOME_POLICY_INTERVENTION;
    record.outcome.cause = BH_CAUSE_LIMIT_EXCEEDED;
    record.outcome.exit_code = -1;
    record.outcome.signal = 15;
    record.outcome.reported_exit_code = 75;
    record.outcome.final_bytes = maker_bytes(1096847360);
    record.outcome.peak_bytes = maker_bytes(1122013184);
    record.outcome.peak_at.ns = maker->now_ns - 1000;
    maker_record(maker, &record);
}

/* ---- the event log ---- */

static inline void maker_add(struct maker *maker, const struct bh_evlog_record *record)
{
    maker_check(bh_evlog_writer_add(maker->writer, record));
}

static inline void maker_remember(struct maker *maker)
{
    if (maker->history_count == maker->history_capacity) {
        maker->history_capacity = maker->history_capacity ? maker->history_capacity * 2 : 4096;
        maker->history = realloc(maker->history, maker->history_capacity * sizeof *maker->history);
        if (!maker->history)
            abort();
    }
    maker->history[maker->history_count++] =
        (struct maker_instant){bh_clock_epoch_us(maker_anchor(), (struct bh_mono){maker->now_ns}),
                               maker->active, maker->reserved};
}

static inline void maker_image(struct maker *maker)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_IMAGE, .at.ns = maker->now_ns};

    record.image = ++maker->image;
    record.pid = 4120 + (int)maker->image;
    record.start_token = 77;
    maker_add(maker, &record);
    if (maker->keep_history) /* nothing is held from here on, until the first event */
        maker_remember(maker);
}

static inline uint32_t maker_string(struct maker *maker, const char *text)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_STRING, .id = ++maker->strings};

    record.string = text;
    record.string_length = strlen(text);
    maker_add(maker, &record);
    return maker->strings;
}

/* A new stack of two frames, one of them new. */
static inline uint32_t maker_stack(struct maker *maker)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_FRAME, .id = ++maker->frames};
    uint32_t frames[2];
    char text[64];

    (void)snprintf(text, sizeof text, "function_%u", maker->frames);
    record.function = maker_string(maker, text);
    if (maker->frames == 1)
        (void)maker_string(maker, "/home/ada/work/leaky.py");
    record.file = 2;
    record.line = 10 + maker->frames;
    maker_add(maker, &record);
    frames[0] = maker->frames;
    frames[1] = 1;
    record = (struct bh_evlog_record){.kind = BH_EVLOG_STACK, .stack = ++maker->stacks};
    record.frames = frames;
    record.frame_count = maker->frames > 1 ? 2 : 1;
    maker_add(maker, &record);
    return maker->stacks;
}

static inline void maker_link(struct maker *maker, struct maker_buffer *buffer)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_LINK, .sequence = buffer->sequence};

    record.image = maker->image;
    record.stack = buffer->stack;
    record.primitive = buffer->primitive;
    record.stream = 0;
    maker_add(maker, &record);
}

static inline void maker_event(struct maker *maker, enum bh_evlog_kind kind,
                               const struct maker_buffer *buffer)
{
    struct bh_evlog_record record = {.kind = kind, .sequence = ++maker->sequence};

    maker->now_ns += 400 + maker_random(maker, 1200);
    record.at.ns = maker->now_ns;
    record.image = maker->image;
    record.address = buffer->address;
    record.size_bytes = buffer->size;
    record.requested_bytes = buffer->size - buffer->size / 16;
    record.thread = 1;
    record.stream = buffer->linked ? 0 : -1;
    if (kind >= BH_EVLOG_FREE_TO_CACHE && buffer->linked) {
        record.stack = buffer->stack;
        record.primitive = buffer->primitive;
    }
    maker_add(maker, &record);
    if (maker->active > maker->peak) {
        maker->peak = maker->active;
        maker->peak_sequence = maker->sequence;
    }
    if (maker->keep_history)
        maker_remember(maker);
}

static inline void maker_alloc(struct maker *maker, uint32_t reuse)
{
    struct maker_buffer *buffer;
    enum bh_evlog_kind kind = BH_EVLOG_ALLOC_REUSE;

    if (reuse < maker->live_count && maker->live[reuse].cached) {
        buffer = &maker->live[reuse];
        buffer->cached = false;
    } else {
        kind = BH_EVLOG_ALLOC_NEW;
        buffer = &maker->live[maker->live_count++];
        buffer->size = 1024ull * (1 + maker_random(maker, 64));
        buffer->address = maker->next_address;
        maker->next_address += buffer->size + 4096;
        if (maker->next_address > 0x7fff00000000ull)
            maker->next_address = 0x7f0000000000ull;
        maker->reserved += buffer->size;
        buffer->cached = false;
    }
    buffer->linked = false;
    maker->active += buffer->size;
    buffer->stack = 1 + maker_random(maker, maker->stacks);
    buffer->primitive = 1 + maker_random(maker, maker->strings < 5 ? maker->strings : 5);
    maker_event(maker, kind, buffer);
    buffer->sequence = maker->sequence;
    if (maker->has_late) {
        maker_link(maker, &maker->late);
        maker->has_late = false;
    }
    if (maker_random(maker, 16) == 0) { /* its link comes with the next allocation */
        maker->late = *buffer;
        maker->has_late = true;
    } else {
        maker_link(maker, buffer);
    }
    buffer->linked = true;
}

static inline void maker_free(struct maker *maker, uint32_t at)
{
    struct maker_buffer *buffer = &maker->live[at];

    if (!buffer->cached && maker_random(maker, 4)) {
        maker->active -= buffer->size;
        buffer->cached = true;
        maker_event(maker, BH_EVLOG_FREE_TO_CACHE, buffer);
        return;
    }
    if (!buffer->cached)
        maker->active -= buffer->size;
    maker->reserved -= buffer->size;
    maker_event(maker, buffer->cached ? BH_EVLOG_CACHE_TO_OS : BH_EVLOG_FREE_TO_OS, buffer);
    *buffer = maker->live[--maker->live_count];
}

/* count events around live_wanted buffers; now and then a new stack. */
static inline void maker_events(struct maker *maker, uint64_t count)
{
    if (maker->image == 0) {
        maker_image(maker);
        while (maker->stacks < 8)
            (void)maker_stack(maker);
    }
    for (uint64_t i = 0; i < count; i++) {
        uint32_t at = maker->live_count ? maker_random(maker, maker->live_count) : 0;
        bool cached = maker->live_count && maker->live[at].cached;
        if (maker->live_count < maker->live_wanted / 2 ||
            (maker_random(maker, 2) && (cached || maker->live_count < maker->live_wanted)))
            maker_alloc(maker, at);
        else
            maker_free(maker, at);
        if (maker_random(maker, 20000) == 0)
            (void)maker_stack(maker);
    }
}

static inline void maker_flush(struct maker *maker)
{
    maker_check(bh_evlog_writer_flush(maker->writer));
}

static inline void maker_lost(struct maker *maker, uint64_t count)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_LOST, .sequence = ++maker->sequence};

    record.at.ns = maker->now_ns;
    record.image = maker->image;
    record.count = count;
    maker_add(maker, &record);
}

static inline void maker_mark(struct maker *maker, const char *label)
{
    uint32_t text = maker_string(maker, label);
    struct bh_evlog_record record = {.kind = BH_EVLOG_MARK, .sequence = ++maker->sequence};

    record.at.ns = maker->now_ns;
    record.image = maker->image;
    record.text = text;
    maker_add(maker, &record);
}

static inline void maker_report(struct maker *maker)
{
    maker_check(bh_io_replace(maker->dirfd, "report.json", "{\"schema\":\"bulkhead.report\"}\n", 29,
                              false, NULL));
}

#endif
