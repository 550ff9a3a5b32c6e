/* The store under power loss and failing writes: fdatasync and write are ours here. What the
 * journal promises to have kept lies before the last sync; whichever write fails, what is on disk
 * stays readable, the queue is emptied, and nothing more is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "core/super/finish.h"
#include "core/wire/queue_map.h"
#include "run_dir.h"

/* ---- the disk ---- */

static off_t durable_bytes; /* of the last file synced */
static int syncs, writes, fail_write_at, fail_errno;
static size_t cut_bytes; /* how much of the failing write still gets through */

int fdatasync(int fd)
{
    struct stat st;
    syncs++;
    if (fstat(fd, &st) == 0)
        durable_bytes = st.st_size;
    return 0;
}

ssize_t write(int fd, const void *data, size_t length)
{
    if (fd > 2 && ++writes == fail_write_at) {
        fail_write_at++; /* and every later one, as on a full disk */
        if (cut_bytes && cut_bytes < length) {
            size_t part = cut_bytes;
            cut_bytes = 0;
            return syscall(SYS_write, fd, data, part);
        }
        errno = fail_errno;
        return -1;
    }
    return syscall(SYS_write, fd, data, length);
}

struct fixture {
    struct run_dir dir;
    struct bh_store store;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    run_dir_open(&fixture->dir);
    durable_bytes = 0;
    syncs = writes = fail_write_at = 0;
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    bh_store_close(&fixture->store);
    run_dir_close(&fixture->dir);
    free(fixture);
    return 0;
}

static void open_store(struct fixture *fixture)
{
    (void)bh_store_open(&fixture->store, &fixture->dir.state, fixture->dir.state.queue, NULL);
}

/* The records of a run; every kind, in an order a run could have. */
static const int story[] = {
    BH_RECORD_CONFIG, BH_RECORD_HOST,          BH_RECORD_LAUNCHED, BH_RECORD_MEMBER,
    BH_RECORD_SAMPLE, BH_RECORD_ADVISORY,      BH_RECORD_SAMPLE,   BH_RECORD_LIMIT_CROSSED,
    BH_RECORD_SAMPLE, BH_RECORD_TRANSITION,    BH_RECORD_SIGNAL,   BH_RECORD_CHECKPOINT,
    BH_RECORD_ESCAPE, BH_RECORD_CONFIG_CHANGE, BH_RECORD_MARK,     BH_RECORD_CLOCK_GAP,
    BH_RECORD_SAMPLE, BH_RECORD_PEAK_MEMBER,   BH_RECORD_EMPTY,    BH_RECORD_OUTCOME,
};
#define STORY (sizeof story / sizeof story[0])

static int count_whole(const struct fixture *fixture, off_t length)
{
    struct bh_bytes bytes = {0};
    struct bh_journal_reader *reader = NULL;
    struct bh_record record;
    int count = 0;
    assert_int_equal(bh_io_read_file(fixture->dir.run.fd, "journal.bhj", 1u << 24, &bytes, NULL),
                     BH_OK);
    int fd = openat(fixture->dir.run.fd, "after", O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(syscall(SYS_write, fd, bytes.data, (size_t)length), length);
    if (bh_journal_reader_new(fd, &reader, NULL) == BH_OK) {
        while (bh_journal_reader_next(reader, &record) == 1)
            count += !record.by_scribe;
        assert_int_not_equal(bh_journal_reader_end(reader), BH_JOURNAL_CORRUPT);
    }
    bh_journal_reader_free(reader);
    (void)close(fd);
    bh_bytes_done(&bytes);
    return count;
}

/* The machine loses power after any step: all up to the last record that wants a sync is there. */
static void test_power_loss(void **state)
{
    struct fixture *fixture = *state;
    int stored = 0, promised = 0;
    open_store(fixture);
    for (size_t i = 0; i < STORY; i++) {
        run_dir_put_kind(&fixture->dir, story[i]);
        assert_int_equal(bh_store_take(&fixture->store), 1);
        stored += story[i] != BH_RECORD_SAMPLE;
        if (bh_record_kind_syncs(story[i]))
            promised = stored;
        assert_true(count_whole(fixture, durable_bytes) >= promised);
        assert_true(fixture->store.synced_sequence >= (uint64_t)promised);
    }
    assert_int_equal(promised, stored);
    assert_true(syncs >= 8 && syncs < (int)STORY); /* not one for each record */
}

/* Many that want a sync at once share one. */
static void test_group_commit(void **state)
{
    struct fixture *fixture = *state;
    open_store(fixture);
    for (int i = 0; i < 100; i++)
        run_dir_put_kind(&fixture->dir, BH_RECORD_SIGNAL);
    assert_int_equal(bh_store_take(&fixture->store), 100);
    assert_int_equal(syncs, 1);
    assert_int_equal(fixture->store.synced_sequence, 100);
}

static void run_story(struct fixture *fixture)
{
    open_store(fixture);
    for (size_t i = 0; i < STORY; i++) {
        run_dir_put_kind(&fixture->dir, story[i]);
        (void)bh_store_take(&fixture->store);
    }
    bh_store_flush_span(&fixture->store);
    bh_store_sync(&fixture->store);
}

/* How many writes the whole story takes. */
static int count_writes(void)
{
    void *state = NULL;
    (void)setup(&state);
    writes = 0;
    run_story(state);
    int count = writes;
    (void)teardown(&state);
    return count;
}

static void test_every_failing_write(void **state)
{
    (void)state;
    int total = count_writes();
    assert_true(total > 20);
    for (int at = 1; at <= total; at++) {
        for (size_t cut = 0; cut < 40; cut += 13) { /* 0: nothing of it gets through */
            void *mine = NULL;
            const unsigned char *bytes;
            size_t length;
            (void)setup(&mine);
            struct fixture *fixture = mine;
            writes = 0;
            fail_write_at = at;
            fail_errno = cut ? ENOSPC : EIO;
            cut_bytes = cut;
            int saved = dup(STDERR_FILENO), quiet = open("/dev/null", O_WRONLY);
            (void)dup2(quiet, STDERR_FILENO); /* it says so each time */
            run_story(fixture);
            fail_write_at = 0;
            (void)dup2(saved, STDERR_FILENO);
            (void)close(saved);
            (void)close(quiet);
            assert_int_equal(fixture->store.error, cut ? BH_E_NOSPACE : BH_E_IO);
            assert_int_equal(bh_queue_peek(fixture->dir.state.queue, &bytes, &length), 0);
            struct stat st;
            assert_int_equal(fstatat(fixture->dir.run.fd, "journal.bhj", &st, 0), 0);
            assert_true(count_whole(fixture, st.st_size) < (int)STORY);
            struct bh_reclaim_facts facts;
            assert_true(bh_finish_run(&fixture->store, NULL, &facts, NULL) < 0);
            assert_false(run_dir_has(&fixture->dir, "report.json")); /* nothing claimed */
            (void)teardown(&mine);
        }
    }
}

/* A scribe that died after it wrote and before it released: its successor meets the entries again
 * and writes none twice. */
static void test_written_but_not_released(void **state)
{
    struct fixture *fixture = *state;
    struct run_dir *dir = &fixture->dir;
    struct bh_queue *heir = NULL;
    struct bh_record record = {0};
    open_store(fixture);
    for (size_t i = 0; i < STORY; i++)
        run_dir_put_kind(dir, story[i]);
    assert_int_equal(bh_store_take(&fixture->store), STORY);
    bh_store_close(&fixture->store);
    dir->state.queue->words->tail = 0;
    assert_int_equal(bh_queue_open(dir->runtime.fd, RECORDS_RUN_ID, &heir, NULL), BH_OK);
    assert_int_equal(bh_store_open(&fixture->store, &dir->state, heir, NULL), BH_OK);
    run_dir_put_kind(dir, BH_RECORD_ADVISORY);
    assert_int_equal(bh_store_take(&fixture->store), STORY + 1);
    bh_store_flush_span(&fixture->store);
    struct stat st;
    assert_int_equal(fstatat(dir->run.fd, "journal.bhj", &st, 0), 0);
    assert_int_equal(count_whole(fixture, st.st_size), STORY - 4 + 1); /* four are samples */
    int spans = run_dir_count(dir, BH_RECORD_SAMPLES, &record, NULL);
    assert_int_equal(spans, 1);
    assert_int_equal(record.samples.count, 4);
    bh_queue_free(heir);
}

/* What cannot be understood ends persistence; it is not guessed at. */
static void test_damaged_queue(void **state)
{
    struct fixture *fixture = *state;
    open_store(fixture);
    run_dir_put_kind(&fixture->dir, BH_RECORD_CONFIG);
    fixture->dir.state.queue->words->head = 12345;
    int saved = dup(STDERR_FILENO), quiet = open("/dev/null", O_WRONLY);
    (void)dup2(quiet, STDERR_FILENO);
    assert_int_equal(bh_store_take(&fixture->store), 0);
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    (void)close(quiet);
    assert_int_equal(fixture->store.error, BH_E_MALFORMED);
}

/* status.bin: at once for a new state, otherwise once a second, never for nothing. */
static void test_status_pace(void **state)
{
    struct fixture *fixture = *state;
    struct bh_status status;
    memset(&status, 0, sizeof status);
    fill_status(&status);
    open_store(fixture);
    writes = 0;
    bh_store_status(&fixture->store, &status, false);
    assert_int_equal(writes, 1);
    for (int i = 0; i < 100; i++) {
        status.charge.value++;
        bh_store_status(&fixture->store, &status, false);
    }
    assert_int_equal(writes, 1);
    status.policy_state = 4;
    bh_store_status(&fixture->store, &status, false);
    assert_int_equal(writes, 2);
    fixture->store.status_written.ns -= BH_NS_PER_S;
    bh_store_status(&fixture->store, &status, false); /* a second later, nothing new */
    assert_int_equal(writes, 2);
    status.charge.value++;
    bh_store_status(&fixture->store, &status, false);
    assert_int_equal(writes, 3);
    assert_int_equal(syncs, 0); /* a status is never synced */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_power_loss),
        TEST(test_group_commit),
        cmocka_unit_test(test_every_failing_write),
        TEST(test_written_but_not_released),
        TEST(test_damaged_queue),
        TEST(test_status_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
