#include "core/super/twin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/io.h"

#define DONE 'd'

/* In the waiting process: true when the worker died and this process must go on in its place. */
static bool wait_for_death(int fd)
{
    char byte = 0;
    int result = bh_io_read_full(fd, &byte, 1);
    return !(result == BH_OK && byte == DONE);
}

static void forget(struct bh_twin *twin)
{
    if (twin->fd >= 0)
        (void)close(twin->fd);
    *twin = BH_TWIN_NONE;
}

int bh_twin_start(struct bh_twin *twin)
{
    int fds[2];
    forget(twin);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return 0;
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[1]);
        bool mine = wait_for_death(fds[0]);
        (void)close(fds[0]);
        if (!mine)
            _exit(0);
        return 1;
    }
    (void)close(fds[0]);
    if (pid < 0) {
        (void)close(fds[1]);
        return 0;
    }
    *twin = (struct bh_twin){.pid = (int)pid, .fd = fds[1]};
    return 0;
}

/* Its successor inherits our files and maps; when it takes over it starts anew and leaves them
 * alone. */
int bh_twin_check(struct bh_twin *twin)
{
    if (twin->pid > 0 && waitpid(twin->pid, NULL, WNOHANG) == 0)
        return 0;
    return bh_twin_start(twin);
}

static void on_child(int signal)
{
    (void)signal; /* only interrupts the wait */
}

int bh_twin_wait(struct bh_twin *twin, int fd, int timeout_ms)
{
    struct sigaction action;
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                               .tv_nsec = (timeout_ms % 1000) * 1000000l};
    sigset_t child, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_child;
    (void)sigaction(SIGCHLD, &action, NULL);
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    /* heard within the wait alone: a death just before it is not slept through */
    (void)sigprocmask(SIG_BLOCK, &child, &before);
    (void)sigdelset(&before, SIGCHLD);
    for (;;) {
        if (bh_twin_check(twin) == 1)
            return 1;
        if (ppoll(&readable, 1, timeout_ms < 0 ? NULL : &timeout, &before) >= 0 || errno != EINTR)
            return 0;
    }
}

void bh_twin_release(struct bh_twin *twin)
{
    static const char done = DONE;
    int pid = twin->pid;
    if (twin->fd >= 0)
        (void)bh_io_write_full(twin->fd, &done, 1);
    forget(twin);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
