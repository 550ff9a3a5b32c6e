/* Kind, cause and exit status from facts; the sentence of each cause. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "core/model/outcome.h"

struct row {
    const char *name;
    struct bh_outcome_facts facts;
    enum bh_outcome_kind kind;
    enum bh_cause cause;
    int exit_code;
};

#define RAN(...)                                                                                   \
    {                                                                                              \
        .launched = true, .mode = BH_MODE_ENFORCE, __VA_ARGS__                                     \
    }
#define ENDED(code, ...)    RAN(.exit_code = (code), __VA_ARGS__)
#define KILLED(number, ...) RAN(.exit_code = -1, .signal = (number), __VA_ARGS__)

static const struct row rows[] = {
    {"zero", ENDED(0), BH_OUTCOME_CHILD_EXITED, BH_CAUSE_COMPLETED, 0},
    {"error", ENDED(3), BH_OUTCOME_CHILD_EXITED, BH_CAUSE_CHILD_ERROR, 3},
    /* 137 is a number like any other: nobody was killed */
    {"137", ENDED(137), BH_OUTCOME_CHILD_EXITED, BH_CAUSE_CHILD_ERROR, 137},
    {"75", ENDED(75), BH_OUTCOME_CHILD_EXITED, BH_CAUSE_CHILD_ERROR, 75},
    {"segv", KILLED(SIGSEGV), BH_OUTCOME_CHILD_SIGNALED, BH_CAUSE_CRASH_SIGNAL, 139},
    {"abort", KILLED(SIGABRT), BH_OUTCOME_CHILD_SIGNALED, BH_CAUSE_CRASH_SIGNAL, 134},
    {"kill", KILLED(SIGKILL), BH_OUTCOME_CHILD_SIGNALED, BH_CAUSE_KILLED_BY_OTHER, 137},
    {"term", KILLED(SIGTERM), BH_OUTCOME_CHILD_SIGNALED, BH_CAUSE_KILLED_BY_OTHER, 143},
    {"oom", KILLED(SIGKILL, .kernel_oom = true), BH_OUTCOME_CHILD_SIGNALED, BH_CAUSE_KERNEL_OOM,
     137},
    {"oom of a child, shell says 137", ENDED(137, .kernel_oom = true), BH_OUTCOME_CHILD_EXITED,
     BH_CAUSE_KERNEL_OOM, 137},
    {"oom elsewhere", ENDED(0, .kernel_oom = true), BH_OUTCOME_CHILD_EXITED, BH_CAUSE_COMPLETED, 0},
    {"/signal", KILLED(SIGINT, .signal_was_ours = true, .signal_was_requested = true),
     BH_OUTCOME_CHILD_SIGNALED, BH_CAUSE_USER_STOP, 130},
    {"ours without a reason", KILLED(SIGTERM, .signal_was_ours = true), BH_OUTCOME_CHILD_SIGNALED,
     BH_CAUSE_UNKNOWN, 143},
    {"limit", KILLED(SIGTERM, .stop = BH_STOP_LIMIT, .signal_was_ours = true),
     BH_OUTCOME_POLICY_INTERVENTION, BH_CAUSE_LIMIT_EXCEEDED, 75},
    {"limit, left with 0", ENDED(0, .stop = BH_STOP_LIMIT), BH_OUTCOME_POLICY_INTERVENTION,
     BH_CAUSE_LIMIT_EXCEEDED, 75},
    {"emergency", KILLED(SIGKILL, .stop = BH_STOP_EMERGENCY), BH_OUTCOME_POLICY_INTERVENTION,
     BH_CAUSE_EMERGENCY, 75},
    {"wall", ENDED(0, .stop = BH_STOP_WALL_TIME), BH_OUTCOME_POLICY_INTERVENTION,
     BH_CAUSE_WALL_TIME, 75},
    {"stop", ENDED(1, .stop = BH_STOP_REQUEST), BH_OUTCOME_POLICY_INTERVENTION, BH_CAUSE_USER_STOP,
     75},
    {"ctrl-c", KILLED(SIGINT, .stop = BH_STOP_SIGNAL, .stop_signal_number = SIGINT),
     BH_OUTCOME_POLICY_INTERVENTION, BH_CAUSE_USER_STOP, 130},
    {"owner", ENDED(0, .stop = BH_STOP_OWNER_EXIT), BH_OUTCOME_POLICY_INTERVENTION,
     BH_CAUSE_OWNER_EXIT, 75},
    {"root exited", ENDED(4, .stop = BH_STOP_ROOT_EXITED), BH_OUTCOME_CHILD_EXITED,
     BH_CAUSE_CHILD_ERROR, 4},
    {"unreadable", KILLED(SIGTERM, .stop = BH_STOP_OBSERVATION_FAILED),
     BH_OUTCOME_SUPERVISOR_FAILURE, BH_CAUSE_OBSERVATION_FAILED, 70},
    {"fault", KILLED(SIGTERM, .stop = BH_STOP_SUPERVISOR_FAULT), BH_OUTCOME_SUPERVISOR_FAILURE,
     BH_CAUSE_UNKNOWN, 70},
    {"unkillable", RAN(.exit_code = -1, .stop = BH_STOP_LIMIT, .unkillable = true),
     BH_OUTCOME_UNKILLABLE, BH_CAUSE_LIMIT_EXCEEDED, 70},
    {"storage", ENDED(0, .artifact_error = BH_E_NOSPACE), BH_OUTCOME_PARTIAL_ARTIFACT_FAILURE,
     BH_CAUSE_COMPLETED, 74},
    {"74 before 70", RAN(.exit_code = -1, .unkillable = true, .artifact_error = BH_E_IO),
     BH_OUTCOME_PARTIAL_ARTIFACT_FAILURE, BH_CAUSE_UNKNOWN, 74},
    {"lost", RAN(.exit_code = -1, .supervisor_lost = true), BH_OUTCOME_SUPERVISOR_LOST,
     BH_CAUSE_SUPERVISOR_LOST, 70},
    {"reboot", RAN(.exit_code = -1, .supervisor_lost = true, .reboot = true),
     BH_OUTCOME_SUPERVISOR_LOST, BH_CAUSE_HOST_REBOOT, 70},
    {"missing",
     {.error = BH_E_LAUNCH_NOT_FOUND, .exit_code = -1},
     BH_OUTCOME_LAUNCH_NOT_FOUND,
     BH_CAUSE_UNKNOWN,
     127},
    {"not executable",
     {.error = BH_E_LAUNCH_NOT_EXECUTABLE, .exit_code = -1},
     BH_OUTCOME_LAUNCH_NOT_EXECUTABLE,
     BH_CAUSE_UNKNOWN,
     126},
    {"too long",
     {.error = BH_E_LAUNCH_TOO_LONG, .exit_code = -1},
     BH_OUTCOME_LAUNCH_NOT_EXECUTABLE,
     BH_CAUSE_UNKNOWN,
     126},
    {"config",
     {.error = BH_E_INVALID_CONFIG, .exit_code = -1},
     BH_OUTCOME_INVALID_CONFIGURATION,
     BH_CAUSE_UNKNOWN,
     64},
    {"fork",
     {.error = BH_E_LAUNCH_FAILED, .exit_code = -1},
     BH_OUTCOME_SUPERVISOR_FAILURE,
     BH_CAUSE_UNKNOWN,
     70},
    /* observe mode: same kind and cause, the exit is the child's */
    {"observe stop",
     {.launched = true, .mode = BH_MODE_OBSERVE, .exit_code = 5, .stop = BH_STOP_REQUEST},
     BH_OUTCOME_POLICY_INTERVENTION,
     BH_CAUSE_USER_STOP,
     5},
    {"observe ctrl-c",
     {.launched = true,
      .mode = BH_MODE_OBSERVE,
      .exit_code = -1,
      .signal = SIGINT,
      .stop = BH_STOP_SIGNAL,
      .stop_signal_number = SIGINT},
     BH_OUTCOME_POLICY_INTERVENTION,
     BH_CAUSE_USER_STOP,
     130},
};

static void test_decide(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bh_record_outcome outcome;
        memset(&outcome, 0, sizeof outcome);
        outcome.cpu_ns = 7;
        bh_outcome_decide(&rows[i].facts, &outcome);
        if (outcome.kind != rows[i].kind || outcome.cause != rows[i].cause ||
            outcome.reported_exit_code != rows[i].exit_code)
            fail_msg("%s: %s, %s, %d", rows[i].name, bh_outcome_text((int)outcome.kind),
                     bh_cause_text((int)outcome.cause), outcome.reported_exit_code);
        assert_int_equal(outcome.cpu_ns, 7);
        if (rows[i].facts.signal)
            assert_int_equal(outcome.exit_code, -1);
    }
}

#define GIB (UINT64_C(1) << 30)

static const struct bh_outcome_story base = {
    .kind = BH_OUTCOME_POLICY_INTERVENTION,
    .mode = BH_MODE_ENFORCE,
    .exit_code = -1,
    .limit_bytes = 6 * GIB,
    .emergency_bytes = 7086696038, /* 6.6 GiB */
    .wall_time_ns = 7200 * BH_NS_PER_S,
    .max_unusable = 3,
    .reached_epoch_us = {BH_VALUE_AVAILABLE, 1796002209000000}, /* 2026-11-30T01:30:09Z */
    .later_ns = {BH_VALUE_AVAILABLE, 3800000000},
};

static void expect(struct bh_outcome_story story, const char *sentence)
{
    char text[320];
    assert_string_equal(bh_outcome_sentence(&story, 0, text, sizeof text), sentence);
    for (size_t size = 1; size < 40; size++) { /* cut, never over the end */
        memset(text, 'x', sizeof text);
        (void)bh_outcome_sentence(&story, 0, text, size);
        assert_true(strlen(text) < size);
        assert_int_equal(text[size], 'x');
    }
}

static struct bh_outcome_story with_cause(enum bh_cause cause)
{
    struct bh_outcome_story story = base;
    story.cause = cause;
    return story;
}

static void test_limit_sentences(void **state)
{
    (void)state;
    struct bh_outcome_story story = with_cause(BH_CAUSE_LIMIT_EXCEEDED);
    story.checkpoint = BH_CKPT_VERIFIED_FILE;
    expect(story, "It reached its 6 GiB limit at 01:30:09, saved a checkpoint that is verified on "
                  "disk, and exited 3.8 s later.");
    story.checkpoint = BH_CKPT_ACKNOWLEDGED;
    expect(story, "It reached its 6 GiB limit at 01:30:09, the job says it saved a checkpoint, and "
                  "it exited 3.8 s later.");
    story.checkpoint = BH_CKPT_NOT_NEGOTIATED;
    story.later_ns.value = 639000000;
    expect(story, "It reached its 6 GiB limit at 01:30:09, no checkpoint was taken, and it exited "
                  "0.6 s later.");
    story.killed = true;
    story.checkpoint = BH_CKPT_TIMED_OUT;
    expect(story,
           "It reached its 6 GiB limit at 01:30:09, the checkpoint was not done in time, and "
           "it was killed 0.6 s later.");
    story.later_ns.status = BH_VALUE_UNKNOWN;
    story.checkpoint = BH_CKPT_FAILED;
    expect(story, "It reached its 6 GiB limit at 01:30:09, the checkpoint failed, and it was "
                  "killed.");
}

static void test_sentences(void **state)
{
    (void)state;
    struct bh_outcome_story story = with_cause(BH_CAUSE_EMERGENCY);
    expect(story, "It passed 6.6 GiB at 01:30:09 and was killed at once.");
    story.emergency_term = true;
    expect(story, "It passed 6.6 GiB at 01:30:09 and was stopped at once.");
    expect(with_cause(BH_CAUSE_WALL_TIME), "Its 2 h were over.");
    story = with_cause(BH_CAUSE_WALL_TIME);
    story.wall_time_ns = 90 * 60 * BH_NS_PER_S;
    expect(story, "Its 1 h 30 min were over.");
    story.wall_time_ns = 3600 * BH_NS_PER_S;
    expect(story, "Its 1 h was over.");
    story.wall_time_ns = 1500 * BH_NS_PER_MS;
    expect(story, "Its 1.5 s were over.");
    expect(with_cause(BH_CAUSE_USER_STOP), "You stopped it.");
    expect(with_cause(BH_CAUSE_OWNER_EXIT), "The process that asked for it ended.");
    expect(with_cause(BH_CAUSE_KERNEL_OOM), "The kernel ran out of memory and killed it, below its "
                                            "own limit. Lower the limit.");
    story = with_cause(BH_CAUSE_KERNEL_OOM);
    story.mode = BH_MODE_OBSERVE;
    expect(story, "The kernel ran out of memory and killed it. Give it a limit.");
    story = with_cause(BH_CAUSE_KILLED_BY_OTHER);
    story.signal = SIGKILL;
    expect(story, "SIGKILL came from outside; Bulkhead sent none.");
    story = with_cause(BH_CAUSE_CRASH_SIGNAL);
    story.signal = SIGSEGV;
    expect(story, "Crashed with SIGSEGV. See the end of stderr.");
    story = with_cause(BH_CAUSE_CHILD_ERROR);
    story.exit_code = 1;
    expect(story, "Ended by itself with exit code 1. See the end of stderr.");
    expect(with_cause(BH_CAUSE_COMPLETED), "Finished normally.");
    expect(with_cause(BH_CAUSE_UNKNOWN), "The cause is unknown.");
    expect(with_cause(BH_CAUSE_HOST_REBOOT), "The machine restarted.");
}

static void test_failures(void **state)
{
    (void)state;
    struct bh_outcome_story story = with_cause(BH_CAUSE_OBSERVATION_FAILED);
    story.kind = BH_OUTCOME_SUPERVISOR_FAILURE;
    expect(story, "Its memory could not be read three times in a row, so it was stopped.");
    story.max_unusable = 1;
    expect(story, "Its memory could not be read once, so it was stopped.");
    story.max_unusable = 12;
    story.mode = BH_MODE_OBSERVE;
    expect(story, "Its memory could not be read 12 times in a row, so it was no longer watched.");
    story.error = BH_E_TOO_MANY_PROCESSES;
    expect(story,
           "It had more than 4096 processes, more than can be watched without a control group "
           "of its own, so it was no longer watched.");
    story.mode = BH_MODE_ENFORCE;
    story.error = BH_E_NOSPACE;
    expect(story, "There were not enough descriptors to watch all of its processes (see ulimit "
                  "-Hn), so it was stopped.");
    story.error = BH_E_NOMEM;
    expect(story, "There was not enough memory to watch all of its processes, so it was stopped.");
    story.cause = BH_CAUSE_UNKNOWN; /* not even its first process could be opened */
    expect(story, "There was not enough memory to watch all of its processes, so it was stopped.");
    story = with_cause(BH_CAUSE_SUPERVISOR_LOST);
    story.kind = BH_OUTCOME_SUPERVISOR_LOST;
    expect(story, "Its supervisor was lost; last sample at 01:30:09.");
    story.reached_epoch_us.status = BH_VALUE_UNKNOWN;
    expect(story, "Its supervisor was lost before the first sample.");
    story = with_cause(BH_CAUSE_UNKNOWN);
    story.kind = BH_OUTCOME_LAUNCH_NOT_FOUND;
    story.error = BH_E_LAUNCH_NOT_FOUND;
    expect(story, "The program was not found.");
    story = with_cause(BH_CAUSE_LIMIT_EXCEEDED);
    story.kind = BH_OUTCOME_UNKILLABLE;
    story.survivors = 1;
    expect(story, "SIGKILL was sent, and 1 of its processes is still there.");
    story.survivors = 2;
    expect(story, "SIGKILL was sent, and 2 of its processes are still there.");
}

static void test_local_time(void **state)
{
    (void)state;
    struct bh_outcome_story story = with_cause(BH_CAUSE_EMERGENCY);
    char text[320];
    (void)bh_outcome_sentence(&story, 2 * 3600, text, sizeof text);
    assert_non_null(strstr(text, " at 03:30:09 "));
    (void)bh_outcome_sentence(&story, -2 * 3600, text, sizeof text); /* the day before */
    assert_non_null(strstr(text, " at 23:30:09 "));
    story.reached_epoch_us.status = BH_VALUE_UNKNOWN;
    (void)bh_outcome_sentence(&story, 0, text, sizeof text);
    assert_non_null(strstr(text, " at an unknown time "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decide),     cmocka_unit_test(test_limit_sentences),
        cmocka_unit_test(test_sentences),  cmocka_unit_test(test_failures),
        cmocka_unit_test(test_local_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
