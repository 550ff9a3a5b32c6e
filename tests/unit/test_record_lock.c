/* The recorder's lock: one at a time, sleepers come back, errno stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sys/wait.h>

#include "core/record/lock.c"

#define THREADS 4
#define ROUNDS  50000u

static struct bh_lock lock;
static uint64_t counted; /* not atomic: the lock makes it right */
static int inside;

static void *count(void *arg)
{
    unsigned round;

    for (round = 0; round < ROUNDS; round++) {
        bh_lock_take(&lock);
        *(int *)arg += inside++; /* 0 when alone */
        counted++;
        inside--;
        bh_lock_give(&lock);
    }
    return NULL;
}

static void one_at_a_time(void **state)
{
    pthread_t threads[THREADS];
    int met[THREADS] = {0};
    int at;

    (void)state;
    for (at = 0; at < THREADS; at++) {
        assert_int_equal(pthread_create(&threads[at], NULL, count, &met[at]), 0);
    }
    for (at = 0; at < THREADS; at++) {
        assert_int_equal(pthread_join(threads[at], NULL), 0);
        assert_int_equal(met[at], 0);
    }
    assert_int_equal(counted, THREADS * (uint64_t)ROUNDS);
    assert_int_equal(lock.sleepers, 0);
}

static void *take_late(void *arg)
{
    errno = 77;
    bh_lock_take(&lock);
    *(int *)arg = errno;
    bh_lock_give(&lock);
    return NULL;
}

static void a_sleeper_comes_back_with_its_errno(void **state)
{
    pthread_t thread;
    int kept = 0;

    (void)state;
    bh_lock_take(&lock);
    assert_int_equal(pthread_create(&thread, NULL, take_late, &kept), 0);
    while (__atomic_load_n(&lock.sleepers, __ATOMIC_ACQUIRE) == 0) {
        (void)sched_yield();
    }
    bh_lock_give(&lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(kept, 77);
    assert_int_equal(lock.sleepers, 0);
}

/* The giver may look for sleepers a moment too early: a nap has an end. */
static void a_missed_sleeper_wakes_by_itself(void **state)
{
    pthread_t thread;
    int kept = 0;

    (void)state;
    bh_lock_take(&lock);
    assert_int_equal(pthread_create(&thread, NULL, take_late, &kept), 0);
    while (__atomic_load_n(&lock.sleepers, __ATOMIC_ACQUIRE) == 0) {
        (void)sched_yield();
    }
    __atomic_store_n(&lock.word, 0, __ATOMIC_RELEASE); /* and no wake */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(kept, 77);
}

static void a_child_begins_with_it_free(void **state)
{
    int status = 0;
    pid_t pid;

    (void)state;
    bh_lock_take(&lock);
    lock.sleepers = 3;
    pid = fork();
    if (pid == 0) {
        bh_lock_reset(&lock);
        bh_lock_take(&lock);
        bh_lock_give(&lock);
        _exit(lock.word == 0 && lock.sleepers == 0 ? 0 : 1);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    bh_lock_reset(&lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(a_sleeper_comes_back_with_its_errno),
        cmocka_unit_test(a_missed_sleeper_wakes_by_itself),
        cmocka_unit_test(a_child_begins_with_it_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
