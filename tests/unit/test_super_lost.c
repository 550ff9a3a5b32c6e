/* What the scribe does for a decider that was killed: the policy's own ladder, with its grace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/mman.h>

#include "core/base/scoped.h"
#include "core/super/finish.h"
#include "run_dir.h"

#define PIECE_BYTES (4u << 20)
#define PIECES      24

/* A scribe watches the victim; then its decider is gone. Returns the victim's wait status. */
static int lose(struct run_dir *dir, int victim, int policy_state)
{
    struct bh_status status;
    int wait_status = 0;
    assert_int_equal(bh_helpers_start_scribe(&dir->state, NULL), BH_OK);
    run_dir_begin(dir, victim);
    assert_true(bh_queue_status(dir->state.queue, &status));
    status.policy_state = (uint8_t)policy_state;
    bh_queue_put_status(dir->state.queue, &status);
    run_dir_sample(dir, 4096);
    bh_close_fd(&dir->state.decider_token_fd);
    bh_close_fd(&dir->state.lock_fd);
    assert_true(WAIT_FOR(waitpid(victim, &wait_status, WNOHANG) == victim));
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    return wait_status;
}

/* The nth SIGNAL record of the journal. */
static struct bh_record_signal signal_of(const struct run_dir *dir, int nth)
{
    struct bh_report *report = NULL;
    struct bh_record_signal found = {0};
    assert_int_equal(bh_finish_fold(dir->run.fd, &report, NULL), BH_OK);
    if ((size_t)nth < report->signal_list.count)
        found = report->signals[nth].record;
    bh_report_free(report);
    return found;
}

/* ---- a job that gives back what it holds, for longer than its base grace ---- */

static void *pieces[PIECES];
static volatile sig_atomic_t asked;

static void on_term(int signal)
{
    (void)signal;
    asked = 1;
}

static void hold(void)
{
    (void)signal(SIGTERM, on_term);
    for (int i = 0; i < PIECES; i++) {
        pieces[i] =
            mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pieces[i] == MAP_FAILED)
            _exit(98);
        memset(pieces[i], 1, PIECE_BYTES);
    }
}

static void wait_asked(void)
{
    struct timespec pause = {.tv_nsec = 1000000};
    while (!asked)
        (void)nanosleep(&pause, NULL);
}

static void give_back(void)
{
    struct timespec pause = {.tv_nsec = 100000000};
    wait_asked();
    for (int i = 0; i < PIECES; i++) {
        (void)munmap(pieces[i], PIECE_BYTES);
        (void)nanosleep(&pause, NULL);
    }
    _exit(6);
}

static void keep(void)
{
    wait_asked();
    run_dir_sleep();
}

static void test_grace_is_kept_while_memory_falls(void **state)
{
    struct run_dir *dir = *state;
    dir->spec.grace_base_ns = 1000 * BH_NS_PER_MS; /* in all it takes 2.4 s */
    dir->spec.grace_per_gib_ns = 0;
    int status = lose(dir, run_dir_process(hold, give_back), BH_POLICY_STATE_NORMAL);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 6);
    assert_int_equal(signal_of(dir, 0).signal, SIGTERM);
    assert_string_equal(signal_of(dir, 0).reason, "supervisor_fault");
    assert_int_equal(signal_of(dir, 1).signal, 0);
}

static void test_grace_ends_where_memory_stays(void **state)
{
    struct run_dir *dir = *state;
    int status = lose(dir, run_dir_process(hold, keep), BH_POLICY_STATE_NORMAL);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_string_equal(signal_of(dir, 1).reason, "grace_expired");
}

/* ---- others ---- */

static void stand_still(void)
{
    (void)raise(SIGSTOP);
    wait_asked();
    _exit(7);
}

/* Its grace would be an empty one. */
static void test_a_stopped_job_is_let_run(void **state)
{
    struct run_dir *dir = *state;
    dir->spec.grace_base_ns = 8000 * BH_NS_PER_MS;
    int victim = run_dir_process(hold, stand_still), status = 0;
    assert_int_equal(waitpid(victim, &status, WUNTRACED), victim);
    assert_true(WIFSTOPPED(status));
    status = lose(dir, victim, BH_POLICY_STATE_NORMAL);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

/* The decider was past asking: nobody is given a second grace. */
static void test_who_was_being_killed_is_killed(void **state)
{
    struct run_dir *dir = *state;
    dir->spec.grace_base_ns = dir->spec.grace_max_ns = 3600 * BH_NS_PER_S;
    int status = lose(dir, run_dir_process(hold, keep), BH_POLICY_STATE_EMERGENCY);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_int_equal(signal_of(dir, 0).signal, SIGKILL);
}

static void keep_forking(void)
{
    struct timespec pause = {.tv_nsec = 3000000};
    (void)signal(SIGCHLD, SIG_IGN);
    if (fork() > 0)
        run_dir_sleep();
    for (;;) { /* each lives a few ms, has a child, and leaves it to init */
        (void)nanosleep(&pause, NULL);
        if (fork() > 0)
            _exit(0);
    }
}

/* Orphans are init's by now, and each is gone before it can be looked at: only their process group
 * leads to them. */
static void test_a_tree_that_forks_on(void **state)
{
    struct run_dir *dir = *state;
    dir->spec.grace_base_ns = 100 * BH_NS_PER_MS;
    int victim = run_dir_process(run_dir_ignore_term, keep_forking);
    int status = lose(dir, victim, BH_POLICY_STATE_NORMAL);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    /* nobody is in that group any more, so there is none */
    bool gone = WAIT_FOR(kill(-victim, 0) < 0);
    (void)kill(-victim, SIGKILL); /* not for ever, should this fail */
    assert_true(gone);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, run_dir_setup, run_dir_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_grace_is_kept_while_memory_falls),
        TEST(test_grace_ends_where_memory_stays),
        TEST(test_a_stopped_job_is_let_run),
        TEST(test_who_was_being_killed_is_killed),
        TEST(test_a_tree_that_forks_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
