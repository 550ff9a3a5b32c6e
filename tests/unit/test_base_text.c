/* Strict text: what is taken, what is refused, how numbers are spoken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

#define KIB (UINT64_C(1) << 10)
#define MAX ((uint64_t)INT64_MAX)

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"5B", 5},
        {"1KB", 1000},
        {"1KiB", 1024},
        {"6GiB", 6442450944},
        {"1.5GB", 1500000000},
        {"1.5GiB", 1610612736},
        {"0.001KB", 1},
        {"0.001KiB", 1}, /* 1.024 rounds down */
        {"0.999B", 0},
        {"2.05MiB", 2149580},
        {"8388607TiB", UINT64_C(8388607) << 40},
        {"9223372036854775807", MAX},
        {"000001MB", 1000000},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = 7;
        if (bh_text_size(good[i].text, "limit", &bytes, NULL) != BH_OK || bytes != good[i].bytes)
            fail_msg("%s gives %llu", good[i].text, (unsigned long long)bytes);
    }
}

static void test_refused_sizes(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "g",
        "3g",
        "3 GiB",
        " 3GiB",
        "3GiB ",
        "-1",
        "+1",
        "1.5",
        "1.",
        ".5GiB",
        "1.2345GiB",
        "1,5GiB",
        "3gib",
        "3GIB",
        "3Gb",
        "3kB",
        "0x10",
        "1e9",
        "3PiB",
        "8388608TiB",
        "9223372036854775808",
        "99999999999999999999",
        "9223372036854775807KB",
        "1.GiB",
        "∞",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 7;
        struct bh_diag diag = {0};
        if (bh_text_size(bad[i], "limit", &bytes, &diag) != BH_E_INVALID_VALUE)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_int_equal(bytes, 7);
        assert_string_equal(diag.field, "limit");
        assert_non_null(strstr(diag.detail, "limit: \""));
    }
}

static void test_durations(void **state)
{
    (void)state;
    uint64_t ns = 0;
    assert_int_equal(bh_text_duration("250us", "x", &ns, NULL), BH_OK);
    assert_int_equal(ns, 250000);
    assert_int_equal(bh_text_duration("2h", "x", &ns, NULL), BH_OK);
    assert_int_equal(ns, UINT64_C(7200000000000));
    assert_int_equal(bh_text_duration("0s", "x", &ns, NULL), BH_OK);
    assert_int_equal(ns, 0);
    assert_int_equal(bh_text_duration("9223372036854775807ns", "x", &ns, NULL), BH_OK);
    assert_int_equal(bh_text_duration("3m", "x", &ns, NULL), BH_OK);
    assert_int_equal(ns, UINT64_C(180000000000));
    static const char *const bad[] = {"",     "5",     "5 s",  "s",        "-5s",
                                      "1.5s", "5S",    "5min", "5d",       "5ss",
                                      "5sec", "1h30m", "5s ",  "2562048h", "9223372036854775808ns"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ns = 7;
        if (bh_text_duration(bad[i], "x", &ns, NULL) != BH_E_INVALID_VALUE)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_int_equal(ns, 7);
    }
}

static void test_numbers(void **state)
{
    (void)state;
    uint64_t value = 7;
    struct bh_diag diag;
    assert_int_equal(bh_text_u64("10", "n", 10, &value, NULL), BH_OK);
    assert_int_equal(value, 10);
    assert_int_equal(bh_text_u64("11", "n", 10, &value, &diag), BH_E_INVALID_VALUE);
    assert_non_null(strstr(diag.detail, "from 0 to 10"));
    static const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "1.0", "0x1", "١"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bh_text_u64(bad[i], "n", 10, &value, NULL), BH_E_INVALID_VALUE);
    assert_int_equal(value, 10);
}

static void test_signals(void **state)
{
    (void)state;
    int signal = 0;
    char buffer[16];
    assert_int_equal(bh_text_signal("SIGTERM", "s", &signal, NULL), BH_OK);
    assert_int_equal(signal, SIGTERM);
    assert_int_equal(bh_text_signal("USR1", "s", &signal, NULL), BH_OK);
    assert_int_equal(signal, SIGUSR1);
    assert_int_equal(bh_text_signal("64", "s", &signal, NULL), BH_OK);
    assert_int_equal(signal, 64);
    static const char *const bad[] = {"", "0", "65", "SIG", "term", "SIGTERM ", "SIGSIGTERM", "-9"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bh_text_signal(bad[i], "s", &signal, NULL), BH_E_INVALID_VALUE);
    assert_string_equal(bh_text_signal_name(SIGKILL, buffer, sizeof buffer), "SIGKILL");
    assert_string_equal(bh_text_signal_name(37, buffer, sizeof buffer), "SIG37");
    for (int number = 1; number <= 64; number++) { /* every name is read back */
        const char *name = bh_text_signal_name(number, buffer, sizeof buffer);
        if (strcmp(name, buffer) != 0) {
            assert_int_equal(bh_text_signal(name, "s", &signal, NULL), BH_OK);
            assert_int_equal(signal, number);
        }
    }
}

static void test_names(void **state)
{
    (void)state;
    char longest[66];
    memset(longest, 'a', 65);
    longest[65] = '\0';
    assert_int_equal(bh_text_job_name(longest, "name", NULL), BH_E_INVALID_VALUE);
    longest[64] = '\0';
    assert_int_equal(bh_text_job_name(longest, "name", NULL), BH_OK);
    assert_int_equal(bh_text_job_name("A-z_0.9", "name", NULL), BH_OK);
    static const char *const bad[] = {"", "a b", "a/b", "ä", "0mhq2v9k3dx7c1p5n8tb", "a\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bh_text_job_name(bad[i], "name", NULL), BH_E_INVALID_VALUE);
    assert_true(bh_text_is_job_id("0mhq2v9k3dx7c1p5n8tb"));
    assert_false(bh_text_is_job_id("0mhq2v9k3dx7c1p5n8t"));
    assert_false(bh_text_is_job_id("0mhq2v9k3dx7c1p5n8tbx"));
    assert_false(bh_text_is_job_id("0mhq2v9k3dx7c1p5n8tB"));
}

static void test_utf8(void **state)
{
    (void)state;
    static const char *const good[] = {
        "", "abc", "ä", "€", "𝄞", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {
        "\x80",             /* continuation alone */
        "\xc3",             /* cut */
        "\xc0\xaf",         /* overlong */
        "\xe0\x80\xaf",     /* overlong */
        "\xed\xa0\x80",     /* surrogate */
        "\xf4\x90\x80\x80", /* beyond U+10FFFF */
        "\xf8\x88\x80\x80\x80",
        "\xe2\x82",
        "a\xff",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(bh_text_is_utf8(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(bh_text_is_utf8(bad[i], strlen(bad[i])));
}

static void expect_bytes(uint64_t bytes, const char *text)
{
    char buffer[24];
    assert_string_equal(bh_text_format_bytes(bytes, buffer, sizeof buffer), text);
}

static void test_spoken_bytes(void **state)
{
    (void)state;
    expect_bytes(0, "0 B");
    expect_bytes(512, "512 B");
    expect_bytes(1023, "1023 B");
    expect_bytes(KIB, "1 KiB");
    expect_bytes(6 * KIB * KIB * KIB, "6 GiB");
    expect_bytes(5595000000, "5.21 GiB");
    expect_bytes(43 * KIB * KIB + 1, "43 MiB");
    expect_bytes(1023 * KIB * KIB + 1023 * KIB, "1023 MiB");
    expect_bytes(6 * KIB * KIB * KIB - 1, "5.99 GiB"); /* below its limit stays below it */
    expect_bytes(UINT64_MAX, "15.9 EiB");
    expect_bytes(10 * KIB + 512, "10.5 KiB");
}

static void expect_time(uint64_t ns, const char *text)
{
    char buffer[40];
    assert_string_equal(bh_text_format_duration(ns, buffer, sizeof buffer), text);
}

static void test_spoken_times(void **state)
{
    (void)state;
    expect_time(7, "7 ns");
    expect_time(250000, "250 us");
    expect_time(12000000, "12 ms");
    expect_time(3800000000, "3.8 s");
    expect_time(59999999999, "59.9 s");
    expect_time(2519000000000, "41 min 59 s");
    expect_time(7500000000000, "2 h 5 min");
}

static void test_escape(void **state)
{
    (void)state;
    char buffer[64];
    assert_string_equal(bh_text_escape("a\nb\x7f\xff"
                                       "ä",
                                       7, buffer, sizeof buffer),
                        "a\\x0ab\\x7f\\xffä");
    assert_string_equal(bh_text_escape("\0x", 2, buffer, sizeof buffer), "\\x00x");
    for (size_t size = 1; size < 40; size++) {
        memset(buffer, 'z', sizeof buffer);
        (void)bh_text_escape("0123456789\n\n\nääääääääää", 33, buffer, size);
        assert_true(strlen(buffer) < size);
        assert_int_equal(buffer[size], 'z');
        assert_true(bh_text_is_utf8(buffer, strlen(buffer)));
    }
}

static void test_small_ones(void **state)
{
    (void)state;
    char hex[9];
    assert_string_equal(bh_text_basename("/usr/bin/python3"), "python3");
    assert_string_equal(bh_text_basename("python3"), "python3");
    assert_string_equal(bh_text_basename("dir/"), "");
    assert_string_equal(bh_text_basename(""), "");
    assert_true(bh_text_equal_secret("abc", "abc", 3));
    assert_false(bh_text_equal_secret("abc", "abd", 3));
    assert_true(bh_text_equal_secret("a", "b", 0));
    bh_text_hex((const unsigned char *)"\x00\x1f\xa0\xff", 4, hex);
    assert_string_equal(hex, "001fa0ff");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),        cmocka_unit_test(test_refused_sizes),
        cmocka_unit_test(test_durations),    cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_signals),      cmocka_unit_test(test_names),
        cmocka_unit_test(test_utf8),         cmocka_unit_test(test_spoken_bytes),
        cmocka_unit_test(test_spoken_times), cmocka_unit_test(test_escape),
        cmocka_unit_test(test_small_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
