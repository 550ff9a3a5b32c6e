/* The store: rows, keys, reports, security events, retention. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "server/retention.h"
#include "store_fixture.h"

static void test_open_reports_what_it_did(void **state)
{
    struct fixture *f = *state;
    struct stat info;
    char file[128];

    assert_true(f->start.created);
    assert_true(f->start.needs_reindex);
    snprintf(file, sizeof file, "%s/" BH_STORE_FILE_NAME, f->path);
    assert_int_equal(stat(file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    reopen(f, false);
    assert_false(f->start.created);
    assert_false(f->start.needs_reindex);
    assert_true(bh_store_bytes(f->store) > 0);
}

static void test_job_row_comes_back(void **state)
{
    struct fixture *f = *state;
    struct bh_store_job job;
    struct bh_diag diag = {0};
    struct bh_job_spec spec;

    insert(f, 0, "leaky");
    reopen(f, false);
    assert_int_equal(bh_store_job_get(f->store, id_of[0], &job, &diag), 0);
    assert_string_equal(job.id, id_of[0]);
    assert_string_equal(job.name, "leaky");
    assert_int_equal(job.state, BH_JOB_STARTING);
    assert_int_equal(job.mode, BH_MODE_ENFORCE);
    assert_int_equal(job.limit_bytes, 1u << 30);
    assert_int_equal(job.created_at.us, 1796002200000000);
    assert_int_equal(job.exit_code, -1);
    assert_int_equal(job.outcome, BH_OUTCOME_NONE);
    assert_int_equal(bh_store_job_get(f->store, id_of[1], &job, &diag), BH_E_NOT_FOUND);
    bh_job_spec_init(&spec);
    strcpy(spec.id, id_of[0]);
    assert_int_equal(bh_store_job_insert(f->store, &spec, &diag), BH_E_EXISTS);
}

static void test_spec_is_kept_without_secrets(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes blob = {0};
    struct bh_job_spec *spec;
    struct bh_diag diag = {0};

    insert(f, 0, NULL);
    assert_int_equal(bh_store_job_spec(f->store, id_of[0], &blob, &diag), 0);
    assert_null(memmem(blob.data, blob.length, "hush-hush", 9));
    assert_int_equal(bh_spec_file_decode(blob.data, blob.length, &spec, &diag), 0);
    assert_int_equal(spec->env_count, 1);
    assert_string_equal(spec->env[0].key, "TOKEN");
    assert_string_equal(spec->env[0].value, "");
    assert_string_equal(spec->argv[1], "train.py");
    bh_spec_file_free(spec);
    bh_bytes_done(&blob);
}

struct seen {
    int count;
    char ids[8][BH_JOB_ID_SIZE];
};

static int see(void *user, const struct bh_store_job *job)
{
    struct seen *seen = user;

    assert_true(seen->count < 8);
    strcpy(seen->ids[seen->count++], job->id);
    return 0;
}

static struct seen list(struct fixture *f, struct bh_store_filter filter)
{
    struct seen seen = {0};
    struct bh_diag diag = {0};

    if (filter.limit == 0)
        filter.limit = 10;
    assert_int_equal(bh_store_job_list(f->store, &filter, see, &seen, &diag), 0);
    return seen;
}

static void test_list_is_newest_first_and_filtered(void **state)
{
    struct fixture *f = *state;
    struct bh_diag diag = {0};
    struct seen seen;

    insert(f, 0, "a");
    insert(f, 1, "b");
    insert(f, 2, "a");
    seen = list(f, (struct bh_store_filter){.state = -1});
    assert_int_equal(seen.count, 3);
    assert_string_equal(seen.ids[0], id_of[2]);
    seen = list(f, (struct bh_store_filter){.state = -1, .before_id = id_of[2], .limit = 1});
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.ids[0], id_of[1]);
    seen = list(f, (struct bh_store_filter){.state = -1, .name = "a"});
    assert_int_equal(seen.count, 2);
    seen = list(
        f, (struct bh_store_filter){.state = -1, .label_key = "team", .label_value = "vision"});
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.ids[0], id_of[1]);
    assert_int_equal(bh_store_job_set_state(f->store, id_of[1], BH_JOB_RUNNING, &diag), 0);
    seen = list(f, (struct bh_store_filter){.state = BH_JOB_RUNNING});
    assert_int_equal(seen.count, 1);
    seen = list(f, (struct bh_store_filter){.unfinished = true});
    assert_int_equal(seen.count, 3);
    /* in pages too: a start with more unfinished jobs than one page holds would never end */
    seen = list(f, (struct bh_store_filter){.unfinished = true, .limit = 2});
    assert_int_equal(seen.count, 2);
    seen =
        list(f, (struct bh_store_filter){.unfinished = true, .before_id = seen.ids[1], .limit = 2});
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.ids[0], id_of[0]);
}

static void test_failed_start_stays_with_its_error(void **state)
{
    struct fixture *f = *state;
    struct bh_store_job job;
    struct bh_diag diag = {0};
    uint64_t counts[6];

    insert(f, 0, NULL);
    assert_int_equal(bh_store_job_fail(f->store, id_of[0], BH_E_LAUNCH_NOT_FOUND, "No such program",
                                       (struct bh_wall){42}, &diag),
                     0);
    assert_int_equal(bh_store_job_get(f->store, id_of[0], &job, &diag), 0);
    assert_int_equal(job.state, BH_JOB_FAILED_TO_START);
    assert_int_equal(job.error, BH_E_LAUNCH_NOT_FOUND);
    assert_string_equal(job.sentence, "No such program");
    assert_true(job.import_complete);
    /* it cannot come back to life */
    assert_int_equal(bh_store_job_set_state(f->store, id_of[0], BH_JOB_RUNNING, &diag),
                     BH_E_WRONG_STATE);
    assert_int_equal(bh_store_job_counts(f->store, counts), 0);
    assert_int_equal(counts[BH_JOB_FAILED_TO_START], 1);
}

static void test_delete_hides_at_once_and_refuses_running(void **state)
{
    struct fixture *f = *state;
    struct bh_store_job job;
    struct bh_diag diag = {0};

    insert(f, 0, NULL);
    assert_int_equal(bh_store_job_delete(f->store, id_of[0], &diag), BH_E_WRONG_STATE);
    assert_int_equal(
        bh_store_job_fail(f->store, id_of[0], BH_E_LAUNCH_FAILED, "x", (struct bh_wall){1}, &diag),
        0);
    assert_int_equal(bh_store_job_delete(f->store, id_of[0], &diag), 0);
    assert_int_equal(bh_store_job_get(f->store, id_of[0], &job, &diag), BH_E_NOT_FOUND);
    assert_int_equal(list(f, (struct bh_store_filter){.state = -1}).count, 0);
    assert_int_equal(bh_store_job_delete(f->store, id_of[0], &diag), BH_E_NOT_FOUND);
}

static void test_report_states(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes bytes = {0};
    struct bh_store_job job;
    struct bh_diag diag = {0};

    insert(f, 0, NULL);
    assert_int_equal(bh_store_report_get(f->store, id_of[0], &bytes, &diag), BH_E_REPORT_NOT_READY);
    assert_int_equal(bh_store_report_get(f->store, id_of[1], &bytes, &diag), BH_E_NOT_FOUND);
    assert_int_equal(bh_store_report_put(f->store, id_of[0], "{}\n", 3, BH_OUTCOME_CHILD_EXITED,
                                         BH_CAUSE_COMPLETED, "It completed.", (struct bh_wall){77},
                                         &diag),
                     0);
    assert_int_equal(bh_store_report_put(f->store, id_of[0], "{}\n", 3, BH_OUTCOME_CHILD_EXITED,
                                         BH_CAUSE_COMPLETED, "", (struct bh_wall){78}, &diag),
                     BH_E_WRONG_STATE);
    assert_int_equal(bh_store_report_get(f->store, id_of[0], &bytes, &diag), 0);
    assert_string_equal((char *)bytes.data, "{}\n");
    assert_int_equal(bh_store_job_get(f->store, id_of[0], &job, &diag), 0);
    assert_int_equal(job.state, BH_JOB_FINISHED);
    assert_int_equal(job.ended_at.us, 77);
    assert_int_equal(job.cause, BH_CAUSE_COMPLETED);
    assert_int_equal(bh_store_report_suppress(f->store, id_of[0], "bands unordered", &diag), 0);
    assert_int_equal(bh_store_report_get(f->store, id_of[0], &bytes, &diag),
                     BH_E_REPORT_SUPPRESSED);
    assert_string_equal(diag.detail, "bands unordered");
    assert_int_equal(bh_store_reclamation_get(f->store, id_of[0], &bytes, &diag), BH_E_NOT_FOUND);
    bh_bytes_done(&bytes);
}

static int count_open(void *user, const char *key, const char *job_id)
{
    assert_string_equal(key, "k1");
    assert_string_equal(job_id, id_of[0]);
    ++*(int *)user;
    return 0;
}

static void test_idempotency_keys(void **state)
{
    struct fixture *f = *state;
    unsigned char hash[32] = {1}, other[32] = {2};
    struct bh_idempotency_row row = {0};
    struct bh_wall now = {1796002200000000};
    enum bh_idempotency what;
    struct bh_diag diag = {0};
    int open_keys = 0;

    assert_int_equal(
        bh_store_idempotency_begin(f->store, "k1", hash, id_of[0], now, &what, &row, &diag), 0);
    assert_int_equal(what, BH_IDEMPOTENCY_NEW);
    assert_int_equal(
        bh_store_idempotency_begin(f->store, "k1", hash, id_of[1], now, &what, &row, &diag),
        BH_E_IDEMPOTENCY_BUSY);
    assert_int_equal(
        bh_store_idempotency_begin(f->store, "k1", other, id_of[1], now, &what, &row, &diag),
        BH_E_IDEMPOTENCY_MISMATCH);
    reopen(f, false); /* died in between */
    assert_int_equal(bh_store_idempotency_open(f->store, count_open, &open_keys, &diag), 0);
    assert_int_equal(open_keys, 1);
    assert_int_equal(bh_store_idempotency_end(f->store, "k1", 201, "{1}", 3, &diag), 0);
    assert_int_equal(
        bh_store_idempotency_begin(f->store, "k1", hash, id_of[1], now, &what, &row, &diag), 0);
    assert_int_equal(what, BH_IDEMPOTENCY_DONE);
    assert_int_equal(row.status, 201);
    assert_string_equal((char *)row.answer.data, "{1}");
    assert_string_equal(row.job_id, id_of[0]);
    bh_bytes_done(&row.answer);
    now.us += 24ll * 3600 * 1000000 + 1;
    assert_int_equal(
        bh_store_idempotency_begin(f->store, "k1", other, id_of[1], now, &what, &row, &diag), 0);
    assert_int_equal(what, BH_IDEMPOTENCY_NEW);
    assert_int_equal(bh_store_idempotency_drop(f->store, "k1", &diag), 0);
    assert_int_equal(bh_store_idempotency_end(f->store, "k1", 201, "", 0, &diag), BH_E_NOT_FOUND);
}

struct security_seen {
    uint64_t rows, events;
    struct bh_security_event newest;
};

static int see_security(void *user, const struct bh_security_event *event)
{
    struct security_seen *seen = user;

    if (seen->rows++ == 0)
        seen->newest = *event;
    seen->events += event->count;
    return 0;
}

static void test_security_events_are_bounded_and_joined(void **state)
{
    struct fixture *f = *state;
    struct bh_security_event event = {.at = {1796002200000000}, .code = "wrong_host"};
    struct security_seen seen = {0};
    struct bh_diag diag = {0};

    strcpy(event.peer, "127.0.0.1:1");
    for (int i = 0; i < 5; i++)
        assert_int_equal(bh_store_security_add(f->store, &event), 0);
    assert_int_equal(bh_store_security_list(f->store, 10, see_security, &seen, &diag), 0);
    assert_int_equal(seen.rows, 1);
    assert_int_equal(seen.events, 5);
    for (int i = 0; i < BH_STORE_SECURITY_MAX + 20; i++) {
        snprintf(event.peer, sizeof event.peer, "127.0.0.1:%d", i + 2);
        event.at.us += 1000000;
        assert_int_equal(bh_store_security_add(f->store, &event), 0);
    }
    seen = (struct security_seen){0};
    assert_int_equal(bh_store_security_list(f->store, 5000, see_security, &seen, &diag), 0);
    assert_int_equal(seen.rows, BH_STORE_SECURITY_MAX);
    assert_string_equal(seen.newest.peer, event.peer);
}

static void test_a_flood_of_security_events_is_counted(void **state)
{
    struct fixture *f = *state;
    struct bh_security_event event = {.at = {1796002200000000}, .code = "wrong_host"};
    struct security_seen seen = {0};
    struct bh_diag diag = {0};

    for (int i = 0; i < 1000; i++) {
        snprintf(event.peer, sizeof event.peer, "127.0.0.1:%d", i);
        assert_int_equal(bh_store_security_add(f->store, &event), 0);
    }
    assert_int_equal(bh_store_security_list(f->store, 5000, see_security, &seen, &diag), 0);
    assert_int_equal(seen.rows, BH_STORE_SECURITY_RATE);
    event.at.us += 1000000;
    assert_int_equal(bh_store_security_add(f->store, &event), 0);
    seen = (struct security_seen){0};
    assert_int_equal(bh_store_security_list(f->store, 5000, see_security, &seen, &diag), 0);
    assert_int_equal(seen.events, 1001);
}

static void test_values(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes bytes = {0};

    assert_int_equal(bh_store_value_get(f->store, "epoch", &bytes), BH_E_NOT_FOUND);
    assert_int_equal(bh_store_value_set(f->store, "epoch", "abc", 3), 0);
    assert_int_equal(bh_store_value_set(f->store, "epoch", "abd", 3), 0);
    assert_int_equal(bh_store_value_get(f->store, "epoch", &bytes), 0);
    assert_string_equal((char *)bytes.data, "abd");
    bh_bytes_done(&bytes);
}

static void test_retention_takes_the_oldest_finished(void **state)
{
    struct fixture *f = *state;
    struct bh_retention keep_one = {.max_jobs = 1}, age = {.max_age_us = 10};
    struct bh_store_job job;
    struct bh_diag diag = {0};
    uint32_t marked = 9;

    for (int i = 0; i < 3; i++)
        insert(f, i, NULL);
    /* the running one counts for nothing */
    for (int i = 0; i < 2; i++)
        assert_int_equal(bh_store_job_fail(f->store, id_of[i], BH_E_LAUNCH_FAILED, "x",
                                           (struct bh_wall){100 + i}, &diag),
                         0);
    assert_int_equal(bh_retention_run(f->store, &keep_one, (struct bh_wall){200}, &marked, &diag),
                     0);
    assert_int_equal(marked, 1);
    assert_int_equal(bh_store_job_get(f->store, id_of[0], &job, &diag), BH_E_NOT_FOUND);
    assert_int_equal(bh_store_job_get(f->store, id_of[1], &job, &diag), 0);
    assert_int_equal(bh_retention_run(f->store, &age, (struct bh_wall){111}, &marked, &diag), 0);
    assert_int_equal(marked, 0);
    assert_int_equal(bh_retention_run(f->store, &age, (struct bh_wall){112}, &marked, &diag), 0);
    assert_int_equal(marked, 1);
    assert_int_equal(bh_store_job_get(f->store, id_of[2], &job, &diag), 0);
}

static void set_bytes(struct fixture *f, const char *id, uint64_t bytes)
{
    char sql[128];
    sqlite3 *handle;

    assert_int_equal(sqlite3_open(bh_store_path_peek(f->store), &handle), SQLITE_OK);
    (void)snprintf(sql, sizeof sql, "UPDATE job SET bytes=%llu WHERE id='%s'",
                   (unsigned long long)bytes, id);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(handle);
}

/* Both copies count, the database's and the run directory's: 3 x 2 x 100 bytes. */
static void test_retention_keeps_within_its_bytes(void **state)
{
    struct fixture *f = *state;
    struct bh_retention exactly = {.max_bytes = 600}, less = {.max_bytes = 599};
    struct bh_store_job job;
    struct bh_diag diag = {0};
    uint32_t marked = 9;

    for (int i = 0; i < 3; i++) {
        insert(f, i, NULL);
        assert_int_equal(bh_store_job_fail(f->store, id_of[i], BH_E_LAUNCH_FAILED, "x",
                                           (struct bh_wall){100 + i}, &diag),
                         0);
        set_bytes(f, id_of[i], 100);
    }
    assert_int_equal(bh_retention_run(f->store, &exactly, (struct bh_wall){200}, &marked, &diag),
                     0);
    assert_int_equal(marked, 0);
    assert_int_equal(bh_retention_run(f->store, &less, (struct bh_wall){200}, &marked, &diag), 0);
    assert_int_equal(marked, 1);
    assert_int_equal(bh_store_job_get(f->store, id_of[0], &job, &diag), BH_E_NOT_FOUND);
    assert_int_equal(bh_store_job_get(f->store, id_of[2], &job, &diag), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_open_reports_what_it_did),
        T(test_job_row_comes_back),
        T(test_spec_is_kept_without_secrets),
        T(test_list_is_newest_first_and_filtered),
        T(test_failed_start_stays_with_its_error),
        T(test_delete_hides_at_once_and_refuses_running),
        T(test_report_states),
        T(test_idempotency_keys),
        T(test_security_events_are_bounded_and_joined),
        T(test_a_flood_of_security_events_is_counted),
        T(test_values),
        T(test_retention_takes_the_oldest_finished),
        T(test_retention_keeps_within_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
