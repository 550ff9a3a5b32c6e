#include "server/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/text.h"
#include "core/platform/platform.h"

/* Longest name below the state directory that must fit a socket's path:
 * jobs/<20 characters>/ctl.sock is opened through a descriptor, so only bulkhead.sock counts. */
#define LOCK_NAME "server.lock"

static int default_state(struct bh_config *config, struct bh_diag *diag)
{
    char path[PATH_MAX];
    const char *base = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (base && base[0] == '/')
        (void)snprintf(path, sizeof path, "%s/bulkhead", base);
    else if (home && home[0] == '/')
        (void)snprintf(path, sizeof path, "%s/.local/state/bulkhead", home);
    else
        return bh_err_set(diag, BH_E_USAGE, "state", "HOME is not set; say where with --state DIR");
    return bh_config_set_text(config, BH_PARAM_STATE, path);
}

static int make_absolute(struct bh_config *config, struct bh_diag *diag)
{
    char path[PATH_MAX];
    char cwd[PATH_MAX / 2];
    const char *given = bh_config_text(config, BH_PARAM_STATE);
    if (given[0] == '/')
        return BH_OK;
    if (!getcwd(cwd, sizeof cwd))
        return bh_err_sys(diag, errno, "the working directory cannot be named");
    if (snprintf(path, sizeof path, "%s/%s", cwd, given) >= (int)sizeof path)
        return bh_err_set(diag, BH_E_TOO_LONG, "state", "the state path is too long");
    return bh_config_set_text(config, BH_PARAM_STATE, path);
}

/* The first of the candidates (relative to the program's folder) that exists; else the first. */
static int default_beside(struct bh_config *config, enum bh_param param, const char *folder,
                          const char *const *candidates, bool or_none)
{
    char path[PATH_MAX];
    if (*bh_config_text(config, param))
        return BH_OK;
    for (size_t i = 0; candidates[i]; i++) {
        if (snprintf(path, sizeof path, "%s/%s", folder, candidates[i]) < (int)sizeof path &&
            access(path, R_OK) == 0)
            return bh_config_set_text(config, param, path);
    }
    if (or_none)
        return BH_OK;
    (void)snprintf(path, sizeof path, "%s/%s", folder, candidates[0]);
    return bh_config_set_text(config, param, path);
}

int bh_state_defaults(struct bh_config *config, struct bh_diag *diag)
{
    static const char *const web[] = {"../web", "../share/bulkhead/web", NULL};
    static const char *const openapi[] = {"../share/bulkhead/openapi/openapi.json",
                                          "../openapi/openapi.json",
                                          "../../../openapi/openapi.json", NULL};
    static const char *const supervisor[] = {"bulkhead-supervise", NULL};
    static const char *const recorder[] = {"../lib/libbulkhead-record.so",
                                           "../lib/bulkhead/libbulkhead-record.so", NULL};
    char folder[PATH_MAX];
    char socket_path[PATH_MAX];
    int result = BH_OK;
    if (!*bh_config_text(config, BH_PARAM_STATE))
        result = default_state(config, diag);
    if (result >= 0)
        result = make_absolute(config, diag);
    if (result >= 0 && !*bh_config_text(config, BH_PARAM_SOCKET)) {
        (void)snprintf(socket_path, sizeof socket_path, "%.4000s/bulkhead.sock",
                       bh_config_text(config, BH_PARAM_STATE));
        result = bh_config_set_text(config, BH_PARAM_SOCKET, socket_path);
    }
    if (result >= 0)
        result = bh_platform_own_path(folder, sizeof folder);
    char *slash = result >= 0 ? strrchr(folder, '/') : NULL;
    if (slash)
        *slash = '\0';
    if (result >= 0)
        result = default_beside(config, BH_PARAM_WEB, folder, web, true);
    if (result >= 0)
        result = default_beside(config, BH_PARAM_OPENAPI, folder, openapi, true);
    if (result >= 0)
        result = default_beside(config, BH_PARAM_SUPERVISOR, folder, supervisor, false);
    if (result >= 0)
        result = default_beside(config, BH_PARAM_RECORDER, folder, recorder, true);
    return result;
}

/* A folder that others may write into would let them swap token and socket. Often it is only a
 * umask of 002, so it is corrected, not refused. */
static int keep_others_out(int fd, struct bh_diag *diag)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return bh_err_sys(diag, errno, "the state directory cannot be looked at");
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) &&
        fchmod(fd, st.st_mode & 07777 & ~(mode_t)(S_IWGRP | S_IWOTH)) < 0)
        return bh_err_sys(diag, errno, "others can write into the state directory");
    return BH_OK;
}

int bh_state_open(struct bh_app *app, struct bh_diag *diag)
{
    const char *path = bh_config_text(app->config, BH_PARAM_STATE);
    if (strlen(path) + 40 >= sizeof app->state_path)
        return bh_err_set(diag, BH_E_TOO_LONG, "state", "the state path is too long");
    (void)snprintf(app->state_path, sizeof app->state_path, "%s", path);
    int result = bh_io_make_dir(AT_FDCWD, path, true, &app->state_fd, diag);
    if (result >= 0)
        result = keep_others_out(app->state_fd, diag);
    if (result >= 0)
        result = bh_io_make_dir(app->state_fd, "jobs", false, &app->jobs_fd, diag);
    return result;
}

static void read_pid(int fd, char *ret_pid, size_t size)
{
    size_t length = 0;
    if (bh_io_pread(fd, ret_pid, size - 1, 0, &length) < 0)
        length = 0;
    ret_pid[length] = '\0';
    ret_pid[strspn(ret_pid, "0123456789")] = '\0';
}

/* Supervisors that end with their server try this lock for a microsecond once a second: one of them
 * is no other server. */
static int take_exclusive(int fd)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    int result = flock(fd, LOCK_EX | LOCK_NB);
    for (int again = 0; result < 0 && errno == EWOULDBLOCK && again < 10; again++) {
        (void)nanosleep(&pause, NULL);
        result = flock(fd, LOCK_EX | LOCK_NB);
    }
    return result;
}

int bh_state_lock(struct bh_app *app, struct bh_diag *diag)
{
    char pid[16];
    int fd = openat(app->state_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return bh_err_sys(diag, errno, "cannot open the state directory's lock");
    if (take_exclusive(fd) < 0) {
        int error = errno;
        read_pid(fd, pid, sizeof pid);
        (void)close(fd);
        if (error != EWOULDBLOCK)
            return bh_err_sys(diag, error,
                              "the state directory cannot be locked (a network file "
                              "system?)");
        return bh_err_set(
            diag, BH_E_SERVER_RUNNING, "state",
            "a server with pid %s uses this state directory; stop it, or choose another "
            "with --state",
            *pid ? pid : "unknown");
    }
    int length = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || bh_io_pwrite_full(fd, pid, (size_t)length, 0) < 0) {
        (void)close(fd);
        return bh_err_set(diag, BH_E_IO, "state", "the state directory cannot be written");
    }
    app->lock_fd = fd;
    return BH_OK;
}

void bh_state_close(struct bh_app *app)
{
    int *const fds[] = {&app->lock_fd, &app->jobs_fd, &app->state_fd};
    for (size_t i = 0; i < 3; i++) {
        if (*fds[i] >= 0)
            (void)close(*fds[i]);
        *fds[i] = -1;
    }
}
