/* queue.bin: order, wrap, losses, status images, words, damaged files, two processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/mman.h>
#include <sys/wait.h>

#include "core/wire/journal.h"
#include "core/wire/queue.h"
#include "core/wire/queue_map.h"
#include "core/wire/le.h"
#include "records.h"
#include "scratch.h"

struct fixture {
    struct scratch scratch;
    struct bh_queue *decider, *scribe;
};

static const struct bh_anchor anchor = {{86400500000000}, {1796002200120000}};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    scratch_open(&fixture->scratch);
    assert_int_equal(
        bh_queue_create(fixture->scratch.fd, RECORDS_RUN_ID, anchor, &fixture->decider, NULL),
        BH_OK);
    assert_int_equal(bh_queue_open(fixture->scratch.fd, RECORDS_RUN_ID, &fixture->scribe, NULL),
                     BH_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    bh_queue_free(fixture->decider);
    bh_queue_free(fixture->scribe);
    scratch_close(&fixture->scratch);
    free(fixture);
    return 0;
}

/* The next record in the queue; false when there is none. */
static bool next(struct bh_queue *queue, struct bh_record *ret_record)
{
    const unsigned char *bytes;
    size_t length;
    int result = bh_queue_peek(queue, &bytes, &length);
    assert_true(result >= 0);
    if (result == 0)
        return false;
    assert_int_equal(bh_record_decode(bytes, length, RECORDS_RUN_ID, ret_record), length);
    return true;
}

static void test_order_and_wrap(void **state)
{
    struct fixture *fixture = *state;
    struct bh_record record, back;
    uint64_t put = 0, got = 0;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 60; i++) {
            record = record_of_kind(1 + (int)(put % (RECORDS_KINDS - 1)), 0);
            assert_int_equal(bh_queue_put(fixture->decider, &record), BH_OK);
            assert_int_equal(record.sequence, ++put);
        }
        while (next(fixture->scribe, &back))
            assert_int_equal(back.sequence, ++got);
        bh_queue_taken(fixture->scribe);
    }
    assert_int_equal(got, put);
    assert_int_equal(bh_queue_dropped(fixture->scribe), 0);
    assert_int_equal(bh_queue_anchor(fixture->scribe).wall.us, anchor.wall.us);
}

/* Peeked but not taken entries are met again by the one who takes over. */
static void test_taken(void **state)
{
    struct fixture *fixture = *state;
    struct bh_record record = record_of_kind(BH_RECORD_MARK, 0), back;
    for (int i = 0; i < 3; i++)
        (void)bh_queue_put(fixture->decider, &record);
    assert_true(next(fixture->scribe, &back));
    bh_queue_taken(fixture->scribe);
    assert_true(next(fixture->scribe, &back));
    struct bh_queue *heir = NULL;
    assert_int_equal(bh_queue_open(fixture->scratch.fd, RECORDS_RUN_ID, &heir, NULL), BH_OK);
    assert_true(next(heir, &back));
    assert_int_equal(back.sequence, 2);
    bh_queue_free(heir);
}

static void fill_up(struct bh_queue *queue, int kind, uint64_t *ret_stored)
{
    struct bh_record record = record_of_kind(kind, 0);
    while (bh_queue_put(queue, &record) == BH_OK)
        (*ret_stored)++;
}

/* Samples leave room to what matters; what found no room is counted and said. */
static void test_losses(void **state)
{
    struct fixture *fixture = *state;
    uint64_t samples = 0, marks = 0;
    fill_up(fixture->decider, BH_RECORD_SAMPLE, &samples);
    fill_up(fixture->decider, BH_RECORD_MARK, &marks);
    assert_true(samples > 1000);
    assert_true(marks > 1000);
    assert_int_equal(bh_queue_dropped(fixture->scribe), 2);
    struct bh_record back, record = record_of_kind(BH_RECORD_MARK, 0);
    uint64_t last = 0;
    while (next(fixture->scribe, &back)) {
        if (back.kind == BH_RECORD_LOSSES)
            assert_int_equal(back.losses.samples, 1);
        if (back.kind != BH_RECORD_SAMPLE)
            last = back.sequence;
    }
    bh_queue_taken(fixture->scribe);
    assert_int_equal(last, marks + 1); /* the marks and the losses of samples */
    assert_int_equal(bh_queue_put(fixture->decider, &record), BH_OK);
    assert_true(next(fixture->scribe, &back));
    assert_int_equal(back.kind, BH_RECORD_LOSSES);
    assert_int_equal(back.losses.records, 1);
    assert_int_equal(back.sequence, last + 2); /* one is missing */
    assert_true(next(fixture->scribe, &back));
    assert_int_equal(back.kind, BH_RECORD_MARK);
    assert_int_equal(back.sequence, last + 3);
}

static void test_status(void **state)
{
    struct fixture *fixture = *state;
    struct bh_status status, back;
    fill_status(&status);
    assert_false(bh_queue_status(fixture->scribe, &back));
    for (uint32_t i = 1; i < 5; i++) {
        status.members = i;
        bh_queue_put_status(fixture->decider, &status);
        assert_true(bh_queue_status(fixture->scribe, &back));
        assert_int_equal(back.members, i);
    }
    /* a decider that died while it wrote the next one: the newest whole one is read */
    uint64_t generation = fixture->decider->words->generation;
    unsigned char *half =
        fixture->decider->map + QUEUE_STATUS_AT + ((generation + 1) & 1) * BH_STATUS_FILE_BYTES;
    memset(half, 0x55, 100);
    assert_true(bh_queue_status(fixture->scribe, &back));
    assert_int_equal(back.members, 4);
}

static void test_members(void **state)
{
    struct fixture *fixture = *state;
    static struct bh_queue_member members[BH_QUEUE_MEMBERS + 5], back[BH_QUEUE_MEMBERS];
    for (uint32_t i = 0; i < BH_QUEUE_MEMBERS + 5; i++)
        members[i] = (struct bh_queue_member){i + 7ull, i + 2, BH_QUEUE_MEMBER_LIVE, i, 0};
    bh_queue_set_members(fixture->decider, members, BH_QUEUE_MEMBERS + 5);
    assert_int_equal(bh_queue_members(fixture->scribe, back, BH_QUEUE_MEMBERS), BH_QUEUE_MEMBERS);
    assert_memory_equal(back, members, sizeof back);
    bh_queue_set_members(fixture->decider, members, 2);
    assert_int_equal(bh_queue_members(fixture->scribe, back, 1), 1);
}

static void test_words(void **state)
{
    struct fixture *fixture = *state;
    struct bh_queue_scribe words = {
        .pid = 321,
        .ready = true,
        .artifact_error = BH_E_NOSPACE,
        .report_done = true,
        .report_failed = true,
        .journal_sequence = 17,
        .evlog_bytes = 4096,
    };
    words.recorder.state = BH_RECORDER_LOSSY;
    words.recorder.events = 5;
    words.recorder.lost = 2;
    words.recorder.active = available(9);
    words.recorder.reserved = available(10);
    struct bh_queue_scribe back;
    bh_queue_scribe(fixture->decider, &back);
    assert_int_equal(back.pid, 0);
    bh_queue_set_scribe(fixture->scribe, &words);
    bh_queue_scribe(fixture->decider, &back);
    assert_memory_equal(&back, &words, sizeof words);
    assert_int_equal(bh_queue_recording(fixture->scribe), 0);
    bh_queue_set_recording(fixture->decider, false);
    assert_int_equal(bh_queue_recording(fixture->scribe), 2);
    bh_queue_set_recording(fixture->decider, true);
    assert_int_equal(bh_queue_recording(fixture->scribe), 1);
    assert_false(bh_queue_is_final(fixture->scribe));
    bh_queue_set_final(fixture->decider);
    assert_true(bh_queue_is_final(fixture->scribe));
}

/* A wake before the wait is not slept through. */
static void test_wake(void **state)
{
    struct fixture *fixture = *state;
    bh_queue_wake(fixture->decider);
    uint64_t before = bh_clock_mono().ns;
    bh_queue_wait(fixture->scribe, 20 * BH_NS_PER_S);
    assert_true(bh_clock_mono().ns - before < 10 * BH_NS_PER_S);
    bh_queue_wait(fixture->scribe, 1); /* nothing new: the timeout ends it */
}

static void test_two_processes(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t count = 20000;
    pid_t child = fork();
    if (child == 0) {
        struct bh_record record = record_of_kind(BH_RECORD_TRANSITION, 0);
        for (uint64_t i = 0; i < count; i++) {
            while (bh_queue_put(fixture->decider, &record) != BH_OK)
                bh_queue_wake(fixture->decider);
            bh_queue_wake(fixture->decider);
        }
        _exit(0);
    }
    struct bh_record back;
    uint64_t kept = 0, missing = 0, told = 0, last = 0;
    while (kept < count) {
        while (next(fixture->scribe, &back)) {
            /* room can appear between the LOSSES record and the one behind it: then it follows */
            assert_true(back.sequence > last);
            missing += back.sequence - last - 1;
            last = back.sequence;
            told += back.kind == BH_RECORD_LOSSES ? back.losses.records : 0;
            assert_true(told <= missing);
            kept += back.kind == BH_RECORD_TRANSITION;
        }
        bh_queue_taken(fixture->scribe);
        bh_queue_wait(fixture->scribe, BH_NS_PER_MS);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(kept, count);
    assert_int_equal(bh_queue_dropped(fixture->scribe), missing);
}

/* Whatever a dead decider left: an error or a stop, never a read outside. */
static void test_damaged_ring(void **state)
{
    struct fixture *fixture = *state;
    const unsigned char *bytes;
    size_t length;
    struct bh_record record = record_of_kind(BH_RECORD_MARK, 0);
    (void)bh_queue_put(fixture->decider, &record);
    unsigned char *ring = fixture->decider->map + QUEUE_RING_AT;
    static const uint32_t lengths[] = {0, 1, 35, 4097, 0x7fffffff, 0xfffffffe, QUEUE_SKIP};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        bh_le_put32(ring, lengths[i]);
        assert_int_equal(bh_queue_peek(fixture->scribe, &bytes, &length), BH_E_MALFORMED);
    }
    fixture->decider->words->head = 4 * (uint64_t)BH_QUEUE_RING_BYTES;
    assert_int_equal(bh_queue_peek(fixture->scribe, &bytes, &length), BH_E_MALFORMED);
    fixture->decider->words->head = 13;
    assert_int_equal(bh_queue_peek(fixture->scribe, &bytes, &length), BH_E_MALFORMED);
}

static void test_refused_files(void **state)
{
    struct fixture *fixture = *state;
    struct bh_queue *other = NULL;
    struct bh_diag diag;
    int dirfd = fixture->scratch.fd;
    assert_int_equal(bh_queue_open(dirfd, "1mhq2v9k3dx7c1p5n8tb", &other, &diag), BH_E_MALFORMED);
    assert_int_equal(bh_queue_create(dirfd, RECORDS_RUN_ID, anchor, &other, &diag), BH_E_EXISTS);
    for (size_t at = 0; at < QUEUE_WORDS_AT; at++) {
        fixture->decider->map[at] ^= 1;
        assert_true(bh_queue_open(dirfd, RECORDS_RUN_ID, &other, NULL) < 0);
        fixture->decider->map[at] ^= 1;
    }
    int fd = openat(dirfd, BH_QUEUE_FILE_NAME, O_RDWR);
    assert_int_equal(ftruncate(fd, 8192), 0);
    (void)close(fd);
    assert_int_equal(bh_queue_open(dirfd, RECORDS_RUN_ID, &other, NULL), BH_E_TRUNCATED);
}

/* Header and the first entry: what another program could rely on. */
static void test_golden(void **state)
{
    struct fixture *fixture = *state;
    struct bh_record record = record_of_kind(BH_RECORD_SIGNAL, 0);
    (void)bh_queue_put(fixture->decider, &record);
    unsigned char bytes[256 + 256];
    memcpy(bytes, fixture->decider->map, 256);
    memcpy(bytes + 256, fixture->decider->map + QUEUE_RING_AT, 256);
    assert_true(golden_equal("wire/queue_head_and_entry.bin", bytes, sizeof bytes));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_order_and_wrap), TEST(test_taken),         TEST(test_losses),
        TEST(test_status),         TEST(test_members),       TEST(test_words),
        TEST(test_wake),           TEST(test_two_processes), TEST(test_damaged_ring),
        TEST(test_refused_files),  TEST(test_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
