#include "core/super/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/super/environment.h"

static unsigned callers_umask;
static bool umask_is_ours;

void bh_launch_own_files(void)
{
    callers_umask = umask(077);
    umask_is_ours = true;
    (void)signal(SIGXFSZ, SIG_IGN);
}

static unsigned umask_of_the_job(void)
{
    if (umask_is_ours)
        return callers_umask;
    mode_t present = umask(077);
    (void)umask(present);
    return present;
}

void bh_launch_remember(struct bh_inherited *ret_inherited)
{
    struct rlimit limit = {0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    errno = 0;
    *ret_inherited = (struct bh_inherited){.nofile_soft = (uint64_t)limit.rlim_cur,
                                           .nofile_hard = (uint64_t)limit.rlim_max,
                                           .nice_value = getpriority(PRIO_PROCESS, 0),
                                           .umask = umask_of_the_job()};
}

void bh_launch_raise_limits(const struct bh_inherited *inherited)
{
    struct rlimit limit = {.rlim_cur = inherited->nofile_hard, .rlim_max = inherited->nofile_hard};
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* a refusal leaves the soft limit: fewer members fit */
}

struct streams {
    int in_fd, out_fd, err_fd;
};

static int open_log(int run_fd, const char *name, int *ret_fd, struct bh_diag *diag)
{
    int fd = openat(run_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return bh_err_sys(diag, errno, "cannot open the job's log");
    *ret_fd = fd;
    return BH_OK;
}

static int open_streams(const struct bh_run *run, struct streams *streams, struct bh_diag *diag)
{
    if (run->foreground)
        return BH_OK; /* the caller's own */
    streams->in_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (streams->in_fd < 0)
        return bh_err_sys(diag, errno, "cannot open /dev/null");
    int result = open_log(run->run_fd, BH_RUN_OUT_NAME, &streams->out_fd, diag);
    if (result == BH_OK)
        result = open_log(run->run_fd, BH_RUN_ERR_NAME, &streams->err_fd, diag);
    return result;
}

static void close_streams(const struct streams *streams)
{
    const int fds[] = {streams->in_fd, streams->out_fd, streams->err_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
    }
}

int bh_launch_job(struct bh_loop *loop, const struct bh_inherited *inherited, char *const *own,
                  int *ret_pid, struct bh_diag *diag)
{
    const struct bh_job_spec *spec = loop->spec;
    struct bh_environment environment = {0};
    struct streams streams = {-1, -1, -1};
    bool channel = loop->checkpoint.job_fd >= 0;
    int result = bh_environment_build(loop->run, own, channel, &environment, diag);
    if (result < 0)
        return result;
    result = open_streams(loop->run, &streams, diag);
    if (result == BH_OK) {
        struct bh_launch launch = {
            .argv = spec->argv,
            .environment = (const char *const *)environment.items,
            .path = bh_environment_get(&environment, "PATH"),
            .cwd = spec->cwd,
            .stdin_fd = streams.in_fd,
            .stdout_fd = streams.out_fd,
            .stderr_fd = streams.err_fd,
            .keep_fd = loop->checkpoint.job_fd,
            .keep_as = BH_CHECKPOINT_JOB_FD,
            .parent_death_signal = spec->stop_signal,
            .terminal_fd = loop->terminal_fd,
            .oom_score_adj = 1000,
            .cgroup_procs = loop->cgroup.made ? loop->cgroup.procs_path : NULL,
            .nofile_soft = inherited->nofile_soft,
            .nofile_hard = inherited->nofile_hard,
            .nice_value = inherited->nice_value,
            .set_nice = true,
            .umask = inherited->umask,
            .set_umask = true,
        };
        result = loop->os->launch(loop->os->self, &launch, ret_pid, diag);
    }
    close_streams(&streams);
    bh_environment_done(&environment);
    return result;
}
