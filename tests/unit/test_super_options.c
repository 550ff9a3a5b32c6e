/* The command line of run and observe: what is accepted, and the sentence of each refusal. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/super/options.h"

#define MAX_WORDS 32

/* Splits at blanks into argv; the text lives as long as the caller's buffer. */
static int parse(char *line, struct bh_options *options, struct bh_diag *diag)
{
    static char *words[MAX_WORDS];
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, " ", &rest); word && count < MAX_WORDS;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    memset(diag, 0, sizeof *diag);
    return bh_options_parse(count, words, options, diag);
}

static void accept(const char *text, struct bh_options *options)
{
    static char line[512];
    struct bh_diag diag;
    (void)snprintf(line, sizeof line, "%s", text);
    int result = parse(line, options, &diag);
    if (result != BH_OK)
        fail_msg("%s: %s: %s", text, diag.field, diag.detail);
}

static void refuse(const char *text, const char *field)
{
    char line[512];
    struct bh_options options = {.quiet = true};
    struct bh_diag diag;
    (void)snprintf(line, sizeof line, "%s", text);
    int result = parse(line, &options, &diag);
    if (result >= 0 || strcmp(diag.field, field) != 0)
        fail_msg("%s: gave %d, field \"%s\", %s", text, result, diag.field, diag.detail);
    assert_true(diag.detail[0] != '\0');
    assert_true(options.quiet && options.spec.argc == 0); /* untouched */
}

static void test_defaults(void **state)
{
    (void)state;
    struct bh_options options;
    accept("run --limit 10GiB -- python3 train.py --lr 1", &options);
    assert_int_equal(options.spec.mode, BH_MODE_ENFORCE);
    assert_int_equal(options.spec.limit_bytes, 10ull << 30);
    assert_int_equal(options.spec.warning_bytes, 9663676416ull);
    assert_int_equal(options.spec.argc, 4);
    assert_string_equal(options.spec.argv[2], "--lr");
    assert_int_equal(options.spec.stop_signal, SIGTERM);
    assert_int_equal(options.spec.checkpoint_kind, BH_CHECKPOINT_NONE);
    assert_false(options.spec.record);
    assert_null(options.run_dir);
}

static void test_everything(void **state)
{
    (void)state;
    struct bh_options options;
    accept("run --limit=1000 --warning 900 --recovery 0 --emergency 2KB --breaches 3 --hold 1s "
           "--interval 10ms --min-interval 1ms --wall-time 2h --stop-signal INT --grace 2s "
           "--grace-max 3s --record --quiet --json -- x",
           &options);
    assert_int_equal(options.spec.recovery_bytes, 0);
    assert_int_equal(options.spec.emergency_bytes, 2000);
    assert_int_equal(options.spec.breach_count, 3);
    assert_int_equal(options.spec.breach_hold_ns, 1000000000);
    assert_int_equal(options.spec.wall_time_ns, 7200ull * 1000000000);
    assert_int_equal(options.spec.stop_signal, SIGINT);
    assert_true(options.spec.record && options.quiet && options.json);
    accept("run --limit 1GiB --checkpoint-timeout 30s --grace-per-gib 0s --emergency-action term "
           "--brake --run-dir /tmp/a --report b.json --stacks all --depth 64 -- x",
           &options);
    assert_int_equal(options.spec.checkpoint_kind, BH_CHECKPOINT_PROTOCOL);
    assert_int_equal(options.spec.emergency_action, BH_EMERGENCY_TERM);
    assert_true(options.spec.brake);
    assert_int_equal(options.spec.stacks, BH_STACKS_ALL);
    assert_string_equal(options.run_dir, "/tmp/a");
    assert_string_equal(options.report, "b.json");
    accept("observe --checkpoint-signal USR1 --checkpoint-path out -- x", &options);
    assert_int_equal(options.spec.mode, BH_MODE_OBSERVE);
    assert_int_equal(options.spec.checkpoint_kind, BH_CHECKPOINT_SIGNAL);
    assert_int_equal(options.spec.checkpoint_signal, SIGUSR1);
    accept("run --help", &options);
    assert_true(options.help);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *line, *field;
    } cases[] = {
        {"run -- x", "--limit"},
        {"run --limit 3g -- x", "--limit"},
        {"run --limit 1 -- x", "--limit"},
        {"run --limit -- x", "--limit"},
        {"run --limit", "--limit"},
        {"run --limit 1GiB --limit 2GiB -- x", "--limit"},
        {"run --limit 1GiB", "command"},
        {"run --limit 1GiB --", "command"},
        {"run --limit 1GiB x", "command"},
        {"run --limt 1GiB -- x", "--limt"},
        {"run -l 1GiB -- x", "-l"},
        {"run --limit 1GiB --warning 2GiB -- x", "--warning"},
        {"run --limit 1GiB --recovery 1023MiB -- x", "--recovery"},
        {"run --limit 1GiB --emergency 1GiB -- x", "--emergency"},
        {"run --limit 1GiB --breaches 0 -- x", "--breaches"},
        {"run --limit 1GiB --breaches 99999999999 -- x", "--breaches"},
        {"run --limit 1GiB --breaches 2x -- x", "--breaches"},
        {"run --limit 1GiB --hold 5 -- x", "--hold"},
        {"run --limit 1GiB --interval 0s -- x", "--interval"},
        {"run --limit 1GiB --min-interval 1s -- x", "--min-interval"},
        {"run --limit 1GiB --wall-time 10 -- x", "--wall-time"},
        {"run --limit 1GiB --grace 0s -- x", "--grace"},
        {"run --limit 1GiB --grace 2m -- x", "--grace-max"},
        {"run --limit 1GiB --stop-signal SIGNOPE -- x", "--stop-signal"},
        {"run --limit 1GiB --emergency-action shout -- x", "--emergency-action"},
        {"run --limit 1GiB --stacks some -- x", "--stacks"},
        {"run --limit 1GiB --record=yes -- x", "--record"},
        {"run --limit 1GiB --record --depth 999 -- x", "--depth"},
        {"run --limit 1GiB --checkpoint-signal USR1 -- x", "--checkpoint-path"},
        {"run --limit 1GiB --checkpoint-path f -- x", "--checkpoint-signal"},
        {"run --limit 1GiB --run-dir", "--run-dir"},
        {"observe --limit 1GiB -- x", "--limit"},
        {"observe", "command"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse(cases[i].line, cases[i].field);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
