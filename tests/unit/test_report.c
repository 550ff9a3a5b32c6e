/* The report as a fold: whole stories as golden JSON, bounds, and what validation refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>

#include "core/model/policy.h"
#include "core/model/report.h"
#include "records.h"
#include "scratch.h"

#define T0 86400500000000ull /* ns: launch */
#define MS 1000000ull

static const struct bh_anchor anchor = {{T0}, {1796002200120000}}; /* 01:30:00.120 UTC */

static struct bh_report *report;
static struct bh_record record;
static uint64_t sequence;

static int setup(void **state)
{
    (void)state;
    report = bh_report_new();
    assert_non_null(report);
    bh_report_begin(report, RECORDS_RUN_ID, anchor);
    sequence = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bh_report_free(report);
    return 0;
}

static void start(int kind, uint64_t at_ms)
{
    memset(&record, 0, sizeof record);
    record.kind = (enum bh_record_kind)kind;
    record.sequence = ++sequence;
    record.at.ns = T0 + at_ms * MS;
}

static void add(void)
{
    bh_report_add(report, &record);
}

static void begin_run(enum bh_mode mode)
{
    start(BH_RECORD_CONFIG, 0);
    fill_config(&record.config);
    record.config.checkpoint_kind = BH_CHECKPOINT_NONE;
    record.config.wall_time_ns = 0;
    record.config.breach_hold_ns = 0;
    record.config.emergency_action = BH_EMERGENCY_KILL;
    record.config.stop_signal = SIGTERM;
    record.config.mode = mode;
    if (mode == BH_MODE_OBSERVE)
        record.config.limit_bytes = record.config.warning_bytes = record.config.recovery_bytes =
            record.config.emergency_bytes = 0;
    add();
    start(BH_RECORD_HOST, 0);
    fill_host(&record.host);
    record.host.outer_limit_bytes = 0;
    add();
}

static void launch(void)
{
    start(BH_RECORD_LAUNCHED, 0);
    record.launched = (struct bh_record_launched){4242, 99887766, 4242, {1796002200120000}};
    add();
    start(BH_RECORD_MEMBER, 0);
    record.member = (struct bh_record_member){
        .event = BH_MEMBER_CAME, .pid = 4242, .start_token = 99887766, .basename = "python3"};
    add();
}

static void span(uint64_t from_ms, uint64_t to_ms, uint64_t min, uint64_t max)
{
    start(BH_RECORD_SAMPLES, to_ms);
    record.by_scribe = true;
    record.samples = (struct bh_record_samples){
        .from = {T0 + from_ms * MS},
        .to = {T0 + to_ms * MS},
        .count = 20,
        .min = available(min),
        .max = available(max),
        .last = available(max),
        .max_at = {T0 + to_ms * MS},
        .members = 1,
    };
    add();
}

static void transition(uint64_t at_ms, int from, int to, uint64_t bytes, const char *reason)
{
    start(BH_RECORD_TRANSITION, at_ms);
    record.transition = (struct bh_record_transition){
        .from = (uint8_t)from, .to = (uint8_t)to, .bytes = available(bytes)};
    (void)strcpy(record.transition.reason, reason);
    add();
}

static void signalled(uint64_t at_ms, int signal, const char *reason)
{
    start(BH_RECORD_SIGNAL, at_ms);
    record.signal = (struct bh_record_signal){.signal = signal,
                                              .target = BH_TARGET_TREE,
                                              .result = BH_SIGNAL_DELIVERED,
                                              .reached = 1,
                                              .decision_to_signal_ns = 60000};
    (void)strcpy(record.signal.reason, reason);
    add();
}

static void went(uint64_t at_ms)
{
    start(BH_RECORD_MEMBER, at_ms);
    record.member = (struct bh_record_member){.event = BH_MEMBER_WENT,
                                              .pid = 4242,
                                              .start_token = 99887766,
                                              .basename = "python3",
                                              .max_rss_bytes = 1200000000};
    add();
}

static void empty(uint64_t at_ms)
{
    start(BH_RECORD_EMPTY, at_ms);
    record.empty.proven = true;
    add();
}

static struct bh_record_outcome *outcome(uint64_t at_ms, enum bh_outcome_kind kind,
                                         enum bh_cause cause)
{
    start(BH_RECORD_OUTCOME, at_ms);
    fill_outcome(&record.outcome);
    record.outcome.kind = kind;
    record.outcome.cause = cause;
    record.outcome.survivors = 0;
    record.outcome.members_seen = record.outcome.members_escaped = 0;
    record.outcome.member_records_omitted = 0;
    record.outcome.error = 0;
    record.outcome.final_bytes = available(0);
    record.outcome.peak_at.ns = T0 + 9800 * MS;
    return &record.outcome;
}

static void golden(const char *name)
{
    struct bh_bytes json = {0};
    struct bh_diag diag = {0};
    bh_report_finish(report, true);
    if (bh_report_validate(report, &diag) < 0)
        fail_msg("%s: %s", diag.field, diag.detail);
    assert_int_equal(bh_report_render(report, 0, &json), BH_OK);
    assert_true(golden_equal(name, json.data, json.length));
    bh_bytes_done(&json);
}

/* The story of openapi/examples/report.json. */
static void limit_story(void)
{
    begin_run(BH_MODE_ENFORCE);
    launch();
    for (uint64_t s = 0; s < 9; s++)
        span(s * 1000, s * 1000 + 950, 31457280 + s * 110000000, 31457280 + (s + 1) * 110000000);
    start(BH_RECORD_ADVISORY, 8000);
    record.advisory =
        (struct bh_record_advisory){available(32000000000), available(34359738368), 125};
    add();
    transition(8600, BH_POLICY_STATE_NORMAL, BH_POLICY_STATE_WARNING, 971018240, "");
    start(BH_RECORD_LIMIT_CROSSED, 9600);
    record.limit_crossed = (struct bh_record_limit_crossed){1090000000, 1073741824};
    add();
    transition(9601, BH_POLICY_STATE_WARNING, BH_POLICY_STATE_TERMINATING, 1096847360,
               "not_negotiated");
    signalled(9601, SIGTERM, "not_negotiated");
    span(9000, 10100, 1000000000, 1122013184);
    went(10239);
    start(BH_RECORD_PEAK_MEMBER, 10240);
    record.peak_member = (struct bh_record_peak_member){4242, "python3", 1122013184};
    add();
    start(BH_RECORD_ADVISORY, 10240);
    record.advisory =
        (struct bh_record_advisory){available(33244053504), available(34359738368), 0};
    add();
    start(BH_RECORD_RECORDER, 10240);
    record.by_scribe = true;
    record.recorder = (struct bh_record_recorder){
        .state = BH_RECORDER_ATTACHED, .mlx_version = "0.32.4", .events = 112, .ring_bytes = 0};
    add();
    empty(10240);
    (void)outcome(10240, BH_OUTCOME_POLICY_INTERVENTION, BH_CAUSE_LIMIT_EXCEEDED);
    add();
}

static void test_limit(void **state)
{
    (void)state;
    limit_story();
    golden("report/limit_exceeded.json");
    struct bh_outcome_story story;
    char text[320];
    bh_report_story(report, &story);
    assert_string_equal(bh_outcome_sentence(&story, 0, text, sizeof text),
                        "It reached its 1 GiB limit at 01:30:09, no checkpoint was taken, and it "
                        "exited 0.6 s later.");
}

static void test_checkpoint_and_kill(void **state)
{
    (void)state;
    begin_run(BH_MODE_ENFORCE);
    launch();
    start(BH_RECORD_CHECKPOINT, 10);
    record.checkpoint.word = BH_CKPT_READY;
    add();
    span(0, 950, 10, 1073741900);
    start(BH_RECORD_CONFIG_CHANGE, 500); /* the limit in force is the one spoken of */
    record.config_change =
        (struct bh_record_config_change){2, 2147483648, 1932735284, 1717986920, 2362232012};
    add();
    transition(990, BH_POLICY_STATE_NORMAL, BH_POLICY_STATE_WARNING, 2000000000, "");
    transition(1000, BH_POLICY_STATE_WARNING, BH_POLICY_STATE_CHECKPOINT_REQUESTED, 2147483650, "");
    start(BH_RECORD_CHECKPOINT, 1000);
    record.checkpoint = (struct bh_record_checkpoint){
        .word = BH_CKPT_REQUESTED_UNVERIFIED, .request_id = 77, .reason = "footprint"};
    add();
    start(BH_RECORD_CHECKPOINT, 3000);
    record.checkpoint = (struct bh_record_checkpoint){.word = BH_CKPT_ACKNOWLEDGED,
                                                      .request_id = 77,
                                                      .reason = "footprint",
                                                      .artifact_kind = 1,
                                                      .artifact_bytes = available(4096),
                                                      .rejected = 1};
    add();
    transition(3000, BH_POLICY_STATE_CHECKPOINT_REQUESTED, BH_POLICY_STATE_TERMINATING, 2147483650,
               "checkpoint_acknowledged");
    signalled(3000, SIGTERM, "checkpoint_acknowledged");
    signalled(4500, SIGKILL, "grace_expired");
    start(BH_RECORD_ESCAPE, 700);
    record.member = (struct bh_record_member){
        .event = BH_MEMBER_LEFT_SESSION, .pid = 4300, .basename = "daemon"};
    add();
    start(BH_RECORD_MEMBER, 700);
    record.member = (struct bh_record_member){
        .event = BH_MEMBER_LEFT_SESSION, .pid = 4300, .basename = "daemon"};
    add();
    start(BH_RECORD_MARK, 710);
    (void)strcpy(record.mark.label, "epoch \"3\"");
    add();
    start(BH_RECORD_CLOCK_GAP, 720);
    record.clock_gap.gap_ns = 60 * BH_NS_PER_S;
    add();
    empty(4600);
    outcome(4600, BH_OUTCOME_POLICY_INTERVENTION, BH_CAUSE_LIMIT_EXCEEDED)->signal = SIGKILL;
    add();
    golden("report/checkpoint_and_kill.json");
}

static void test_observe(void **state)
{
    (void)state;
    begin_run(BH_MODE_OBSERVE);
    launch();
    span(0, 950, 10, 500);
    went(1000);
    empty(1000);
    struct bh_record_outcome *end = outcome(1000, BH_OUTCOME_CHILD_EXITED, BH_CAUSE_COMPLETED);
    end->exit_code = 0;
    end->signal = 0;
    end->reported_exit_code = 0;
    end->peak_bytes = available(512);
    add();
    golden("report/observe.json");
}

static void test_lost(void **state)
{
    (void)state;
    begin_run(BH_MODE_ENFORCE);
    launch();
    span(0, 950, 10, 500);
    start(BH_RECORD_OUTCOME, 5000);
    record.by_scribe = true;
    record.outcome = (struct bh_record_outcome){.kind = BH_OUTCOME_SUPERVISOR_LOST,
                                                .cause = BH_CAUSE_SUPERVISOR_LOST,
                                                .exit_code = -1,
                                                .reported_exit_code = 70};
    add();
    golden("report/supervisor_lost.json");
}

static void test_not_launched(void **state)
{
    (void)state;
    begin_run(BH_MODE_ENFORCE);
    start(BH_RECORD_OUTCOME, 3);
    record.outcome = (struct bh_record_outcome){.kind = BH_OUTCOME_LAUNCH_NOT_FOUND,
                                                .exit_code = -1,
                                                .reported_exit_code = 127,
                                                .error = BH_E_LAUNCH_NOT_FOUND};
    add();
    golden("report/launch_not_found.json");
}

static void test_unkillable(void **state)
{
    (void)state;
    begin_run(BH_MODE_ENFORCE);
    launch();
    transition(100, BH_POLICY_STATE_NORMAL, BH_POLICY_STATE_EMERGENCY, 1181116007, "emergency");
    signalled(100, SIGKILL, "emergency");
    signalled(1100, SIGKILL, "retry");
    struct bh_record_outcome *end = outcome(31000, BH_OUTCOME_UNKILLABLE, BH_CAUSE_EMERGENCY);
    end->survivors = 1;
    end->signal = 0;
    end->reported_exit_code = 70;
    add();
    golden("report/unkillable.json");
}

/* ---- bounds ---- */

static void says_omitted(const struct bh_bytes *json, const char *name, unsigned count)
{
    char line[64];
    (void)snprintf(line, sizeof line, "\"%s\": %u", name, count);
    const char *found = strstr((const char *)json->data, line);
    if (!found || !strchr(",\n", found[strlen(line)]))
        fail_msg("the report does not say %s", line);
}

/* However long the run: bounded, extremes exact, ends kept. */
static void test_bounded(void **state)
{
    (void)state;
    begin_run(BH_MODE_ENFORCE);
    launch();
    for (uint64_t s = 0; s < 100000; s++)
        span(s * 1000, s * 1000 + 900, s == 777 ? 1 : 100, s == 77777 ? 1000000 : 5000);
    for (uint64_t i = 0; i < 5000; i++) {
        transition(i, BH_POLICY_STATE_NORMAL, BH_POLICY_STATE_WARNING, i, "");
        transition(i, BH_POLICY_STATE_WARNING, BH_POLICY_STATE_NORMAL, i, "");
        signalled(i, SIGUSR1, "requested");
        start(BH_RECORD_ADVISORY, i);
        record.advisory.host_available = available(i == 44 ? 7 : 1000 + i);
        add();
        start(BH_RECORD_ESCAPE, i);
        add();
        start(BH_RECORD_MEMBER, i);
        record.member = (struct bh_record_member){.event = BH_MEMBER_REPARENTED, .pid = (int)i};
        add();
        start(BH_RECORD_MEMBER, i);
        record.member = (struct bh_record_member){
            .event = BH_MEMBER_CAME, .pid = (int)i + 5000, .start_token = i};
        add();
        start(BH_RECORD_PEAK_MEMBER, i);
        add();
        start(BH_RECORD_MARK, i);
        add();
        start(BH_RECORD_CHECKPOINT, i);
        record.checkpoint.word = BH_CKPT_TIMED_OUT;
        add();
        start(BH_RECORD_CONFIG_CHANGE, i);
        add();
    }
    assert_true(report->sample_series.count <= BH_REPORT_POINTS);
    assert_true(report->sample_series.count > BH_REPORT_POINTS / 2 - 1);
    uint64_t greatest = 0, least = UINT64_MAX, readings = 0;
    for (size_t i = 0; i < report->sample_series.count; i++) {
        if (report->samples[i].max.value > greatest)
            greatest = report->samples[i].max.value;
        if (report->samples[i].min.value < least)
            least = report->samples[i].min.value;
        readings += report->samples[i].count;
        assert_true(i == 0 || report->samples[i].from.ns > report->samples[i - 1].to.ns);
    }
    assert_int_equal(greatest, 1000000);
    assert_int_equal(least, 1);
    assert_int_equal(readings, 2000000);
    assert_int_equal(report->samples[0].from.ns, T0);
    assert_int_equal(report->transition_list.count + report->transition_list.omitted, 10000);
    assert_int_equal(report->transitions[0].at.ns, T0);
    assert_int_equal(report->transitions[BH_REPORT_TRANSITIONS - 1].at.ns, T0 + 4999 * MS);
    assert_int_equal(report->escaped, 5000);
    assert_int_equal(report->escape_count, BH_REPORT_ESCAPES);
    assert_int_equal(report->live_count, BH_REPORT_LIVE);
    assert_int_equal(report->peak_count, BH_REPORT_PEAK);
    uint64_t least_available = UINT64_MAX;
    for (size_t i = 0; i < report->advisory_series.count; i++) {
        if (report->advisory[i].host_available.value < least_available)
            least_available = report->advisory[i].host_available.value;
    }
    assert_int_equal(least_available, 7);
    struct bh_bytes json = {0};
    empty(5000);
    (void)outcome(5000, BH_OUTCOME_POLICY_INTERVENTION, BH_CAUSE_LIMIT_EXCEEDED);
    add();
    assert_int_equal(bh_report_render(report, 0, &json), BH_OK);
    assert_true(json.length < 200 * 1024);
    /* what fell out of each list is counted beside it */
    says_omitted(&json, "transitions_omitted", 10000 - BH_REPORT_TRANSITIONS);
    says_omitted(&json, "signals_omitted", 5000 - BH_REPORT_SIGNALS);
    says_omitted(&json, "marks_omitted", 5000 - BH_REPORT_MARKS);
    says_omitted(&json, "events_omitted", 5000 - BH_REPORT_CHECKPOINTS);
    says_omitted(&json, "limit_changes_omitted", 5000 - BH_REPORT_LIMITS);
    says_omitted(&json, "member_events_omitted", 5000 - BH_REPORT_MEMBERS);
    bh_bytes_done(&json);
}

/* Records of a pool that this version does not read change nothing of the host's. */
static void test_other_pool(void **state)
{
    (void)state;
    begin_run(BH_MODE_ENFORCE);
    launch();
    span(0, 900, 10, 500);
    start(BH_RECORD_SAMPLES, 950);
    record.pool = 1;
    record.samples.count = 1;
    record.samples.max = available(999999);
    add();
    assert_int_equal(report->peak.value, 500);
    assert_int_equal(report->sample_series.count, 1);
}

/* Crossings during the grace are not the T either. */
static void test_crossing_after_the_stop(void **state)
{
    (void)state;
    struct bh_outcome_story story;
    begin_run(BH_MODE_ENFORCE);
    launch();
    start(BH_RECORD_LIMIT_CROSSED, 999);
    add();
    transition(1000, BH_POLICY_STATE_WARNING, BH_POLICY_STATE_TERMINATING, 1, "");
    start(BH_RECORD_LIMIT_CROSSED, 1400);
    add();
    empty(1500);
    (void)outcome(1500, BH_OUTCOME_POLICY_INTERVENTION, BH_CAUSE_LIMIT_EXCEEDED);
    add();
    bh_report_story(report, &story);
    assert_int_equal(story.later_ns.value, 501 * MS);
}

/* Rings go with their processes; the most that was mapped stays said. */
static void test_ring_bytes(void **state)
{
    (void)state;
    static const uint64_t mapped[] = {100, 900, 0};
    for (uint64_t i = 0; i < 3; i++) {
        start(BH_RECORD_RECORDER, i);
        record.recorder.ring_bytes = mapped[i];
        record.recorder.events = i;
        if (i == 1)
            (void)strcpy(record.recorder.mlx_version, "0.32.4");
        add();
    }
    assert_string_equal(report->recorder.mlx_version, "0.32.4");
    assert_int_equal(report->recorder.ring_bytes, 900);
    assert_int_equal(report->recorder.events, 2);
}

/* A crossing of an earlier breach that ended by itself is not the T of the stop. */
static void test_old_crossing(void **state)
{
    (void)state;
    struct bh_outcome_story story;
    begin_run(BH_MODE_ENFORCE);
    launch();
    start(BH_RECORD_LIMIT_CROSSED, 1000);
    add();
    transition(3600000, BH_POLICY_STATE_WARNING, BH_POLICY_STATE_TERMINATING, 1, "");
    empty(3600500);
    (void)outcome(3600500, BH_OUTCOME_POLICY_INTERVENTION, BH_CAUSE_LIMIT_EXCEEDED);
    add();
    bh_report_story(report, &story);
    assert_int_equal(story.later_ns.value, 500 * MS);
}

/* ---- validation ---- */

static void refuses(const char *field)
{
    struct bh_diag diag = {0};
    bh_report_finish(report, true);
    assert_int_equal(bh_report_validate(report, &diag), BH_E_REPORT_SUPPRESSED);
    assert_string_equal(diag.field, field);
}

static void test_validation(void **state)
{
    (void)state;
    struct bh_report *good = report;
    limit_story();
    struct bh_report *copy = bh_report_new();
    assert_non_null(copy);
    report = copy;
#define WRONG(field, change)                                                                       \
    do {                                                                                           \
        *copy = *good;                                                                             \
        change;                                                                                    \
        refuses(field);                                                                            \
    } while (0)
    WRONG("outcome", copy->has_outcome = false);
    WRONG("configuration", copy->has_config = false);
    WRONG("configuration", copy->config.warning_bytes = copy->config.limit_bytes);
    WRONG("configuration", copy->config.mode = (enum bh_mode)0);
    WRONG("run", copy->config.executable[0] = '\0');
    WRONG("run", (void)strcpy(copy->config.executable, "/usr/bin/python3"));
    WRONG("run", copy->run_id[3] = '/');
    WRONG("samples", copy->samples[3].from.ns = copy->samples[1].from.ns);
    WRONG("samples", copy->samples[2].to.ns = 0);
    WRONG("samples", copy->samples[2].min.value = copy->samples[2].max.value + 1);
    WRONG("advisory", copy->advisory[1].at.ns = 1);
    WRONG("transitions", copy->transitions[1].at.ns = 1);
    WRONG("transitions", copy->transitions[1].record.from = BH_POLICY_STATE_NORMAL);
    WRONG("outcome", copy->outcome.kind = BH_OUTCOME_CHILD_EXITED);
    WRONG("outcome", (copy->outcome.kind = BH_OUTCOME_CHILD_SIGNALED, copy->outcome.signal = 0));
    WRONG("outcome", copy->outcome.kind = BH_OUTCOME_UNKILLABLE);
    WRONG("outcome", copy->has_launched = false);
    WRONG("outcome", copy->outcome_at.ns = T0 - 1);
    WRONG("artifact", copy->artifact_error = BH_E_IO);
    *copy = *good;
    assert_int_equal(bh_report_validate(copy, NULL), BH_OK);
    bh_report_free(copy);
    report = good;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_limit),
        TEST(test_checkpoint_and_kill),
        TEST(test_observe),
        TEST(test_lost),
        TEST(test_not_launched),
        TEST(test_unkillable),
        TEST(test_bounded),
        TEST(test_other_pool),
        TEST(test_old_crossing),
        TEST(test_ring_bytes),
        TEST(test_crossing_after_the_stop),
        TEST(test_validation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
