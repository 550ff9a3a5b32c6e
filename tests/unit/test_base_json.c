/* The JSON writer: shape, escaping, wrong UTF-8, growth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "core/base/json_out.h"
#include "core/base/text.h"

static struct bh_bytes out;
static struct bh_json json;

static int setup(void **state)
{
    (void)state;
    out = (struct bh_bytes){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bh_bytes_done(&out);
    return 0;
}

static void write_sample(enum bh_json_style style)
{
    bh_json_begin(&json, &out, style);
    bh_json_object(&json, NULL);
    bh_json_u64(&json, "u", UINT64_MAX);
    bh_json_i64(&json, "i", INT64_MIN);
    bh_json_bool(&json, "t", true);
    bh_json_null(&json, "n");
    bh_json_double(&json, "d", 0.5);
    bh_json_double(&json, "nan", (double)NAN);
    bh_json_double(&json, "inf", (double)INFINITY);
    bh_json_string(&json, "none", NULL);
    bh_json_array(&json, "empty");
    bh_json_end(&json);
    bh_json_array(&json, "a");
    bh_json_u64(&json, NULL, 1);
    bh_json_object(&json, NULL);
    bh_json_end(&json);
    bh_json_raw(&json, NULL, "[2]", 3);
    bh_json_end(&json);
    bh_json_end(&json);
    bh_json_finish(&json);
}

static void test_compact(void **state)
{
    (void)state;
    write_sample(BH_JSON_COMPACT);
    assert_string_equal((char *)out.data,
                        "{\"u\":18446744073709551615,\"i\":-9223372036854775808,\"t\":true,"
                        "\"n\":null,\"d\":0.5,\"nan\":null,\"inf\":null,\"none\":null,"
                        "\"empty\":[],\"a\":[1,{},[2]]}");
}

static void test_pretty(void **state)
{
    (void)state;
    write_sample(BH_JSON_PRETTY);
    assert_non_null(strstr((char *)out.data, "{\n  \"u\": 18446744073709551615,\n"));
    assert_non_null(strstr((char *)out.data, "  \"empty\": [],\n  \"a\": [\n    1,\n    {},\n"));
    assert_int_equal(out.data[out.length - 1], '\n');
    assert_int_equal(out.data[out.length - 2], '}');
}

static void expect_quoted(const char *text, size_t length, const char *quoted)
{
    bh_bytes_clear(&out);
    bh_json_quote(&out, text, length);
    assert_string_equal((char *)out.data, quoted);
}

static void test_quoting(void **state)
{
    (void)state;
    expect_quoted("", 0, "\"\"");
    expect_quoted("a\"\\\n\r\t\x01\x7f", 8, "\"a\\\"\\\\\\n\\r\\t\\u0001\\u007f\"");
    expect_quoted("ä€𝄞", 9, "\"ä€𝄞\"");
    expect_quoted("a\0b", 3, "\"a\\u0000b\"");
    expect_quoted("\xff\xc3(", 3, "\"\xef\xbf\xbd\xef\xbf\xbd(\"");
    expect_quoted("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    expect_quoted("\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    for (int a = 0; a < 256; a++) { /* whatever two bytes: valid UTF-8 comes out */
        for (int b = 0; b < 256; b += 5) {
            char pair[2] = {(char)a, (char)b};
            bh_bytes_clear(&out);
            bh_json_quote(&out, pair, 2);
            assert_true(bh_text_is_utf8((char *)out.data, out.length));
            assert_true(out.length >= 3 && out.data[0] == '"' && out.data[out.length - 1] == '"');
        }
    }
}

static void test_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        bh_bytes_printf(&out, "%d,", i);
    assert_int_equal(out.length, 3890);
    assert_int_equal(strlen((char *)out.data), 3890);
    bh_bytes_consume(&out, 2);
    assert_memory_equal(out.data, "1,2,", 4);
    bh_bytes_consume(&out, out.length);
    assert_int_equal(out.length, 0);
    assert_false(out.failed);
    assert_null(bh_bytes_reserve(&out, SIZE_MAX / 2)); /* sticky */
    assert_true(out.failed);
    bh_bytes_append_text(&out, "x");
    assert_int_equal(out.length, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_compact),
        TEST(test_pretty),
        TEST(test_quoting),
        TEST(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
