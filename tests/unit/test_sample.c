/* Spans of samples: extremes, counts, borders. */
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
        cmocka_unit_test(test_span),
        cmocka_unit_test(test_span_out_of_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
