/* What the job finds in its environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/super/environment.h"

static char home[] = "HOME=/root", socket_name[] = "NOTIFY_SOCKET=/run/x", fds[] = "LISTEN_FDS=3",
            state_dir[] = "BULKHEAD_STATE=/s", guard[] = "MLX_GUARD_CHECKPOINT_FD=7",
            preload[] = "LD_PRELOAD=/lib/a.so", odd[] = "NOEQUALS", path[] = "PATH=/bin";
static char *own[] = {home, socket_name, fds, state_dir, guard, preload, odd, path, NULL};

static struct bh_environment build(struct bh_job_spec *spec, bool channel)
{
    static struct bh_run run;
    struct bh_environment environment;
    struct bh_diag diag = {0};
    bh_run_init(&run);
    run.spec = spec;
    (void)snprintf(run.runtime_path, sizeof run.runtime_path, "/dev/shm/x");
    int result = bh_environment_build(&run, own, channel, &environment, &diag);
    if (result != BH_OK)
        fail_msg("%s", diag.detail);
    return environment;
}

static const char *get(const struct bh_environment *environment, const char *name)
{
    const char *value = bh_environment_get(environment, name);
    return value ? value : "(none)";
}

static void test_inherited_and_stripped(void **state)
{
    (void)state;
    struct bh_job_spec spec;
    bh_job_spec_init(&spec);
    struct bh_environment environment = build(&spec, false);
    assert_string_equal(get(&environment, "HOME"), "/root");
    assert_string_equal(get(&environment, "PYTHONUNBUFFERED"), "1");
    assert_string_equal(get(&environment, "LD_PRELOAD"), "/lib/a.so");
    static const char *const gone[] = {"NOTIFY_SOCKET",   "LISTEN_FDS",
                                       "BULKHEAD_STATE",  "MLX_GUARD_CHECKPOINT_FD",
                                       "BULKHEAD_RECORD", "NOEQUALS"};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        assert_string_equal(get(&environment, gone[i]), "(none)");
    assert_null(environment.items[environment.count]);
    bh_environment_done(&environment);
}

static void test_recorder_and_channel(void **state)
{
    (void)state;
    struct bh_job_spec spec;
    bh_job_spec_init(&spec);
    spec.record = true;
    spec.recorder_path = "/usr/lib/rec.so";
    struct bh_environment environment = build(&spec, true);
    assert_string_equal(get(&environment, "LD_PRELOAD"), "/lib/a.so:/usr/lib/rec.so");
    assert_string_equal(get(&environment, "BULKHEAD_RING_DIR"), "/dev/shm/x/rings");
    assert_string_equal(get(&environment, "BULKHEAD_RECORD"), "v1;stacks=python;depth=32;min=0");
    assert_string_equal(get(&environment, "MLX_GUARD_CHECKPOINT_FD"), "198");
    assert_string_equal(get(&environment, "BULKHEAD_CHECKPOINT_FD"), "198");
    bh_environment_done(&environment);
}

static void test_clear_env_and_spec(void **state)
{
    (void)state;
    static const struct bh_text_pair pairs[] = {{"PATH", "/opt"}, {"EMPTY", ""}, {"PATH", "/last"}};
    struct bh_job_spec spec;
    bh_job_spec_init(&spec);
    spec.clear_env = true;
    spec.env = pairs;
    spec.env_count = 3;
    struct bh_environment environment = build(&spec, false);
    assert_int_equal(environment.count, 2);
    assert_string_equal(get(&environment, "PATH"), "/last");
    assert_string_equal(get(&environment, "EMPTY"), "");
    bh_environment_done(&environment);
    spec.env_count = 0;
    environment = build(&spec, false);
    assert_int_equal(environment.count, 0);
    assert_non_null(environment.items);
    bh_environment_done(&environment);
}

static void test_reserved_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "BULKHEAD_RECORD", "MLX_GUARD_CHECKPOINT_FD", "NOTIFY_SOCKET", "LISTEN_PID", "", "A=B"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct bh_text_pair pair = {names[i], "x"};
        struct bh_job_spec spec;
        struct bh_run run;
        struct bh_environment environment;
        struct bh_diag diag = {0};
        bh_run_init(&run);
        bh_job_spec_init(&spec);
        spec.env = &pair;
        spec.env_count = 1;
        run.spec = &spec;
        assert_int_equal(bh_environment_build(&run, own, false, &environment, &diag),
                         BH_E_INVALID_VALUE);
        assert_string_equal(diag.field, "env");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inherited_and_stripped),
        cmocka_unit_test(test_recorder_and_channel),
        cmocka_unit_test(test_clear_env_and_spec),
        cmocka_unit_test(test_reserved_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
