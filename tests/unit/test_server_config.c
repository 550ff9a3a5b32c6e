/* Settings: one precedence, one table, and strict values; listening addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/config.h"
#include "server/listen.h"

static char *const no_environment[] = {NULL};

static int read_config(struct bh_config *config, char *const *argv, char *const *environment,
                       struct bh_diag *diag)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    return bh_config_read(config, argc, argv, environment, diag);
}

static char file_path[] = "/tmp/bh-config-XXXXXX";

static int setup(void **state)
{
    (void)state;
    int fd = mkstemp(file_path);
    assert_true(fd >= 0);
    static const char text[] = "# settings\nrequest_rate = 5\n  max_streams=6\nkeep_time = 1h\r\n\n"
                               "allow_host = a.lan\nallow_host = b.lan\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    (void)close(fd);
    (void)setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(file_path);
}

static void flag_beats_environment_beats_file(void **state)
{
    struct bh_config config;
    char arguments[2][32] = {"--request-rate", "7"};
    char *const argv[] = {(char[]){"bulkheadd"}, (char[]){"--config"}, file_path,
                          arguments[0],          arguments[1],         NULL};
    char *const environment[] = {(char[]){"BULKHEAD_REQUEST_RATE=6"},
                                 (char[]){"BULKHEAD_MAX_STREAMS=9"}, (char[]){"BULKHEAD_RECORD=v1"},
                                 (char[]){"OTHER=1"}, NULL};
    (void)state;
    assert_int_equal(read_config(&config, argv, environment, NULL), 0);
    assert_int_equal(bh_config_number(&config, BH_PARAM_REQUEST_RATE), 7);
    assert_int_equal(bh_config_number(&config, BH_PARAM_MAX_STREAMS), 9);
    assert_true(bh_config_number(&config, BH_PARAM_KEEP_TIME) == 3600ull * 1000000000);
    assert_int_equal(config.values[BH_PARAM_ALLOW_HOST].count, 2);
    assert_string_equal(config.values[BH_PARAM_ALLOW_HOST].texts[1], "b.lan");
    assert_string_equal(bh_config_text(&config, BH_PARAM_LISTEN), "127.0.0.1:7373"); /* default */
    bh_config_done(&config);
}

static void lists_and_switches(void **state)
{
    struct bh_config config;
    char *const argv[] = {(char[]){"bulkheadd"},
                          (char[]){"--listen=127.0.0.1:0"},
                          (char[]){"--listen"},
                          (char[]){"[::1]:0"},
                          (char[]){"--insecure-listen"},
                          (char[]){"--reindex"},
                          NULL};
    char *const environment[] = {(char[]){"BULKHEAD_ALLOW_HOST=a.lan,b.lan:*"}, NULL};
    (void)state;
    assert_int_equal(read_config(&config, argv, environment, NULL), 0);
    assert_int_equal(config.values[BH_PARAM_LISTEN].count, 2); /* the default is gone */
    assert_int_equal(config.values[BH_PARAM_ALLOW_HOST].count, 2);
    assert_int_equal(bh_config_number(&config, BH_PARAM_INSECURE_LISTEN), 1);
    assert_true(config.reindex);
    assert_int_equal(config.action, BH_ACTION_SERVE);
    bh_config_done(&config);
}

static void wrong_settings_are_named(void **state)
{
    static char bad[][24] = {"--nope",          "--request_rate=1", "--request-rate=x",
                             "--keep-bytes=3g", "--keep-time=5",    "stray",
                             "--state"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bh_config config;
        struct bh_diag diag = {0};
        char *const argv[] = {(char[]){"bulkheadd"}, bad[i], NULL};
        if (read_config(&config, argv, no_environment, &diag) != BH_E_USAGE)
            fail_msg("%s was taken", bad[i]);
        assert_true(diag.detail[0] != '\0');
    }
    struct bh_config config;
    char *const missing[] = {(char[]){"bulkheadd"}, (char[]){"--config=/nonexistent"}, NULL};
    assert_int_equal(read_config(&config, missing, no_environment, NULL), BH_E_NOT_FOUND);
}

static void help_names_every_setting(void **state)
{
    static const char *const keys[] = {
#define BH_PARAM(name, key, kind, value, argument, help) key,
#include "server/params.def"
#undef BH_PARAM
    };
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    (void)state;
    bh_config_help(out);
    (void)fclose(out);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char flag[64];
        (void)snprintf(flag, sizeof flag, "--%s", keys[i]);
        for (char *c = flag; *c; c++) {
            if (*c == '_')
                *c = '-';
        }
        if (!strstr(text, flag))
            fail_msg("--help lacks %s", flag);
    }
    free(text);
}

static void listeners(void **state)
{
    struct bh_diag diag = {0};
    int fd = -1;
    int other = -1;
    uint16_t port = 0;
    char text[32];
    (void)state;
    static const char *const bad[] = {
        "", "127.0.0.1", ":1", "127.0.0.1:x", "127.0.0.1:70000", "host.example:80", "[::1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bh_listen_tcp(bad[i], false, &fd, &port, &diag), BH_E_USAGE);
    assert_int_equal(bh_listen_tcp("0.0.0.0:0", false, &fd, &port, &diag), BH_E_PERMISSION);
    assert_non_null(strstr(diag.detail, "--insecure-listen"));
    assert_int_equal(bh_listen_tcp("127.0.0.1:0", false, &fd, &port, &diag), 0);
    assert_true(port > 0);
    (void)snprintf(text, sizeof text, "localhost:%u", (unsigned)port);
    assert_int_equal(bh_listen_tcp(text, false, &other, &port, &diag), BH_E_EXISTS);
    assert_non_null(strstr(diag.detail, "--listen"));
    (void)close(fd);

    char path[200] = "/tmp/";
    memset(path + 5, 'a', 120);
    assert_int_equal(bh_listen_unix(path, &fd, &diag), BH_E_TOO_LONG);
    assert_int_equal(bh_listen_unix(file_path, &fd, &diag), BH_E_EXISTS); /* a regular file */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flag_beats_environment_beats_file),
        cmocka_unit_test(lists_and_switches),
        cmocka_unit_test(wrong_settings_are_named),
        cmocka_unit_test(help_names_every_setting),
        cmocka_unit_test(listeners),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
