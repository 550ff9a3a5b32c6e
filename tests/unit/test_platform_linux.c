/* The Linux side of platform.h on real processes of our own: charge of known memory, identity,
 * children of threads, launch failures. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/platform/linux_read.h"
#include "core/platform/platform.h"

#define MIB (1ull << 20)

static const struct bh_platform *os;

/* A child that runs body, says so with one byte, and waits to be killed. */
static pid_t child(void (*body)(void))
{
    int fds[2];
    char byte = 0;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (body)
            body();
        if (write(fds[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(fds[0], &byte, 1), 1);
    (void)close(fds[0]);
    (void)close(fds[1]);
    return pid;
}

static void end(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static unsigned char *map(size_t bytes, int flags)
{
    unsigned char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        _exit(1);
    for (size_t at = 0; at < bytes; at += 4096)
        area[at] = 1;
    return area;
}

static void hold_anonymous(void)
{
    (void)map(64 * MIB, MAP_PRIVATE);
}

static void hold_shared(void)
{
    (void)map(64 * MIB, MAP_SHARED);
}

static uint64_t charge_of(pid_t pid)
{
    struct bh_proc proc;
    struct bh_proc_facts facts;
    struct bh_proc_fast fast = {0};
    struct bh_proc_rest rest = {0};
    assert_int_equal(os->proc_open(os->self, pid, &proc, &facts), BH_OK);
    assert_int_equal(os->proc_fast(os->self, &proc, &fast), BH_OK);
    assert_int_equal(os->proc_rest(os->self, &proc, &rest), BH_OK);
    assert_int_equal(fast.anon_bytes, rest.anon_bytes); /* RssAnon exactly */
    os->proc_close(os->self, &proc);
    return fast.anon_bytes + rest.rest_bytes;
}

static void test_charge_of_known_memory(void **state)
{
    (void)state;
    pid_t empty = child(NULL);
    uint64_t base = charge_of(empty);
    end(empty);
    void (*const bodies[])(void) = {hold_anonymous, hold_shared};
    for (size_t i = 0; i < 2; i++) {
        pid_t pid = child(bodies[i]);
        uint64_t bytes = charge_of(pid);
        end(pid);
        /* page tables of 64 MiB are 128 KiB: part of the charge, on top of the memory itself */
        assert_true(bytes >= base + 64 * MIB - MIB / 16);
        assert_true(bytes <= base + 64 * MIB + MIB / 2);
    }
}

static void test_shared_pages_count_once_in_a_round(void **state)
{
    (void)state;
    unsigned char *area = map(64 * MIB, MAP_PRIVATE);
    pid_t pids[4];
    uint64_t sum = 0;
    for (int i = 0; i < 4; i++)
        pids[i] = child(NULL);
    for (int i = 0; i < 4; i++) {
        struct bh_proc proc;
        struct bh_proc_facts facts;
        struct bh_charge_rollup rollup = {0};
        assert_int_equal(os->proc_open(os->self, pids[i], &proc, &facts), BH_OK);
        assert_int_equal(os->proc_rollup(os->self, &proc, &rollup), BH_OK);
        os->proc_close(os->self, &proc);
        sum += rollup.pss_bytes;
    }
    for (int i = 0; i < 4; i++)
        end(pids[i]);
    (void)munmap(area, 64 * MIB);
    assert_true(sum < 64 * MIB); /* four fifths of it: the fifth sharer is this process */
    assert_true(sum > 48 * MIB);
}

static void test_identity(void **state)
{
    (void)state;
    struct bh_proc proc;
    struct bh_proc_facts facts;
    assert_int_equal(os->proc_open(os->self, 0, &proc, &facts), BH_E_RANGE);
    assert_int_equal(os->proc_open(os->self, 1, &proc, &facts), BH_E_RANGE);
    assert_int_equal(os->proc_open(os->self, getpid(), &proc, &facts), BH_E_RANGE);
    pid_t pid = child(NULL);
    assert_int_equal(os->proc_open(os->self, pid, &proc, &facts), BH_OK);
    assert_int_equal(facts.parent_pid, getpid());
    uint64_t token = 0;
    assert_int_equal(bh_platform_start_token(pid, &token), BH_OK);
    assert_int_equal(token, proc.start_token);
    assert_true(bh_platform_alive_exact(pid, token, proc.identity));
    assert_false(bh_platform_alive_exact(pid, token + 1, 0));
    assert_int_equal(bh_platform_signal_exact(pid, token + 1, 0, SIGKILL), BH_E_NOT_FOUND);
    assert_int_equal(bh_platform_signal_exact(1, 1, 0, SIGTERM), BH_E_NOT_FOUND);
    assert_int_equal(bh_platform_signal_exact(pid, token, proc.identity, SIGKILL), BH_OK);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_false(bh_platform_alive_exact(pid, token, 0)); /* a zombie is not alive */
    struct bh_proc_fast fast;
    assert_int_equal(os->proc_fast(os->self, &proc, &fast), BH_E_CLOSED);
    (void)waitpid(pid, NULL, 0);
    assert_int_equal(os->proc_fast(os->self, &proc, &fast), BH_E_NOT_FOUND);
    assert_int_equal(os->proc_signal(os->self, &proc, SIGTERM), BH_E_NOT_FOUND);
    assert_int_equal(bh_platform_mrelease(pid, token), BH_OK);
    os->proc_close(os->self, &proc);
}

static void *fork_in_thread(void *unused)
{
    (void)unused;
    if (fork() == 0) {
        for (;;)
            (void)pause();
    }
    for (;;)
        (void)pause();
    return NULL;
}

static void fork_in_threads(void)
{
    for (int i = 0; i < 12; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fork_in_thread, NULL) != 0)
            _exit(1);
    }
}

static void test_children_of_all_threads(void **state)
{
    (void)state;
    pid_t pid = child(fork_in_threads);
    struct bh_proc proc;
    struct bh_proc_facts facts;
    int pids[64];
    size_t count = 0;
    assert_int_equal(os->proc_open(os->self, pid, &proc, &facts), BH_OK);
    for (int attempt = 0; attempt < 2000 && count < 12; attempt++) {
        assert_int_equal(os->proc_children(os->self, &proc, false, pids, 64, &count), BH_OK);
        (void)usleep(1000);
    }
    assert_int_equal(count, 12);
    int few[5];
    size_t some = 0;
    assert_int_equal(os->proc_children(os->self, &proc, false, few, 5, &some), BH_E_TOO_LONG);
    for (size_t i = 0; i < count; i++)
        (void)kill(pids[i], SIGKILL);
    os->proc_close(os->self, &proc);
    end(pid);
}

static void test_births_change(void **state)
{
    (void)state;
    uint64_t before = 0, after = 0;
    assert_int_equal(os->births(os->self, &before), BH_OK);
    end(child(NULL));
    assert_int_equal(os->births(os->self, &after), BH_OK);
    assert_int_not_equal(before, after);
}

static void test_stat_text(void **state)
{
    (void)state;
    struct bh_proc_facts facts;
    uint64_t token = 0;
    static const char text[] =
        "42 (a) (b c) R 7 8 9 0 -1 4194308 111 0 0 0 1 2 3 4 20 0 5 0 77777 1 2 3 4 5 6";
    assert_int_equal(bh_linux_parse_stat(text, &facts, &token), BH_OK);
    assert_string_equal(facts.comm, "a) (b c");
    assert_int_equal(facts.parent_pid, 7);
    assert_int_equal(facts.group, 8);
    assert_int_equal(facts.session, 9);
    assert_int_equal(facts.minflt, 111);
    assert_int_equal(facts.threads, 5);
    assert_int_equal(token, 77777);
    assert_true(facts.exiting);
    assert_int_equal(facts.state, 'R');
    assert_int_equal(bh_linux_parse_stat("1 (x", &facts, &token), BH_E_MALFORMED);
    assert_int_equal(bh_linux_parse_stat("", &facts, &token), BH_E_MALFORMED);
}

static int try_launch(const char *name, const char *cwd, const char *path, struct bh_diag *diag)
{
    const char *argv[] = {name, NULL};
    static const char *const environment[] = {NULL};
    struct bh_launch launch = {.argv = argv,
                               .environment = environment,
                               .path = path,
                               .cwd = cwd,
                               .stdin_fd = -1,
                               .stdout_fd = -1,
                               .stderr_fd = -1,
                               .keep_fd = -1,
                               .terminal_fd = -1};
    int pid = 0;
    int result = os->launch(os->self, &launch, &pid, diag);
    if (result == BH_OK)
        (void)waitpid(pid, NULL, 0);
    return result;
}

/* Kernels without close_range, or without its flag, keep the promise another way. */
static void test_descriptors_without_the_system_call(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct sock_filter program[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog filter = {sizeof program / sizeof program[0], program};
            int low = fcntl(1, F_DUPFD, 20), high = fcntl(1, F_DUPFD, 700);
            if (refused && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0))
                _exit(77);
            bh_platform_close_range(20, 699, true);
            bool marked =
                (fcntl(low, F_GETFD) & FD_CLOEXEC) && !(fcntl(high, F_GETFD) & FD_CLOEXEC);
            bh_platform_close_range(20, INT_MAX, false);
            _exit(marked && fcntl(low, F_GETFD) < 0 && fcntl(high, F_GETFD) < 0 &&
                          fcntl(1, F_GETFD) >= 0
                      ? 0
                      : 1);
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
            skip();
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void test_maps(void **state)
{
    (void)state;
    char path[] = "/tmp/libpython9.XXXXXX";
    uint64_t token = 0;
    int pid = (int)getpid(), fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "x", 1) == 1);
    assert_int_equal(bh_platform_start_token(pid, &token), BH_OK);
    assert_int_equal(bh_platform_maps_file(pid, token, "libpython9."), 0);
    void *area = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(area, MAP_FAILED);
    assert_int_equal(bh_platform_maps_file(pid, token, "libpython9."), 1);
    assert_int_equal(bh_platform_maps_file(pid, token, "libpython9"), 1);
    assert_int_equal(bh_platform_maps_file(pid, token, "python9"), 0); /* the name's beginning */
    assert_int_equal(bh_platform_maps_file(pid, token, "tmp"), 0);     /* and of the file's own */
    assert_int_equal(bh_platform_maps_file(pid, token + 1, "libpython9"), BH_E_NOT_FOUND);
    (void)munmap(area, 4096);
    (void)close(fd);
    (void)unlink(path);
}

/* More than the kernel hands over is neither a missing program nor a wrong one. */
static void test_arguments_that_are_too_long(void **state)
{
    (void)state;
    struct bh_diag diag = {0};
    static char longest[256 << 10];
    static const char *argv[] = {"true", longest, NULL};
    static const char *const environment[] = {"A=1", NULL};
    struct bh_launch launch = {.argv = argv,
                               .environment = environment,
                               .path = "/nonexistent:/bin",
                               .stdin_fd = -1,
                               .stdout_fd = -1,
                               .stderr_fd = -1,
                               .keep_fd = -1,
                               .terminal_fd = -1};
    int pid = 0;
    memset(longest, 'x', sizeof longest - 1);
    assert_int_equal(os->launch(os->self, &launch, &pid, &diag), BH_E_LAUNCH_TOO_LONG);
    assert_string_equal(diag.field, "command");
    assert_non_null(strstr(diag.detail, "262144")); /* how long the longest is */
    assert_int_equal(waitpid(-1, NULL, 0), -1);
}

static void test_launch_failures_are_typed(void **state)
{
    (void)state;
    struct bh_diag diag = {0};
    assert_int_equal(try_launch("no-such", NULL, "/bin", &diag), BH_E_LAUNCH_NOT_FOUND);
    assert_non_null(strstr(diag.detail, "PATH"));
    assert_int_equal(try_launch("", NULL, "/bin", &diag), BH_E_LAUNCH_NOT_FOUND);
    assert_int_equal(try_launch("./no-such", NULL, "/bin", &diag), BH_E_LAUNCH_NOT_FOUND);
    assert_int_equal(try_launch("/etc/passwd", NULL, "/bin", &diag), BH_E_LAUNCH_NOT_EXECUTABLE);
    assert_int_equal(try_launch("passwd", NULL, "/etc", &diag), BH_E_LAUNCH_NOT_EXECUTABLE);
    assert_int_equal(try_launch("/", NULL, "/bin", &diag), BH_E_LAUNCH_NOT_EXECUTABLE);
    assert_int_equal(try_launch("true", "/no/such", "/bin", &diag), BH_E_LAUNCH_CWD);
    assert_string_equal(diag.field, "cwd");
    assert_int_equal(try_launch("true", NULL, "/nonexistent:/bin", &diag), BH_OK);
    assert_int_equal(try_launch("true", "/", NULL, &diag), BH_OK);
    assert_int_equal(waitpid(-1, NULL, 0), -1); /* no failed child is left behind */
}

static void test_sender_of_a_message(void **state)
{
    (void)state;
    int fds[2];
    char byte;
    int sender = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(bh_platform_want_sender(fds[0]), BH_OK);
    assert_int_equal(bh_platform_read_sender(fds[0], &byte, 1, &sender), BH_E_AGAIN);
    pid_t pid = fork();
    if (pid == 0)
        _exit(write(fds[1], "x", 1) != 1);
    (void)waitpid(pid, NULL, 0);
    assert_int_equal(bh_platform_read_sender(fds[0], &byte, 1, &sender), 1);
    assert_int_equal(sender, pid);
    (void)close(fds[1]);
    assert_int_equal(bh_platform_read_sender(fds[0], &byte, 1, &sender), 0);
    (void)close(fds[0]);
}

static void test_host(void **state)
{
    (void)state;
    struct bh_platform_host host;
    struct bh_platform_memory memory;
    assert_int_equal(os->host(os->self, &host), BH_OK);
    assert_string_equal(host.os, "Linux");
    assert_true(host.memory_bytes > host.available_bytes && host.available_bytes > 0);
    assert_int_equal(strlen(host.boot_id), 36);
    assert_int_equal(os->memory(os->self, &memory), BH_OK);
    assert_int_equal(memory.total_bytes, host.memory_bytes);
}

static void test_cgroup_texts(void **state)
{
    (void)state;
    char path[64];
    uint64_t value = 0;
    static const char mounts[] =
        "30 20 0:5 / /proc rw - proc proc rw\n"
        "40 31 0:38 /part /sys/fs/part rw,relatime - cgroup2 cgroup2 rw\n"
        "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
    assert_true(bh_linux_find_cgroup2(mounts, path, sizeof path));
    assert_string_equal(path, "/sys/fs/cgroup");
    assert_false(bh_linux_find_cgroup2(mounts, path, 5));
    assert_false(bh_linux_find_cgroup2("30 20 0:5 / /proc rw - proc proc rw\n", path, sizeof path));
    assert_false(bh_linux_find_cgroup2("", path, sizeof path));
    assert_true(bh_linux_find_own_group("4:memory:/a\n0::/user.slice/x\n", path, sizeof path));
    assert_string_equal(path, "/user.slice/x");
    assert_false(bh_linux_find_own_group("4:memory:/a\n", path, sizeof path));
    static const char name[] = "/bulkhead-0mhq2v9k3dx7c1p5n8tb";
    assert_true(bh_linux_is_below("0::/x/bulkhead-0mhq2v9k3dx7c1p5n8tb\n", name));
    assert_true(bh_linux_is_below("1:cpu:/\n0::/../bulkhead-0mhq2v9k3dx7c1p5n8tb/in/it\n", name));
    assert_false(bh_linux_is_below("0::/x\n", name));
    assert_false(bh_linux_is_below("0::/bulkhead-0mhq2v9k3dx7c1p5n8tbx\n", name));
    assert_false(bh_linux_is_below("1:cpu:/bulkhead-0mhq2v9k3dx7c1p5n8tb\n", name));
    static const char events[] = "low 0\nhigh 7\noom 1\noom_kill 2\noom_group_kill 3\n";
    assert_true(bh_linux_keyed(events, "oom_kill", &value));
    assert_int_equal(value, 2);
    assert_true(bh_linux_keyed(events, "high", &value));
    assert_int_equal(value, 7);
    assert_false(bh_linux_keyed(events, "oo", &value));
}

/* Skips where no group can be made, as in most containers. */
static void test_cgroup_of_our_own(void **state)
{
    (void)state;
    struct bh_cgroup cgroup;
    char reason[96] = "";
    struct bh_cgroup_wish wish = {.run_id = "unit-test", .max_bytes = 100 * MIB};
    assert_int_equal(os->cgroup_make(os->self, &wish, &cgroup, reason, sizeof reason), BH_OK);
    if (!cgroup.made) {
        assert_true(reason[0] != '\0');
        skip();
    }
    assert_true(cgroup.memory || reason[0] != '\0');
    assert_int_equal(os->cgroup_populated(os->self, &cgroup), 0);
    pid_t pid = child(NULL);
    int fd = open(cgroup.procs_path, O_WRONLY);
    char number[16];
    int length = snprintf(number, sizeof number, "%d", (int)pid);
    assert_int_equal(write(fd, number, (size_t)length), length);
    (void)close(fd);
    assert_int_equal(os->cgroup_populated(os->self, &cgroup), 1);
    if (os->cgroup_kill(os->self, &cgroup) != BH_OK)
        (void)kill(pid, SIGKILL);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    os->cgroup_remove(os->self, &cgroup);
    assert_int_equal(access(cgroup.path, F_OK), -1);
}

static int choose_host(void **state)
{
    (void)state;
    os = bh_platform_host();
    return os ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_charge_of_known_memory),
        cmocka_unit_test(test_shared_pages_count_once_in_a_round),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_children_of_all_threads),
        cmocka_unit_test(test_births_change),
        cmocka_unit_test(test_stat_text),
        cmocka_unit_test(test_launch_failures_are_typed),
        cmocka_unit_test(test_arguments_that_are_too_long),
        cmocka_unit_test(test_descriptors_without_the_system_call),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_sender_of_a_message),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_cgroup_texts),
        cmocka_unit_test(test_cgroup_of_our_own),
    };
    return cmocka_run_group_tests(tests, choose_host, NULL);
}
