/* Names: valid UTF-8 whatever comes, equal content under one key, nothing undefined accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/viz/dictionary.h"

static struct bh_dictionary *names;

static int setup(void **state)
{
    (void)state;
    return bh_dictionary_new(&names);
}

static int teardown(void **state)
{
    (void)state;
    bh_dictionary_free(names);
    return 0;
}

static int add_string(uint32_t id, const char *bytes, size_t length)
{
    struct bh_evlog_record record = {
        .kind = BH_EVLOG_STRING, .id = id, .string = bytes, .string_length = length};
    return bh_dictionary_add(names, &record);
}

static int add_frame(uint32_t id, uint32_t file, uint32_t function, uint32_t line)
{
    struct bh_evlog_record record = {
        .kind = BH_EVLOG_FRAME, .id = id, .file = file, .function = function, .line = line};
    return bh_dictionary_add(names, &record);
}

static int add_stack(uint32_t id, const uint32_t *frames, uint32_t count)
{
    struct bh_evlog_record record = {
        .kind = BH_EVLOG_STACK, .stack = id, .frames = frames, .frame_count = count};
    return bh_dictionary_add(names, &record);
}

static void wrong_bytes_become_replacements(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
        size_t length;
    } cases[] = {
        {"plain", "plain", 5},
        {"", "", 0},
        {"\xc3\xa9", "\xc3\xa9", 2},
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf", 4},
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b",
         3},
        {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd", 2},                 /* overlong NUL */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 3}, /* surrogate */
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 4},
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd", 2}, /* cut */
        {"x\0y", "x\xef\xbf\xbdy", 3},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(add_string(i + 1, cases[i].in, cases[i].length), 0);
        struct bh_text text = bh_dictionary_string(names, i + 1);
        assert_string_equal(text.bytes, cases[i].out);
        assert_int_equal(text.length, strlen(cases[i].out));
        assert_true(bh_text_is_utf8(text.bytes, text.length));
    }
}

static void equal_content_has_one_key(void **state)
{
    (void)state;
    assert_int_equal(add_string(1, "a.py", 4), 0);
    assert_int_equal(add_string(2, "f", 1), 0);
    assert_int_equal(add_string(3, "a.py", 4), 0);
    assert_int_equal(bh_dictionary_string_key(names, 3), 1);
    assert_int_equal(bh_dictionary_string_key(names, 2), 2);
    assert_int_equal(add_frame(1, 1, 2, 7), 0);
    assert_int_equal(add_frame(2, 3, 2, 7), 0); /* the same by content */
    assert_int_equal(add_frame(3, 1, 2, 8), 0);
    const uint32_t one[] = {1, 3}, same[] = {2, 3}, other[] = {3, 1};
    assert_int_equal(add_stack(1, one, 2), 0);
    assert_int_equal(add_stack(2, same, 2), 0);
    assert_int_equal(add_stack(3, other, 2), 0);
    assert_int_equal(add_stack(4, one, 1), 0);
    assert_int_equal(bh_dictionary_stack_key(names, 2), 1);
    assert_int_equal(bh_dictionary_stack_key(names, 3), 3);
    assert_int_equal(bh_dictionary_stack_key(names, 4), 4);
    uint32_t count;
    const uint32_t *frames = bh_dictionary_stack(names, 2, &count);
    assert_int_equal(count, 2);
    assert_memory_equal(frames, same, sizeof same);
}

static void thousands_stay_apart(void **state)
{
    (void)state;
    char text[16];
    for (uint32_t i = 1; i <= 3000; i++) {
        (void)snprintf(text, sizeof text, "name %u", i % 1500);
        assert_int_equal(add_string(i, text, strlen(text)), 0);
        assert_int_equal(bh_dictionary_string_key(names, i), i <= 1500 ? i : i - 1500);
    }
}

static void undefined_is_refused(void **state)
{
    (void)state;
    const uint32_t none[] = {1}, zero[] = {0};
    assert_int_equal(add_string(2, "x", 1), BH_E_MALFORMED);
    assert_int_equal(add_string(0, "x", 1), BH_E_MALFORMED);
    assert_int_equal(add_frame(1, 1, 0, 3), BH_E_MALFORMED);
    assert_int_equal(add_stack(1, none, 1), BH_E_MALFORMED);
    assert_int_equal(add_stack(1, zero, 1), BH_E_MALFORMED);
    assert_int_equal(add_string(1, "x", 1), 0);
    assert_int_equal(add_string(1, "again", 5), 0); /* given again: ignored */
    assert_string_equal(bh_dictionary_string(names, 1).bytes, "x");
    assert_int_equal(add_frame(1, 1, 0, 3), 0); /* 0 = unknown name is fine */
    uint32_t count = 5;
    assert_null(bh_dictionary_stack(names, 9, &count));
    assert_int_equal(count, 0);
    assert_string_equal(bh_dictionary_string(names, 77).bytes, "");
    assert_int_equal(bh_dictionary_frame(names, 77).line, 0);
    assert_null(bh_dictionary_image(names, 1));
    assert_int_equal(bh_dictionary_stack_key(names, 9), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_bytes_become_replacements, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_content_has_one_key, setup, teardown),
        cmocka_unit_test_setup_teardown(thousands_stay_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(undefined_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
