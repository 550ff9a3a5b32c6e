/* Answers out of the database against what the maker of the trace knows. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/import.h"
#include "server/store.h"
#include "server/trace.h"
#include "trace_maker.h"

struct fixture {
    struct maker maker;
    struct bh_store *store;
    struct bh_import *import;
    struct bh_trace *trace;
};

static void open_all(struct fixture *f)
{
    struct bh_store_start start;
    struct bh_diag diag = {0};

    assert_int_equal(bh_store_open(f->maker.state, false, &f->store, &start, &diag), 0);
    assert_int_equal(bh_import_open(bh_store_path_peek(f->store), &f->import, &diag), 0);
    assert_int_equal(bh_trace_open(bh_store_path_peek(f->store), &f->trace, &diag), 0);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    maker_state(&f->maker);
    maker_run(&f->maker, MAKER_ID, 3);
    f->maker.keep_history = true;
    open_all(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    bh_trace_close(f->trace);
    bh_import_close(f->import);
    bh_store_close(f->store);
    maker_run_close(&f->maker);
    maker_done(&f->maker);
    free(f);
    return 0;
}

static void take(struct fixture *f, bool ended)
{
    struct bh_reindex_result result;
    struct bh_import_step step = {.more = true};
    struct bh_diag diag = {0};

    /* makes the row on the first call */
    assert_int_equal(bh_reindex(f->import, f->maker.jobs_fd, NULL, NULL, NULL, &result, &diag), 0);
    while (step.more)
        assert_int_equal(
            bh_import_step(f->import, f->maker.id, f->maker.dirfd, ended, 0, &step, &diag), 0);
    assert_int_equal(step.complete, ended);
}

static void make_run(struct fixture *f, uint64_t events)
{
    struct maker *maker = &f->maker;

    maker_begin(maker);
    maker_events(maker, events / 2);
    maker_mark(maker, "epoch 2");
    maker_events(maker, events - events / 2);
    maker->now_ns = MAKER_MONO_NS + 1000000000;
    maker_samples(maker, 1000, 5000);
    maker->now_ns = MAKER_MONO_NS + 2000000000;
    maker_samples(maker, 4000, 1096847360);
    maker_limit_crossed(maker, 1096847360);
    maker_transition(maker, 2, 4);
    maker_signal(maker);
    maker->now_ns = MAKER_MONO_NS + 2500000000;
    maker_outcome(maker);
    maker_flush(maker);
    maker_report(maker);
    take(f, true);
}

static int collect(void *user, const void *data, size_t length)
{
    bh_bytes_append(user, data, length);
    return 0;
}

static json_t *parse(struct bh_bytes *bytes)
{
    json_error_t error;
    json_t *json = json_loadb((const char *)bytes->data, bytes->length, 0, &error);

    if (!json)
        fail_msg("no JSON: %s near %.80s", error.text, (char *)bytes->data);
    bh_bytes_done(bytes);
    return json;
}

static json_t *timeline(struct fixture *f, struct bh_trace_range range, uint32_t points)
{
    struct bh_bytes bytes = {0};
    struct bh_diag diag = {0};
    int result = bh_trace_timeline(f->trace, f->maker.id, range, points, collect, &bytes, &diag);

    if (result < 0)
        print_error("%s\n", diag.detail);
    assert_int_equal(result, 0);
    return parse(&bytes);
}

static int64_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static int64_t at(const json_t *object, const char *key, size_t index)
{
    const json_t *value = json_array_get(json_object_get(object, key), index);

    return json_is_null(value) ? -1 : json_integer_value(value);
}

/* Extremes of [from, until) by looking at every event; -1 before the first. */
static void extremes(const struct maker *maker, int64_t from_us, int64_t until_us, int64_t *min,
                     int64_t *max, bool reserved)
{
    *min = *max = -1;
    for (size_t i = 0; i < maker->history_count; i++) {
        const struct maker_instant *instant = &maker->history[i];
        int64_t value = (int64_t)(reserved ? instant->reserved : instant->active);
        if (instant->at_us >= until_us)
            break;
        /* the value carried in is the last one of an earlier or the same microsecond */
        if (instant->at_us <= from_us && instant->at_us < from_us) {
            *min = *max = value;
            continue;
        }
        *min = *min < 0 || value < *min ? value : *min;
        *max = value > *max ? value : *max;
    }
}

static void compare_series(const struct fixture *f, const json_t *json)
{
    size_t cells = json_array_size(json_object_get(json, "t_us"));

    for (size_t i = 0; i < cells; i++) {
        int64_t from_us = at(json, "t_us", i), min, max;
        int64_t until_us = i + 1 < cells ? at(json, "t_us", i + 1) : number(json, "to_us") + 1;
        extremes(&f->maker, from_us, until_us, &min, &max, false);
        if (at(json, "active_min", i) != min)
            print_error("cell %zu of %zu, %lld to %lld\n", i, cells, (long long)from_us,
                        (long long)until_us);
        assert_int_equal(at(json, "active_min", i), min);
        assert_int_equal(at(json, "active_max", i), max);
        extremes(&f->maker, from_us, until_us, &min, &max, true);
        assert_int_equal(at(json, "reserved_min", i), min);
        assert_int_equal(at(json, "reserved_max", i), max);
    }
}

static void test_timeline_has_exact_extremes(void **state)
{
    struct fixture *f = *state;
    int64_t first, span;
    json_t *json;

    make_run(f, 60000);
    first = f->maker.history[0].at_us;
    span = f->maker.history[f->maker.history_count - 1].at_us - first;
    json = timeline(f, BH_TRACE_OPEN_RANGE, 50);
    assert_string_equal(json_string_value(json_object_get(json, "job_id")), MAKER_ID);
    assert_int_equal(number(json, "from_us"), MAKER_EPOCH_US);
    assert_int_equal(number(json, "to_us"), MAKER_EPOCH_US + 2500000);
    assert_true(json_array_size(json_object_get(json, "t_us")) >= 50);
    assert_true(json_array_size(json_object_get(json, "t_us")) <= 100);
    compare_series(f, json);
    json_decref(json);
    for (int i = 0; i < 12; i++) {
        struct bh_trace_range range;
        range.from_us = first + maker_random(&f->maker, (uint32_t)span);
        range.to_us = range.from_us + maker_random(&f->maker, i % 2 ? 50 : (uint32_t)span);
        json = timeline(f, range, 1 + maker_random(&f->maker, 60));
        compare_series(f, json);
        json_decref(json);
    }
}

static const json_t *marker(const json_t *json, const char *kind)
{
    const json_t *list = json_object_get(json, "markers");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(entry, "kind")), kind) == 0)
            return entry;
    }
    fail_msg("no %s marker", kind);
    return NULL;
}

static void test_timeline_shows_charge_limits_and_markers(void **state)
{
    struct fixture *f = *state;
    const json_t *limits, *peak;
    int64_t greatest = -1;
    json_t *json;

    make_run(f, 1000);
    json = timeline(f, BH_TRACE_OPEN_RANGE, 100);
    for (size_t i = 0; i < json_array_size(json_object_get(json, "charge_max")); i++)
        greatest = at(json, "charge_max", i) > greatest ? at(json, "charge_max", i) : greatest;
    assert_int_equal(greatest, 1096847360);
    limits = json_object_get(json, "limits");
    assert_int_equal(json_array_size(limits), 1);
    assert_int_equal(number(json_array_get(limits, 0), "limit_bytes"), 1 << 30);
    assert_int_equal(number(marker(json, "limit_crossed"), "charge_bytes"), 1096847360);
    assert_string_equal(json_string_value(json_object_get(marker(json, "signal"), "signal")),
                        "SIGTERM");
    assert_string_equal(json_string_value(json_object_get(marker(json, "transition"), "to")),
                        "terminating");
    assert_string_equal(json_string_value(json_object_get(marker(json, "mark"), "label")),
                        "epoch 2");
    assert_int_equal(number(marker(json, "exit"), "at_us"), MAKER_EPOCH_US + 2500000);
    peak = json_object_get(json, "peak");
    assert_int_equal(number(json_object_get(peak, "charge"), "charge_bytes"), 1122013184);
    assert_int_equal(number(json_object_get(peak, "active"), "active_bytes"), f->maker.peak);
    json_decref(json);
}

static void test_the_last_minute_is_at_full_rate(void **state)
{
    static const uint64_t older[] = {100, 200, 150}, newer[] = {700, 300};
    static const int64_t all[] = {4999, 100, 200, 150, 700, 300}; /* 4999: the second before */
    struct fixture *f = *state;
    struct bh_trace_range range = {MAKER_EPOCH_US + 1500000, MAKER_EPOCH_US + 1749999};
    json_t *json;

    /* the older of the two files has the higher number: they alternate */
    maker_samples_file(&f->maker, "samples.1", MAKER_MONO_NS + 1500000000, older, 3);
    maker_samples_file(&f->maker, "samples.0", MAKER_MONO_NS + 1650000000, newer, 2);
    make_run(f, 100);
    json = timeline(f, range, 5);
    for (size_t i = 0; i < 5; i++) { /* each span begins just before its point */
        assert_int_equal(at(json, "charge_max", i), all[i] > all[i + 1] ? all[i] : all[i + 1]);
        assert_int_equal(at(json, "charge_min", i), all[i] < all[i + 1] ? all[i] : all[i + 1]);
    }
    json_decref(json);
    /* what came before them is still the seconds' */
    json = timeline(f, (struct bh_trace_range){MAKER_EPOCH_US, MAKER_EPOCH_US + 1400000}, 1);
    assert_int_equal(at(json, "charge_max", 0), 5000);
    assert_int_equal(at(json, "charge_min", 0), 1000);
    json_decref(json);
}

static void test_losses_are_in_the_timeline(void **state)
{
    struct fixture *f = *state;
    const json_t *losses;
    json_t *json;

    maker_begin(&f->maker);
    maker_events(&f->maker, 500);
    maker_lost(&f->maker, 4711);
    maker_events(&f->maker, 500);
    maker_flush(&f->maker);
    take(f, false);
    json = timeline(f, BH_TRACE_OPEN_RANGE, 10);
    losses = json_object_get(json, "losses");
    assert_int_equal(json_array_size(losses), 1);
    assert_int_equal(number(json_array_get(losses, 0), "count"), 4711);
    json_decref(json);
}

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
        T(test_timeline_has_exact_extremes),
        T(test_timeline_shows_charge_limits_and_markers),
        T(test_the_last_minute_is_at_full_rate),
        T(test_losses_are_in_the_timeline),
        T(test_a_job_without_anything_has_an_empty_timeline),
        T(test_bad_queries_are_typed),
        T(test_live_sets_add_up_to_active),
        T(test_events_are_listed_in_pages),
        T(test_chrome_trace_carries_the_peak),
        T(test_answers_are_one_cut_while_the_job_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
