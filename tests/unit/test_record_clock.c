/* The recorder's clock: the processor's counter between readings of the system's clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/record/clock.c"

struct bh_live bh_live;

#define START_NS     5000000000000u
#define START_TICKS  123456789u
#define TICKS_PER_US 3000u

static int start_again(void **state)
{
    (void)state;
    counter_good = true;
    rate = stretch_ticks = base_ns = base_ticks = origin_ns = origin_ticks = bh_live.last_ns = 0;
    follow(START_NS, START_TICKS);
    return 0;
}

static void after_us(uint64_t us)
{
    follow(START_NS + us * 1000, START_TICKS + us * TICKS_PER_US);
}

static void the_rate_is_measured_over_two_milliseconds(void **state)
{
    (void)state;
    assert_int_equal(rate, 0); /* one reading tells nothing */
    after_us(1000);
    assert_int_equal(rate, 0);
    after_us(2000);
    assert_int_equal(rate, (1000ull << RATE_SHIFT) / TICKS_PER_US);
    assert_int_equal(stretch_ticks / 1000, TICKS_PER_US); /* a stretch is one millisecond */
    assert_int_equal(base_ns, START_NS + 2000000);
}

static void small_corrections_of_the_clock_are_followed(void **state)
{
    uint64_t before;

    (void)state;
    after_us(2000);
    before = rate;
    /* a fifth of a second later the clock has gained 20 microseconds */
    follow(START_NS + 202020000, START_TICKS + 202000ull * TICKS_PER_US);
    assert_true(rate > before && rate - before < before / 1000);
    assert_int_equal(base_ns, START_NS + 202020000);
}

/* A suspended machine: the clock went on, the counter did not. */
static void a_jump_makes_the_rate_unknown(void **state)
{
    (void)state;
    after_us(2000);
    assert_true(rate != 0);
    follow(START_NS + 3600000000000, START_TICKS + 4000ull * TICKS_PER_US);
    assert_int_equal(rate, 0);
    assert_int_equal(stretch_ticks, 0); /* so that the clock is asked every time */
    follow(START_NS + 3600000000000 + 3000000, START_TICKS + 7000ull * TICKS_PER_US);
    assert_int_equal(rate, (1000ull << RATE_SHIFT) / TICKS_PER_US);
}

/* A counter that began again, and a clock that went back. */
static void backwards_makes_the_rate_unknown(void **state)
{
    (void)state;
    after_us(2000);
    follow(START_NS + 5000000, 17);
    assert_int_equal(rate, 0);
    start_again(state);
    after_us(2000);
    follow(START_NS - 1, START_TICKS + 3000ull * TICKS_PER_US);
    assert_int_equal(rate, 0);
}

static void a_rate_that_changes_is_given_up(void **state)
{
    (void)state;
    after_us(2000);
    follow(START_NS + 402000000, START_TICKS + 402000ull * TICKS_PER_US * 2);
    assert_int_equal(rate, 0);
}

/* Against the system's clock, on whatever processor this is. */
static void it_agrees_with_the_clock_and_never_goes_back(void **state)
{
    uint64_t last = 0, end;
    unsigned used = 0;

    (void)state;
    counter_good = false;
    rate = stretch_ticks = base_ns = base_ticks = origin_ns = origin_ticks = bh_live.last_ns = 0;
    bh_clock_open();
    for (end = bh_clock_read() + 300000000; last < end;) {
        uint64_t before = bh_clock_read();
        uint64_t now = bh_clock_ns();
        uint64_t after = bh_clock_read();

        assert_true(now >= last);
        /* the counter's readings are pinned to the clock's within some microseconds */
        assert_true(now + 50000 >= before && now <= after + 50000);
        last = now;
        used += stretch_ticks != 0;
    }
    assert_true(!counter_good || used > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_rate_is_measured_over_two_milliseconds, start_again),
        cmocka_unit_test_setup(small_corrections_of_the_clock_are_followed, start_again),
        cmocka_unit_test_setup(a_jump_makes_the_rate_unknown, start_again),
        cmocka_unit_test_setup(backwards_makes_the_rate_unknown, start_again),
        cmocka_unit_test_setup(a_rate_that_changes_is_given_up, start_again),
        cmocka_unit_test(it_agrees_with_the_clock_and_never_goes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
