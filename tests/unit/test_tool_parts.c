/* bulkhead-tool's parser and its JSON of journal records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "core/tool/record_json.h"
#include "core/tool/tool.h"

struct parsed {
    const char *path, *text;
    bool flag;
    uint64_t number;
    int64_t us;
};

static int parse(const char *const *words, struct parsed *parsed, struct bh_diag *diag)
{
    static char copies[8][64]; /* what the result points into */
    char *argv[8];
    int argc = 0;
    struct bh_tool_option options[] = {
        {"--flag", BH_TOOL_FLAG, &parsed->flag, 0, "", "", false},
        {"--text", BH_TOOL_TEXT, &parsed->text, 0, "T", "", false},
        {"--number", BH_TOOL_U64, &parsed->number, 100, "N", "", false},
        {"--us", BH_TOOL_US, &parsed->us, 0, "US", "", false},
    };
    struct bh_tool_usage usage = {"x", "", options, 4};
    *parsed = (struct parsed){.us = INT64_MIN};
    *diag = (struct bh_diag){"", ""};
    for (; words[argc]; argc++) {
        (void)snprintf(copies[argc], sizeof copies[argc], "%s", words[argc]);
        argv[argc] = copies[argc];
    }
    return bh_tool_parse(&usage, argc, argv, &parsed->path, diag);
}

static void options_are_taken(void **state)
{
    (void)state;
    static const char *const words[] = {"--flag", "--text=a=b", "p", "--number",
                                        "100",    "--us=7",     NULL};
    struct parsed parsed;
    struct bh_diag diag;
    assert_int_equal(parse(words, &parsed, &diag), 0);
    assert_string_equal(parsed.path, "p");
    assert_string_equal(parsed.text, "a=b");
    assert_true(parsed.flag);
    assert_int_equal(parsed.number, 100);
    assert_int_equal(parsed.us, 7);
}

static void wrong_lines_are_refused(void **state)
{
    (void)state;
    static const char *const lines[][6] = {
        {NULL},
        {"", NULL},
        {"--nothing", "p", NULL},
        {"p", "q", NULL},
        {"p", "--number", NULL},
        {"p", "--number", "101", NULL},
        {"p", "--number", "-1", NULL},
        {"p", "--number", "1 ", NULL},
        {"p", "--us", "tomorrow", NULL},
        {"p", "--flag=yes", NULL},
        {"p", "--flag", "--flag", NULL},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct parsed parsed;
        struct bh_diag diag;
        int result = parse(lines[i], &parsed, &diag);
        assert_true(result == BH_E_USAGE || result == BH_E_INVALID_VALUE);
        assert_true(diag.detail[0] != '\0');
    }
}

static void words_are_named(void **state)
{
    (void)state;
    static const char *const words[] = {"stack", "primitive"};
    struct bh_diag diag = {"", ""};
    assert_int_equal(bh_tool_word("primitive", words, 2, "--group", &diag), 1);
    assert_int_equal(bh_tool_word("prim", words, 2, "--group", &diag), BH_E_INVALID_VALUE);
    assert_non_null(strstr(diag.detail, "stack, primitive"));
    assert_string_equal(diag.field, "--group");
}

static void every_record_is_a_line(void **state)
{
    (void)state;
    struct bh_anchor anchor = {{1000}, {50}};
    for (int kind = 1; kind <= 21; kind++) {
        struct bh_bytes out = {0};
        struct bh_record record = {
            .kind = (enum bh_record_kind)kind, .sequence = 4, .at.ns = 3000, .by_scribe = kind % 2};
        bh_tool_record_json(&out, &record, anchor);
        assert_false(out.failed);
        assert_int_equal(out.data[out.length - 1], '\n');
        assert_null(memchr(out.data, '\n', out.length - 1));
        assert_non_null(strstr((char *)out.data, bh_record_kind_text(kind)));
        assert_non_null(strstr((char *)out.data, "\"at_us\":52,"));
        assert_non_null(strstr((char *)out.data, "\"data\":{\"")); /* no kind without members */
        bh_bytes_done(&out);
    }
}

static void members_are_written(void **state)
{
    (void)state;
    struct bh_anchor anchor = {{0}, {0}};
    struct bh_bytes out = {0};
    struct bh_record record = {.kind = BH_RECORD_SIGNAL, .sequence = 9, .at.ns = 1000};
    record.signal.signal = 15;
    record.signal.target = BH_TARGET_TREE;
    record.signal.result = BH_SIGNAL_DELIVERED;
    record.signal.reached = 3;
    record.signal.decision_to_signal_ns = 4000;
    memcpy(record.signal.reason, "footprint", sizeof "footprint");
    bh_tool_record_json(&out, &record, anchor);
    assert_string_equal(out.data,
                        "{\"seq\":9,\"by\":\"decider\",\"record\":\"signal\",\"at_us\":1,\"data\":{"
                        "\"signal\":\"SIGTERM\",\"target\":\"owned_process_group\",\"result\":"
                        "\"delivered\",\"reason\":\"footprint\",\"reached\":3,"
                        "\"decision_to_signal_ns\":4000}}\n");
    bh_bytes_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_taken),   cmocka_unit_test(wrong_lines_are_refused),
        cmocka_unit_test(words_are_named),     cmocka_unit_test(every_record_is_a_line),
        cmocka_unit_test(members_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
