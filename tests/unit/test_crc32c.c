/* The checksum of every format: the published check value, and instruction and tables alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/crc32c.h"

static void test_check_value(void **state)
{
    (void)state;
    assert_int_equal(bh_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(bh_crc32c_portable(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(bh_crc32c(0, "", 0), 0);
}

static void test_both_ways_agree(void **state)
{
    unsigned char data[512];
    uint32_t random = 1;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++) {
        random = random * 1664525u + 1013904223u;
        data[i] = (unsigned char)(random >> 24);
    }
    /* every length, from every alignment, continued from an earlier result */
    for (size_t from = 0; from < 9; from++) {
        for (size_t length = 0; from + length <= sizeof data; length++) {
            uint32_t seed = random ^ (uint32_t)length;
            assert_int_equal(bh_crc32c(seed, data + from, length),
                             bh_crc32c_portable(seed, data + from, length));
        }
    }
    assert_int_equal(bh_crc32c(bh_crc32c(0, data, 100), data + 100, 412), bh_crc32c(0, data, 512));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_value),
        cmocka_unit_test(test_both_ways_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
