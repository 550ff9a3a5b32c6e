/* The scribe as a process: what the decider stores lies in the files, whoever dies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/scoped.h"
#include "core/super/finish.h"
#include "run_dir.h"

static void start(struct run_dir *dir)
{
    struct bh_diag diag = {0};
    if (bh_helpers_start_scribe(&dir->state, &diag) < 0)
        fail_msg("%s", diag.detail);
}

/* What the real decider does at the end. */
static void leave(struct run_dir *dir)
{
    struct bh_queue_scribe words;
    assert_true(WAIT_FOR(
        (bh_queue_scribe(dir->state.queue, &words), words.report_done || words.report_failed)));
    bh_close_fd(&dir->state.decider_token_fd);
    bh_close_fd(&dir->state.lock_fd);
}

static char *read_text(const struct run_dir *dir, const char *name, struct bh_bytes *bytes)
{
    bh_bytes_clear(bytes);
    assert_int_equal(bh_io_read_file(dir->run.fd, name, 1u << 24, bytes, NULL), BH_OK);
    return (char *)bytes->data;
}

static void test_a_whole_run(void **state)
{
    struct run_dir *dir = *state;
    enum bh_journal_end end;
    struct bh_record record = {0};
    struct bh_bytes text = {0};
    start(dir);
    run_dir_begin(dir, (int)getpid());
    for (uint64_t i = 0; i < 200; i++)
        run_dir_sample(dir, 1000 + i);
    run_dir_put_kind(dir, BH_RECORD_TRANSITION);
    bh_queue_wake(dir->state.queue);
    assert_true(WAIT_FOR(run_dir_count(dir, BH_RECORD_TRANSITION, NULL, NULL) == 1));
    assert_true(WAIT_FOR(run_dir_has(dir, "status.bin")));
    run_dir_end(dir);
    leave(dir);
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    assert_int_equal(run_dir_count(dir, BH_RECORD_OUTCOME, NULL, &end), 1);
    assert_int_equal(end, BH_JOURNAL_COMPLETE);
    assert_true(run_dir_count(dir, BH_RECORD_SAMPLES, &record, NULL) >= 1);
    assert_int_equal(record.samples.max.value, 1199);
    assert_int_equal(run_dir_count(dir, BH_RECORD_SAMPLE, NULL, NULL), 0);
    assert_true(run_dir_has(dir, "samples.0"));
    const char *json = read_text(dir, "report.json", &text);
    assert_non_null(strstr(json, "\"sentence\": \"Finished normally.\""));
    assert_non_null(strstr(json, "\"run_id\": \"" RECORDS_RUN_ID "\""));
    assert_int_equal(json[text.length - 1], '\n');
    struct bh_status status;
    (void)read_text(dir, "status.bin", &text);
    assert_int_equal(bh_status_file_decode(text.data, text.length, &status), BH_OK);
    assert_int_equal(status.state, BH_JOB_FINISHED);
    assert_int_equal(status.members, 0);
    assert_true(access(dir->state.runtime_path, F_OK) < 0); /* the memory of the rings is back */
    bh_bytes_done(&text);
}

static int scribe_pid(struct run_dir *dir)
{
    struct bh_queue_scribe words;
    bh_queue_scribe(dir->state.queue, &words);
    return words.pid;
}

/* Killed again and again: nothing stored is lost, nothing comes twice. */
static void test_scribe_killed(void **state)
{
    struct run_dir *dir = *state;
    struct bh_record record = {0};
    enum bh_journal_end end;
    start(dir);
    run_dir_begin(dir, (int)getpid());
    for (int round = 0; round < 5; round++) {
        assert_true(WAIT_FOR(scribe_pid(dir) != 0));
        int victim = scribe_pid(dir);
        for (uint64_t i = 0; i < 50; i++) {
            run_dir_sample(dir, 100 * (uint64_t)(round + 1) + i);
            run_dir_put_kind(dir, BH_RECORD_ADVISORY);
        }
        bh_queue_wake(dir->state.queue);
        assert_int_equal(kill(victim, SIGKILL), 0);
        assert_true(WAIT_FOR(scribe_pid(dir) != victim));
    }
    run_dir_end(dir);
    leave(dir);
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    assert_int_equal(run_dir_count(dir, BH_RECORD_ADVISORY, &record, &end), 250);
    assert_int_equal(end, BH_JOURNAL_COMPLETE);
    assert_true(run_dir_has(dir, "report.json"));
    /* no reading was lost with a scribe, and none was counted twice */
    struct bh_report *report = NULL;
    assert_int_equal(bh_finish_fold(dir->run.fd, &report, NULL), BH_OK);
    assert_int_equal(report->complete, 250);
    assert_int_equal(report->peak.value, 549);
    bh_report_free(report);
}

static int standby_of(int scribe)
{
    char path[64];
    int pid = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", scribe, scribe);
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%d", &pid) != 1)
            pid = 0;
        (void)fclose(file);
    }
    return pid;
}

/* When the decider goes on to launch, a scribe that is killed has somebody to go on for it. */
static void test_standby_is_there_from_the_start(void **state)
{
    struct run_dir *dir = *state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0); /* so that we find it */
    for (int round = 0; round < 20; round++) {
        start(dir);
        int scribe = standby_of((int)getpid());
        assert_true(scribe > 0);
        assert_true(standby_of(scribe) > 0);
        bh_close_fd(&dir->state.decider_token_fd);
        bh_close_fd(&dir->state.scribe_alive_fd);
        assert_int_equal(kill(standby_of(scribe), SIGKILL), 0);
        assert_int_equal(kill(scribe, SIGKILL), 0);
        while (waitpid(-1, NULL, 0) > 0)
            ;
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0), 0);
}

static void test_standby_killed(void **state)
{
    struct run_dir *dir = *state;
    start(dir);
    run_dir_begin(dir, (int)getpid());
    assert_true(WAIT_FOR(scribe_pid(dir) != 0));
    int scribe = scribe_pid(dir), first = standby_of(scribe);
    assert_true(first > 0);
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_true(WAIT_FOR(standby_of(scribe) != first && standby_of(scribe) > 0));
    assert_int_equal(kill(scribe, SIGKILL), 0);
    assert_true(WAIT_FOR(scribe_pid(dir) != scribe));
    run_dir_end(dir);
    leave(dir);
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    assert_true(run_dir_has(dir, "report.json"));
}

/* The decider dies: its pipe closes and nothing final was said. */
static void lose_decider(struct run_dir *dir, bool stubborn, struct bh_bytes *ret_report)
{
    start(dir);
    int victim = run_dir_victim(stubborn);
    run_dir_begin(dir, victim);
    run_dir_sample(dir, 4096);
    bh_close_fd(&dir->state.decider_token_fd);
    bh_close_fd(&dir->state.lock_fd);
    int status = 0;
    assert_true(WAIT_FOR(waitpid(victim, &status, WNOHANG) == victim));
    assert_int_equal(WTERMSIG(status), stubborn ? SIGKILL : SIGTERM);
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    (void)read_text(dir, "report.json", ret_report);
}

static void test_decider_lost(void **state)
{
    struct run_dir *dir = *state;
    struct bh_bytes text = {0};
    struct bh_record record = {0};
    lose_decider(dir, false, &text);
    const char *json = (const char *)text.data;
    assert_non_null(strstr(json, "\"kind\": \"supervisor_lost\""));
    assert_non_null(strstr(json, "Its supervisor was lost; last sample at "));
    assert_non_null(strstr(json, "\"emptiness\": \"sampled\""));
    assert_non_null(strstr(json, "\"reason\": \"supervisor_fault\""));
    assert_int_equal(run_dir_count(*state, BH_RECORD_SIGNAL, &record, NULL), 1);
    assert_true(record.by_scribe);
    assert_int_equal(record.signal.reached, 1);
    bh_bytes_done(&text);
}

static void test_decider_lost_stubborn(void **state)
{
    struct bh_bytes text = {0};
    lose_decider(*state, true, &text);
    assert_non_null(strstr((const char *)text.data, "\"reason\": \"grace_expired\""));
    bh_bytes_done(&text);
}

/* With a control group of the job's own, everyone in it is stopped, also one that no list and no
 * parent names, and emptiness is proven. */
static void test_decider_lost_with_group(void **state)
{
    struct run_dir *dir = *state;
    const struct bh_platform *os = bh_platform_host();
    char name[32]; /* of this process: what a killed test left behind is not in the way */
    (void)snprintf(name, sizeof name, "test-%d", (int)getpid());
    struct bh_cgroup_wish wish = {.run_id = name};
    struct bh_cgroup group;
    struct bh_bytes text = {0};
    char reason[96];
    assert_int_equal(os->cgroup_make(os->self, &wish, &group, reason, sizeof reason), BH_OK);
    if (!group.made)
        skip(); /* none can be had here: the reason is the platform's test */
    run_dir_write(dir->runtime.fd, BH_RUN_CGROUP_NAME, group.path, strlen(group.path));
    start(dir);
    int root = run_dir_victim(false), hidden = run_dir_victim(false);
    for (int i = 0; i < 2; i++) {
        FILE *procs = fopen(group.procs_path, "w");
        assert_non_null(procs);
        assert_true(fprintf(procs, "%d\n", i ? hidden : root) > 0);
        assert_int_equal(fclose(procs), 0);
    }
    run_dir_begin(dir, root);
    bh_close_fd(&dir->state.decider_token_fd);
    bh_close_fd(&dir->state.lock_fd);
    int status = 0;
    assert_true(WAIT_FOR(waitpid(hidden, &status, WNOHANG) == hidden));
    assert_int_equal(WTERMSIG(status), SIGTERM); /* it was asked first, like the others */
    assert_int_equal(waitpid(root, NULL, 0), root);
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    assert_non_null(strstr(read_text(dir, "report.json", &text), "\"emptiness\": \"proven\""));
    assert_true(access(group.path, F_OK) < 0);
    bh_bytes_done(&text);
    os->cgroup_remove(os->self, &group);
}

/* Identity: a process that merely has the number of a member is not touched. */
static void test_stranger_is_not_touched(void **state)
{
    struct run_dir *dir = *state;
    start(dir);
    int stranger = run_dir_victim(false);
    run_dir_begin(dir, stranger);
    struct bh_queue_member member = {.pid = (uint32_t)stranger, .start_token = 1};
    bh_queue_set_members(dir->state.queue, &member, 1);
    bh_close_fd(&dir->state.decider_token_fd);
    bh_close_fd(&dir->state.lock_fd);
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    int status = 0;
    assert_int_equal(waitpid(stranger, &status, WNOHANG), 0);
    assert_int_equal(kill(stranger, SIGKILL), 0);
    assert_int_equal(waitpid(stranger, &status, 0), stranger);
}

/* Scribe and decider die together: the standby finishes. */
static void test_both_killed(void **state)
{
    struct run_dir *dir = *state;
    start(dir);
    int victim = run_dir_victim(false);
    run_dir_begin(dir, victim);
    assert_true(WAIT_FOR(scribe_pid(dir) != 0));
    assert_int_equal(kill(scribe_pid(dir), SIGKILL), 0);
    bh_close_fd(&dir->state.decider_token_fd);
    bh_close_fd(&dir->state.lock_fd);
    int status = 0;
    assert_true(WAIT_FOR(waitpid(victim, &status, WNOHANG) == victim));
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    assert_true(run_dir_has(dir, "report.json"));
}

/* Nothing can be written: the flag is raised, the queue is emptied all the same, no report. */
static void test_unwritable(void **state)
{
    struct run_dir *dir = *state;
    struct bh_queue_scribe words;
    /* a directory in the journal's place fails for root too */
    assert_int_equal(mkdirat(dir->run.fd, BH_JOURNAL_FILE_NAME, 0700), 0);
    start(dir);
    run_dir_begin(dir, (int)getpid());
    assert_true(WAIT_FOR((bh_queue_scribe(dir->state.queue, &words), words.artifact_error != 0)));
    for (int i = 0; i < 20000; i++) {
        struct bh_record record = record_of_kind(BH_RECORD_ADVISORY, 0);
        while (bh_queue_put(dir->state.queue, &record) == BH_E_BUSY)
            bh_queue_wake(dir->state.queue);
    }
    run_dir_end(dir);
    leave(dir);
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    assert_false(run_dir_has(dir, "report.json"));
}

/* Recording was asked for and cannot be: the report says `absent` and why, exit 74 stays away. */
static void test_no_event_log(void **state)
{
    struct run_dir *dir = *state;
    struct bh_bytes text = {0};
    dir->spec.record = true;
    assert_int_equal(mkdirat(dir->run.fd, "events.bhe", 0700), 0);
    start(dir);
    run_dir_begin(dir, (int)getpid());
    run_dir_end(dir);
    leave(dir);
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    struct bh_queue_scribe words;
    bh_queue_scribe(dir->state.queue, &words);
    assert_int_equal(words.artifact_error, 0); /* nothing that was kept is lost */
    const char *json = read_text(dir, "report.json", &text);
    assert_non_null(strstr(json, "\"state\": \"absent\""));
    assert_non_null(strstr(json, "\"reason\": \"the event log could not be kept\""));
    bh_bytes_done(&text);
}

/* The disk is full in the middle of a run (a file size limit stands for it). */
static void test_disk_full(void **state)
{
    struct run_dir *dir = *state;
    struct bh_queue_scribe words;
    struct rlimit before, small;
    enum bh_journal_end end;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 8000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    start(dir); /* its processes inherit the limit */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    run_dir_begin(dir, (int)getpid());
    for (int i = 0; i < 200; i++)
        run_dir_put_kind(dir, BH_RECORD_ADVISORY);
    bh_queue_wake(dir->state.queue);
    assert_true(WAIT_FOR((bh_queue_scribe(dir->state.queue, &words), words.artifact_error != 0)));
    assert_int_equal(words.artifact_error, BH_E_NOSPACE);
    run_dir_end(dir);
    leave(dir);
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    assert_false(run_dir_has(dir, "report.json"));
    int whole = run_dir_count(dir, BH_RECORD_ADVISORY, NULL, &end);
    assert_true(whole > 0 && whole < 200); /* what fitted is readable */
    assert_int_equal(end, BH_JOURNAL_TRUNCATED);
    assert_int_equal(run_dir_count(dir, BH_RECORD_OUTCOME, NULL, NULL), 0);
}

/* The pages of a samples file last two minutes at most: the other one begins anew. */
static void test_samples_turn(void **state)
{
    struct run_dir *dir = *state;
    struct bh_store *store = calloc(1, sizeof *store);
    struct bh_record record;
    assert_int_equal(bh_store_open(store, &dir->state, dir->state.queue, NULL), BH_OK);
    for (uint64_t s = 1; s <= 200; s++) {
        memset(&record, 0, sizeof record);
        record.kind = BH_RECORD_SAMPLE;
        record.at.ns = s * BH_NS_PER_S;
        record.sample.captured_at = record.at;
        record.sample.bytes = available(s);
        assert_int_equal(bh_queue_put(dir->state.queue, &record), BH_OK);
        if (s % 10 == 0)
            (void)bh_store_take(store);
    }
    bh_store_flush_span(store);
    bh_store_close(store);
    free(store);
    struct bh_journal_reader *reader = NULL;
    uint64_t first[2] = {0, 0}, last[2] = {0, 0};
    for (int number = 0; number < 2; number++) {
        char name[32];
        (void)snprintf(name, sizeof name, "samples.%d", number);
        int fd = openat(dir->run.fd, name, O_RDONLY);
        assert_int_equal(bh_journal_reader_new(fd, &reader, NULL), BH_OK);
        while (bh_journal_reader_next(reader, &record) == 1) {
            first[number] = first[number] ? first[number] : record.sample.bytes.value;
            last[number] = record.sample.bytes.value;
        }
        bh_journal_reader_free(reader);
        (void)close(fd);
    }
    assert_int_equal(first[0], 121);
    assert_int_equal(last[0], 180);
    assert_int_equal(first[1], 181);
    assert_int_equal(last[1], 200);
    assert_int_equal(run_dir_count(dir, BH_RECORD_SAMPLES, NULL, NULL), 200);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, run_dir_setup, run_dir_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_whole_run),
        TEST(test_scribe_killed),
        TEST(test_standby_is_there_from_the_start),
        TEST(test_standby_killed),
        TEST(test_decider_lost),
        TEST(test_decider_lost_stubborn),
        TEST(test_decider_lost_with_group),
        TEST(test_stranger_is_not_touched),
        TEST(test_both_killed),
        TEST(test_unwritable),
        TEST(test_no_event_log),
        TEST(test_disk_full),
        TEST(test_samples_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
