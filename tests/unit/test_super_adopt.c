/* adopt: everything of ours is gone. What queue.bin still holds becomes the journal, what is left
 * of the tree is stopped, the report says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <sys/stat.h>

#include "core/base/scoped.h"
#include "core/super/adopt.h"
#include "core/super/finish.h"
#include "run_dir.h"

/* Adopts in a process of its own, as the server does, with stderr out of the way. */
static int adopt(struct run_dir *dir)
{
    bh_close_fd(&dir->state.lock_fd);
    pid_t pid = fork();
    if (pid == 0) {
        int null_fd = open("/dev/null", O_RDWR);
        (void)dup2(null_fd, STDERR_FILENO);
        _exit(bh_adopt_main(dir->run.path));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool report_says(const struct run_dir *dir, const char *what)
{
    struct bh_bytes bytes = {0};
    bool said = bh_io_read_file(dir->run.fd, "report.json", 1u << 24, &bytes, NULL) == BH_OK &&
                strstr((const char *)bytes.data, what) != NULL;
    bh_bytes_done(&bytes);
    return said;
}

static void test_nobody_left(void **state)
{
    struct run_dir *dir = *state;
    struct bh_record record = {0};
    enum bh_journal_end end;
    int victim = run_dir_victim(false);
    run_dir_begin(dir, victim);
    for (uint64_t i = 0; i < 20; i++)
        run_dir_sample(dir, 100 + i);
    run_dir_put_kind(dir, BH_RECORD_ADVISORY);
    assert_int_equal(adopt(dir), 0);
    int status = 0;
    assert_int_equal(waitpid(victim, &status, 0), victim);
    assert_int_equal(WTERMSIG(status), SIGTERM);
    assert_int_equal(run_dir_count(dir, BH_RECORD_ADVISORY, NULL, &end), 1);
    assert_int_equal(end, BH_JOURNAL_COMPLETE);
    assert_int_equal(run_dir_count(dir, BH_RECORD_SAMPLES, &record, NULL), 1);
    assert_int_equal(record.samples.count, 20);
    assert_int_equal(run_dir_count(dir, BH_RECORD_OUTCOME, &record, NULL), 1);
    assert_int_equal(record.outcome.cause, BH_CAUSE_SUPERVISOR_LOST);
    assert_true(report_says(dir, "\"cause\": \"supervisor_lost\""));
    assert_true(access(dir->state.runtime_path, F_OK) < 0);
    /* once more changes nothing */
    struct stat before, after;
    assert_int_equal(fstatat(dir->run.fd, "journal.bhj", &before, 0), 0);
    assert_int_equal(adopt(dir), 0);
    assert_int_equal(fstatat(dir->run.fd, "journal.bhj", &after, 0), 0);
    assert_int_equal(before.st_size, after.st_size);
}

/* A descendant that queue.bin does not name is found below one that it names. */
static void test_descendants(void **state)
{
    struct run_dir *dir = *state;
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t parent = fork();
    if (parent == 0) {
        (void)setsid();
        for (int fd = 3; fd < 256; fd++)
            if (fd != ends[1])
                (void)close(fd);
        if (fork() == 0)
            (void)setsid(); /* another group, too */
        for (;;)
            (void)pause();
    }
    bh_close_fd(&ends[1]);
    run_dir_begin(dir, (int)parent);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    assert_true(WAIT_FOR(__extension__({
        int child = 0;
        FILE *file = fopen(path, "r");
        bool got = file && fscanf(file, "%d", &child) == 1;
        if (file)
            (void)fclose(file);
        got;
    })));
    assert_int_equal(adopt(dir), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&end, 1, 10000), 1); /* both write ends are gone */
    assert_int_equal(read(ends[0], &byte, 1), 0);
    bh_close_fd(&ends[0]);
}

/* The decider had said how it ended; only the scribe's work is missing. */
static void test_outcome_was_stored(void **state)
{
    struct run_dir *dir = *state;
    run_dir_begin(dir, (int)getpid());
    run_dir_end(dir);
    assert_int_equal(adopt(dir), 0);
    assert_int_equal(run_dir_count(dir, BH_RECORD_OUTCOME, NULL, NULL), 1);
    assert_true(report_says(dir, "Finished normally."));
    assert_int_equal(run_dir_count(dir, BH_RECORD_SIGNAL, NULL, NULL), 0);
}

static void write_boot_id(struct run_dir *dir, const char *boot_id)
{
    char text[PATH_MAX + 64];
    (void)snprintf(text, sizeof text, "%s\n%s\n", dir->state.runtime_path, boot_id);
    run_dir_write(dir->run.fd, BH_RUN_RUNTIME_NAME, text, strlen(text));
}

/* After a reboot there is no runtime folder, and the numbers in the journal are strangers'. */
static void test_reboot(void **state)
{
    struct run_dir *dir = *state;
    struct bh_store *store = calloc(1, sizeof *store);
    int stranger = run_dir_victim(false);
    run_dir_begin(dir, stranger);
    assert_int_equal(bh_store_open(store, &dir->state, dir->state.queue, NULL), BH_OK);
    assert_int_equal(bh_store_take(store), 3);
    bh_store_close(store);
    free(store);
    write_boot_id(dir, "00000000-0000-0000-0000-000000000000");
    assert_int_equal(bh_io_remove_tree(AT_FDCWD, dir->runtime.path, NULL), BH_OK);
    assert_int_equal(adopt(dir), 0);
    assert_true(report_says(dir, "\"cause\": \"host_reboot\""));
    assert_true(report_says(dir, "\"sentence\": \"The machine restarted.\""));
    assert_int_equal(waitpid(stranger, NULL, WNOHANG), 0); /* it was not touched */
    assert_int_equal(kill(stranger, SIGKILL), 0);
    assert_int_equal(waitpid(stranger, NULL, 0), stranger);
}

/* The clock counts from the boot: after a short uptime it is far behind what the journal holds. */
static void test_reboot_clock(void **state)
{
    struct run_dir *dir = *state;
    struct bh_store *store = calloc(1, sizeof *store);
    struct bh_record record = {0};
    const uint64_t week_ns = 7 * 86400 * BH_NS_PER_S;
    static const int kinds[] = {BH_RECORD_CONFIG, BH_RECORD_HOST, BH_RECORD_LAUNCHED,
                                BH_RECORD_TRANSITION, BH_RECORD_SIGNAL};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        record = record_of_kind(kinds[i], 0);
        record.at.ns = bh_clock_mono().ns + week_ns + i;
        assert_int_equal(bh_queue_put(dir->state.queue, &record), BH_OK);
    }
    assert_int_equal(bh_store_open(store, &dir->state, dir->state.queue, NULL), BH_OK);
    (void)bh_store_take(store);
    bh_store_close(store);
    free(store);
    write_boot_id(dir, "00000000-0000-0000-0000-000000000000");
    assert_int_equal(bh_io_remove_tree(AT_FDCWD, dir->runtime.path, NULL), BH_OK);
    assert_int_equal(adopt(dir), 0);
    assert_true(report_says(dir, "\"cause\": \"host_reboot\""));
    assert_int_equal(run_dir_count(dir, BH_RECORD_OUTCOME, &record, NULL), 1);
    assert_true(record.at.ns > week_ns);
}

/* The rings went with the machine; what was drained before counts. */
static void test_reboot_with_events(void **state)
{
    struct run_dir *dir = *state;
    struct bh_store *store = calloc(1, sizeof *store);
    struct bh_evlog_writer *writer = NULL;
    struct bh_evlog_record mark = {.kind = BH_EVLOG_MARK, .at = {1000}};
    struct bh_bytes bytes = {0};
    dir->spec.record = true;
    assert_int_equal(bh_spec_file_encode(&dir->spec, &bytes, NULL), BH_OK);
    run_dir_write(dir->run.fd, BH_SPEC_FILE_NAME, bytes.data, bytes.length);
    bh_bytes_done(&bytes);
    int fd = openat(dir->run.fd, "events.bhe", O_RDWR | O_CREAT | O_APPEND, 0600);
    assert_int_equal(bh_evlog_writer_new(fd, RECORDS_RUN_ID, dir->state.anchor, &writer, NULL), 0);
    for (mark.sequence = 1; mark.sequence <= 3; mark.sequence++)
        assert_int_equal(bh_evlog_writer_add(writer, &mark), 0);
    assert_int_equal(bh_evlog_writer_flush(writer), 0);
    bh_evlog_writer_free(writer);
    bh_close_fd(&fd);
    run_dir_begin(dir, (int)getpid());
    assert_int_equal(bh_store_open(store, &dir->state, dir->state.queue, NULL), BH_OK);
    (void)bh_store_take(store);
    bh_store_close(store);
    free(store);
    write_boot_id(dir, "00000000-0000-0000-0000-000000000000");
    assert_int_equal(bh_io_remove_tree(AT_FDCWD, dir->runtime.path, NULL), BH_OK);
    assert_int_equal(adopt(dir), 0);
    assert_true(report_says(dir, "\"state\": \"attached\""));
    assert_true(report_says(dir, "\"events\": 3,"));
}

/* queue.bin is gone, the boot is the same: the journal names the root. */
static void test_queue_gone(void **state)
{
    struct run_dir *dir = *state;
    struct bh_store *store = calloc(1, sizeof *store);
    int victim = run_dir_victim(false);
    run_dir_begin(dir, victim);
    assert_int_equal(bh_store_open(store, &dir->state, dir->state.queue, NULL), BH_OK);
    (void)bh_store_take(store);
    bh_store_close(store);
    free(store);
    assert_int_equal(bh_io_remove_tree(AT_FDCWD, dir->runtime.path, NULL), BH_OK);
    assert_int_equal(adopt(dir), 0);
    assert_int_equal(waitpid(victim, NULL, 0), victim);
    assert_true(report_says(dir, "\"cause\": \"supervisor_lost\""));
}

static void test_torn_journal(void **state)
{
    struct run_dir *dir = *state;
    struct bh_store *store = calloc(1, sizeof *store);
    enum bh_journal_end end;
    run_dir_begin(dir, (int)getpid());
    assert_int_equal(bh_store_open(store, &dir->state, dir->state.queue, NULL), BH_OK);
    (void)bh_store_take(store);
    assert_int_equal(bh_io_write_full(store->journal_fd, "\x40\0\0\0garbage", 11), BH_OK);
    bh_store_close(store);
    free(store);
    run_dir_end(dir);
    assert_int_equal(adopt(dir), 0);
    assert_int_equal(run_dir_count(dir, BH_RECORD_LAUNCHED, NULL, &end), 1);
    assert_int_equal(end, BH_JOURNAL_COMPLETE);
}

static void test_locked(void **state)
{
    struct run_dir *dir = *state;
    run_dir_begin(dir, (int)getpid());
    int other = openat(dir->run.fd, BH_RUN_LOCK_NAME, O_RDWR | O_CLOEXEC);
    bh_close_fd(&dir->state.lock_fd);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(adopt(dir), 75);
    assert_false(run_dir_has(dir, "journal.bhj"));
    bh_close_fd(&other);
}

static void test_no_run(void **state)
{
    struct run_dir *dir = *state;
    assert_int_equal(unlinkat(dir->run.fd, "spec.bin", 0), 0);
    assert_int_equal(adopt(dir), 64);
}

/* It died before it could store what it was to do: there is nothing to report. */
static void test_nothing_stored(void **state)
{
    struct run_dir *dir = *state;
    assert_int_equal(adopt(dir), 74);
    assert_false(run_dir_has(dir, "report.json"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, run_dir_setup, run_dir_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_nobody_left),
        TEST(test_descendants),
        TEST(test_outcome_was_stored),
        TEST(test_reboot),
        TEST(test_queue_gone),
        TEST(test_reboot_clock),
        TEST(test_reboot_with_events),
        TEST(test_torn_journal),
        TEST(test_locked),
        TEST(test_no_run),
        TEST(test_nothing_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
