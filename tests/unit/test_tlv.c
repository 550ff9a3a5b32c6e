/* TLV items: round trip, groups, overflow, every malformed form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/wire/le.h"
#include "core/wire/tlv.h"

static void test_round_trip(void **state)
{
    (void)state;
    unsigned char data[256];
    struct bh_tlv_writer writer;
    struct bh_tlv_reader reader, inner;
    struct bh_tlv_item item;
    char text[8];
    bh_tlv_begin(&writer, data, sizeof data);
    bh_tlv_u64(&writer, 1, UINT64_MAX);
    bh_tlv_i64(&writer, 2 | BH_TLV_REQUIRED, -5);
    bh_tlv_text(&writer, 3, "hello world");
    bh_tlv_text(&writer, 4, NULL);
    size_t group = bh_tlv_group(&writer, 5);
    bh_tlv_bytes(&writer, 6, "\0\1", 2);
    bh_tlv_group_end(&writer, group);
    assert_false(writer.overflow);
    bh_tlv_open(&reader, data, writer.length);
    assert_int_equal(bh_tlv_next(&reader, &item), 1);
    assert_true(item.number == UINT64_MAX && !item.required);
    assert_int_equal(bh_tlv_next(&reader, &item), 1);
    assert_int_equal(item.tag, 2);
    assert_true(item.required);
    assert_int_equal((int64_t)item.number, -5);
    assert_int_equal(bh_tlv_next(&reader, &item), 1);
    assert_int_equal(bh_tlv_copy_text(&item, text, sizeof text), BH_OK);
    assert_string_equal(text, "hello w");
    assert_int_equal(bh_tlv_next(&reader, &item), 1);
    assert_int_equal(item.kind, BH_TLV_GROUP);
    bh_tlv_open(&inner, item.value, item.length);
    assert_int_equal(bh_tlv_next(&inner, &item), 1);
    assert_int_equal(item.length, 2);
    assert_int_equal(bh_tlv_copy_text(&item, text, sizeof text), BH_E_MALFORMED);
    assert_int_equal(bh_tlv_next(&inner, &item), 0);
    assert_int_equal(bh_tlv_next(&reader, &item), 0);
}

/* Too small at any size: sticky, and nothing is written past the end. */
static void test_overflow(void **state)
{
    (void)state;
    for (size_t capacity = 0; capacity < 48; capacity++) {
        unsigned char data[64];
        struct bh_tlv_writer writer;
        memset(data, 0xee, sizeof data);
        bh_tlv_begin(&writer, data, capacity);
        size_t group = bh_tlv_group(&writer, 1);
        bh_tlv_u64(&writer, 2, 7);
        bh_tlv_text(&writer, 3, "12345678901234");
        bh_tlv_group_end(&writer, group);
        assert_int_equal(writer.overflow, capacity < 8 + 16 + 22);
        for (size_t at = capacity; at < sizeof data; at++)
            assert_int_equal(data[at], 0xee);
    }
}

static void test_malformed(void **state)
{
    (void)state;
    unsigned char data[32];
    struct bh_tlv_writer writer;
    struct bh_tlv_reader reader;
    struct bh_tlv_item item;
    bh_tlv_begin(&writer, data, sizeof data);
    bh_tlv_u64(&writer, 1, 7);
    for (size_t cut = 1; cut < writer.length; cut++) {
        bh_tlv_open(&reader, data, cut);
        assert_int_equal(bh_tlv_next(&reader, &item), BH_E_MALFORMED);
    }
    static const uint16_t kinds[] = {0, 6, 0xffff};
    for (size_t i = 0; i < 3; i++) {
        bh_le_put16(data + 2, kinds[i]);
        bh_tlv_open(&reader, data, writer.length);
        assert_int_equal(bh_tlv_next(&reader, &item), BH_E_MALFORMED);
    }
    bh_le_put16(data + 2, BH_TLV_U64);
    bh_le_put32(data + 4, 7); /* a number of seven bytes */
    bh_tlv_open(&reader, data, writer.length);
    assert_int_equal(bh_tlv_next(&reader, &item), BH_E_MALFORMED);
    bh_le_put32(data + 4, 0xffffffff);
    bh_tlv_open(&reader, data, writer.length);
    assert_int_equal(bh_tlv_next(&reader, &item), BH_E_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
