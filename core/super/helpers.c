#include "core/super/helpers.h"
#include "core/base/scoped.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/platform/platform.h"
#include "core/super/checkpoint_look.h"
#include "core/super/scribe.h"
#include "core/super/twin.h"

/* A ring of default size holds about 60 ms of the fastest burst of events (131,072 slots at 2
 * million a second): the scribe must not wait that long behind a busy job. */
#define SCRIBE_NICE (-10)

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

static int by_number(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

/* Whatever else we hold, or were handed by our caller, must not live as long as a helper: the end
 * of a pipe would not be seen, a lock not be free, a shell wait for its $(…). */
static void close_all_but(const int *keep, size_t count)
{
    int sorted[16];
    BH_BUG_ON(count > sizeof sorted / sizeof sorted[0]);
    memcpy(sorted, keep, count * sizeof *keep);
    qsort(sorted, count, sizeof *sorted, by_number);
    int from = 3;
    for (size_t i = 0; i < count; i++) {
        if (sorted[i] < from)
            continue; /* -1: not there */
        bh_platform_close_range(from, sorted[i] - 1, false);
        from = sorted[i] + 1;
    }
    bh_platform_close_range(from, INT_MAX, false);
}

/* Forks twice. Returns 1 in the grandchild, which holds these descriptors and no other, 0 in the
 * caller, or an error. */
static int fork_twice(const int *keep, size_t count, struct bh_diag *diag)
{
    pid_t middle = fork();
    if (middle < 0)
        return bh_err_sys(diag, errno, "no process for a helper");
    if (middle == 0) {
        pid_t helper = fork();
        if (helper == 0) {
            detach();
            close_all_but(keep, count);
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
    const int keep[] = {run->run_fd,  run->runtime_fd,       run->rings_fd,
                        run->lock_fd, run->decider_alive_fd, run->scribe_token_fd};
    if (result == BH_OK)
        result = fork_twice(keep, sizeof keep / sizeof keep[0], diag);
    if (result == 1) {
        run->decider_token_fd = run->scribe_alive_fd = run->ready_fd = -1; /* closed */
        (void)setpriority(PRIO_PROCESS, 0, SCRIBE_NICE); /* refused without the right: then not */
        _exit(bh_scribe_main(run));
    }
    bh_close_fd(&run->decider_alive_fd);
    bh_close_fd(&run->scribe_token_fd);
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

int bh_helpers_start_mrelease(int *ret_fd, struct bh_diag *diag)
{
    int read_fd = -1, write_fd = -1;
    int result = make_pipe(&read_fd, &write_fd, diag);
    if (result < 0)
        return result;
    result = fork_twice(&read_fd, 1, diag);
    if (result == 1)
        serve_mrelease(read_fd);
    (void)close(read_fd);
    if (result < 0) {
        (void)close(write_fd);
        return result;
    }
    (void)bh_io_set_nonblocking(write_fd);
    *ret_fd = write_fd;
    return BH_OK;
}

int bh_helpers_start_look(struct bh_run *run, int *ret_fd, struct bh_diag *diag)
{
    const struct bh_job_spec *spec = run->spec;
    int decider_fd = -1, helper_fd = -1;
    int cwd_fd = open(spec->cwd ? spec->cwd : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cwd_fd < 0)
        return bh_err_sys(diag, errno, "cannot open the job's directory");
    int result = bh_look_open(&decider_fd, &helper_fd);
    if (result == BH_OK)
        result = fork_twice((const int[]){cwd_fd, helper_fd}, 2, diag);
    if (result == 1)
        bh_look_serve(helper_fd, cwd_fd, spec->checkpoint_path);
    bh_close_fd(&cwd_fd);
    bh_close_fd(&helper_fd);
    if (result < 0)
        bh_close_fd(&decider_fd);
    else
        *ret_fd = decider_fd;
    return result;
}

void bh_helpers_release_memory(int fd, int pid, uint64_t start_token)
{
    struct release_request request = {.start_token = start_token, .pid = pid};
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, &request, sizeof request); /* 16 bytes: whole or not at all */
    (void)ignored;
}
