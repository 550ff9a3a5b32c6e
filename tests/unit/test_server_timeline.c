/* The timeline against every event of the run, one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "trace_fixture.h"

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

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_timeline_has_exact_extremes),
        T(test_timeline_shows_charge_limits_and_markers),
        T(test_the_last_minute_is_at_full_rate),
        T(test_losses_are_in_the_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
