/* The import: what is in the database equals what is in the files, whole, in steps, rebuilt,
 * removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "import_fixture.h"

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
        T(test_a_finished_run_comes_in_whole),        T(test_small_steps_give_the_same_as_one),
        T(test_steps_follow_a_growing_run),           T(test_a_log_with_only_a_header_is_followed),
        T(test_a_journal_without_outcome_is_said_so), T(test_reindex_rebuilds_from_the_directories),
        T(test_purge_removes_directory_and_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
