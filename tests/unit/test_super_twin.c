/* Two processes for one duty: whoever dies, the duty goes on, and both end when it is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/super/twin.h"

struct shared {
    _Atomic int worker, sum;
};

struct duty {
    int ask_fd; /* write end */
    struct shared *shared;
};

/* Adds up the bytes it is sent. */
_Noreturn static void serve(int fd, struct shared *shared)
{
    struct bh_twin twin = BH_TWIN_NONE;
    unsigned char byte;
    for (;;) {
        atomic_store(&shared->worker, (int)getpid());
        if (bh_twin_wait(&twin, fd, -1) == 1)
            continue;
        ssize_t n = read(fd, &byte, 1); /* the pipe does not block */
        if (n == 0)
            break;
        if (n == 1)
            atomic_fetch_add(&shared->sum, byte);
    }
    bh_twin_release(&twin);
    _exit(0);
}

static int setup(void **state)
{
    struct duty *duty = calloc(1, sizeof *duty);
    int fds[2];
    if (!duty || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return -1;
    duty->shared =
        mmap(NULL, sizeof *duty->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (duty->shared == MAP_FAILED)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[1]);
        serve(fds[0], duty->shared);
    }
    (void)close(fds[0]);
    duty->ask_fd = fds[1];
    *state = duty;
    return pid > 0 ? 0 : -1;
}

#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        struct timespec pause = {.tv_nsec = 1000000};                                              \
        int look = 0;                                                                              \
        while (!(condition) && look++ < 10000)                                                     \
            (void)nanosleep(&pause, NULL);                                                         \
        assert_true(condition);                                                                    \
    } while (0)

static void ask(struct duty *duty, unsigned char byte, int sum)
{
    assert_int_equal(write(duty->ask_fd, &byte, 1), 1);
    HOLDS(atomic_load(&duty->shared->sum) == sum);
}

static int teardown(void **state)
{
    struct duty *duty = *state;
    (void)close(duty->ask_fd);
    while (waitpid(-1, NULL, 0) > 0) /* hangs when one of them does not end */
        ;
    (void)munmap(duty->shared, sizeof *duty->shared);
    free(duty);
    return 0;
}

/* Whoever waits for this worker, 0 none. */
static int waiting(const struct duty *duty)
{
    char path[64];
    int pid = 0, worker = atomic_load(&duty->shared->worker);
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", worker, worker);
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%d", &pid) != 1)
            pid = 0;
        (void)fclose(file);
    }
    return pid;
}

static void test_the_worker_dies(void **state)
{
    struct duty *duty = *state;
    int sum = 0;
    ask(duty, 1, sum = 1);
    for (int round = 0; round < 5; round++) {
        int worker = atomic_load(&duty->shared->worker);
        HOLDS(waiting(duty) > 0);
        assert_int_equal(kill(worker, SIGKILL), 0);
        ask(duty, 2, sum += 2);
        assert_int_not_equal(atomic_load(&duty->shared->worker), worker);
    }
}

static void test_the_waiting_one_dies(void **state)
{
    struct duty *duty = *state;
    ask(duty, 1, 1);
    for (int round = 0; round < 5; round++) {
        HOLDS(waiting(duty) > 0);
        int victim = waiting(duty);
        assert_int_equal(kill(victim, SIGKILL), 0);
        HOLDS(waiting(duty) > 0 && waiting(duty) != victim); /* nobody asked for anything */
    }
    /* and the newest of them goes on */
    assert_int_equal(kill(atomic_load(&duty->shared->worker), SIGKILL), 0);
    ask(duty, 5, 6);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_worker_dies),
        TEST(test_the_waiting_one_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
