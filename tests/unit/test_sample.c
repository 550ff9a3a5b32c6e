/* Folds over samples: peak, growth, counts, spans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/model/sample.h"

static struct bh_sample reading(uint64_t ms, uint64_t bytes)
{
    return (struct bh_sample){
        .captured_at = {ms * BH_NS_PER_MS},
        .processed_at = {ms * BH_NS_PER_MS},
        .bytes = {BH_VALUE_AVAILABLE, bytes},
        .members = 1,
    };
}

static struct bh_sample missing(uint64_t ms)
{
    struct bh_sample sample = reading(ms, 0);
    sample.bytes.status = BH_VALUE_UNKNOWN;
    return sample;
}

static bool add(struct bh_sample_stats *stats, struct bh_sample sample)
{
    bool peak = false;
    bh_sample_stats_add(stats, &sample, &peak);
    return peak;
}

static void test_growth(void **state)
{
    (void)state;
    struct bh_sample_stats stats = {0};
    assert_true(add(&stats, reading(0, 1000)));
    assert_true(add(&stats, reading(500, 1500)));
    assert_int_equal(stats.peak_growth_per_s, 1000);
    assert_false(add(&stats, reading(600, 1400))); /* falling is no growth */
    assert_int_equal(stats.peak_growth_per_s, 1000);
    assert_false(add(&stats, reading(700, 1500))); /* equal to the peak is no new one */
    assert_int_equal(stats.peak_bytes, 1500);
    assert_int_equal(stats.peak_at.ns, 500 * BH_NS_PER_MS);
    assert_int_equal(stats.complete, 4);
}

/* What lies between two complete samples around a missing one is not known. */
static void test_missing_clears_the_baseline(void **state)
{
    (void)state;
    struct bh_sample_stats stats = {0};
    (void)add(&stats, reading(0, 1000));
    (void)add(&stats, missing(10));
    (void)add(&stats, reading(20, 9000));
    assert_int_equal(stats.peak_growth_per_s, 0);
    assert_int_equal(stats.incomplete, 1);
    assert_int_equal(stats.complete, 2);
    (void)add(&stats, reading(20, 9999)); /* no time between them */
    assert_int_equal(stats.peak_growth_per_s, 0);
}

/* 2^63 in a nanosecond does not wrap. */
static void test_growth_saturates(void **state)
{
    (void)state;
    struct bh_sample_stats stats = {0};
    struct bh_sample sample = reading(1, INT64_MAX);
    (void)add(&stats, reading(1, 0));
    sample.captured_at.ns += 1;
    (void)add(&stats, sample);
    assert_true(stats.peak_growth_per_s == (uint64_t)INT64_MAX);
}

static void test_span(void **state)
{
    (void)state;
    struct bh_sample_span span = {0};
    struct bh_sample sample = missing(100);
    assert_true(bh_sample_span_empty(&span));
    assert_false(bh_sample_span_full(&span, &sample));
    bh_sample_span_add(&span, &sample);
    assert_false(bh_sample_span_empty(&span));
    assert_int_equal(span.record.max.status, BH_VALUE_UNKNOWN); /* never 0 for unknown */
    sample = reading(200, 50);
    bh_sample_span_add(&span, &sample);
    sample = reading(300, 70);
    bh_sample_span_add(&span, &sample);
    sample = reading(400, 60);
    bh_sample_span_add(&span, &sample);
    assert_int_equal(span.record.count, 3);
    assert_int_equal(span.record.unusable, 1);
    assert_int_equal(span.record.min.value, 50);
    assert_int_equal(span.record.max.value, 70);
    assert_int_equal(span.record.max_at.ns, 300 * BH_NS_PER_MS);
    assert_int_equal(span.record.last.value, 60);
    sample = reading(1099, 1);
    assert_false(bh_sample_span_full(&span, &sample));
    sample = reading(1100, 1);
    assert_true(bh_sample_span_full(&span, &sample));
}

/* Two samples files are read one after the other, the older one perhaps last. */
static void test_span_out_of_order(void **state)
{
    (void)state;
    struct bh_sample_span span = {0};
    struct bh_sample sample = reading(300, 70);
    bh_sample_span_add(&span, &sample);
    sample = reading(200, 50);
    bh_sample_span_add(&span, &sample);
    assert_int_equal(span.record.from.ns, 200 * BH_NS_PER_MS);
    assert_int_equal(span.record.to.ns, 300 * BH_NS_PER_MS);
    assert_int_equal(span.record.last.value, 70);
    assert_int_equal(span.record.min.value, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_missing_clears_the_baseline),
        cmocka_unit_test(test_growth_saturates),
        cmocka_unit_test(test_span),
        cmocka_unit_test(test_span_out_of_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
