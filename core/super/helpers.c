#include "core/super/helpers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/platform/platform.h"
#include "core/super/scribe.h"
#include "core/super/twin.h"

/* A ring of default size holds about 60 ms of the fastest burst of events (131,072 slots at 2
 * million a second): the scribe must not wait that long behind a busy job. */
#define SCRIBE_NICE (-10)

static void close_one(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* A helper outlives what ends the decider: it has its own session, hears no terminal, and holds no
 * stream of the caller open (a shell's $(…) would wait for it). */
static void detach(void)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE};
    (void)setsid();
    struct sigaction action;
    memset(&action, 0, sizeof action);
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        action.sa_handler = SIG_IGN;
        (void)sigaction(ignored[i], &action, NULL);
    }
    action.sa_handler = SIG_DFL;
    (void)sigaction(SIGCHLD, &action, NULL);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null_fd >= 0; fd++)
        (void)dup2(null_fd, fd);
    if (null_fd > 2)
        (void)close(null_fd);
}

/* Forks twice. Returns 1 in the grandchild, 0 in the caller, or an error. */
static int fork_twice(struct bh_diag *diag)
{
    pid_t middle = fork();
    if (middle < 0)
        return bh_err_sys(diag, errno, "no process for a helper");
    if (middle == 0) {
        pid_t helper = fork();
        if (helper == 0) {
            detach();
            return 1;
        }
        _exit(helper < 0 ? 1 : 0);
    }
    int status = 0;
    while (waitpid(middle, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "no process for a helper");
    return BH_OK;
}

static int make_pipe(int *ret_read, int *ret_write, struct bh_diag *diag)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return bh_err_sys(diag, errno, "no pipe for a helper");
    *ret_read = fds[0];
    *ret_write = fds[1];
    return BH_OK;
}

int bh_helpers_start_scribe(struct bh_run *run, struct bh_diag *diag)
{
    int result = make_pipe(&run->decider_alive_fd, &run->decider_token_fd, diag);
    if (result == BH_OK)
        result = make_pipe(&run->scribe_alive_fd, &run->scribe_token_fd, diag);
    if (result == BH_OK)
        result = fork_twice(diag);
    if (result == 1) {
        close_one(&run->decider_token_fd);
        close_one(&run->scribe_alive_fd);
        close_one(&run->ready_fd);
        (void)setpriority(PRIO_PROCESS, 0, SCRIBE_NICE); /* refused without the right: then not */
        _exit(bh_scribe_main(run));
    }
    close_one(&run->decider_alive_fd);
    close_one(&run->scribe_token_fd);
    char ready;
    if (result == BH_OK && bh_io_read_full(run->scribe_alive_fd, &ready, 1) < 0)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "the scribe ended before it began");
    return result;
}

struct release_request {
    uint64_t start_token;
    int32_t pid;
    int32_t unused;
};

_Noreturn static void serve_mrelease(int fd)
{
    struct release_request request;
    struct bh_twin standby = BH_TWIN_NONE;
    for (;;) {
        if (bh_twin_wait(&standby, fd, -1) == 1)
            continue;
        if (bh_io_read_full(fd, &request, sizeof request) < 0)
            break; /* the decider is gone */
        (void)bh_platform_mrelease(request.pid, request.start_token);
    }
    bh_twin_release(&standby);
    _exit(0);
}

int bh_helpers_start_mrelease(struct bh_run *run, int *ret_fd, struct bh_diag *diag)
{
    int read_fd = -1, write_fd = -1;
    int result = make_pipe(&read_fd, &write_fd, diag);
    if (result < 0)
        return result;
    result = fork_twice(diag);
    if (result == 1) {
        (void)close(write_fd);
        bh_run_done(run); /* the lock and the tokens must not live on in this one */
        serve_mrelease(read_fd);
    }
    (void)close(read_fd);
    if (result < 0) {
        (void)close(write_fd);
        return result;
    }
    (void)bh_io_set_nonblocking(write_fd);
    *ret_fd = write_fd;
    return BH_OK;
}

void bh_helpers_release_memory(int fd, int pid, uint64_t start_token)
{
    struct release_request request = {.start_token = start_token, .pid = pid};
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, &request, sizeof request); /* 16 bytes: whole or not at all */
    (void)ignored;
}
