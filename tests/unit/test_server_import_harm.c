/* The import under harm: kills at any point, torn and damaged files, a power cut, no memory, no
 * disk. Nothing is lost that the files hold, nothing comes twice. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "import_fixture.h"

/* A child that imports as fast as it can until it is killed. */
static pid_t start_importer(const struct fixture *f)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct bh_store_start start;
        struct bh_store *store;
        struct bh_import *import;
        struct bh_import_step step;
        if (bh_store_open(f->maker.state, false, &store, &start, NULL) < 0 ||
            bh_import_open(bh_store_path_peek(store), &import, NULL) < 0)
            _exit(1);
        for (;;) {
            if (bh_import_step(import, f->maker.id, f->maker.dirfd, false, 200000, &step, NULL) < 0)
                _exit(2);
        }
    }
    return pid;
}

static uint64_t imported_now(struct fixture *f)
{
    struct bh_store_job job;

    open_database(f);
    job = row_of(f);
    close_database(f);
    return job.event_sequence;
}

/* Ends the importer; says when and how far it was, for the evidence. */
static void kill_importer(pid_t pid, const struct timespec *began)
{
    struct rusage usage;
    struct timespec now;
    int status;

    assert_int_equal(kill(pid, SIGKILL), 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    assert_int_equal(wait4(pid, &status, 0, &usage), pid);
    assert_true(WIFSIGNALED(status));
    if (getenv("BH_KILLS"))
        print_message("killed after_ms %.3f cpu_ms %.3f ",
                      (double)(now.tv_sec - began->tv_sec) * 1e3 +
                          (double)(now.tv_nsec - began->tv_nsec) / 1e6,
                      (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
                          (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3);
}

static void test_kill_at_any_point_loses_and_doubles_nothing(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes a = {0}, b = {0};
    const char *wanted = getenv("BH_KILLS");
    int kills = wanted ? atoi(wanted) : 20;
    uint64_t before = 0;
    uint32_t longest_ms =
        40; /* grows until a step gets through: sanitizers and busy machines are slow */
    int moved = 0;

    open_database(f);
    insert_row(f);
    close_database(f);
    maker_begin(&f->maker);
    for (int i = 0; i < kills; i++) {
        struct timespec pause, began;
        uint64_t imported;
        pid_t pid;

        maker_events(&f->maker, 40000);
        maker_flush(&f->maker);
        (void)clock_gettime(CLOCK_MONOTONIC, &began);
        pid = start_importer(f);
        /* long enough to be anywhere between opening the database and its last step */
        uint32_t ms = (uint32_t)maker_random(&f->maker, longest_ms) + 1;
        pause = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
        (void)nanosleep(&pause, NULL);
        kill_importer(pid, &began);
        imported = imported_now(f);
        if (wanted)
            print_message("imported %llu\n", (unsigned long long)(imported - before));
        if (imported > before)
            moved++;
        else if (longest_ms < 2000)
            longest_ms += longest_ms / 2;
        before = imported;
    }
    assert_true(moved > 0);
    f->maker.now_ns += 1000000000;
    maker_samples(&f->maker, 10, 20);
    maker_outcome(&f->maker);
    maker_report(&f->maker);
    open_database(f);
    assert_true(step_all(f, true, 0).complete);
    assert_int_equal(row_of(f).event_sequence, f->maker.sequence);
    assert_int_equal(row_of(f).active.value, f->maker.active);
    close_database(f);
    dump(f->maker.state, &a);
    reference(f, &b);
    assert_same(&a, &b);
    bh_bytes_done(&a);
    bh_bytes_done(&b);
}

static void test_a_torn_end_waits_for_the_rest(void **state)
{
    struct fixture *f = *state;
    struct stat info;
    struct bh_bytes tail = {0};
    char path[256];
    off_t cut;

    maker_begin(&f->maker);
    maker_events(&f->maker, 20000);
    maker_flush(&f->maker);
    assert_int_equal(fstat(f->maker.events_fd, &info), 0);
    cut = info.st_size - 1000;
    assert_true(bh_bytes_reserve(&tail, 1000) != NULL);
    assert_int_equal(pread(f->maker.events_fd, tail.data, 1000, cut), 1000);
    (void)snprintf(path, sizeof path, "%s/jobs/%s/" BH_EVLOG_FILE_NAME, f->maker.state,
                   f->maker.id);
    assert_int_equal(truncate(path, cut), 0);
    open_database(f);
    insert_row(f);
    assert_true(step_all(f, false, 0).event_sequence < f->maker.sequence);
    assert_int_equal(write(f->maker.events_fd, tail.data, 1000), 1000);
    assert_int_equal(step_all(f, false, 0).event_sequence, f->maker.sequence);
    bh_bytes_done(&tail);
}

/* A power cut took the last writes of the files, not of the database; adoption wrote on. */
static void test_a_directory_that_lost_its_end_is_imported_again(void **state)
{
    struct fixture *f = *state;
    struct stat journal, events;
    struct bh_bytes a = {0}, b = {0};

    open_database(f);
    insert_row(f);
    maker_begin(&f->maker);
    maker_events(&f->maker, 9000);
    maker_flush(&f->maker);
    assert_int_equal(fstat(f->maker.journal_fd, &journal), 0);
    f->maker.now_ns += 1000000000;
    maker_samples(&f->maker, 10, 20);
    maker_limit_crossed(&f->maker, 1096847360);
    (void)step_all(f, false, 0);
    assert_int_not_equal(row_of(f).limit_crossed_at.us, 0);
    close_database(f);
    assert_int_equal(ftruncate(f->maker.journal_fd, journal.st_size), 0);
    f->maker.journal_sequence--;
    f->maker.scribe_sequence--;
    maker_outcome(&f->maker);
    maker_report(&f->maker);
    /* the last segment is gone too */
    assert_int_equal(fstat(f->maker.events_fd, &events), 0);
    assert_int_equal(ftruncate(f->maker.events_fd, events.st_size - 4000), 0);
    open_database(f);
    assert_true(step_all(f, true, 0).complete);
    assert_int_equal(row_of(f).outcome, BH_OUTCOME_POLICY_INTERVENTION);
    assert_int_equal(row_of(f).limit_crossed_at.us, 0);
    assert_true(row_of(f).event_sequence < f->maker.sequence);
    close_database(f);
    dump(f->maker.state, &a);
    reference(f, &b);
    assert_same(&a, &b);
    bh_bytes_done(&a);
    bh_bytes_done(&b);
}

static void test_a_state_that_cannot_be_continued_is_made_again(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes a = {0}, b = {0};
    struct bh_diag diag = {0};

    open_database(f);
    insert_row(f);
    maker_begin(&f->maker);
    maker_events(&f->maker, 150000);
    maker_flush(&f->maker);
    (void)step_all(f, false, 0);
    assert_int_equal(
        bh_db_exec(&f->import->db, "UPDATE level SET data=x'00' WHERE level=255", &diag), 0);
    close_database(f);
    open_database(f);
    maker_events(&f->maker, 1000);
    maker_flush(&f->maker);
    assert_int_equal(step_all(f, false, 0).event_sequence, f->maker.sequence);
    maker_outcome(&f->maker);
    maker_report(&f->maker);
    assert_true(step_all(f, true, 0).complete);
    close_database(f);
    dump(f->maker.state, &a);
    reference(f, &b);
    assert_same(&a, &b);
    bh_bytes_done(&a);
    bh_bytes_done(&b);
}

static void damage(struct fixture *f, const char *name, off_t at)
{
    int fd = openat(f->maker.dirfd, name, O_RDWR);
    unsigned char byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x55;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void test_damage_keeps_what_was_before(void **state)
{
    struct fixture *f = *state;
    struct bh_import_step step;
    struct bh_diag diag = {0};
    struct stat info;
    uint64_t reached;
    int result;

    make_run(&f->maker, 20000);
    assert_int_equal(fstat(f->maker.events_fd, &info), 0);
    damage(f, BH_EVLOG_FILE_NAME, info.st_size / 2);
    open_database(f);
    insert_row(f);
    do
        result = bh_import_step(f->import, f->maker.id, f->maker.dirfd, false, 0, &step, &diag);
    while (result == 0 && step.more);
    assert_true(result == BH_E_CHECKSUM || result == BH_E_MALFORMED);
    assert_non_null(strstr(diag.detail, "event log"));
    reached = row_of(f).event_sequence;
    assert_true(reached > 0 && reached < f->maker.sequence);
    assert_true(step_all(f, true, 0).complete);
    assert_int_equal(row_of(f).event_sequence, reached);
    assert_int_equal(row_of(f).state, BH_JOB_FINISHED);
}

/* ---- memory that runs out inside of SQLite ---- */

static sqlite3_mem_methods real_memory;
static long fail_at = -1, allocations; /* the one that fails; < 0 none */

static bool fails(void)
{
    return fail_at >= 0 && allocations++ == fail_at;
}

static void *take_memory(int bytes)
{
    return fails() ? NULL : real_memory.xMalloc(bytes);
}

static void *move_memory(void *old, int bytes)
{
    return fails() ? NULL : real_memory.xRealloc(old, bytes);
}

static int group_set_up(void **state)
{
    sqlite3_mem_methods failing;

    (void)state;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory), SQLITE_OK);
    failing = real_memory;
    failing.xMalloc = take_memory;
    failing.xRealloc = move_memory;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &failing), SQLITE_OK);
    return 0;
}

/* One step in which the n-th allocation fails: it says so, or did without. */
static void step_without_memory(struct fixture *f, long n, int *failed)
{
    struct bh_import_step step;
    struct bh_diag diag = {0};
    int result;

    allocations = 0;
    fail_at = n;
    result = bh_import_step(f->import, f->maker.id, f->maker.dirfd, false, 200000, &step, &diag);
    fail_at = -1;
    assert_true(result == 0 || result == BH_E_NOMEM);
    *failed += result < 0;
}

static void test_no_failed_allocation_harms_the_database(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes a = {0}, b = {0};
    int failed = 0;

    open_database(f);
    insert_row(f);
    maker_begin(&f->maker);
    for (long n = 0; n < 120; n++) {
        maker_events(&f->maker, 300);
        maker_flush(&f->maker);
        if (n % 10 == 0) { /* statements are prepared at first use: let them be prepared again */
            close_database(f);
            open_database(f);
        }
        step_without_memory(f, n, &failed);
    }
    assert_true(failed > 10);
    f->maker.now_ns += 1000000000;
    maker_samples(&f->maker, 10, 20);
    maker_outcome(&f->maker);
    maker_report(&f->maker);
    assert_true(step_all(f, true, 0).complete);
    close_database(f);
    dump(f->maker.state, &a);
    reference(f, &b);
    assert_same(&a, &b);
    bh_bytes_done(&a);
    bh_bytes_done(&b);
}

static void test_full_disk_is_typed_and_passes(void **state)
{
    struct fixture *f = *state;
    struct bh_import_step step;
    struct bh_diag diag = {0};
    int result;

    make_run(&f->maker, 60000);
    open_database(f);
    insert_row(f);
    assert_int_equal(bh_db_exec(&f->import->db, "PRAGMA max_page_count=40", &diag), 0);
    do
        result = bh_import_step(f->import, f->maker.id, f->maker.dirfd, true, 0, &step, &diag);
    while (result == 0 && step.more);
    assert_int_equal(result, BH_E_NOSPACE);
    /* what the loop writes still works, and so does the import once there is room */
    assert_int_equal(bh_store_value_set(f->store, "x", "y", 1), 0);
    assert_int_equal(bh_db_exec(&f->import->db, "PRAGMA max_page_count=1000000", &diag), 0);
    assert_true(step_all(f, true, 0).complete);
    assert_int_equal(row_of(f).event_sequence, f->maker.sequence);
    assert_int_equal(row_of(f).active.value, f->maker.active);
}

/* With "kill" as argument only the kills, for the evidence. */
int main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_kill_at_any_point_loses_and_doubles_nothing),
        T(test_a_torn_end_waits_for_the_rest),
        T(test_a_directory_that_lost_its_end_is_imported_again),
        T(test_a_state_that_cannot_be_continued_is_made_again),
        T(test_damage_keeps_what_was_before),
        T(test_no_failed_allocation_harms_the_database),
        T(test_full_disk_is_typed_and_passes),
    };
    if (argc > 1)
        cmocka_set_test_filter(strcmp(argv[1], "kill") == 0 ? "test_kill_*" : argv[1]);
    return cmocka_run_group_tests(tests, group_set_up, NULL);
}
