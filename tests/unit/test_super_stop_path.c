/* From its launch to the proof that nobody is left the decider forks nothing and touches no disk: a
 * stalled one could hold up the stop. The kernel enforces that here: a real run, stopped at its
 * wall time and killed after its grace, in a process that dies of any such system call. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "super_fixture.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define DIE          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define DIE_OF(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), DIE

static void forbid(void)
{
    static struct sock_filter filter[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        DIE,
        LOAD(nr),
        DIE_OF(clone),
        DIE_OF(clone3),
        DIE_OF(execve),
        DIE_OF(write),
        DIE_OF(writev),
        DIE_OF(pwrite64),
        DIE_OF(ftruncate),
        DIE_OF(fallocate),
        DIE_OF(fsync),
        DIE_OF(fdatasync),
        DIE_OF(sync),
        DIE_OF(renameat2),
        DIE_OF(unlinkat),
        DIE_OF(mkdirat),
#if defined(__x86_64__)
        DIE_OF(fork),
        DIE_OF(vfork),
        DIE_OF(open),
        DIE_OF(creat),
        DIE_OF(rename),
        DIE_OF(renameat),
        DIE_OF(unlink),
        DIE_OF(mkdir),
#endif
        /* opening to write */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, 0, 1),
        DIE,
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        _exit(77);
}

/* Deaf to TERM, with two children: the whole ladder is climbed. */
static const char *const argv[] = {
    "/bin/sh", "-c", "trap '' TERM; sleep 100 & sleep 100 & while :; do sleep 0.01; done", NULL};
static const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};

/* How a child process that makes the run ends; forbidden: something that must not be done. */
static int run_forbidden(void (*forbidden)(void))
{
    pid_t child = fork();
    if (child == 0) {
        struct fixture *fixture = fixture_new();
        const struct bh_platform *os = bh_platform_host();
        bool subreaper = false;
        fixture->os = *os;
        fixture->spec.wall_time_ns = 200 * BH_NS_PER_MS;
        fixture->spec.grace_base_ns = 100 * BH_NS_PER_MS;
        fixture->spec.interval_ns = 5 * BH_NS_PER_MS;
        if (os->become_reaper(os->self, &subreaper) < 0 || os->collect_signals(os->self) < 0)
            _exit(2);
        fixture_init_loop(fixture);
        int pid = fixture_launch_real(fixture, argv, environment);
        if (pid < 0)
            _exit(3);
        forbid();
        if (bh_loop_launched(fixture->loop, pid, NULL) < 0)
            _exit(4);
        while (bh_loop_turn(fixture->loop))
            ;
        if (forbidden)
            forbidden();
        bool killed = fixture->loop->killed && fixture->loop->empty_proven;
        _exit(killed && waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD ? 0 : 5);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_a_stop_forks_nothing_and_touches_no_disk(void **state)
{
    (void)state;
    int status = run_forbidden(NULL);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* no filters here */
    assert_false(WIFSIGNALED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void write_a_file(void)
{
    int fd = open("/tmp/bulkhead-forbidden", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)fd;
}

static void fork_once(void)
{
    if (fork() == 0)
        _exit(0);
}

static void test_the_filter_holds(void **state)
{
    (void)state;
    int status = run_forbidden(write_a_file);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS);
    status = run_forbidden(fork_once);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stop_forks_nothing_and_touches_no_disk),
        cmocka_unit_test(test_the_filter_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
