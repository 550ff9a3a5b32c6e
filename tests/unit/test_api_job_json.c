/* POST /v1/jobs: what is taken, what is refused, and with which pointer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "api/job_json.h"

static int read_text(const char *text, struct bh_launch_request *launch, struct bh_problem *problem)
{
    *problem = (struct bh_problem){0};
    return bh_job_json_read(text, strlen(text), launch, problem);
}

static void takes_everything(void **state)
{
    static const char text[] =
        "{\"command\":[\"python3\",\"a.py\"],\"name\":\"n-1\",\"if_exists\":\"return\",\"cwd\":\"/"
        "tmp\","
        "\"env\":{\"A\":\"1\"},\"clear_env\":true,\"limit\":\"6GiB\",\"bands\":{\"warning\":\"5."
        "5GiB\"},"
        "\"wall_time\":\"2h\",\"sample_interval\":\"20ms\",\"min_sample_interval\":\"1ms\","
        "\"max_unusable\":4,\"breach\":{\"count\":3,\"hold\":\"1s\"},"
        "\"checkpoint\":{\"signal\":\"SIGUSR1\",\"path\":\"ad\",\"timeout\":\"5s\",\"process\":"
        "\"python\"},"
        "\"stop\":{\"signal\":\"SIGINT\",\"grace\":{\"base\":\"2s\",\"per_gib\":\"1s\",\"max\":"
        "\"9s\"},"
        "\"emergency_action\":\"term\",\"kill_retry\":\"2s\",\"kill_wait\":\"9s\"},"
        "\"record\":{\"enabled\":true,\"max_entries\":5,\"min_size\":\"1KiB\",\"stacks\":\"all\","
        "\"depth\":8,\"trace_max_bytes\":\"1GiB\"},\"labels\":{\"team\":\"vision\"},"
        "\"on_server_exit\":\"terminate\",\"owner\":{\"pid\":77},\"on_owner_exit\":\"stop\","
        "\"force\":true,\"brake\":true}";
    struct bh_launch_request launch;
    struct bh_problem problem;
    (void)state;
    assert_int_equal(read_text(text, &launch, &problem), BH_OK);
    const struct bh_job_spec *spec = &launch.spec;
    assert_int_equal(spec->argc, 2);
    assert_string_equal(spec->argv[1], "a.py");
    assert_string_equal(spec->name, "n-1");
    assert_true(launch.return_existing);
    assert_string_equal(spec->cwd, "/tmp");
    assert_string_equal(spec->env[0].value, "1");
    assert_true(spec->clear_env);
    assert_true(spec->limit_bytes == 6ull << 30);
    assert_true(spec->warning_bytes == (11ull << 30) / 2);
    assert_true(spec->emergency_bytes > spec->limit_bytes); /* resolved */
    assert_int_equal(spec->mode, BH_MODE_ENFORCE);
    assert_true(spec->wall_time_ns == 7200ull * BH_NS_PER_S);
    assert_true(spec->interval_ns == 20 * BH_NS_PER_MS);
    assert_int_equal(spec->max_unusable, 4);
    assert_int_equal(spec->breach_count, 3);
    assert_true(spec->breach_hold_ns == BH_NS_PER_S);
    assert_int_equal(spec->checkpoint_kind, BH_CHECKPOINT_SIGNAL);
    assert_true(spec->checkpoint_process_python);
    assert_int_equal(spec->stop_signal, 2);
    assert_int_equal(spec->emergency_action, BH_EMERGENCY_TERM);
    assert_true(spec->grace_max_ns == 9 * BH_NS_PER_S);
    assert_int_equal(spec->stacks, BH_STACKS_ALL);
    assert_int_equal(spec->depth, 8);
    assert_true(spec->min_size_bytes == 1024);
    assert_true(spec->end_with_server && spec->stop_with_owner && spec->force);
    assert_true(spec->brake);
    assert_int_equal(spec->owner_pid, 77);
    bh_launch_done(&launch);
}

static void defaults_record_and_enforce(void **state)
{
    struct bh_launch_request launch;
    struct bh_problem problem;
    (void)state;
    assert_int_equal(read_text("{\"command\":[\"a\"],\"limit\":1000000000}", &launch, &problem), 0);
    assert_true(launch.spec.record);
    assert_false(launch.spec.brake);
    assert_int_equal(launch.spec.mode, BH_MODE_ENFORCE);
    assert_int_equal(launch.spec.stop_signal, 15);
    bh_launch_done(&launch);
    assert_int_equal(
        read_text("{\"command\":[\"a\"],\"mode\":\"observe\",\"record\":false}", &launch, &problem),
        0);
    assert_false(launch.spec.record);
    assert_int_equal(launch.spec.mode, BH_MODE_OBSERVE);
    bh_launch_done(&launch);
}

struct refusal {
    const char *text;
    int error;
    const char *pointer; /* of the first item; NULL = no items */
};

static const struct refusal refusals[] = {
    {"", BH_E_SYNTAX, NULL},
    {"[", BH_E_SYNTAX, NULL},
    {"{} x", BH_E_SYNTAX, NULL},
    {"{\"a\":1,\"a\":2}", BH_E_SYNTAX, NULL},
    {"\xff", BH_E_SYNTAX, NULL},
    {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", BH_E_SYNTAX, NULL},
    {"{\"command\":[\"a\\u0000b\"],\"limit\":1}", BH_E_SYNTAX, NULL},
    {"[]", BH_E_INVALID_VALUE, ""},
    {"{\"command\":[\"a\"]}", BH_E_MODE_MISSING, "/limit"},
    {"{\"limit\":\"1GiB\"}", BH_E_MISSING_MEMBER, "/command"},
    {"{\"command\":[],\"limit\":\"1GiB\"}", BH_E_INVALID_VALUE, "/command"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"brake\":1}", BH_E_INVALID_VALUE, "/brake"},
    {"{\"command\":\"a\",\"limit\":\"1GiB\"}", BH_E_INVALID_VALUE, "/command"},
    {"{\"command\":[\"\"],\"limit\":\"1GiB\"}", BH_E_INVALID_VALUE, "/command/0"},
    {"{\"command\":[\"a\",1],\"limit\":\"1GiB\"}", BH_E_INVALID_VALUE, "/command/1"},
    {"{\"command\":[\"a\"],\"limit\":\"3g\"}", BH_E_INVALID_VALUE, "/limit"},
    {"{\"command\":[\"a\"],\"limit\":1.5}", BH_E_INVALID_VALUE, "/limit"},
    {"{\"command\":[\"a\"],\"limit\":1e9}", BH_E_INVALID_VALUE, "/limit"},
    {"{\"command\":[\"a\"],\"limit\":-1}", BH_E_INVALID_VALUE, "/limit"},
    {"{\"command\":[\"a\"],\"limit\":0}", BH_E_INVALID_VALUE, "/limit"},
    {"{\"command\":[\"a\"],\"limit\":null}", BH_E_INVALID_VALUE, "/limit"},
    {"{\"command\":[\"a\"],\"limit\":\"1 GiB\"}", BH_E_INVALID_VALUE, "/limit"},
    {"{\"command\":[\"a\"],\"mode\":\"enforce\"}", BH_E_MISSING_MEMBER, "/limit"},
    {"{\"command\":[\"a\"],\"mode\":\"Observe\"}", BH_E_INVALID_VALUE, "/mode"},
    {"{\"comand\":[\"a\"],\"command\":[\"a\"],\"limit\":\"1GiB\"}", BH_E_UNKNOWN_MEMBER, "/comand"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"stop\":{\"grace\":{\"bas\":\"1s\"}}}",
     BH_E_UNKNOWN_MEMBER, "/stop/grace/bas"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"a/b~c\":1}", BH_E_UNKNOWN_MEMBER, "/a~1b~0c"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"wall_time\":7}", BH_E_INVALID_VALUE, "/wall_time"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"wall_time\":\"7\"}", BH_E_INVALID_VALUE,
     "/wall_time"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"cwd\":\"rel\"}", BH_E_INVALID_VALUE, "/cwd"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"name\":\"a b\"}", BH_E_INVALID_VALUE, "/name"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"name\":\"01234567890123456789\"}",
     BH_E_INVALID_VALUE, "/name"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"env\":{\"A\":1}}", BH_E_INVALID_VALUE, "/env"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"env\":{\"BULKHEAD_X\":\"1\"}}", BH_E_INVALID_VALUE,
     "/env"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"stop\":{\"signal\":\"SIGNOPE\"}}",
     BH_E_INVALID_VALUE, "/stop/signal"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"checkpoint\":{\"timeout\":\"1s\"}}",
     BH_E_INVALID_VALUE, "/checkpoint"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"checkpoint\":{\"signal\":\"SIGUSR1\"}}",
     BH_E_MISSING_MEMBER, "/checkpoint/path"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"record\":true}", BH_E_INVALID_VALUE, "/record"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"record\":{\"depth\":0}}", BH_E_INVALID_VALUE,
     "/record/depth"},
    {"{\"command\":[\"a\"],\"limit\":\"1GiB\",\"on_owner_exit\":\"stop\"}", BH_E_MISSING_MEMBER,
     "/owner"},
    {"{\"command\":[\"a\"],\"mode\":\"observe\",\"bands\":{\"warning\":1}}", BH_E_INVALID_VALUE,
     "/bands"},
    {"{\"external\":true,\"command\":[\"a\"]}", BH_E_INVALID_VALUE, "/command"},
    {"{\"external\":true,\"mode\":\"enforce\",\"limit\":1}", BH_E_INVALID_VALUE, "/mode"},
};

static void refuses_with_pointer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *want = &refusals[i];
        struct bh_launch_request launch;
        struct bh_problem problem;
        int result = read_text(want->text, &launch, &problem);
        if (result >= 0)
            fail_msg("taken: %s", want->text);
        if (result != want->error || (want->pointer != NULL) != (problem.count > 0) ||
            (want->pointer && strcmp(problem.items[0].pointer, want->pointer) != 0))
            fail_msg("%s: got %s at %s", want->text, bh_err_code(result),
                     problem.count ? problem.items[0].pointer : "(none)");
    }
}

static void names_every_mistake(void **state)
{
    struct bh_launch_request launch;
    struct bh_problem problem;
    (void)state;
    assert_true(read_text("{\"comand\":1,\"limit\":\"3g\",\"cwd\":\"x\"}", &launch, &problem) < 0);
    assert_int_equal(problem.count, 4); /* comand, command missing, limit, cwd */
    assert_int_equal(problem.error, BH_E_INVALID_VALUE);
    assert_non_null(strstr(problem.items[0].detail, "Did you mean command?"));
}

static void bands_out_of_order_name_the_band(void **state)
{
    struct bh_launch_request launch;
    struct bh_problem problem;
    (void)state;
    assert_true(read_text("{\"command\":[\"a\"],\"limit\":1000,\"bands\":{\"warning\":2000}}",
                          &launch, &problem) < 0);
    assert_int_equal(problem.count, 1);
    assert_string_equal(problem.items[0].pointer, "/bands/warning");
}

static void written_spec_reads_the_same(void **state)
{
    struct bh_launch_request first;
    struct bh_launch_request second;
    struct bh_problem problem;
    struct bh_bytes body = {0};
    (void)state;
    assert_int_equal(
        read_text(
            "{\"command\":[\"a\",\"b\"],\"limit\":\"1GiB\",\"name\":\"x\",\"wall_time\":\"3s\","
            "\"checkpoint\":{\"protocol\":\"mgcp\"},\"env\":{\"K\":\"v\"},\"labels\":{\"l\":\"m\"},"
            "\"brake\":true}",
            &first, &problem),
        0);
    bh_job_json_write(&first.spec, &body);
    static const char change[] = "{\"name\":\"y\",\"limit\":\"2GiB\"}";
    int result = bh_job_json_read_over(&body, change, sizeof change - 1, &second, &problem);
    assert_int_equal(result, 0);
    assert_string_equal(second.spec.name, "y");
    assert_true(second.spec.limit_bytes == 2ull << 30);
    assert_string_equal(second.spec.argv[1], "b");
    assert_true(second.spec.wall_time_ns == first.spec.wall_time_ns);
    assert_int_equal(second.spec.checkpoint_kind, BH_CHECKPOINT_PROTOCOL);
    assert_string_equal(second.spec.env[0].value, "v");
    assert_true(second.spec.brake);
    bh_launch_done(&first);
    bh_launch_done(&second);
    bh_bytes_done(&body);
}

static void any_bytes_are_survived(void **state)
{
    unsigned seed = 7;
    (void)state;
    static const char base[] = "{\"command\":[\"a\"],\"limit\":\"1GiB\",\"stop\":{\"grace\":{}}}";
    for (int i = 0; i < 20000; i++) {
        char text[sizeof base];
        struct bh_launch_request launch;
        struct bh_problem problem = {0};
        memcpy(text, base, sizeof base);
        for (int k = 0; k < 3; k++) {
            seed = seed * 1103515245u + 12345u;
            text[(seed >> 8) % (sizeof base - 1)] = (char)(seed >> 16);
        }
        if (bh_job_json_read(text, sizeof base - 1, &launch, &problem) >= 0)
            bh_launch_done(&launch);
        else
            assert_true(problem.error < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_everything),
        cmocka_unit_test(defaults_record_and_enforce),
        cmocka_unit_test(refuses_with_pointer),
        cmocka_unit_test(names_every_mistake),
        cmocka_unit_test(bands_out_of_order_name_the_band),
        cmocka_unit_test(written_spec_reads_the_same),
        cmocka_unit_test(any_bytes_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
