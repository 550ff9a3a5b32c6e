/* What it costs to start a process in a control group, two ways: a clone straight into it, and a
 * fork whose child then writes itself into cgroup.procs. Prints "name ms" lines; the argument is
 * the folder of a group that is empty. */
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ms until the child is where it should be, or a negative number. */
static double start(int group_fd, int into)
{
    struct clone_args how = {.flags = into ? CLONE_INTO_CGROUP : 0,
                             .exit_signal = SIGCHLD,
                             .cgroup = into ? (uint64_t)group_fd : 0};
    double at = -1;
    int pipe_fds[2];
    if (pipe(pipe_fds) < 0)
        return -1;
    double began = now_ms();
    long pid = syscall(SYS_clone3, &how, sizeof how);
    if (pid == 0) {
        int fd = into ? -1 : openat(group_fd, "cgroup.procs", O_WRONLY);
        double there = into || write(fd, "0", 1) == 1 ? now_ms() : -1;
        _exit(write(pipe_fds[1], &there, sizeof there) != sizeof there);
    }
    if (pid < 0 || read(pipe_fds[0], &at, sizeof at) != sizeof at)
        at = -1;
    if (pid > 0)
        (void)waitpid((pid_t)pid, NULL, 0);
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
    return at < 0 ? -1 : at - began;
}

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;
    double clone_ms = start(fd, 1), write_ms = start(fd, 0);
    if (clone_ms < 0 || write_ms < 0)
        return 1;
    (void)printf("clone_into_it %.3f\nwrite_to_cgroup.procs %.3f\n", clone_ms, write_ms);
    return 0;
}
