/* Answers out of the database against what the maker of the trace knows. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "trace_fixture.h"

static void test_a_job_without_anything_has_an_empty_timeline(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes bytes = {0};
    struct bh_trace_live_query query = {.at = BH_TRACE_AT_PEAK};
    struct bh_diag diag = {0};
    json_t *json;

    take(f, false);
    json = timeline(f, BH_TRACE_OPEN_RANGE, 10);
    assert_int_equal(json_array_size(json_object_get(json, "t_us")), 0);
    assert_true(json_is_null(json_object_get(json_object_get(json, "peak"), "active")));
    json_decref(json);
    assert_int_equal(bh_trace_live(f->trace, MAKER_ID, &query, collect, &bytes, &diag),
                     BH_E_NO_TRACE);
    query.at = BH_TRACE_AT_LIMIT;
    assert_int_equal(bh_trace_live(f->trace, MAKER_ID, &query, collect, &bytes, &diag),
                     BH_E_LIMIT_NOT_CROSSED);
    assert_int_equal(
        bh_trace_pickle(f->trace, MAKER_ID, BH_TRACE_OPEN_RANGE, 0, collect, &bytes, &diag), 0);
    assert_memory_equal(bytes.data, "\x80\x04", 2);
    assert_int_equal(bytes.data[bytes.length - 1], '.');
    bh_bytes_done(&bytes);
}

static void test_bad_queries_are_typed(void **state)
{
    struct fixture *f = *state;
    struct bh_trace_live_query query = {.at = BH_TRACE_AT_LIMIT};
    struct bh_trace_range back = {MAKER_EPOCH_US + 5, MAKER_EPOCH_US};
    struct bh_bytes bytes = {0};
    struct bh_diag diag = {0};

    maker_begin(&f->maker);
    maker_events(&f->maker, 100);
    maker_flush(&f->maker);
    take(f, false);
    assert_int_equal(bh_trace_timeline(f->trace, "0mhq2v9k3dx7c1p5n8zz", BH_TRACE_OPEN_RANGE, 10,
                                       collect, &bytes, &diag),
                     BH_E_NOT_FOUND);
    assert_int_equal(bh_trace_timeline(f->trace, MAKER_ID, back, 10, collect, &bytes, &diag),
                     BH_E_BAD_QUERY);
    assert_int_equal(
        bh_trace_timeline(f->trace, MAKER_ID, BH_TRACE_OPEN_RANGE, 0, collect, &bytes, &diag),
        BH_E_BAD_QUERY);
    assert_int_equal(bh_trace_live(f->trace, MAKER_ID, &query, collect, &bytes, &diag),
                     BH_E_LIMIT_NOT_CROSSED);
    assert_int_equal(bh_trace_pickle(f->trace, MAKER_ID, back, 0, collect, &bytes, &diag),
                     BH_E_BAD_QUERY);
    assert_int_equal(bytes.length, 0);
    /* and the connection still answers */
    assert_int_equal(bh_trace_events(f->trace, MAKER_ID, 1, 10, true, collect, &bytes, &diag), 0);
    bh_bytes_done(&bytes);
}

static json_t *live(struct fixture *f, struct bh_trace_live_query query)
{
    struct bh_bytes bytes = {0};
    struct bh_diag diag = {0};
    int result = bh_trace_live(f->trace, MAKER_ID, &query, collect, &bytes, &diag);

    if (result < 0)
        print_error("%s\n", diag.detail);
    assert_int_equal(result, 0);
    return parse(&bytes);
}

static void check_live(struct fixture *f, struct bh_trace_live_query query, uint64_t active)
{
    json_t *json = live(f, query), *groups = json_object_get(json, "groups");
    int64_t sum = number(json_object_get(json, "other"), "bytes");

    for (size_t i = 0; i < json_array_size(groups); i++)
        sum += number(json_array_get(groups, i), "bytes");
    assert_int_equal(number(json, "total_bytes"), active);
    assert_int_equal(sum, active);
    json_decref(json);
}

static void test_live_sets_add_up_to_active(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes text = {0};
    struct bh_diag diag = {0};
    struct bh_trace_live_query query = {.at = BH_TRACE_AT_END, .collapsed = true};

    make_run(f, 200000);
    check_live(f, (struct bh_trace_live_query){.at = BH_TRACE_AT_END}, f->maker.active);
    check_live(f, (struct bh_trace_live_query){.at = BH_TRACE_AT_LIMIT}, f->maker.active);
    check_live(f, (struct bh_trace_live_query){.at = BH_TRACE_AT_PEAK, .top = 2}, f->maker.peak);
    check_live(f, (struct bh_trace_live_query){.at = BH_TRACE_AT_PEAK, .by_primitive = true},
               f->maker.peak);
    for (size_t i = 1000; i + 1 < f->maker.history_count; i += 23456) {
        /* the last event of a microsecond counts */
        while (f->maker.history[i + 1].at_us == f->maker.history[i].at_us)
            i++;
        query = (struct bh_trace_live_query){.at_us = f->maker.history[i].at_us};
        check_live(f, query, f->maker.history[i].active);
    }
    query = (struct bh_trace_live_query){.at = BH_TRACE_AT_END, .collapsed = true};
    assert_int_equal(bh_trace_live(f->trace, MAKER_ID, &query, collect, &text, &diag), 0);
    assert_non_null(strstr((char *)text.data, "function_1 (leaky.py:11)"));
    bh_bytes_done(&text);
}

/* Growth by group adds up to what active grew by, whichever way, at any two instants. */
static void check_growth(struct fixture *f, size_t from, size_t to, bool by_primitive)
{
    const struct maker_instant *history = f->maker.history;
    struct bh_trace_live_query query = {.at_us = history[to].at_us,
                                        .since = true,
                                        .since_us = history[from].at_us,
                                        .by_primitive = by_primitive,
                                        .top = 3};
    json_t *json = live(f, query), *groups = json_object_get(json, "groups");
    int64_t sum = number(json_object_get(json, "other"), "growth_bytes");

    for (size_t i = 0; i < json_array_size(groups); i++)
        sum += number(json_array_get(groups, i), "growth_bytes");
    assert_int_equal(number(json, "since_us"), history[from].at_us);
    assert_int_equal(sum, (int64_t)history[to].active - (int64_t)history[from].active);
    json_decref(json);
}

static void test_growth_adds_up_between_any_two_instants(void **state)
{
    struct fixture *f = *state;
    size_t last;

    make_run(f, 200000);
    last = f->maker.history_count - 1;
    for (size_t i = 500; i + 40000 < last; i += 31357) {
        size_t from = i, to = i + 40000;
        while (f->maker.history[from + 1].at_us == f->maker.history[from].at_us)
            from++;
        while (to < last && f->maker.history[to + 1].at_us == f->maker.history[to].at_us)
            to++;
        check_growth(f, from, to, false);
        check_growth(f, from, to, true);
        check_growth(f, to, from, false); /* backwards: what went */
    }
}

static uint64_t count_lines(const struct bh_bytes *bytes)
{
    uint64_t lines = 0;

    for (size_t i = 0; i < bytes->length; i++)
        lines += bytes->data[i] == '\n';
    return lines;
}

static void test_events_are_listed_in_pages(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes bytes = {0};
    struct bh_diag diag = {0};
    json_t *json, *events;

    make_run(f, 30000);
    assert_int_equal(bh_trace_events(f->trace, MAKER_ID, 1, 0, false, collect, &bytes, &diag), 0);
    json = parse(&bytes);
    events = json_object_get(json, "events");
    assert_int_equal(json_array_size(events), BH_TRACE_EVENTS_DEFAULT);
    assert_int_equal(number(json_array_get(events, 0), "seq"), 1);
    assert_int_equal(number(json, "next_from"), BH_TRACE_EVENTS_DEFAULT + 1);
    json_decref(json);
    assert_int_equal(bh_trace_events(f->trace, MAKER_ID, f->maker.sequence - 9, 50, true, collect,
                                     &bytes, &diag),
                     0);
    assert_int_equal(count_lines(&bytes), 10);
    bh_bytes_clear(&bytes);
    assert_int_equal(bh_trace_events(f->trace, MAKER_ID, f->maker.sequence + 1, 50, true, collect,
                                     &bytes, &diag),
                     0);
    assert_int_equal(bytes.length, 0);
    bh_bytes_done(&bytes);
}

static void test_chrome_trace_carries_the_peak(void **state)
{
    struct fixture *f = *state;
    struct bh_bytes bytes = {0};
    struct bh_diag diag = {0};
    json_t *json, *events;
    int64_t peak = 0;
    int instants = 0;

    make_run(f, 100000);
    assert_int_equal(
        bh_trace_chrome(f->trace, MAKER_ID, BH_TRACE_OPEN_RANGE, collect, &bytes, &diag), 0);
    json = parse(&bytes);
    events = json_object_get(json, "traceEvents");
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const char *ph = json_string_value(json_object_get(event, "ph"));
        const char *name = json_string_value(json_object_get(event, "name"));
        if (strcmp(ph, "C") == 0 && strcmp(name, "active") == 0) {
            int64_t bytes_now = number(json_object_get(event, "args"), "bytes");
            peak = bytes_now > peak ? bytes_now : peak;
        }
        instants += strcmp(ph, "i") == 0;
    }
    assert_int_equal(peak, f->maker.peak);
    assert_true(instants >= 5);
    json_decref(json);
}

/* ---- a cut while the import runs ---- */

static pid_t start_growing(struct fixture *f)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct bh_import *import;
        struct bh_import_step step;
        if (bh_import_open(bh_store_path_peek(f->store), &import, NULL) < 0)
            _exit(1);
        for (;;) {
            maker_events(&f->maker, 3000);
            maker_flush(&f->maker);
            if (bh_import_step(import, f->maker.id, f->maker.dirfd, false, 0, &step, NULL) < 0)
                _exit(2);
        }
    }
    return pid;
}

/* The answer is one cut: numbers without a gap, links joined, sums of the pickle's own making. */
static void check_cut(struct fixture *f, uint64_t *last)
{
    struct bh_bytes bytes = {0};
    struct bh_diag diag = {0};
    uint64_t expected = 1;
    char *line, *rest = NULL;

    assert_int_equal(
        bh_trace_events(f->trace, MAKER_ID, 1, BH_TRACE_EVENTS_MAX, true, collect, &bytes, &diag),
        0);
    for (line = strtok_r((char *)bytes.data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        const char *sequence = strstr(line, "\"seq\":");
        assert_non_null(sequence);
        assert_int_equal(strtoull(sequence + 6, NULL, 10), expected++);
    }
    assert_true(expected - 1 >= *last);
    *last = expected - 1;
    bh_bytes_done(&bytes);
    assert_int_equal(
        bh_trace_pickle(f->trace, MAKER_ID, BH_TRACE_OPEN_RANGE, 0, collect, &bytes, &diag), 0);
    assert_int_equal(bytes.data[bytes.length - 1], '.');
    bh_bytes_done(&bytes);
}

static void test_answers_are_one_cut_while_the_job_allocates(void **state)
{
    struct fixture *f = *state;
    uint64_t last = 0;
    int status;
    pid_t pid;

    maker_begin(&f->maker);
    maker_events(&f->maker, 3000);
    maker_flush(&f->maker);
    take(f, false);
    pid = start_growing(f);
    for (int i = 0; i < 200 && last < 60000; i++)
        check_cut(f, &last);
    assert_true(last > 3000);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_a_job_without_anything_has_an_empty_timeline),
        T(test_bad_queries_are_typed),
        T(test_live_sets_add_up_to_active),
        T(test_growth_adds_up_between_any_two_instants),
        T(test_events_are_listed_in_pages),
        T(test_chrome_trace_carries_the_peak),
        T(test_answers_are_one_cut_while_the_job_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
