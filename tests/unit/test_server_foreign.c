/* Foreign event lists: what is committed is what the import sees, names are defined once, and every
 * wrong entry is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "core/viz/events.h"
#include "server/foreign.h"
#include "server/import.h"
#include "server/store.h"
#include "trace_maker.h"

struct fixture {
    struct maker maker; /* only its folders */
    struct bh_foreign *foreign;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct bh_diag diag = {0};

    assert_non_null(f);
    maker_state(&f->maker);
    strcpy(f->maker.id, MAKER_ID);
    maker_check(bh_io_make_dir(f->maker.jobs_fd, MAKER_ID, false, &f->maker.dirfd, NULL));
    maker_spec(&f->maker, true);
    assert_int_equal(bh_foreign_open(f->maker.dirfd, MAKER_ID, &f->foreign, &diag), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    bh_foreign_free(f->foreign);
    close(f->maker.dirfd);
    maker_done(&f->maker);
    free(f);
    return 0;
}

static const struct bh_foreign_frame stack[] = {{"a.py", "<module>", 3}, {"a.py", "step", 9}};

static struct bh_foreign_event event(enum bh_evlog_kind action, uint64_t address, int64_t us)
{
    return (struct bh_foreign_event){
        .action = action,
        .pid = 7,
        .address = address,
        .size_bytes = 1024,
        .requested_bytes = 1000,
        .timestamp_us = MAKER_EPOCH_US + us,
        .primitive = "Add",
        .frames = stack,
        .frame_count = 2,
    };
}

static void add(struct fixture *f, struct bh_foreign_event entry)
{
    struct bh_diag diag = {0};
    int result = bh_foreign_add(f->foreign, &entry, &diag);

    if (result < 0)
        print_error("%s\n", diag.detail);
    assert_int_equal(result, 0);
}

static uint64_t commit(struct fixture *f)
{
    struct bh_diag diag = {0};
    uint64_t last = 0;

    assert_int_equal(bh_foreign_commit(f->foreign, &last, &diag), 0);
    return last;
}

static void reopen(struct fixture *f)
{
    struct bh_diag diag = {0};

    bh_foreign_free(f->foreign);
    assert_int_equal(bh_foreign_open(f->maker.dirfd, MAKER_ID, &f->foreign, &diag), 0);
}

static int collect(void *user, const void *data, size_t length)
{
    bh_bytes_append(user, data, length);
    return 0;
}

/* The log as it is served, one event a line. */
static void listed(struct fixture *f, struct bh_bytes *out)
{
    struct bh_events_query query = {.from = 1, .ndjson = true};
    struct bh_trace_file *file;
    struct bh_diag diag = {0};

    assert_int_equal(bh_trace_file_open(f->maker.dirfd, BH_EVLOG_FILE_NAME, &file, &diag), 0);
    assert_int_equal(bh_events_write(bh_trace_file_source(file), NULL, &query,
                                     (struct bh_sink){collect, out}, &diag),
                     0);
    bh_trace_file_close(file);
}

static int occurrences(const struct bh_bytes *bytes, const char *text)
{
    int count = 0;

    for (const char *at = (const char *)bytes->data; (at = strstr(at, text)); at++)
        count++;
    return count;
}

static void test_entries_come_back_as_given(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes text = {0};

    add(f, event(BH_EVLOG_ALLOC_NEW, 4096, 0));
    add(f, event(BH_EVLOG_FREE_TO_CACHE, 4096, 10));
    assert_int_equal(commit(f), 2);
    listed(f, &text);
    assert_int_equal(occurrences(&text, "\n"), 2);
    assert_int_equal(occurrences(&text, "\"action\":\"AllocNew\""), 1);
    assert_int_equal(occurrences(&text, "\"requested_size\":1000"), 2);
    assert_int_equal(occurrences(&text, "\"primitive_name\":\"Add\""), 2);
    assert_int_equal(occurrences(&text, "[[\"a.py\",\"<module>\",3],[\"a.py\",\"step\",9]]"), 2);
    assert_int_equal(occurrences(&text, "\"timestamp_us\":1796002200120010"), 1);
    bh_bytes_done(&text);
}

static void test_an_entry_without_process_has_none(void **state)
{
    struct fixture *f = *state;
    struct bh_foreign_event entry = event(BH_EVLOG_ALLOC_NEW, 4096, 0);
    struct bh_bytes text = {0};

    entry.pid = 0;
    add(f, entry);
    commit(f);
    listed(f, &text);
    assert_int_equal(occurrences(&text, "\"pid\":null,\"image\":null"), 1);
    bh_bytes_done(&text);
}

static void test_names_are_defined_once_across_requests(void **state)
{
    struct fixture *f = *state;
    struct bh_trace_reader reader;
    struct bh_evlog_record record;
    struct bh_trace_file *file;
    struct bh_diag diag = {0};
    int definitions = 0;

    for (int i = 0; i < 5; i++) {
        add(f, event(BH_EVLOG_ALLOC_NEW, 4096 + 8192 * (uint64_t)i, i));
        (void)commit(f);
        reopen(f);
    }
    assert_int_equal(bh_trace_file_open(f->maker.dirfd, BH_EVLOG_FILE_NAME, &file, &diag), 0);
    assert_int_equal(bh_trace_reader_begin(&reader, bh_trace_file_source(file), 0, false), 0);
    while (bh_trace_reader_next(&reader, &record) == 1)
        definitions += record.kind >= BH_EVLOG_IMAGE && record.kind <= BH_EVLOG_STACK &&
                       record.kind != BH_EVLOG_IMAGE_END;
    /* one image; Add, a.py, <module>, step; two frames; one stack */
    assert_int_equal(definitions, 8);
    bh_trace_file_close(file);
}

static void test_what_is_not_committed_did_not_happen(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes text = {0};
    struct stat before, after;

    add(f, event(BH_EVLOG_ALLOC_NEW, 4096, 0));
    assert_int_equal(commit(f), 1);
    assert_int_equal(fstatat(f->maker.dirfd, BH_EVLOG_FILE_NAME, &before, 0), 0);
    for (int i = 0; i < 20000; i++) /* more than a segment: some of it reaches the file */
        add(f, event(BH_EVLOG_ALLOC_NEW, 8192 + 8192 * (uint64_t)i, i));
    reopen(f);
    assert_int_equal(fstatat(f->maker.dirfd, BH_EVLOG_FILE_NAME, &after, 0), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(bh_foreign_last(f->foreign), 1);
    add(f, event(BH_EVLOG_ALLOC_NEW, 8192, 0));
    assert_int_equal(commit(f), 2);
    listed(f, &text);
    assert_int_equal(occurrences(&text, "\n"), 2);
    bh_bytes_done(&text);
}

static void test_sequences_may_skip_but_not_go_back(void **state)
{
    struct fixture *f = *state;
    struct bh_foreign_event entry = event(BH_EVLOG_ALLOC_NEW, 4096, 0);
    struct bh_bytes text = {0};
    struct bh_diag diag = {0};

    entry.has_sequence = true;
    entry.sequence = 100; /* the first one may have any number */
    add(f, entry);
    entry.sequence = 104;
    entry.address = 8192;
    add(f, entry);
    assert_int_equal(bh_foreign_add(f->foreign, &entry, &diag), BH_E_SEQUENCE_BACK);
    assert_non_null(strstr(diag.detail, "104"));
    assert_string_equal(diag.field, "seq");
    assert_int_equal(commit(f), 104);
    listed(f, &text);
    assert_int_equal(occurrences(&text, "\"action\":\"Lost\""), 1);
    assert_int_equal(occurrences(&text, "\"count\":3"), 1);
    bh_bytes_done(&text);
}

static void test_wrong_entries_name_their_member(void **state)
{
    struct fixture *f = *state;
    struct bh_foreign_event entry = event(BH_EVLOG_ALLOC_NEW, 1ull << 53, 0);
    enum bh_evlog_kind action = BH_EVLOG_MARK;
    struct bh_diag diag = {0};

    assert_int_equal(bh_foreign_add(f->foreign, &entry, &diag), BH_E_INVALID_VALUE);
    assert_string_equal(diag.field, "addr");
    entry = event(BH_EVLOG_ALLOC_NEW, 1, 0);
    entry.requested_bytes = 1025;
    assert_int_equal(bh_foreign_add(f->foreign, &entry, &diag), BH_E_INVALID_VALUE);
    assert_string_equal(diag.field, "requested_size");
    entry = event(BH_EVLOG_ALLOC_NEW, 1, 0);
    entry.timestamp_us = -1;
    assert_int_equal(bh_foreign_add(f->foreign, &entry, &diag), BH_E_INVALID_VALUE);
    assert_string_equal(diag.field, "timestamp_us");
    assert_int_equal(bh_foreign_action("FreeActiveToCache", &action), 0);
    assert_int_equal(action, BH_EVLOG_FREE_TO_CACHE);
    assert_int_equal(bh_foreign_action("Free", &action), BH_E_INVALID_VALUE);
}

static void test_the_import_reads_what_is_committed(void **state)
{
    struct fixture *f = *state;
    struct bh_reindex_result result;
    struct bh_store_start start;
    struct bh_store *store;
    struct bh_import *import;
    struct bh_store_job job;
    struct bh_import_step step;
    struct bh_diag diag = {0};

    assert_int_equal(bh_store_open(f->maker.state, false, &store, &start, &diag), 0);
    assert_int_equal(bh_import_open(bh_store_path_peek(store), &import, &diag), 0);
    add(f, event(BH_EVLOG_ALLOC_NEW, 4096, 0));
    (void)commit(f);
    for (int i = 0; i < 20000; i++)
        add(f, event(BH_EVLOG_ALLOC_NEW, 8192 + 8192 * (uint64_t)i, i));
    assert_int_equal(bh_reindex(import, f->maker.jobs_fd, NULL, NULL, NULL, &result, &diag), 0);
    assert_int_equal(bh_store_job_get(store, MAKER_ID, &job, &diag), 0);
    assert_true(job.external);
    assert_int_equal(job.event_sequence, 1);
    assert_int_equal(job.active.value, 1024);
    assert_int_equal(job.recorder, BH_RECORDER_ATTACHED);
    assert_int_equal(commit(f), 20001);
    do
        assert_int_equal(bh_import_step(import, MAKER_ID, f->maker.dirfd, false, 0, &step, &diag),
                         0);
    while (step.more);
    assert_int_equal(step.event_sequence, 20001);
    assert_int_equal(bh_store_report_put(store, MAKER_ID, "{}\n", 3, BH_OUTCOME_CHILD_EXITED,
                                         BH_CAUSE_COMPLETED, "It completed.", bh_clock_wall(),
                                         &diag),
                     0);
    assert_int_equal(bh_store_job_get(store, MAKER_ID, &job, &diag), 0);
    assert_int_equal(job.state, BH_JOB_FINISHED);
    assert_int_equal(job.active.value, 1024 * 20001);
    bh_import_close(import);
    bh_store_close(store);
}

static void test_a_rebuild_takes_the_end_from_the_report(void **state)
{
    static const char report[] =
        "{\"schema\":\"bulkhead.report\",\"schema_version\":1,\"run\":{\"run_id\":\"" MAKER_ID
        "\"},\"outcome\":{\"kind\":\"child_exited\",\"cause\":\"completed\","
        "\"sentence\":\"It completed.\"}}\n";
    struct fixture *f = *state;
    struct bh_reindex_result result;
    struct bh_store_start start;
    struct bh_store *store;
    struct bh_import *import;
    struct bh_store_job job;
    struct bh_diag diag = {0};

    add(f, event(BH_EVLOG_ALLOC_NEW, 4096, 0));
    (void)commit(f);
    maker_check(
        bh_io_replace(f->maker.dirfd, "report.json", report, sizeof report - 1, false, NULL));
    assert_int_equal(bh_store_open(f->maker.state, false, &store, &start, &diag), 0);
    assert_int_equal(bh_import_open(bh_store_path_peek(store), &import, &diag), 0);
    assert_int_equal(bh_reindex(import, f->maker.jobs_fd, NULL, NULL, NULL, &result, &diag), 0);
    assert_int_equal(bh_store_job_get(store, MAKER_ID, &job, &diag), 0);
    assert_int_equal(job.state, BH_JOB_FINISHED);
    assert_int_equal(job.outcome, BH_OUTCOME_CHILD_EXITED);
    assert_int_equal(job.cause, BH_CAUSE_COMPLETED);
    assert_string_equal(job.sentence, "It completed.");
    assert_int_equal(job.report, BH_STORE_REPORT_READY);
    assert_true(job.ended_at.us > 0);
    bh_import_close(import);
    bh_store_close(store);
}

static void test_a_baseline_takes_effect_as_a_whole(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes text = {0};

    for (int i = 0; i < 3; i++) {
        struct bh_foreign_event entry = event(BH_EVLOG_BASELINE, 4096 * (uint64_t)(i + 1), 0);
        entry.cached = i == 2;
        add(f, entry);
    }
    add(f, event(BH_EVLOG_FREE_TO_OS, 4096, 5));
    assert_int_equal(commit(f), 4);
    listed(f, &text);
    assert_int_equal(occurrences(&text, "\"state\":\"active\""), 2);
    assert_int_equal(occurrences(&text, "\"state\":\"cached\""), 1);
    bh_bytes_done(&text);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_entries_come_back_as_given),
        T(test_an_entry_without_process_has_none),
        T(test_names_are_defined_once_across_requests),
        T(test_what_is_not_committed_did_not_happen),
        T(test_sequences_may_skip_but_not_go_back),
        T(test_wrong_entries_name_their_member),
        T(test_the_import_reads_what_is_committed),
        T(test_a_rebuild_takes_the_end_from_the_report),
        T(test_a_baseline_takes_effect_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
