/* A job's spec: defaults, bands, ranges, the first wrong member named. */
#include <signal.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/model/job.h"

static const char *const arguments[] = {"true", NULL};

static struct bh_job_spec enforced(uint64_t limit)
{
    struct bh_job_spec spec;
    bh_job_spec_init(&spec);
    spec.argv = arguments;
    spec.argc = 1;
    spec.mode = BH_MODE_ENFORCE;
    spec.limit_bytes = limit;
    return spec;
}

/* Bands that follow from a limit: core/model/policy.md, section 1. */
static void test_bands(void **state)
{
    (void)state;
    static const uint64_t rows[][4] = {
        {2, 0, 1, 3},
        {9, 7, 8, 10},
        {29, 25, 27, 31},
        {209715200, 167772160, 188743680, 230686720},
        {27917287424, 22333829940, 25125558682, 30709016166},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bh_job_spec spec = enforced(rows[i][0]);
        for (int again = 0; again < 2; again++) { /* a resolved spec resolves to itself */
            assert_int_equal(bh_job_spec_resolve(&spec, NULL), BH_OK);
            assert_int_equal(spec.recovery_bytes, rows[i][1]);
            assert_int_equal(spec.warning_bytes, rows[i][2]);
            assert_int_equal(spec.emergency_bytes, rows[i][3]);
        }
    }
}

static void refused(struct bh_job_spec spec, int error, const char *field)
{
    struct bh_job_spec before = spec;
    struct bh_diag diag = {0};
    assert_int_equal(bh_job_spec_resolve(&spec, &diag), error);
    assert_string_equal(diag.field, field);
    assert_true(diag.detail[0] != '\0');
    assert_memory_equal(&spec, &before, sizeof spec);
}

static void test_limits_that_cannot_be(void **state)
{
    (void)state;
    refused(enforced(0), BH_E_INVALID_CONFIG, "limit");
    refused(enforced(1), BH_E_INVALID_CONFIG, "limit");
    refused(enforced(INT64_MAX), BH_E_INVALID_CONFIG, "limit");
    struct bh_job_spec spec = enforced(INT64_MAX); /* whatever bands are given */
    spec.emergency_bytes = INT64_MAX;
    refused(spec, BH_E_INVALID_CONFIG, "limit");
    spec = enforced(8384883669867978007u); /* the greatest L with L + L / 10 <= 2^63 - 1 */
    assert_int_equal(bh_job_spec_resolve(&spec, NULL), BH_OK);
    assert_true(spec.emergency_bytes <= (uint64_t)INT64_MAX);
    refused(enforced(8384883669867978008u), BH_E_INVALID_CONFIG, "limit");
}

static void test_given_bands(void **state)
{
    (void)state;
    struct bh_job_spec spec = enforced(1000);
    spec.warning_bytes = 950; /* each on its own */
    assert_int_equal(bh_job_spec_resolve(&spec, NULL), BH_OK);
    assert_int_equal(spec.warning_bytes, 950);
    assert_int_equal(spec.recovery_bytes, 800);
    assert_int_equal(spec.emergency_bytes, 1100);

    spec = enforced(1000);
    spec.recovery_given = true; /* a zero that is meant */
    assert_int_equal(bh_job_spec_resolve(&spec, NULL), BH_OK);
    assert_int_equal(spec.recovery_bytes, 0);

    spec = enforced(1000);
    spec.recovery_bytes = 900;
    refused(spec, BH_E_INVALID_CONFIG, "recovery");
    spec = enforced(1000);
    spec.warning_bytes = 1000;
    refused(spec, BH_E_INVALID_CONFIG, "warning");
    spec.recovery_bytes = 1000; /* two are wrong: the first one is named */
    refused(spec, BH_E_INVALID_CONFIG, "recovery");
    spec = enforced(1000);
    spec.emergency_bytes = 1000;
    refused(spec, BH_E_INVALID_CONFIG, "emergency");
    spec = enforced(1000);
    spec.emergency_bytes = (uint64_t)INT64_MAX + 1;
    refused(spec, BH_E_INVALID_CONFIG, "emergency");
    spec = enforced(1000);
    spec.warning_given = true;
    refused(spec, BH_E_INVALID_CONFIG, "recovery");
}

static void test_observe(void **state)
{
    (void)state;
    struct bh_job_spec spec = enforced(0);
    spec.mode = BH_MODE_OBSERVE;
    assert_int_equal(bh_job_spec_resolve(&spec, NULL), BH_OK);
    assert_int_equal(spec.limit_bytes, 0); /* nothing is invented */
    assert_int_equal(spec.emergency_bytes, 0);
    spec.mode = (enum bh_mode)0;
    refused(spec, BH_E_MODE_MISSING, "mode");
}

static void test_ranges(void **state)
{
    (void)state;
#define REFUSED(field, change)                                                                     \
    do {                                                                                           \
        struct bh_job_spec spec = enforced(1000);                                                  \
        change;                                                                                    \
        refused(spec, BH_E_INVALID_CONFIG, field);                                                 \
    } while (0)
    REFUSED("breach/count", spec.breach_count = 0);
    REFUSED("max_unusable", spec.max_unusable = 0);
    REFUSED("stop/signal", spec.stop_signal = 65);
    REFUSED("stop/signal", spec.stop_signal = 0);
    REFUSED("stop/signal", spec.stop_signal = 9);
    REFUSED("stop/signal", spec.stop_signal = SIGSTOP);
    REFUSED("sample_interval", spec.interval_ns = 0);
    REFUSED("min_sample_interval", spec.min_interval_ns = 0);
    REFUSED("min_sample_interval", spec.min_interval_ns = spec.interval_ns + 1);
    REFUSED("breach/hold", spec.breach_hold_ns = (uint64_t)INT64_MAX + 1);
    REFUSED("wall_time", spec.wall_time_ns = UINT64_MAX);
    REFUSED("stop/grace/base", spec.grace_base_ns = 0);
    REFUSED("stop/grace/max", spec.grace_max_ns = spec.grace_base_ns - 1);
    REFUSED("stop/kill_retry", spec.kill_retry_ns = 0);
    REFUSED("stop/kill_wait", spec.kill_wait_ns = 0);
    REFUSED("command", spec.argc = 0);
    REFUSED("cwd", spec.cwd = "relative");
    REFUSED("record/depth", (spec.record = true, spec.depth = 257));
    REFUSED("checkpoint/timeout",
            (spec.checkpoint_kind = BH_CHECKPOINT_PROTOCOL, spec.checkpoint_timeout_ns = 0));
    REFUSED("checkpoint/signal", spec.checkpoint_kind = BH_CHECKPOINT_SIGNAL);
    REFUSED("checkpoint/path",
            (spec.checkpoint_kind = BH_CHECKPOINT_SIGNAL, spec.checkpoint_signal = 10));
}

static void test_texts(void **state)
{
    (void)state;
    assert_string_equal(bh_job_state_text(BH_JOB_FAILED_TO_START), "failed_to_start");
    assert_string_equal(bh_mode_text(BH_MODE_OBSERVE), "observe");
    assert_string_equal(bh_boundary_text(BH_BOUNDARY_KERNEL), "kernel_enforced");
    assert_string_equal(bh_recorder_state_text(BH_RECORDER_LOSSY), "lossy");
    assert_string_equal(bh_outcome_text(BH_OUTCOME_UNKILLABLE), "unkillable");
    assert_string_equal(bh_cause_text(BH_CAUSE_KERNEL_OOM), "kernel_oom");
    assert_string_equal(bh_mode_text(0), "unknown");
    assert_string_equal(bh_cause_text(99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bands),       cmocka_unit_test(test_limits_that_cannot_be),
        cmocka_unit_test(test_given_bands), cmocka_unit_test(test_observe),
        cmocka_unit_test(test_ranges),      cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
