/* Fork and exec of the job: everything between the two runs in the child, which shares nothing with
 * us but the error pipe. Portable except for two calls guarded below. */
#include "core/platform/platform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "core/base/text.h"
#include "core/platform/posix.h"

/* What the child reports before it gives up: which step, and errno. */
enum launch_step {
    STEP_SETUP = 1,
    STEP_CWD = 2,
    STEP_EXEC = 3,
};
struct launch_failure {
    int step;
    int error;
};

_Noreturn static void give_up(int pipe_fd, int step, int error)
{
    struct launch_failure failure = {step, error};
    ssize_t ignored = write(pipe_fd, &failure, sizeof failure);
    (void)ignored;
    _exit(127);
}

static void reset_signals(void)
{
    struct sigaction standard;
    memset(&standard, 0, sizeof standard);
    standard.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; number++)
        (void)sigaction(number, &standard, NULL); /* KILL, STOP and libc's own refuse: fine */
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, text, strlen(text));
    (void)ignored;
    (void)close(fd);
}

static void follow_parent(const struct bh_launch *launch, pid_t parent, bool in_group)
{
#ifdef __linux__
    if (launch->parent_death_signal) {
        (void)prctl(PR_SET_PDEATHSIG, launch->parent_death_signal);
        if (getppid() != parent)
            _exit(127); /* it died before the signal was armed */
    }
    char number[16];
    (void)snprintf(number, sizeof number, "%d", launch->oom_score_adj);
    write_text("/proc/self/oom_score_adj", number);
#else
    (void)launch;
    (void)parent;
#endif
    if (launch->cgroup_procs && !in_group)
        write_text(launch->cgroup_procs, "0");
}

static void take_group(const struct bh_launch *launch)
{
    (void)setpgid(0, 0);
    if (launch->terminal_fd < 0)
        return;
    /* a background group that touches the terminal is stopped by SIGTTOU unless it is blocked */
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    (void)tcsetpgrp(launch->terminal_fd, getpid());
}

static void restore_limits(const struct bh_launch *launch)
{
    if (launch->nofile_soft || launch->nofile_hard) {
        struct rlimit limit = {.rlim_cur = launch->nofile_soft, .rlim_max = launch->nofile_hard};
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (launch->set_umask)
        (void)umask((mode_t)launch->umask);
    if (launch->set_nice)
        (void)setpriority(PRIO_PROCESS, 0, launch->nice_value);
}

static void close_one(int fd, bool at_exec)
{
    if (at_exec)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    else
        (void)close(fd);
}

/* Where the system call is not there, or does not know the flag (Linux before 5.11). */
static void close_listed(int first, int last, bool at_exec)
{
    DIR *list = opendir("/dev/fd");
    const struct dirent *entry;
    while (list && (entry = readdir(list))) {
        uint64_t fd = 0;
        if (bh_text_u64(entry->d_name, "", INT_MAX, &fd, NULL) == BH_OK && (int)fd >= first &&
            (int)fd <= last && (int)fd != dirfd(list))
            close_one((int)fd, at_exec);
    }
    if (list) {
        (void)closedir(list);
        return;
    }
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = first; fd <= last && fd < (int)(most > 0 && most < INT_MAX ? most : 1024); fd++)
        close_one(fd, at_exec);
}

void bh_platform_close_range(int first, int last, bool at_exec)
{
    if (first > last)
        return;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)first, (unsigned)last,
                at_exec ? 4u /* CLOSE_RANGE_CLOEXEC */ : 0u) == 0)
        return;
#endif
    close_listed(first, last, at_exec);
}

/* Every descriptor from 3 on is closed at exec, whoever left it open to us, but the kept one. */
static int arrange_descriptors(const struct bh_launch *launch)
{
    const int sources[3] = {launch->stdin_fd, launch->stdout_fd, launch->stderr_fd};
    for (int target = 0; target < 3; target++) {
        if (sources[target] >= 0 && dup2(sources[target], target) < 0)
            return -1;
    }
    bh_platform_close_range(3, INT_MAX, true);
    if (launch->keep_fd >= 0) {
        if (launch->keep_fd == launch->keep_as)
            return fcntl(launch->keep_fd, F_SETFD, 0);
        if (dup2(launch->keep_fd, launch->keep_as) < 0)
            return -1;
    }
    return 0;
}

static const char *const *as_list(const char *const *list)
{
    return list;
}

static void exec_one(const char *path, const struct bh_launch *launch)
{
    union {
        const char *const *in;
        char *const *out;
    } argv = {as_list(launch->argv)}, environment = {as_list(launch->environment)};
    (void)execve(path, argv.out, environment.out);
}

/* As execvp does it, with the job's PATH: the first entry that can be executed; EACCES is
 * remembered while looking further. No fallback to a shell. */
static int exec_search(const struct bh_launch *launch)
{
    const char *name = launch->argv[0];
    if (!*name)
        return ENOENT;
    if (strchr(name, '/')) {
        exec_one(name, launch);
        return errno;
    }
    const char *path = launch->path ? launch->path : "/usr/local/bin:/usr/bin:/bin";
    int denied = 0;
    while (path) {
        const char *end = strchr(path, ':');
        size_t length = end ? (size_t)(end - path) : strlen(path);
        char candidate[PATH_MAX];
        int n = length ? snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, path, name)
                       : snprintf(candidate, sizeof candidate, "./%s", name);
        if (n > 0 && (size_t)n < sizeof candidate) {
            struct stat st;
            exec_one(candidate, launch);
            if (errno == EACCES && stat(candidate, &st) == 0 && S_ISREG(st.st_mode))
                denied = EACCES;
            else if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
                return errno;
        }
        path = end ? end + 1 : NULL;
    }
    return denied ? denied : ENOENT;
}

_Noreturn static void run_child(const struct bh_launch *launch, int pipe_fd, pid_t parent,
                                bool in_group)
{
    take_group(launch);
    reset_signals();
    follow_parent(launch, parent, in_group);
    restore_limits(launch);
    if (launch->cwd && chdir(launch->cwd) < 0)
        give_up(pipe_fd, STEP_CWD, errno);
    /* out of the way of the numbers that are about to be used */
    int report = fcntl(pipe_fd, F_DUPFD_CLOEXEC, launch->keep_as > 10 ? launch->keep_as + 1 : 10);
    if (report < 0)
        report = fcntl(pipe_fd, F_DUPFD_CLOEXEC, 10);
    if (report < 0 || arrange_descriptors(launch) < 0)
        give_up(pipe_fd, STEP_SETUP, errno);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    give_up(report, STEP_EXEC, exec_search(launch));
}

static size_t list_bytes(const char *const *list, size_t *longest)
{
    size_t bytes = 0;
    for (size_t i = 0; list[i]; i++) {
        size_t one = strlen(list[i]) + 1;
        bytes += one + sizeof list[i];
        *longest = one > *longest ? one : *longest;
    }
    return bytes;
}

/* The program is all right, what it was to be given is not: say how much that is. */
static int explain_length(const struct bh_launch *launch, struct bh_diag *diag)
{
    size_t longest = 0;
    size_t command = list_bytes(launch->argv, &longest);
    size_t environment = list_bytes(launch->environment, &longest);
    return bh_err_set(diag, BH_E_LAUNCH_TOO_LONG, "command",
                      "%zu bytes of arguments and %zu of environment, the longest of %zu, are more "
                      "than this system hands to a program; pass them in a file",
                      command, environment, longest);
}

static int explain(const struct bh_launch *launch, const struct launch_failure *failure,
                   struct bh_diag *diag)
{
    const char *reason = strerror(failure->error);
    if (failure->step == STEP_CWD)
        return bh_err_set(diag, BH_E_LAUNCH_CWD, "cwd",
                          "the working directory cannot be entered (%s)", reason);
    if (failure->step != STEP_EXEC)
        return bh_err_set(diag, BH_E_LAUNCH_FAILED, NULL, "the launch could not be prepared: %s",
                          reason);
    switch (failure->error) {
    case ENOENT:
    case ENOTDIR:
        return bh_err_set(diag, BH_E_LAUNCH_NOT_FOUND, "command", "%s was not found%s",
                          launch->argv[0],
                          strchr(launch->argv[0], '/') ? "" : " on the job's PATH");
    case E2BIG:
        return explain_length(launch, diag);
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return bh_err_set(diag, BH_E_LAUNCH_FAILED, NULL, "the program could not be started: %s",
                          reason);
    default:
        return bh_err_set(diag, BH_E_LAUNCH_NOT_EXECUTABLE, "command", "%s cannot be executed (%s)",
                          launch->argv[0], reason);
    }
}

/* A fork whose child is born in the job's control group (Linux 5.7): a child that moves there
 * itself waits until every processor has passed a quiet moment (median 12 ms against 0.3 on two
 * busy cores). < 0 where that is not possible. */
static pid_t fork_into_group(const struct bh_launch *launch)
{
    pid_t pid = -1;
#ifdef CLONE_INTO_CGROUP
    char folder[PATH_MAX];
    const char *end = launch->cgroup_procs ? strrchr(launch->cgroup_procs, '/') : NULL;
    if (!end || (size_t)(end - launch->cgroup_procs) >= sizeof folder)
        return -1;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(end - launch->cgroup_procs),
                   launch->cgroup_procs);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct clone_args how = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
    how.cgroup = (unsigned)fd;
    if (fd >= 0)
        pid = (pid_t)syscall(SYS_clone3, &how, sizeof how);
    if (fd >= 0 && pid != 0)
        (void)close(fd); /* the child's goes at exec */
#else
    (void)launch;
#endif
    return pid;
}

int bh_posix_launch(void *self, const struct bh_launch *launch, int *ret_pid, struct bh_diag *diag)
{
    (void)self;
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        (void)bh_err_sys(diag, errno, "no pipe for the launch");
        return BH_E_LAUNCH_FAILED;
    }
    pid_t parent = getpid();
    pid_t pid = fork_into_group(launch);
    bool in_group = pid >= 0;
    if (!in_group)
        pid = fork();
    if (pid == 0) {
        (void)close(pipe_fds[0]);
        run_child(launch, pipe_fds[1], parent, in_group);
    }
    int fork_error = errno;
    (void)close(pipe_fds[1]);
    if (pid < 0) {
        (void)close(pipe_fds[0]);
        (void)bh_err_sys(diag, fork_error, "no process for the job");
        return BH_E_LAUNCH_FAILED;
    }
    (void)setpgid(pid, pid); /* on both sides: whoever comes first */
    struct launch_failure failure = {0};
    ssize_t n;
    do
        n = read(pipe_fds[0], &failure, sizeof failure);
    while (n < 0 && errno == EINTR);
    (void)close(pipe_fds[0]);
    if (n == 0) {
        *ret_pid = pid; /* the pipe closed by itself: exec happened */
        return BH_OK;
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (n != (ssize_t)sizeof failure)
        failure = (struct launch_failure){STEP_SETUP, EIO};
    return explain(launch, &failure, diag);
}
