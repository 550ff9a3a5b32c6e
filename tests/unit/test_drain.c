/* The drain: what rings say ends up in the event log once, in order, with job-wide ids; losses are
 * counted; a scribe that takes over goes on where the last one stopped; liars harm only themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "core/platform/platform.h"
#include "core/super/drain.h"
#include "core/super/drain_parts.h"
#include "ring_maker.h"

#define SLOTS   64u
#define ARENA   65536u
#define RECORDS 4096u

static const char RUN_ID[] = "0mhq2v9k3dx7c1p5n8tb";

struct fixture {
    struct ring_maker ring;
    int evlog_fd;
    uint32_t pid;
    uint64_t token;
    struct bh_drain *drain;
    struct bh_evlog_record records[RECORDS];
    char strings[256][64];
    size_t count;
};

static void open_drain(struct fixture *fixture, uint64_t trace_max_bytes)
{
    struct bh_diag diag = {"", ""};

    assert_int_equal(bh_drain_new(fixture->ring.dirfd, fixture->evlog_fd, RUN_ID,
                                  (struct bh_anchor){{0}, {0}}, trace_max_bytes, &fixture->drain,
                                  &diag),
                     BH_OK);
}

/* A process that lives until it is killed, to be the owner of a ring. */
static uint32_t sleeper(uint64_t *ret_token)
{
    pid_t pid = fork();

    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    assert_true(pid > 0);
    assert_int_equal(bh_platform_start_token(pid, ret_token), BH_OK);
    return (uint32_t)pid;
}

static void end_sleeper(uint32_t pid)
{
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
    assert_int_equal(waitpid((pid_t)pid, NULL, 0), (pid_t)pid);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    char path[] = "/tmp/bh-drain-XXXXXX";

    fixture->evlog_fd = mkstemp(path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fcntl(fixture->evlog_fd, F_SETFL, O_APPEND), 0);
    ring_maker_folder(&fixture->ring);
    fixture->pid = sleeper(&fixture->token);
    ring_maker_file(&fixture->ring, fixture->pid, fixture->token, 0, SLOTS, ARENA);
    open_drain(fixture, 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    end_sleeper(fixture->pid);
    bh_drain_free(fixture->drain);
    ring_maker_remove_folder(&fixture->ring);
    (void)close(fixture->evlog_fd);
    free(fixture);
    return 0;
}

static void step(struct fixture *fixture)
{
    while (bh_drain_step(fixture->drain) > 0) {
    }
}

/* Reads the log back into fixture->records. */
static void read_log(struct fixture *fixture)
{
    static unsigned char data[1 << 20];
    ssize_t got = pread(fixture->evlog_fd, data, sizeof(data), 0);
    size_t at = BH_EVLOG_HEADER_BYTES;

    fixture->count = 0;
    while ((ssize_t)at < got) {
        struct bh_evlog_segment segment;
        struct bh_evlog_cursor cursor;
        struct bh_evlog_record record;
        int length = bh_evlog_segment_decode(data + at, (size_t)got - at, &segment);

        assert_true(length > 0);
        bh_evlog_cursor_open(&cursor, &segment);
        while (bh_evlog_cursor_next(&cursor, &record) > 0) {
            if (record.kind == BH_EVLOG_STRING) {
                assert_true(record.id < 256);
                (void)snprintf(fixture->strings[record.id], 64, "%.*s", (int)record.string_length,
                               record.string);
            }
            assert_true(fixture->count < RECORDS);
            fixture->records[fixture->count++] = record;
        }
        at += (size_t)length;
    }
}

static size_t count_of(const struct fixture *fixture, enum bh_evlog_kind kind)
{
    size_t at, count = 0;

    for (at = 0; at < fixture->count; at++) {
        count += fixture->records[at].kind == kind;
    }
    return count;
}

static const struct bh_evlog_record *nth(const struct fixture *fixture, enum bh_evlog_kind kind,
                                         size_t n)
{
    static const struct bh_evlog_record none;
    size_t at;

    for (at = 0; at < fixture->count; at++) {
        if (fixture->records[at].kind == kind && n-- == 0) {
            return &fixture->records[at];
        }
    }
    fail();
    return &none;
}

/* Sequences are dense from 1, and every history is consistent per image and address. */
static void assert_consistent(struct fixture *fixture)
{
    struct bh_drain_live live[8] = {{0}};
    uint64_t sequence = 0;
    size_t at;

    read_log(fixture);
    for (at = 0; at < fixture->count; at++) {
        const struct bh_evlog_record *record = &fixture->records[at];
        struct bh_drain_image image;
        const struct bh_drain_buffer *buffer;

        if (record->kind <= BH_EVLOG_MARK) {
            assert_int_equal(record->sequence, ++sequence);
        }
        if (record->image == 0 || record->image >= 8 || record->kind > BH_EVLOG_CACHE_TO_OS) {
            if (record->kind == BH_EVLOG_BASELINE_BEGIN) {
                bh_drain_live_clear(&live[record->image]);
            }
            if (record->kind != BH_EVLOG_BASELINE) {
                continue;
            }
        }
        buffer = bh_drain_live_find(&live[record->image], record->address);
        if (record->kind == BH_EVLOG_ALLOC_NEW || record->kind == BH_EVLOG_BASELINE) {
            assert_null(buffer);
        } else {
            assert_non_null(buffer);
            assert_int_equal(buffer->place, record->kind == BH_EVLOG_ALLOC_REUSE ||
                                                    record->kind == BH_EVLOG_CACHE_TO_OS
                                                ? BH_DRAIN_CACHED
                                                : BH_DRAIN_ACTIVE);
        }
        memset(&image, 0, sizeof(image));
        image.live = live[record->image];
        (void)bh_drain_image_learn(&image, record);
        live[record->image] = image.live;
    }
    for (at = 0; at < 8; at++) {
        bh_drain_live_done(&live[at]);
    }
}

static void events_links_and_names_arrive(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;
    uint32_t frames[2], file, stack, name;
    uint64_t ticket;
    const struct bh_evlog_record *link;

    file = ring_maker_string(ring, "leaky.py");
    frames[0] = ring_maker_frame(ring, file, ring_maker_string(ring, "forgotten"), 17);
    frames[1] = ring_maker_frame(ring, file, ring_maker_string(ring, "<module>"), 30);
    stack = ring_maker_stack(ring, frames, 2);
    name = ring_maker_string(ring, "Add");
    ticket = ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x1000, 4096);
    ring_maker_slot(ring, (struct bh_ring_slot){.kind = BH_RING_LINK,
                                                .address = 0x1000,
                                                .size_bytes = 4096,
                                                .link_ticket = ticket,
                                                .stack = stack,
                                                .primitive = name,
                                                .stream = 2});
    ring_maker_event(ring, BH_RING_FREE_TO_CACHE, 0x1000, 4096);
    step(fixture);
    assert_consistent(fixture);
    link = nth(fixture, BH_EVLOG_LINK, 0);
    assert_int_equal(link->sequence, nth(fixture, BH_EVLOG_ALLOC_NEW, 0)->sequence);
    assert_int_equal(link->stream, 2);
    assert_string_equal(fixture->strings[link->primitive], "Add");
    assert_int_equal(link->stack, nth(fixture, BH_EVLOG_STACK, 0)->stack);
    assert_int_equal(nth(fixture, BH_EVLOG_FRAME, 0)->line, 17);
    assert_int_equal(nth(fixture, BH_EVLOG_IMAGE, 0)->pid, fixture->pid);
    assert_int_equal(count_of(fixture, BH_EVLOG_FREE_TO_CACHE), 1);
    /* the slots are free again */
    assert_int_equal(ring->header->tail, ring->header->head);
}

static void equal_content_has_one_id_in_the_job(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;
    uint32_t frame;
    int round;

    for (round = 0; round < 2; round++) {
        frame = ring_maker_frame(ring, ring_maker_string(ring, "a.py"),
                                 ring_maker_string(ring, "f"), 3);
        (void)ring_maker_stack(ring, &frame, 1);
        step(fixture);
        ring_maker_file(ring, fixture->pid, fixture->token, 1, SLOTS, ARENA);
    }
    step(fixture);
    read_log(fixture);
    assert_int_equal(count_of(fixture, BH_EVLOG_STRING), 3); /* the version, a.py, f */
    assert_int_equal(count_of(fixture, BH_EVLOG_FRAME), 1);
    assert_int_equal(count_of(fixture, BH_EVLOG_STACK), 1);
    assert_int_equal(count_of(fixture, BH_EVLOG_IMAGE), 2);
    /* the second image replaced the first: exec */
    assert_int_equal(count_of(fixture, BH_EVLOG_IMAGE_END), 1);
}

static void histories_are_repaired(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;

    ring_maker_event(ring, BH_RING_ALLOC_REUSE, 0x10, 100); /* never cached: New */
    ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x10, 100);   /* still active: freed first */
    ring_maker_event(ring, BH_RING_FREE_TO_CACHE, 0x10, 100);
    ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x10, 200);    /* cached: evicted first */
    ring_maker_event(ring, BH_RING_FREE_TO_CACHE, 0x20, 50); /* never seen: nothing */
    ring_maker_event(ring, BH_RING_CACHE_TO_OS, 0x10, 200);  /* not cached: nothing */
    ring_maker_event(ring, BH_RING_FREE_TO_OS, 0x10, 200);
    step(fixture);
    assert_consistent(fixture);
    assert_int_equal(count_of(fixture, BH_EVLOG_ALLOC_NEW), 3);
    assert_int_equal(count_of(fixture, BH_EVLOG_ALLOC_REUSE), 0);
    assert_int_equal(count_of(fixture, BH_EVLOG_FREE_TO_OS), 2);
    assert_int_equal(count_of(fixture, BH_EVLOG_CACHE_TO_OS), 1);
    assert_int_equal(count_of(fixture, BH_EVLOG_FREE_TO_CACHE), 1);
    assert_true(nth(fixture, BH_EVLOG_CACHE_TO_OS, 0)->doubtful);
}

static void losses_and_holes_are_counted(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;
    struct bh_record_recorder stats;

    ring->header->lost = 12;
    ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x10, 100);
    ring_maker_slot(
        ring, (struct bh_ring_slot){
                  .kind = BH_RING_LOST, .requested_bytes = 5, .address = 300, .size_bytes = 40});
    ring_maker_hole(ring);
    ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x20, 100);
    step(fixture);
    bh_drain_stats(fixture->drain, &stats);
    assert_int_equal(stats.lost, 5);
    assert_int_equal(stats.holes, 0);
    assert_int_equal(stats.state, BH_RECORDER_LOSSY);
    assert_int_equal(stats.ring_bytes, ring->header->file_bytes);
    assert_int_equal(bh_drain_finish(fixture->drain), BH_OK);
    bh_drain_stats(fixture->drain, &stats);
    assert_int_equal(stats.lost, 12);
    assert_int_equal(stats.holes, 1);
    assert_int_equal(stats.ring_bytes, 0);
    assert_consistent(fixture);
    assert_int_equal(count_of(fixture, BH_EVLOG_ALLOC_NEW), 2);
    assert_int_equal(nth(fixture, BH_EVLOG_LOST, 0)->count, 5);
    assert_int_equal(nth(fixture, BH_EVLOG_LOST, 0)->address, 300);
    assert_int_equal(nth(fixture, BH_EVLOG_LOST, 1)->count, 7);
    assert_int_equal(nth(fixture, BH_EVLOG_HOLE, 0)->count, 1);
    assert_int_equal(count_of(fixture, BH_EVLOG_IMAGE_END), 1);
    /* the ring is removed, its memory given back */
    assert_int_equal(faccessat(ring->dirfd, ring->name, F_OK, 0), -1);
}

static void images_are_merged_by_time(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker other = fixture->ring;
    struct bh_ring_slot slot = {.kind = BH_RING_ALLOC_NEW, .size_bytes = 8};
    uint64_t at, last = 0;
    uint64_t token;
    uint32_t child = sleeper(&token);

    ring_maker_file(&other, child, token, 0, SLOTS, ARENA);
    for (at = 0; at < 20; at++) {
        slot.address = 0x100 * (at + 1);
        slot.time_ns = 2 * at + 1;
        ring_maker_slot(&fixture->ring, slot);
        slot.time_ns = 2 * at + 2;
        ring_maker_slot(&other, slot);
    }
    step(fixture);
    assert_consistent(fixture);
    for (at = 0; at < 40; at++) {
        const struct bh_evlog_record *record = nth(fixture, BH_EVLOG_ALLOC_NEW, at);

        assert_true(record->at.ns > last);
        last = record->at.ns;
    }
    end_sleeper(child);
    for (at = 0; at < 2000 && count_of(fixture, BH_EVLOG_IMAGE_END) == 0; at++) {
        step(fixture); /* it asks for the process every now and then */
        (void)usleep(10000);
        read_log(fixture);
    }
    assert_int_equal(count_of(fixture, BH_EVLOG_IMAGE_END), 1); /* the child's, not ours */
}

/* The owner becomes a program without MLX: its ring is not mapped any more, what it held is gone.
 */
static void an_exec_unmaps_the_ring(void **state)
{
    struct fixture *fixture = *state;
    int go[2], tries;
    uint64_t token;
    pid_t child;
    struct ring_maker other = fixture->ring;
    struct bh_record_recorder stats;

    assert_int_equal(pipe(go), 0);
    child = fork();
    if (child == 0) {
        char byte;

        (void)!read(go[0], &byte, 1);
        (void)execl("/bin/sleep", "sleep", "1000", (char *)NULL);
        _exit(1);
    }
    assert_int_equal(bh_platform_start_token(child, &token), BH_OK);
    ring_maker_file(&other, (uint32_t)child, token, 0, SLOTS, ARENA);
    other.header->active_bytes = 100;
    step(fixture);
    bh_drain_stats(fixture->drain, &stats);
    assert_int_equal(stats.active.value, 100);
    assert_int_equal(stats.ring_bytes, 2 * other.header->file_bytes);
    assert_int_equal(write(go[1], "x", 1), 1);
    for (tries = 0; tries < 2000 && stats.ring_bytes != other.header->file_bytes; tries++) {
        step(fixture);
        (void)usleep(10000);
        bh_drain_stats(fixture->drain, &stats);
    }
    assert_int_equal(stats.ring_bytes, other.header->file_bytes);
    assert_int_equal(stats.active.value, 0);
    end_sleeper((uint32_t)child);
    (void)close(go[0]);
    (void)close(go[1]);
}

/* A ring of another pid namespace: its pid means nobody, or somebody else, and only the lock tells.
 */
static void in_another_pid_namespace_the_lock_tells(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring, twin = *ring;
    uint64_t token = fixture->token + 1; /* no process has it */
    int fd, at;

    assert_int_equal(unlinkat(ring->dirfd, ring->name, 0), 0);
    ring_maker_file(ring, fixture->pid, token, 0, SLOTS, ARENA);
    ring->header->flags = BH_RING_FLAG_LOCKED;
    ring->header->pid_namespace = 1; /* ours is another */
    fd = openat(ring->dirfd, ring->name, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), 0);
    step(fixture); /* image 1: a folder lists its files in any order */
    /* made in a third namespace at the same instant, with the same numbers */
    ring_maker_file(&twin, fixture->pid, token, 1, SLOTS, ARENA);
    for (at = 0; at < 3; at++) {
        step(fixture);
        (void)usleep(25000); /* longer than the drain waits before it asks again */
        ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x10 + (uint64_t)at, 100);
    }
    step(fixture);
    read_log(fixture);
    assert_int_equal(count_of(fixture, BH_EVLOG_ALLOC_NEW), 3);
    assert_int_equal(nth(fixture, BH_EVLOG_IMAGE_END, 0)->image,
                     2); /* the twin, which has no lock */
    assert_int_equal(count_of(fixture, BH_EVLOG_IMAGE_END), 1);
    (void)close(fd);
    (void)usleep(25000);
    step(fixture);
    read_log(fixture);
    assert_int_equal(count_of(fixture, BH_EVLOG_IMAGE_END), 2);
    assert_int_equal(faccessat(ring->dirfd, ring->name, F_OK, 0), -1);
}

static void a_refusal_is_reported(void **state)
{
    struct fixture *fixture = *state;
    struct bh_record_recorder stats;

    ring_maker_unmap(&fixture->ring);
    assert_int_equal(unlinkat(fixture->ring.dirfd, fixture->ring.name, 0), 0);
    ring_maker_file(&fixture->ring, fixture->pid, fixture->token, 0, 0, 0);
    bh_drain_stats(fixture->drain, &stats);
    assert_string_equal(stats.reason, "no_mlx");
    assert_true(bh_drain_misses_mlx(fixture->drain));
    bh_drain_saw_mlx(fixture->drain);
    bh_drain_stats(fixture->drain, &stats);
    assert_string_equal(stats.reason, "hooks_not_reached");
    memcpy(fixture->ring.header->reason, "strange MLX", 12);
    step(fixture);
    bh_drain_stats(fixture->drain, &stats);
    assert_int_equal(stats.state, BH_RECORDER_ABSENT);
    assert_string_equal(stats.reason, "strange MLX");
    assert_false(bh_drain_misses_mlx(fixture->drain));
    assert_int_equal(stats.active.status, BH_VALUE_UNKNOWN);
}

static void recording_is_switched(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;
    struct bh_record_recorder stats;

    step(fixture);
    bh_drain_set_recording(fixture->drain, false);
    assert_int_equal(ring->header->control, 0);
    bh_drain_stats(fixture->drain, &stats);
    assert_int_equal(stats.state, BH_RECORDER_OFF);
    ring_maker_file(ring, fixture->pid, fixture->token, 1, SLOTS, ARENA); /* a later one too */
    step(fixture);
    assert_int_equal(ring->header->control, 0);
    bh_drain_set_recording(fixture->drain, true);
    assert_int_equal(ring->header->control, BH_RING_CONTROL_ON);
}

static void sums_come_from_the_rings(void **state)
{
    struct fixture *fixture = *state;
    struct bh_record_recorder stats;

    fixture->ring.header->active_bytes = 1000;
    fixture->ring.header->cache_bytes = 234;
    step(fixture);
    bh_drain_stats(fixture->drain, &stats);
    assert_int_equal(stats.active.status, BH_VALUE_AVAILABLE);
    assert_int_equal(stats.active.value, 1000);
    assert_int_equal(stats.reserved.value, 1234);
    fixture->ring.header->active_bytes = UINT64_MAX; /* a lie is not added up */
    step(fixture);
    bh_drain_stats(fixture->drain, &stats);
    assert_int_equal(stats.active.value, 0);
}

/* A large ring is left alone while half of it fills: at six million slots a second, or, when
 * nothing came for a second, no longer than a burst of four million fits into all of it. */
static void the_pause_follows_the_ring(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;
    const uint64_t slots = 131072;

    assert_int_equal(unlinkat(ring->dirfd, ring->name, 0), 0);
    ring_maker_unmap(ring);
    step(fixture);
    assert_int_equal(bh_drain_pause_ns(fixture->drain, false), 100 * BH_NS_PER_MS); /* no ring */
    ring_maker_file(ring, fixture->pid, fixture->token, 0, (uint32_t)slots, ARENA);
    step(fixture);
    assert_int_equal(bh_drain_pause_ns(fixture->drain, false), slots / 2 * BH_NS_PER_S / 6000000);
    assert_in_range(bh_drain_pause_ns(fixture->drain, true), slots * BH_NS_PER_S / 8000000,
                    slots * BH_NS_PER_S / 4000000);
}

/* A scribe dies and another goes on with the same ring and the same log. */
static void a_takeover_goes_on(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;
    uint32_t name = ring_maker_string(ring, "Matmul");
    uint64_t ticket = ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x10, 100);

    ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x20, 100);
    ring_maker_event(ring, BH_RING_FREE_TO_CACHE, 0x20, 100);
    step(fixture);
    bh_drain_free(fixture->drain);
    assert_int_equal(write(fixture->evlog_fd, "torn", 4), 4);
    open_drain(fixture, 0);
    ring_maker_slot(ring, (struct bh_ring_slot){.kind = BH_RING_LINK,
                                                .address = 0x10,
                                                .link_ticket = ticket,
                                                .primitive = name,
                                                .stream = 0});
    ring_maker_event(ring, BH_RING_ALLOC_REUSE, 0x20, 100);
    ring_maker_event(ring, BH_RING_FREE_TO_OS, 0x10, 100);
    step(fixture);
    assert_int_equal(bh_drain_finish(fixture->drain), BH_OK);
    assert_consistent(fixture);
    assert_int_equal(count_of(fixture, BH_EVLOG_IMAGE), 1);
    assert_int_equal(count_of(fixture, BH_EVLOG_ALLOC_REUSE), 1);
    assert_int_equal(count_of(fixture, BH_EVLOG_ALLOC_NEW), 2);
    assert_int_equal(nth(fixture, BH_EVLOG_LINK, 0)->sequence, 1);
    assert_string_equal(fixture->strings[nth(fixture, BH_EVLOG_LINK, 0)->primitive], "Matmul");
    assert_int_equal(count_of(fixture, BH_EVLOG_STRING), 2);
}

/* The scribe dies after the log was written and before the ring was told. */
static void forget_release(struct fixture *fixture, uint64_t tail)
{
    bh_drain_free(fixture->drain);
    fixture->ring.header->tail = tail;
    fixture->ring.header->tail_check = ~tail;
    open_drain(fixture, 0);
}

static void a_death_before_the_release_repeats_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;
    struct bh_record_recorder stats;

    ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x10, 100);
    step(fixture);
    ring_maker_event(ring, BH_RING_FREE_TO_CACHE, 0x10, 100);
    ring_maker_event(ring, BH_RING_ALLOC_REUSE, 0x10, 100);
    ring_maker_slot(ring, (struct bh_ring_slot){.kind = BH_RING_LOST, .requested_bytes = 7});
    ring_maker_slot(ring, (struct bh_ring_slot){.kind = 250}); /* leaves no record */
    step(fixture);
    assert_int_equal(ring->header->tail, 5);
    forget_release(fixture, 1);
    ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x20, 100);
    step(fixture);
    assert_int_equal(ring->header->tail, 6);
    bh_drain_stats(fixture->drain, &stats);
    assert_int_equal(stats.lost, 7);
    assert_int_equal(stats.events, 5);
    assert_consistent(fixture);
    assert_int_equal(count_of(fixture, BH_EVLOG_ALLOC_NEW), 2);
    assert_int_equal(count_of(fixture, BH_EVLOG_ALLOC_REUSE), 1);
    assert_int_equal(count_of(fixture, BH_EVLOG_FREE_TO_CACHE), 1);
    assert_int_equal(count_of(fixture, BH_EVLOG_FREE_TO_OS), 0); /* nothing was repaired */
    assert_int_equal(count_of(fixture, BH_EVLOG_LOST), 1);
}

/* A round that fills several segments, and a death after any of them: what the log has by then is
 * not taken again, what it has not is. */
static void a_death_between_segments_repeats_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;
    const uint64_t events = 16000;
    uint64_t at, sizes[16], segments = 0;
    static unsigned char data[1 << 20];
    struct bh_evlog_segment segment;
    ssize_t got;

    bh_drain_free(fixture->drain);
    assert_int_equal(unlinkat(ring->dirfd, ring->name, 0), 0);
    ring_maker_file(ring, fixture->pid, fixture->token, 0, 16384, ARENA);
    assert_int_equal(ftruncate(fixture->evlog_fd, 0), 0);
    open_drain(fixture, 0);
    for (at = 0; at < events; at++) {
        ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x100000 * (at * 7919 % 65536 + 1), at + 1);
    }
    step(fixture);
    got = pread(fixture->evlog_fd, data, sizeof(data), 0);
    for (at = BH_EVLOG_HEADER_BYTES; (ssize_t)at < got && segments < 16;) {
        at += (uint64_t)bh_evlog_segment_decode(data + at, (size_t)got - at, &segment);
        sizes[segments++] = at;
    }
    assert_true(segments > 2);
    for (; segments > 0; segments--) {
        struct bh_record_recorder stats;

        assert_int_equal(ftruncate(fixture->evlog_fd, (off_t)sizes[segments - 1]), 0);
        forget_release(fixture, 0);
        step(fixture);
        assert_int_equal(ring->header->tail, events);
        bh_drain_stats(fixture->drain, &stats);
        assert_int_equal(stats.events, events);
    }
}

static void the_log_stops_at_its_limit(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;
    struct bh_record_recorder stats;
    uint64_t at, limit = 2000;

    bh_drain_free(fixture->drain);
    assert_int_equal(ftruncate(fixture->evlog_fd, 0), 0);
    open_drain(fixture, limit);
    for (at = 0; at < 2000; at++) {
        ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x1000 * (at + 1), 100);
        if (at % 32 == 31) {
            step(fixture);
        }
    }
    step(fixture);
    assert_int_equal(ring->header->tail, ring->header->head); /* emptied all the same */
    assert_int_equal(bh_drain_finish(fixture->drain), BH_OK);
    assert_true(bh_drain_evlog_bytes(fixture->drain) < limit + 2048);
    assert_consistent(fixture);
    bh_drain_stats(fixture->drain, &stats);
    assert_int_equal(count_of(fixture, BH_EVLOG_FULL), 2);
    assert_int_equal(nth(fixture, BH_EVLOG_FULL, 1)->count + stats.events, 2000);
    assert_int_equal(stats.lost, 0);
}

static void marks_are_events(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(bh_drain_mark(fixture->drain, "epoch 3", (struct bh_mono){5}), BH_OK);
    assert_true(bh_drain_mark(fixture->drain, "\xff\xfe", (struct bh_mono){5}) < 0);
    ring_maker_slot(&fixture->ring,
                    (struct bh_ring_slot){.kind = BH_RING_MARK,
                                          .primitive = ring_maker_string(&fixture->ring, "mine")});
    step(fixture);
    assert_consistent(fixture);
    assert_int_equal(count_of(fixture, BH_EVLOG_MARK), 2);
    assert_string_equal(fixture->strings[nth(fixture, BH_EVLOG_MARK, 0)->text], "epoch 3");
    assert_string_equal(fixture->strings[nth(fixture, BH_EVLOG_MARK, 1)->text], "mine");
    assert_int_equal(nth(fixture, BH_EVLOG_MARK, 0)->image, 0);
}

static void a_baseline_replaces_what_was(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;

    ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x10, 100);
    ring_maker_event(ring, BH_RING_OFF, 0, 0);
    ring_maker_slot(ring, (struct bh_ring_slot){.kind = BH_RING_BASELINE_BEGIN,
                                                .requested_bytes = 2,
                                                .address = 50,
                                                .size_bytes = 60});
    ring_maker_event(ring, BH_RING_BASELINE, 0x20, 50);
    ring_maker_slot(ring, (struct bh_ring_slot){.kind = BH_RING_BASELINE,
                                                .address = 0x30,
                                                .size_bytes = 60,
                                                .flags = BH_RING_SLOT_CACHED});
    ring_maker_event(ring, BH_RING_ALLOC_REUSE, 0x30, 60);
    ring_maker_event(ring, BH_RING_ALLOC_NEW, 0x10, 100);
    step(fixture);
    assert_consistent(fixture);
    assert_int_equal(count_of(fixture, BH_EVLOG_OFF), 1);
    assert_int_equal(nth(fixture, BH_EVLOG_BASELINE_BEGIN, 0)->count, 2);
    assert_int_equal(nth(fixture, BH_EVLOG_BASELINE_BEGIN, 0)->address, 50);
    assert_true(nth(fixture, BH_EVLOG_BASELINE, 1)->cached);
    assert_int_equal(count_of(fixture, BH_EVLOG_FREE_TO_OS), 0);
}

static void lies_end_one_ring_only(void **state)
{
    struct fixture *fixture = *state;
    struct ring_maker *ring = &fixture->ring;
    struct bh_record_recorder stats;

    ring_maker_slot(ring, (struct bh_ring_slot){.kind = BH_RING_ALLOC_NEW,
                                                .address = 1,
                                                .size_bytes = 1,
                                                .stack = 77,
                                                .primitive = 99,
                                                .stream = 1 << 20,
                                                .time_ns = UINT64_MAX});
    ring_maker_slot(ring, (struct bh_ring_slot){.kind = 250});
    step(fixture);
    assert_consistent(fixture);
    assert_int_equal(nth(fixture, BH_EVLOG_ALLOC_NEW, 0)->stack, 0);
    assert_int_equal(nth(fixture, BH_EVLOG_ALLOC_NEW, 0)->primitive, 0);
    assert_int_equal(nth(fixture, BH_EVLOG_ALLOC_NEW, 0)->stream, -1);
    assert_true(nth(fixture, BH_EVLOG_ALLOC_NEW, 0)->at.ns <= bh_clock_mono().ns);
    ring_maker_event(ring, BH_RING_ALLOC_NEW, 2, UINT64_MAX); /* impossible: given up */
    ring_maker_event(ring, BH_RING_ALLOC_NEW, 3, 3);
    step(fixture);
    bh_drain_stats(fixture->drain, &stats);
    assert_int_equal(stats.state, BH_RECORDER_LOSSY);
    assert_consistent(fixture);
    assert_int_equal(count_of(fixture, BH_EVLOG_ALLOC_NEW), 1);
    assert_int_equal(bh_drain_finish(fixture->drain), BH_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_links_and_names_arrive, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_content_has_one_id_in_the_job, setup, teardown),
        cmocka_unit_test_setup_teardown(histories_are_repaired, setup, teardown),
        cmocka_unit_test_setup_teardown(losses_and_holes_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(images_are_merged_by_time, setup, teardown),
        cmocka_unit_test_setup_teardown(an_exec_unmaps_the_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(in_another_pid_namespace_the_lock_tells, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_is_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(recording_is_switched, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_come_from_the_rings, setup, teardown),
        cmocka_unit_test_setup_teardown(the_pause_follows_the_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(a_takeover_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_death_before_the_release_repeats_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_death_between_segments_repeats_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(the_log_stops_at_its_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(marks_are_events, setup, teardown),
        cmocka_unit_test_setup_teardown(a_baseline_replaces_what_was, setup, teardown),
        cmocka_unit_test_setup_teardown(lies_end_one_ring_only, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
