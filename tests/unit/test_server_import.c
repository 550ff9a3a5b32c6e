/* The import: what is in the database equals what is in the files, however it got there. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "core/base/crc32c.h"
#include "server/import.h"
#include "server/import_internal.h"
#include "server/store.h"
#include "trace_maker.h"

struct fixture {
    struct maker maker;
    struct bh_store *store;
    struct bh_import *import;
};

static void open_database(struct fixture *f)
{
    struct bh_store_start start;
    struct bh_diag diag = {0};

    assert_int_equal(bh_store_open(f->maker.state, false, &f->store, &start, &diag), 0);
    assert_int_equal(bh_import_open(bh_store_path_peek(f->store), &f->import, &diag), 0);
}

static void close_database(struct fixture *f)
{
    bh_import_close(f->import);
    bh_store_close(f->store);
    f->import = NULL;
    f->store = NULL;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    maker_state(&f->maker);
    maker_run(&f->maker, MAKER_ID, 1);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    close_database(f);
    maker_run_close(&f->maker);
    maker_done(&f->maker);
    free(f);
    return 0;
}

/* Inserts the row as the server does before a launch. */
static void insert_row(struct fixture *f)
{
    struct bh_bytes bytes = {0};
    struct bh_job_spec *spec;
    struct bh_diag diag = {0};

    assert_int_equal(bh_io_read_file(f->maker.dirfd, BH_SPEC_FILE_NAME, 1 << 20, &bytes, &diag), 0);
    assert_int_equal(bh_spec_file_decode(bytes.data, bytes.length, &spec, &diag), 0);
    assert_int_equal(bh_store_job_insert(f->store, spec, &diag), 0);
    bh_spec_file_free(spec);
    bh_bytes_done(&bytes);
}

static struct bh_import_step step_once(struct fixture *f, bool ended, uint32_t budget)
{
    struct bh_import_step step = {0};
    struct bh_diag diag = {0};
    int result =
        bh_import_step(f->import, f->maker.id, f->maker.dirfd, ended, budget, &step, &diag);

    if (result < 0)
        print_error("step: %s\n", diag.detail);
    assert_int_equal(result, 0);
    return step;
}

static struct bh_import_step step_all(struct fixture *f, bool ended, uint32_t budget)
{
    struct bh_import_step step = {.more = true};

    while (step.more)
        step = step_once(f, ended, budget);
    return step;
}

static struct bh_store_job row_of(struct fixture *f)
{
    struct bh_store_job job;
    struct bh_diag diag = {0};

    assert_int_equal(bh_store_job_get(f->store, f->maker.id, &job, &diag), 0);
    return job;
}

/* A short run with all that a run has. */
static void make_run(struct maker *maker, uint64_t events)
{
    maker_begin(maker);
    maker_events(maker, events / 2);
    maker->now_ns = MAKER_MONO_NS + 1000000000;
    maker_samples(maker, 1000, 5000);
    maker_transition(maker, 1, 2);
    maker_mark(maker, "epoch 2");
    maker_lost(maker, 17);
    maker_events(maker, events - events / 2);
    maker->now_ns = MAKER_MONO_NS + 2000000000;
    maker_samples(maker, 4000, 1096847360);
    maker_limit_crossed(maker, 1096847360);
    maker_transition(maker, 2, 4);
    maker_signal(maker);
    maker->now_ns = MAKER_MONO_NS + 2500000000;
    maker_transition(maker, 4, 6);
    maker_outcome(maker);
    maker_samples(maker, 1000, 1000); /* the scribe's last second */
    maker_flush(maker);
    maker_report(maker);
}

/* ---- comparing ---- */

/* Every row of the derived tables in one order, blobs by checksum, row numbers left out. */
static const char *const dumps[] = {
    "SELECT id, name, state, policy_state, mode, started_us, ended_us, limit_bytes, charge, peak,"
    " peak_us, active, reserved, events, lost, limit_crossed_us, outcome, cause, exit_code, signal,"
    " sentence, journal_sequence, event_sequence, bytes, journal_offset, records, events_offset,"
    " segments, trace_mono_ns, trace_wall_us, trace_peak_sequence, trace_began_us, trace_event_us,"
    " report, report_reason, import_complete FROM job ORDER BY id",
    "SELECT number, sequence, kind, at_ns, data FROM record ORDER BY job, number",
    "SELECT number, first_sequence, last_sequence, lost, data FROM segment ORDER BY job, number",
    "SELECT number, data FROM definition ORDER BY job, number",
    "SELECT series, level, number, data FROM level ORDER BY job, series, level, number",
    "SELECT sequence, at_us, next_segment, data FROM keyframe ORDER BY job, sequence",
    "SELECT reason, number, from_us, to_us, count FROM loss ORDER BY job, reason, number",
    "SELECT sequence, at_us, label FROM mark ORDER BY job, sequence",
    "SELECT report FROM report ORDER BY job",
};

static void dump_row(sqlite3_stmt *statement, struct bh_bytes *out)
{
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        if (sqlite3_column_type(statement, i) == SQLITE_BLOB)
            bh_bytes_printf(out, "%08x:%d ",
                            bh_crc32c(0, sqlite3_column_blob(statement, i),
                                      (size_t)sqlite3_column_bytes(statement, i)),
                            sqlite3_column_bytes(statement, i));
        else
            bh_bytes_printf(out, "%s ", (const char *)sqlite3_column_text(statement, i));
    }
    bh_bytes_append_text(out, "\n");
}

static void dump(const char *state, struct bh_bytes *out)
{
    sqlite3 *handle;
    char path[192];

    (void)snprintf(path, sizeof path, "%s/" BH_STORE_FILE_NAME, state);
    assert_int_equal(sqlite3_open_v2(path, &handle, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    for (size_t i = 0; i < sizeof dumps / sizeof dumps[0]; i++) {
        sqlite3_stmt *statement;
        assert_int_equal(sqlite3_prepare_v2(handle, dumps[i], -1, &statement, NULL), SQLITE_OK);
        bh_bytes_printf(out, "-- %zu\n", i);
        while (sqlite3_step(statement) == SQLITE_ROW)
            dump_row(statement, out);
        sqlite3_finalize(statement);
    }
    sqlite3_close(handle);
}

static void remove_database(const char *state)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};

    for (size_t i = 0; i < 3; i++) {
        char path[192];
        (void)snprintf(path, sizeof path, "%s/" BH_STORE_FILE_NAME "%s", state, suffixes[i]);
        (void)unlink(path);
    }
}

/* What a fresh database holds after one import of the finished run. */
static void reference(struct fixture *f, struct bh_bytes *out)
{
    close_database(f);
    remove_database(f->maker.state);
    open_database(f);
    insert_row(f);
    assert_true(step_all(f, true, 64u << 20).complete);
    close_database(f);
    dump(f->maker.state, out);
}

static void assert_same(const struct bh_bytes *a, const struct bh_bytes *b)
{
    if (a->length == b->length && memcmp(a->data, b->data, a->length) == 0)
        return;
    for (size_t i = 0, line = 0; i < a->length && i < b->length; i++) {
        if (a->data[i] == '\n')
            line = i + 1;
        if (a->data[i] != b->data[i]) {
            print_error("A: %.200s\nB: %.200s\n", a->data + line, b->data + line);
            break;
        }
    }
    fail_msg("the databases differ");
}

/* ---- tests ---- */

static void test_a_finished_run_comes_in_whole(void **state)
{
    struct fixture *f = *state;
    struct bh_store_job job;
    struct bh_bytes report = {0};
    struct bh_diag diag = {0};

    make_run(&f->maker, 20000);
    open_database(f);
    insert_row(f);
    assert_true(step_all(f, true, 0).complete);
    job = row_of(f);
    assert_int_equal(job.state, BH_JOB_FINISHED);
    assert_int_equal(job.event_sequence, f->maker.sequence);
    assert_int_equal(job.journal_sequence, f->maker.journal_sequence);
    assert_int_equal(job.active.value, f->maker.active);
    assert_int_equal(job.reserved.value, f->maker.reserved);
    assert_int_equal(job.lost, 17);
    assert_int_equal(job.peak.value, 1122013184);
    assert_int_equal(job.charge.status, BH_VALUE_AVAILABLE);
    assert_int_equal(job.charge.value, 0); /* it is gone, whatever the last sample said */
    assert_int_equal(job.outcome, BH_OUTCOME_POLICY_INTERVENTION);
    assert_int_equal(job.cause, BH_CAUSE_LIMIT_EXCEEDED);
    assert_int_equal(job.signal, 15);
    assert_int_equal(job.started_at.us, MAKER_EPOCH_US);
    assert_int_equal(job.ended_at.us, MAKER_EPOCH_US + 2500000);
    assert_int_equal(job.limit_crossed_at.us, MAKER_EPOCH_US + 2000000);
    assert_true(strlen(job.sentence) > 10);
    assert_true(job.import_complete);
    assert_int_equal(bh_store_report_get(f->store, f->maker.id, &report, &diag), 0);
    assert_string_equal((char *)report.data, "{\"schema\":\"bulkhead.report\"}\n");
    bh_bytes_done(&report);
    /* a further step changes nothing */
    assert_true(step_once(f, true, 0).complete);
}

static void test_small_steps_give_the_same_as_one(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes a = {0}, b = {0};

    make_run(&f->maker, 150000);
    reference(f, &a);
    remove_database(f->maker.state);
    open_database(f);
    insert_row(f);
    assert_true(step_all(f, true, 1).complete);
    close_database(f);
    dump(f->maker.state, &b);
    assert_same(&a, &b);
    bh_bytes_done(&a);
    bh_bytes_done(&b);
}

static void test_steps_follow_a_growing_run(void **state)
{
    struct fixture *f = *state;
    struct bh_import_step step;
    struct bh_bytes a = {0}, b = {0};

    open_database(f);
    insert_row(f);
    maker_begin(&f->maker);
    step = step_all(f, false, 0);
    assert_int_equal(step.new_records, 3);
    assert_int_equal(row_of(f).state, BH_JOB_RUNNING);
    assert_int_equal(row_of(f).boundary, BH_BOUNDARY_SAMPLED);
    for (int i = 0; i < 30; i++) {
        maker_events(&f->maker, 5000);
        maker_flush(&f->maker);
        if (i % 7 == 3) { /* a server that restarts in between */
            close_database(f);
            open_database(f);
        }
        step = step_all(f, false, 0);
        assert_int_equal(step.event_sequence, f->maker.sequence);
        assert_int_equal(row_of(f).active.value, f->maker.active);
        assert_int_equal(row_of(f).reserved.value, f->maker.reserved);
    }
    assert_false(step_once(f, false, 0).complete);
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

/* The log's header alone moved the place in memory once, and the next step failed on it. */
static void test_a_log_with_only_a_header_is_followed(void **state)
{
    struct fixture *f = *state;

    maker_begin(&f->maker);
    open_database(f);
    insert_row(f);
    (void)step_all(f, false, 0);
    assert_int_equal(step_once(f, false, 0).new_records, 0);
    maker_events(&f->maker, 100);
    maker_flush(&f->maker);
    assert_int_equal(step_once(f, false, 0).new_events, 100);
}

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
        struct timespec pause = {.tv_nsec = 0};
        int status;
        pid_t pid;

        maker_events(&f->maker, 40000);
        maker_flush(&f->maker);
        pid = start_importer(f);
        /* long enough to be anywhere between opening the database and its last step */
        uint32_t ms = (uint32_t)maker_random(&f->maker, longest_ms) + 1;
        pause = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
        (void)nanosleep(&pause, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        if (imported_now(f) > before)
            moved++;
        else if (longest_ms < 2000)
            longest_ms += longest_ms / 2;
        before = imported_now(f);
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

static void test_a_journal_without_outcome_is_said_so(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes report = {0};
    struct bh_diag diag = {0};

    maker_begin(&f->maker);
    open_database(f);
    insert_row(f);
    assert_true(step_all(f, true, 0).complete);
    assert_int_equal(row_of(f).outcome, BH_OUTCOME_PARTIAL_ARTIFACT_FAILURE);
    assert_int_equal(row_of(f).state, BH_JOB_FINISHED);
    assert_int_equal(bh_store_report_get(f->store, f->maker.id, &report, &diag),
                     BH_E_REPORT_SUPPRESSED);
    bh_bytes_done(&report);
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

static void test_reindex_rebuilds_from_the_directories(void **state)
{
    struct fixture *f = *state;
    struct bh_reindex_result result = {0};
    struct bh_bytes a = {0}, b = {0};
    struct bh_diag diag = {0};
    int other;

    make_run(&f->maker, 30000);
    reference(f, &a);
    remove_database(f->maker.state);
    open_database(f);
    /* a folder without a spec is skipped, other names are not looked at */
    assert_int_equal(bh_io_make_dir(f->maker.jobs_fd, "0mhq2v9k3dx7c1p5n8zz", false, &other, NULL),
                     0);
    close(other);
    assert_int_equal(bh_io_make_dir(f->maker.jobs_fd, "lost+found", false, &other, NULL), 0);
    close(other);
    assert_int_equal(bh_reindex(f->import, f->maker.jobs_fd, NULL, NULL, NULL, &result, &diag), 0);
    assert_int_equal(result.jobs, 1);
    assert_int_equal(result.skipped, 1);
    assert_int_equal(result.events, f->maker.sequence);
    /* again: nothing to do */
    assert_int_equal(bh_reindex(f->import, f->maker.jobs_fd, NULL, NULL, NULL, &result, &diag), 0);
    assert_int_equal(result.jobs, 0);
    close_database(f);
    dump(f->maker.state, &b);
    assert_same(&a, &b);
    bh_bytes_done(&a);
    bh_bytes_done(&b);
}

static void test_purge_removes_directory_and_rows(void **state)
{
    struct fixture *f = *state;
    struct bh_diag diag = {0};
    struct bh_bytes rows = {0};
    struct stat info;
    bool more = true;

    make_run(&f->maker, 60000);
    open_database(f);
    insert_row(f);
    assert_true(step_all(f, true, 0).complete);
    assert_int_equal(bh_store_job_delete(f->store, f->maker.id, &diag), 0);
    while (more)
        assert_int_equal(bh_import_purge(f->import, f->maker.jobs_fd, &more, &diag), 0);
    assert_int_equal(fstatat(f->maker.jobs_fd, f->maker.id, &info, 0), -1);
    close_database(f);
    dump(f->maker.state, &rows);
    assert_string_equal((char *)rows.data,
                        "-- 0\n-- 1\n-- 2\n-- 3\n-- 4\n-- 5\n-- 6\n-- 7\n-- 8\n");
    bh_bytes_done(&rows);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_a_finished_run_comes_in_whole),
        T(test_small_steps_give_the_same_as_one),
        T(test_steps_follow_a_growing_run),
        T(test_a_log_with_only_a_header_is_followed),
        T(test_kill_at_any_point_loses_and_doubles_nothing),
        T(test_a_torn_end_waits_for_the_rest),
        T(test_a_directory_that_lost_its_end_is_imported_again),
        T(test_a_state_that_cannot_be_continued_is_made_again),
        T(test_damage_keeps_what_was_before),
        T(test_a_journal_without_outcome_is_said_so),
        T(test_no_failed_allocation_harms_the_database),
        T(test_full_disk_is_typed_and_passes),
        T(test_reindex_rebuilds_from_the_directories),
        T(test_purge_removes_directory_and_rows),
    };
    return cmocka_run_group_tests(tests, group_set_up, NULL);
}
