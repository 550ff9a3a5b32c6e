/* status.bin: round trip, golden bytes, every damaged byte, numbers outside their lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/crc32c.h"
#include "core/wire/le.h"
#include "core/wire/status_file.h"
#include "records.h"
#include "scratch.h"

static void test_round_trip(void **state)
{
    (void)state;
    struct bh_status status, back;
    unsigned char bytes[BH_STATUS_FILE_BYTES];
    memset(&status, 0, sizeof status);
    fill_status(&status);
    bh_status_file_encode(&status, bytes);
    assert_int_equal(bh_status_file_decode(bytes, sizeof bytes, &back), BH_OK);
    assert_string_equal(back.run_id, status.run_id);
    assert_int_equal(back.root_start_token, status.root_start_token);
    assert_int_equal(back.reserved.status, BH_VALUE_STALE);
    assert_int_equal(back.reserved.value, 400);
    assert_int_equal(back.exit_code, -1);
    assert_int_equal(back.signal, 9);
    unsigned char again[BH_STATUS_FILE_BYTES];
    bh_status_file_encode(&back, again);
    assert_memory_equal(again, bytes, sizeof bytes);
    assert_true(golden_equal("wire/status.bin", bytes, sizeof bytes));
}

static void test_damaged(void **state)
{
    (void)state;
    struct bh_status status, back;
    unsigned char bytes[BH_STATUS_FILE_BYTES];
    fill_status(&status);
    bh_status_file_encode(&status, bytes);
    for (size_t cut = 0; cut < sizeof bytes; cut++)
        assert_int_equal(bh_status_file_decode(bytes, cut, &back), BH_E_TRUNCATED);
    for (size_t at = 0; at < sizeof bytes; at++) {
        bytes[at] ^= 0x10;
        assert_true(bh_status_file_decode(bytes, sizeof bytes, &back) < 0);
        bytes[at] ^= 0x10;
    }
}

static void test_ranges(void **state)
{
    (void)state;
    static const size_t enums[] = {28, 29, 30, 31, 160, 161, 162, 163, 164, 165, 166, 167};
    struct bh_status status, back;
    unsigned char bytes[BH_STATUS_FILE_BYTES];
    fill_status(&status);
    for (size_t i = 0; i < sizeof enums / sizeof enums[0]; i++) {
        bh_status_file_encode(&status, bytes);
        bytes[enums[i]] = 200;
        bh_le_put32(bytes + 252, bh_crc32c(0, bytes, 252));
        assert_int_equal(bh_status_file_decode(bytes, sizeof bytes, &back), BH_E_MALFORMED);
    }
    bh_status_file_encode(&status, bytes);
    bytes[8] = '/';
    bh_le_put32(bytes + 252, bh_crc32c(0, bytes, 252));
    assert_int_equal(bh_status_file_decode(bytes, sizeof bytes, &back), BH_E_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
