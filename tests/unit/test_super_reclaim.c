/* Verdicts on reclaimed memory: the arithmetic at its borders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/super/reclaim.h"

#define GIB (1ull << 30)
#define MIB (1ull << 20)

static struct bh_observed known(uint64_t bytes)
{
    return (struct bh_observed){.status = BH_VALUE_AVAILABLE, .value = bytes};
}

static enum bh_reclaim_verdict judge(uint64_t before, uint64_t now, uint64_t peak)
{
    struct bh_reclaim_facts facts = {.before_bytes = known(before), .peak_bytes = known(peak)};
    return bh_reclaim_judge(&facts, known(now), 128 * GIB);
}

static void test_verdicts(void **state)
{
    (void)state;
    assert_int_equal(judge(100 * GIB, 100 * GIB, 50 * GIB), BH_RECLAIM_RECLAIMED);
    assert_int_equal(judge(100 * GIB, 110 * GIB, 50 * GIB), BH_RECLAIM_RECLAIMED); /* others left */
    assert_int_equal(judge(100 * GIB, 95 * GIB, 50 * GIB), BH_RECLAIM_RECLAIMED); /* 90 % is back */
    assert_int_equal(judge(100 * GIB, 95 * GIB - MIB, 50 * GIB), BH_RECLAIM_PARTLY);
    assert_int_equal(judge(100 * GIB, 75 * GIB, 50 * GIB), BH_RECLAIM_PARTLY);
    assert_int_equal(judge(100 * GIB, 75 * GIB - MIB, 50 * GIB), BH_RECLAIM_STRANDED);
    assert_int_equal(judge(100 * GIB, 1 * GIB, 50 * GIB), BH_RECLAIM_STRANDED);
    /* a small job on a machine where more than its peak moves by itself: 1 % of 128 GiB */
    assert_int_equal(judge(100 * GIB, 99 * GIB, 100 * MIB), BH_RECLAIM_RECLAIMED);
    assert_int_equal(judge(0, 0, 0), BH_RECLAIM_RECLAIMED);
}

static void test_unknown_is_not_guessed(void **state)
{
    (void)state;
    struct bh_observed unknown = {.status = BH_VALUE_UNKNOWN};
    struct bh_reclaim_facts facts = {.before_bytes = unknown, .peak_bytes = known(GIB)};
    assert_int_equal(bh_reclaim_judge(&facts, known(GIB), GIB), BH_RECLAIM_UNKNOWN);
    facts.before_bytes = known(GIB);
    assert_int_equal(bh_reclaim_judge(&facts, unknown, GIB), BH_RECLAIM_UNKNOWN);
    facts.peak_bytes = unknown;
    assert_int_equal(bh_reclaim_judge(&facts, known(GIB), GIB), BH_RECLAIM_UNKNOWN);
    assert_string_equal(bh_reclaim_verdict_text(BH_RECLAIM_STRANDED), "stranded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_unknown_is_not_guessed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
