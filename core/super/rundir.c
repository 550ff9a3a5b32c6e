/* The run directory and its runtime folder: made or opened by descriptor, locked, found again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/platform/platform.h"
#include "core/super/super.h"
#include "core/wire/spec_file.h"

static int take_lock(struct bh_run *run, struct bh_diag *diag)
{
    int fd = openat(run->run_fd, BH_RUN_LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return bh_err_sys(diag, errno, "cannot open the lock of the run directory");
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int error = errno;
        (void)close(fd);
        if (error == EWOULDBLOCK)
            return bh_err_set(diag, BH_E_BUSY, "run-dir",
                              "another supervisor works in this run directory");
        return bh_err_sys(diag, error, "cannot lock the run directory");
    }
    run->lock_fd = fd;
    return BH_OK;
}

/* Where others can write they can put what they like in the place of our files. */
static bool is_shared(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 || (st.st_mode & (S_IWGRP | S_IWOTH));
}

static int refuse_shared(const struct bh_run *run, struct bh_diag *diag)
{
    if (is_shared(run->run_fd))
        return bh_err_set(diag, BH_E_UNSAFE_PATH, "run-dir",
                          "others may write in the run directory; chmod 700 it, or name another");
    return BH_OK;
}

static int remember_path(const char *path, struct bh_run *run, struct bh_diag *diag)
{
    /* resolved for the notes of others only; every access goes through run_fd */
    char *full = realpath(path, NULL);
    if (!full)
        return bh_err_sys(diag, errno, "cannot resolve the run directory");
    size_t length = strlen(full);
    if (length < sizeof run->path)
        memcpy(run->path, full, length + 1);
    free(full);
    if (length >= sizeof run->path)
        return bh_err_set(diag, BH_E_TOO_LONG, "run-dir",
                          "the path of the run directory is too long");
    return BH_OK;
}

static int read_spec(struct bh_run *run, struct bh_diag *diag)
{
    struct bh_bytes bytes = {0};
    int result = bh_io_read_file(run->run_fd, BH_SPEC_FILE_NAME,
                                 BH_SPEC_MAX_BYTES + BH_SPEC_FILE_HEADER_BYTES, &bytes, diag);
    if (result == BH_OK)
        result = bh_spec_file_decode(bytes.data, bytes.length, &run->spec, diag);
    bh_bytes_done(&bytes);
    if (result == BH_OK)
        memcpy(run->id, run->spec->id, sizeof run->id);
    return result;
}

int bh_rundir_open(const char *path, struct bh_run *run, struct bh_diag *diag)
{
    int result = bh_io_open_dir(AT_FDCWD, path, &run->run_fd, diag);
    if (result == BH_OK)
        result = refuse_shared(run, diag);
    if (result == BH_OK)
        result = remember_path(path, run, diag);
    if (result == BH_OK)
        result = take_lock(run, diag);
    if (result == BH_OK)
        result = read_spec(run, diag);
    return result;
}

int bh_rundir_refuse_used(const struct bh_run *run, struct bh_diag *diag)
{
    static const char *const names[] = {BH_RUN_RUNTIME_NAME, BH_RUN_REPORT_NAME, "journal.bhj",
                                        BH_RUN_EVLOG_NAME};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (faccessat(run->run_fd, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return bh_err_set(diag, BH_E_EXISTS, "run-dir",
                              "the run directory holds an earlier run; name another one");
    }
    return BH_OK;
}

/* Makes it where it is not there. The name is known to everybody, and in /dev/shm or /tmp anybody
 * could have been there first: with a directory of their own, or a link to somewhere of ours. */
static bool is_safe_base(const char *base)
{
    BH_SCOPED_FD int fd = -1;
    return base[0] && bh_io_make_dir(AT_FDCWD, base, false, &fd, NULL) == BH_OK && !is_shared(fd);
}

int bh_rundir_create(const char *path, struct bh_run *run, struct bh_diag *diag)
{
    char made[PATH_MAX];
    if (!path) {
        char base[PATH_MAX - 64];
        int result = bh_platform_runtime_base(base, sizeof base);
        if (result < 0)
            return bh_err_set(diag, result, NULL, "no place for a temporary run directory");
        if (!is_safe_base(base))
            (void)snprintf(base, sizeof base, "/tmp/bulkhead-%u", (unsigned)geteuid());
        if (!is_safe_base(base))
            return bh_err_set(diag, BH_E_UNSAFE_PATH, NULL,
                              "%s cannot be used for a temporary run directory; name one with "
                              "--run-dir",
                              base);
        (void)snprintf(made, sizeof made, "%s/run-%s", base, run->id);
        path = made;
        run->temporary = true;
    }
    int result = bh_io_make_dir(AT_FDCWD, path, true, &run->run_fd, diag);
    if (result == BH_OK)
        result = refuse_shared(run, diag);
    if (result == BH_OK)
        result = remember_path(path, run, diag);
    if (result == BH_OK)
        result = take_lock(run, diag);
    if (result == BH_OK)
        result = bh_rundir_refuse_used(run, diag);
    return result;
}

static int choose_runtime_path(struct bh_run *run, struct bh_diag *diag)
{
    char base[PATH_MAX - 32];
    int result = bh_platform_runtime_base(base, sizeof base);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "the path of the runtime folder is too long");
    int n;
    if (is_safe_base(base)) {
        n = snprintf(run->runtime_path, sizeof run->runtime_path, "%s/%s", base, run->id);
    } else {
        run->runtime_on_disk = true;
        n = snprintf(run->runtime_path, sizeof run->runtime_path, "%s/runtime.d", run->path);
    }
    if (n < 0 || (size_t)n >= sizeof run->runtime_path)
        return bh_err_set(diag, BH_E_TOO_LONG, NULL, "the path of the runtime folder is too long");
    return BH_OK;
}

/* "path\nboot id\n": everyone reads it, nobody computes it again. */
static int write_runtime(struct bh_run *run, struct bh_diag *diag)
{
    char text[PATH_MAX + 64];
    int n = snprintf(text, sizeof text, "%s\n%s\n", run->runtime_path, run->boot_id);
    return bh_io_replace(run->run_fd, BH_RUN_RUNTIME_NAME, text, (size_t)n, false, diag);
}

int bh_rundir_make_runtime(struct bh_run *run, struct bh_diag *diag)
{
    int result = choose_runtime_path(run, diag);
    if (result == BH_OK && bh_platform_boot_id(run->boot_id, sizeof run->boot_id) < 0)
        result = bh_err_set(diag, BH_E_UNSUPPORTED, NULL,
                            "the boot id cannot be read: /proc is not there");
    if (result == BH_OK)
        result = bh_io_make_dir(AT_FDCWD, run->runtime_path, true, &run->runtime_fd, diag);
    if (result == BH_OK)
        result = bh_io_make_dir(run->runtime_fd, BH_RUN_RINGS_NAME, false, &run->rings_fd, diag);
    if (result == BH_OK)
        result = write_runtime(run, diag);
    return result;
}

static bool split_runtime(char *text, struct bh_run *run)
{
    char *first = strchr(text, '\n');
    if (!first || text[0] != '/')
        return false;
    *first = '\0';
    char *boot = first + 1;
    boot[strcspn(boot, "\n")] = '\0';
    return snprintf(run->runtime_path, sizeof run->runtime_path, "%s", text) <
               (int)sizeof run->runtime_path &&
           snprintf(run->boot_id, sizeof run->boot_id, "%s", boot) < (int)sizeof run->boot_id;
}

int bh_rundir_find_runtime(struct bh_run *run, struct bh_diag *diag)
{
    struct bh_bytes bytes = {0};
    int result = bh_io_read_file(run->run_fd, BH_RUN_RUNTIME_NAME, PATH_MAX + 64, &bytes, diag);
    bool good = result == BH_OK && bytes.data && split_runtime((char *)bytes.data, run);
    bh_bytes_done(&bytes);
    if (result == BH_E_NOT_FOUND)
        return BH_OK; /* it never came as far as launching */
    if (result < 0)
        return result;
    if (!good)
        return bh_err_set(diag, BH_E_MALFORMED, NULL, "the file `runtime` cannot be understood");
    if (bh_io_open_dir(AT_FDCWD, run->runtime_path, &run->runtime_fd, NULL) < 0)
        return BH_OK;
    (void)bh_io_open_dir(run->runtime_fd, BH_RUN_RINGS_NAME, &run->rings_fd, NULL);
    (void)bh_queue_open(run->runtime_fd, run->id, &run->queue, NULL);
    return BH_OK;
}

/* A decider that was killed leaves its job's control group behind; an empty one goes. */
static void remove_cgroup(const struct bh_run *run)
{
    struct bh_bytes path = {0};
    if (run->runtime_fd >= 0 &&
        bh_io_read_file(run->runtime_fd, BH_RUN_CGROUP_NAME, PATH_MAX, &path, NULL) == BH_OK &&
        path.data && path.data[0] == '/')
        (void)rmdir((const char *)path.data);
    bh_bytes_done(&path);
}

void bh_rundir_remove_runtime(struct bh_run *run)
{
    remove_cgroup(run);
    if (run->runtime_path[0])
        (void)bh_io_remove_tree(AT_FDCWD, run->runtime_path, NULL);
    if (run->temporary && run->path[0])
        (void)bh_io_remove_tree(AT_FDCWD, run->path, NULL);
}
