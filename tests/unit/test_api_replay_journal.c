/* Replaying a run's journal with another limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/replay.h"
#include "api/replay_journal.h"
#include "core/base/clock.h"
#include "core/base/scoped.h"
#include "core/wire/journal.h"

#define MS     BH_NS_PER_MS
#define LAUNCH (5000 * BH_NS_PER_S)
#define RUN_ID "0123456789abcdefghij"

/* A journal under construction. */
struct writer {
    struct bh_bytes bytes;
    uint64_t decider, scribe, sample;
};

static void put(struct writer *writer, struct bh_record record)
{
    unsigned char data[BH_JOURNAL_MAX_RECORD];
    if (record.by_scribe)
        record.sequence = ++writer->scribe;
    else
        record.sequence = record.kind == BH_RECORD_SAMPLE ? ++writer->sample : ++writer->decider;
    int length = bh_record_encode(&record, RUN_ID, data, sizeof data);
    assert_true(length > 0);
    bh_bytes_append(&writer->bytes, data, (size_t)length);
}

static struct bh_record record_at(enum bh_record_kind kind, uint64_t ms)
{
    struct bh_record record;
    memset(&record, 0, sizeof record);
    record.kind = kind;
    record.at.ns = LAUNCH + ms * MS;
    return record;
}

static void begin_header(struct writer *writer)
{
    unsigned char header_bytes[BH_JOURNAL_HEADER_BYTES];
    struct bh_journal_header header = {.run_id = RUN_ID, .anchor = {.mono = {LAUNCH - 7 * MS}}};
    *writer = (struct writer){0};
    bh_journal_header_encode(&header, header_bytes);
    bh_bytes_append(&writer->bytes, header_bytes, sizeof header_bytes);
}

static void begin(struct writer *writer, uint64_t limit, uint32_t breaches)
{
    begin_header(writer);
    struct bh_record config = record_at(BH_RECORD_CONFIG, 0);
    config.config.mode = BH_MODE_ENFORCE;
    config.config.limit_bytes = limit;
    config.config.breach_count = breaches;
    snprintf(config.config.executable, sizeof config.config.executable, "x");
    put(writer, config);
    put(writer, record_at(BH_RECORD_LAUNCHED, 0));
}

static struct bh_observed known(uint64_t value)
{
    return (struct bh_observed){BH_VALUE_AVAILABLE, value};
}

static struct bh_mono at_ms(uint64_t ms)
{
    return (struct bh_mono){LAUNCH + ms * MS};
}

static void put_span(struct writer *writer, uint64_t from, uint64_t to, uint64_t least,
                     uint64_t greatest, uint64_t greatest_at, uint64_t last)
{
    struct bh_record span = record_at(BH_RECORD_SAMPLES, to);
    span.by_scribe = true;
    span.samples.from = at_ms(from);
    span.samples.to = at_ms(to);
    span.samples.count = 20;
    span.samples.min = known(least);
    span.samples.max = known(greatest);
    span.samples.max_at = at_ms(greatest_at);
    span.samples.last = known(last);
    put(writer, span);
}

static void put_transition(struct writer *writer, uint64_t ms, enum bh_policy_state_id from,
                           enum bh_policy_state_id to, uint64_t bytes, const char *reason)
{
    struct bh_record record = record_at(BH_RECORD_TRANSITION, ms);
    record.transition.from = (uint8_t)from;
    record.transition.to = (uint8_t)to;
    record.transition.bytes = known(bytes);
    snprintf(record.transition.reason, sizeof record.transition.reason, "%s", reason);
    put(writer, record);
}

static void put_end(struct writer *writer, uint64_t ms, uint64_t final_bytes)
{
    put(writer, record_at(BH_RECORD_EMPTY, ms));
    struct bh_record outcome = record_at(BH_RECORD_OUTCOME, ms + 1);
    outcome.outcome.final_bytes = known(final_bytes);
    put(writer, outcome);
}

/* Grows by 10 in a second, crosses its limit 100 at 1.9 s, acts at 1.95 s, is gone at 2.2 s. */
static void a_run(struct writer *writer)
{
    begin(writer, 100, 2);
    put_span(writer, 0, 950, 80, 90, 950, 90);
    struct bh_record crossed = record_at(BH_RECORD_LIMIT_CROSSED, 1900);
    crossed.limit_crossed.bytes = 100;
    crossed.limit_crossed.limit_bytes = 100;
    put(writer, crossed);
    put_transition(writer, 1950, BH_POLICY_STATE_WARNING, BH_POLICY_STATE_TERMINATING, 102,
                   "not_negotiated");
    put_span(writer, 1000, 2100, 91, 102, 1949, 50);
    put_end(writer, 2200, 0);
}

static int replay(const struct writer *writer, const char *config_text, char **ret_printed)
{
    struct bh_policy_config config;
    struct bh_replay replay;
    uint64_t line = 9;
    size_t length = 0;
    assert_int_equal(bh_policy_replay_config_parse(config_text, strlen(config_text), &config, NULL),
                     BH_OK);
    BH_SCOPED_FILE FILE *in = fmemopen(writer->bytes.data, writer->bytes.length, "rb");
    FILE *out = open_memstream(ret_printed, &length);
    assert_non_null(in);
    assert_non_null(out);
    bh_policy_replay_start(&replay, &config, out);
    int r = bh_policy_replay_run(&replay, in, &line, NULL);
    bh_policy_replay_done(&replay);
    fclose(out);
    assert_int_equal(line, 0);
    return r;
}

#define LINE(t, state, actions, deadline)                                                          \
    "{\"t\":" #t ",\"state\":\"" state "\",\"actions\":[" actions "],\"next_deadline\":" #deadline \
    "}\n"
#define OBS  "{\"type\":\"record_observation\"}"
#define TERM "{\"type\":\"send_term\",\"reason\":\"not_negotiated\"}"
#define EXIT(samples)                                                                              \
    "{\"type\":\"report_exit\",\"final_bytes\":0,\"samples_after_signal\":" #samples "}"

static void check(struct writer *writer, const char *config, const char *expected)
{
    char *printed = NULL;
    assert_int_equal(replay(writer, config, &printed), BH_OK);
    assert_string_equal(printed, expected);
    free(printed);
    bh_bytes_done(&writer->bytes);
}

static void the_same_limit_acts_where_the_run_did(void **state)
{
    (void)state;
    struct writer writer;
    a_run(&writer);
    check(&writer, "{\"mode\":\"enforce\",\"limit\":100}",
          LINE(0, "normal", OBS, null) LINE(950000000, "warning", OBS, null)
              LINE(1000000000, "warning", OBS, null) LINE(1900000000, "warning", OBS, null)
                  LINE(1950000000, "terminating",
                       OBS "," TERM ",{\"type\":\"record_overshoot\",\"bytes\":2}", 2950000000)
                      LINE(2100000000, "terminating", OBS, 2950000000)
                          LINE(2200000000, "exited", EXIT(1), null));
}

static void a_higher_limit_would_have_let_it_pass(void **state)
{
    (void)state;
    struct writer writer;
    a_run(&writer);
    check(&writer, "{\"mode\":\"enforce\",\"limit\":1000}",
          LINE(0, "normal", OBS, null) LINE(950000000, "normal", OBS, null)
              LINE(1000000000, "normal", OBS, null) LINE(1900000000, "normal", OBS, null)
                  LINE(1950000000, "normal", OBS, null) LINE(2100000000, "normal", OBS, null)
                      LINE(2200000000, "exited", EXIT(0), null));
}

/* Acts in the second second; the ticks of its grace and its KILL lie between the run's readings. */
static void a_lower_limit_acts_earlier_with_its_ticks(void **state)
{
    (void)state;
    struct writer writer;
    a_run(&writer);
    check(&writer,
          "{\"mode\":\"enforce\",\"limit\":90,\"emergency\":200,\"grace_ns\":100000000,"
          "\"kill_retry_ns\":300000000}",
          LINE(0, "normal", OBS, null) LINE(950000000, "warning", OBS, null)
              LINE(1000000000, "terminating",
                   OBS "," TERM ",{\"type\":\"record_overshoot\",\"bytes\":1}",
                   1100000000) LINE(1100000000, "emergency", "{\"type\":\"send_kill\"}", 1400000000)
                  LINE(1400000000, "emergency", "{\"type\":\"send_kill\"}", 1700000000)
                      LINE(1700000000, "emergency", "{\"type\":\"send_kill\"}",
                           2000000000) LINE(1900000000, "emergency", OBS, 2000000000)
                          LINE(1950000000, "emergency", OBS, 2000000000)
                              LINE(2000000000, "emergency", "{\"type\":\"send_kill\"}", 2300000000)
                                  LINE(2100000000, "emergency", OBS, 2300000000)
                                      LINE(2200000000, "exited", EXIT(3), null));
}

/* Crossing and KILL are one reading: it counts once. */
static void an_emergency_is_one_reading(void **state)
{
    (void)state;
    struct writer writer;
    begin(&writer, 100, 2);
    struct bh_record crossed = record_at(BH_RECORD_LIMIT_CROSSED, 10);
    crossed.limit_crossed.bytes = 500;
    put(&writer, crossed);
    put_transition(&writer, 10, BH_POLICY_STATE_NORMAL, BH_POLICY_STATE_EMERGENCY, 500,
                   "emergency");
    put_span(&writer, 0, 10, 50, 500, 10, 500);
    put_end(&writer, 20, 0);
    check(&writer, "{\"mode\":\"enforce\",\"limit\":400,\"emergency\":600}",
          LINE(0, "normal", OBS, null) LINE(10000000, "warning", OBS, null)
              LINE(20000000, "exited", EXIT(0), null));
}

/* A stop by hand repeats an old reading: no second breach. */
static void other_transitions_are_no_readings(void **state)
{
    (void)state;
    struct writer writer;
    begin(&writer, 100, 2);
    put_transition(&writer, 10, BH_POLICY_STATE_WARNING, BH_POLICY_STATE_TERMINATING, 150,
                   "stop_requested");
    put_transition(&writer, 11, BH_POLICY_STATE_NORMAL, BH_POLICY_STATE_TERMINATING, 20,
                   "not_negotiated");
    put_end(&writer, 20, 0);
    check(&writer, "{\"mode\":\"enforce\",\"limit\":100}", LINE(20000000, "exited", EXIT(0), null));
}

static void unusable_spans_and_gaps(void **state)
{
    (void)state;
    struct writer writer;
    begin(&writer, 100, 2);
    put_span(&writer, 0, 100, 5, 5, 0, 5);
    struct bh_record gap = record_at(BH_RECORD_CLOCK_GAP, 5000);
    gap.clock_gap.gap_ns = 4800 * MS;
    put(&writer, gap);
    struct bh_record span = record_at(BH_RECORD_SAMPLES, 6000);
    span.by_scribe = true;
    span.samples.from = at_ms(5000);
    span.samples.to = at_ms(5100);
    span.samples.unusable = 3;
    put(&writer, span);
    put_end(&writer, 5150, 0);
    check(&writer, "{\"mode\":\"observe\"}",
          LINE(0, "observe", OBS, null) LINE(100000000, "observe", OBS, null)
              LINE(200000000, "observe", "{\"type\":\"record_missing\"}", null)
                  LINE(250000000, "observe", "{\"type\":\"record_missing\"}", null)
                      LINE(300000000, "supervisor_error",
                           "{\"type\":\"record_missing\"},{\"type\":\"stop_observing\"}", null)
                          LINE(350000000, "exited", EXIT(0), null));
}

static void samples_file_is_exact(void **state)
{
    (void)state;
    struct writer writer;
    begin_header(&writer);
    struct bh_record record = record_at(BH_RECORD_SAMPLE, 10);
    record.sample.captured_at = at_ms(9);
    record.sample.processed_at = at_ms(10);
    record.sample.window_ns = 300 * MS;
    record.sample.bytes = known(5);
    put(&writer, record);
    record.sample.window_ns = 1;
    put(&writer, record);
    check(&writer, "{\"mode\":\"enforce\",\"limit\":100}",
          LINE(17000000, "normal", "{\"type\":\"record_missing\"}", null)
              LINE(17000000, "normal", OBS, null));
}

/* A samples file beside the journal tells every reading of its time: spans, crossing and decision
 * there are left out, what lies before stays. Another run's file is ignored. */
static void put_sample(struct writer *writer, uint64_t ms, uint64_t bytes)
{
    struct bh_record record = record_at(BH_RECORD_SAMPLE, ms);
    record.sample.captured_at = record.sample.processed_at = at_ms(ms);
    record.sample.bytes = known(bytes);
    put(writer, record);
}

static int file_of(const struct writer *writer)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(writer->bytes.data, 1, writer->bytes.length, file),
                     writer->bytes.length);
    assert_int_equal(fflush(file), 0);
    int fd = dup(fileno(file));
    fclose(file);
    return fd;
}

static void samples_beside_a_journal(void **state)
{
    (void)state;
    struct writer run;
    struct writer samples;
    struct bh_policy_replay_journal journal = {0};
    a_run(&run);
    begin_header(&samples);
    put_sample(&samples, 1000, 91);
    put_sample(&samples, 1500, 95);
    put_sample(&samples, 1900, 100);
    put_sample(&samples, 1949, 102);
    put_sample(&samples, 2100, 50);
    int fd = file_of(&run);
    int fds[] = {-1, file_of(&samples)};
    assert_int_equal(bh_policy_replay_journal_load(fd, fds, &journal, NULL), BH_OK);
    const uint64_t expected[][2] = {{0, 80},     {950, 90},   {1000, 91}, {1500, 95},
                                    {1900, 100}, {1949, 102}, {2100, 50}};
    assert_int_equal(journal.count, 8);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(journal.events[i].at_ns, expected[i][0] * MS);
        assert_int_equal(journal.events[i].sample.bytes, expected[i][1]);
    }
    assert_int_equal(journal.events[7].kind, BH_POLICY_EVENT_PROCESS_EXITED);
    bh_policy_replay_journal_done(&journal);
    /* the samples file alone; its own copy beside it is not added to it */
    assert_int_equal(bh_policy_replay_journal_load(fds[1], fds, &journal, NULL), BH_OK);
    assert_int_equal(journal.count, 5);
    bh_policy_replay_journal_done(&journal);
    close(fd);
    close(fds[1]);
    bh_bytes_done(&run.bytes);
    bh_bytes_done(&samples.bytes);
}

static void damage_is_told(void **state)
{
    (void)state;
    struct writer writer;
    char *printed = NULL;
    a_run(&writer);
    writer.bytes.data[writer.bytes.length - 40] ^= 1; /* in the last record */
    int r = replay(&writer, "{\"mode\":\"enforce\",\"limit\":1000}", &printed);
    assert_int_equal(bh_err_exit(r), 65);
    assert_non_null(strstr(printed, "\"exited\"")); /* from EMPTY, before it */
    free(printed);
    writer.bytes.length -= 1; /* cut off: no error, what is there is replayed */
    writer.bytes.data[writer.bytes.length - 39] ^= 1;
    assert_int_equal(replay(&writer, "{\"mode\":\"enforce\",\"limit\":1000}", &printed), BH_OK);
    free(printed);
    writer.bytes.length = 40; /* not even a header */
    r = replay(&writer, "{\"mode\":\"enforce\",\"limit\":1000}", &printed);
    assert_int_equal(bh_err_exit(r), 65);
    assert_string_equal(printed, "");
    free(printed);
    bh_bytes_done(&writer.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_limit_acts_where_the_run_did),
        cmocka_unit_test(a_higher_limit_would_have_let_it_pass),
        cmocka_unit_test(a_lower_limit_acts_earlier_with_its_ticks),
        cmocka_unit_test(an_emergency_is_one_reading),
        cmocka_unit_test(other_transitions_are_no_readings),
        cmocka_unit_test(unusable_spans_and_gaps),
        cmocka_unit_test(samples_file_is_exact),
        cmocka_unit_test(samples_beside_a_journal),
        cmocka_unit_test(damage_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
