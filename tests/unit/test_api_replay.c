/* The replay tool against its goldens: tests/golden/policy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/replay.h"
#include "core/base/scoped.h"

#define GOLDEN BH_SOURCE_DIR "/tests/golden/policy/"

static FILE *open_golden(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, GOLDEN "%s", name);
    FILE *file = fopen(path, "rbe");
    if (!file)
        fail_msg("cannot open %s", path);
    return file;
}

static void read_golden(const char *folder, const char *name, struct bh_bytes *ret_bytes)
{
    char path[256];
    char chunk[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    BH_SCOPED_FILE FILE *file = open_golden(path);
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, file)) > 0)
        bh_bytes_append(ret_bytes, chunk, n);
}

/* A line without its end; false at the end of the file. */
static bool next_line(FILE *file, char **line, size_t *capacity)
{
    ssize_t n = getline(line, capacity, file);
    if (n > 0 && (*line)[n - 1] == '\n')
        (*line)[n - 1] = '\0';
    return n > 0;
}

/* Replays text; what was printed is appended to ret_out. */
static int replay_text(const struct bh_policy_config *config, const char *text, size_t length,
                       struct bh_bytes *ret_out, uint64_t *ret_line)
{
    struct bh_replay replay;
    char *printed = NULL;
    size_t printed_length = 0;
    BH_SCOPED_FILE FILE *in =
        length ? fmemopen((void *)(uintptr_t)text, length, "rb") : fopen("/dev/null", "rbe");
    FILE *out = open_memstream(&printed, &printed_length);
    assert_non_null(in);
    assert_non_null(out);
    bh_policy_replay_start(&replay, config, out);
    int r = bh_policy_replay_run(&replay, in, ret_line, NULL);
    bh_policy_replay_done(&replay);
    fclose(out);
    bh_bytes_append(ret_out, printed, printed_length);
    free(printed);
    return r;
}

static bool case_holds(const char *name)
{
    struct bh_bytes config_text = {0};
    struct bh_bytes events = {0};
    struct bh_bytes expected = {0};
    struct bh_bytes printed = {0};
    struct bh_diag diag = {0};
    struct bh_policy_config config;
    uint64_t line = 0;
    read_golden(name, "config.json", &config_text);
    read_golden(name, "events.ndjson", &events);
    read_golden(name, "expected.ndjson", &expected);
    int r = bh_policy_replay_config_parse((const char *)config_text.data, config_text.length,
                                          &config, &diag);
    if (r == BH_OK)
        r = replay_text(&config, (const char *)events.data, events.length, &printed, &line);
    bool same = r == BH_OK && printed.length == expected.length &&
                memcmp(printed.data, expected.data, printed.length) == 0;
    if (!same)
        print_error("%s: %s\nexpected\n%sgot\n%s", name, r < 0 ? bh_err_code(r) : "differs",
                    (const char *)expected.data, printed.data ? (const char *)printed.data : "");
    bh_bytes_done(&config_text);
    bh_bytes_done(&events);
    bh_bytes_done(&expected);
    bh_bytes_done(&printed);
    return same;
}

static void goldens(void **state)
{
    (void)state;
    BH_SCOPED_FILE FILE *names = open_golden("cases.txt");
    BH_SCOPED_FREE char *name = NULL;
    size_t capacity = 0;
    int count = 0;
    int wrong = 0;
    while (next_line(names, &name, &capacity)) {
        count++;
        wrong += !case_holds(name);
    }
    assert_true(count > 150);
    assert_int_equal(wrong, 0);
}

static void configs_refused(void **state)
{
    (void)state;
    BH_SCOPED_FILE FILE *file = open_golden("refused_configs.tsv");
    BH_SCOPED_FREE char *line = NULL;
    size_t capacity = 0;
    while (next_line(file, &line, &capacity)) {
        struct bh_policy_config config;
        struct bh_diag diag = {0};
        char *tab = strchr(line, '\t');
        assert_non_null(tab);
        *tab = '\0';
        memset(&config, 0x5a, sizeof config);
        struct bh_policy_config before = config;
        int r = bh_policy_replay_config_parse(tab + 1, strlen(tab + 1), &config, &diag);
        if (r >= 0 || strcmp(diag.field, line) != 0)
            fail_msg("%s: r %d, key \"%s\", wanted \"%s\"", tab + 1, r, diag.field, line);
        assert_int_equal(bh_err_exit(r), 64);
        assert_memory_equal(&config, &before, sizeof config);
    }
}

static void configs_accepted(void **state)
{
    (void)state;
    BH_SCOPED_FILE FILE *file = open_golden("accepted_configs.txt");
    BH_SCOPED_FREE char *line = NULL;
    size_t capacity = 0;
    while (next_line(file, &line, &capacity)) {
        struct bh_policy_config config;
        struct bh_diag diag = {0};
        if (bh_policy_replay_config_parse(line, strlen(line), &config, &diag) < 0)
            fail_msg("%s: %s: %s", line, diag.field, diag.detail);
        assert_int_equal(bh_policy_validate(&config, NULL), BH_OK);
    }
}

static void lines_refused(void **state)
{
    (void)state;
    BH_SCOPED_FILE FILE *file = open_golden("bad_lines.txt");
    BH_SCOPED_FREE char *line = NULL;
    size_t capacity = 0;
    while (next_line(file, &line, &capacity)) {
        struct bh_policy_event event;
        int r = bh_policy_replay_event_parse(line, strlen(line), &event, NULL);
        if (r >= 0)
            fail_msg("accepted: %s", line);
        assert_int_equal(bh_err_exit(r), 64);
    }
}

static void lines_accepted(void **state)
{
    (void)state;
    BH_SCOPED_FILE FILE *file = open_golden("good_lines.txt");
    BH_SCOPED_FREE char *line = NULL;
    size_t capacity = 0;
    while (next_line(file, &line, &capacity)) {
        struct bh_policy_event event;
        struct bh_diag diag = {0};
        if (bh_policy_replay_event_parse(line, strlen(line), &event, &diag) < 0)
            fail_msg("refused: %s: %s", line, diag.detail);
    }
}

static const char base_config[] = "{\"mode\":\"enforce\",\"limit\":100}";
#define TICK "{\"type\":\"tick\",\"at\":1}\n"
#define TOCK "{\"t\":1,\"state\":\"normal\",\"actions\":[],\"next_deadline\":null}\n"

struct stream {
    const char *text;
    size_t length;
    const char *printed;
    uint64_t bad_line; /* 0: none */
};

#define STREAM(text, printed, bad_line)                                                            \
    {                                                                                              \
        text, sizeof(text) - 1, printed, bad_line                                                  \
    }

static const struct stream streams[] = {
    STREAM("", "", 0),
    STREAM("\n \n\t\r\n", "", 0),
    STREAM(TICK, TOCK, 0),
    STREAM("{\"type\":\"tick\",\"at\":1}", TOCK, 0),
    STREAM("\n\n" TICK "\r\n" TICK, TOCK TOCK, 0),
    STREAM("{\"type\":\"tick\",\"at\":1}\r\n", TOCK, 0),
    STREAM("x", "", 1),
    STREAM("\n" TICK "\n\nx\n" TICK, TOCK, 5),
    STREAM(TICK "{\"type\":\"tick\",\"at\":1\n}\n", TOCK, 2),
    STREAM(TICK "\0\n", TOCK, 2),
    STREAM(TICK "{\"type\":\"tick\",\"at\":1}\0\n", TOCK, 2),
    STREAM("\xef\xbb\xbf" TICK, "", 1),
    STREAM(TICK "\f\n", TOCK, 2),
    STREAM(TICK "{\"type\":\"process_exited\",\"at\":1}\nx\n",
           TOCK "{\"t\":1,\"state\":\"exited\",\"actions\":[{\"type\":\"report_exit\","
                "\"final_bytes\":null,\"samples_after_signal\":0}],\"next_deadline\":null}\n",
           3),
};

static void lines_are_counted(void **state)
{
    (void)state;
    struct bh_policy_config config;
    assert_int_equal(
        bh_policy_replay_config_parse(base_config, sizeof base_config - 1, &config, NULL), BH_OK);
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        struct bh_bytes printed = {0};
        uint64_t line = 0;
        int r = replay_text(&config, streams[i].text, streams[i].length, &printed, &line);
        if (line != streams[i].bad_line || (r < 0) != (streams[i].bad_line > 0))
            fail_msg("stream %zu: r %d, line %llu", i, r, (unsigned long long)line);
        assert_string_equal(printed.data ? (const char *)printed.data : "", streams[i].printed);
        bh_bytes_done(&printed);
    }
}

/* Numbers beyond 64 bits in ignored members, as many as fit the guard, do not spoil a line. */
static void huge_numbers_are_ignored(void **state)
{
    (void)state;
    struct bh_bytes line = {0};
    struct bh_policy_event event;
    bh_bytes_append_text(&line, "{\"type\":\"tick\",\"x\":[0");
    for (int i = 0; i < 500; i++)
        bh_bytes_append_text(&line, ",99999999999999999999,-1e999");
    bh_bytes_append_text(&line, "],\"at\":77}");
    assert_int_equal(
        bh_policy_replay_event_parse((const char *)line.data, line.length, &event, NULL), BH_OK);
    assert_int_equal(event.at_ns, 77);
    bh_bytes_done(&line);
}

static void output_failure_is_told(void **state)
{
    (void)state;
    struct bh_policy_config config;
    struct bh_replay replay;
    uint64_t line = 9;
    assert_int_equal(
        bh_policy_replay_config_parse(base_config, sizeof base_config - 1, &config, NULL), BH_OK);
    BH_SCOPED_FILE FILE *in = fmemopen((void *)(uintptr_t)TICK, sizeof TICK - 1, "rb");
    BH_SCOPED_FILE FILE *out = fopen("/dev/full", "wbe");
    assert_non_null(in);
    assert_non_null(out);
    setvbuf(out, NULL, _IONBF, 0);
    bh_policy_replay_start(&replay, &config, out);
    assert_int_equal(bh_policy_replay_run(&replay, in, &line, NULL), BH_E_IO);
    assert_int_equal(line, 0);
    bh_policy_replay_done(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens),
        cmocka_unit_test(configs_refused),
        cmocka_unit_test(configs_accepted),
        cmocka_unit_test(lines_refused),
        cmocka_unit_test(lines_accepted),
        cmocka_unit_test(lines_are_counted),
        cmocka_unit_test(huge_numbers_are_ignored),
        cmocka_unit_test(output_failure_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
