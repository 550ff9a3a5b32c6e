#include "core/base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/scoped.h"
#include "core/base/text.h"

static int check_owner(int fd, const char *name, mode_t type, struct bh_diag *diag)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return bh_err_sys(diag, errno, "cannot look at %s", bh_text_basename(name));
    if ((st.st_mode & S_IFMT) != type)
        return bh_err_set(diag, BH_E_UNSAFE_PATH, NULL, "%s is not a %s", bh_text_basename(name),
                          type == S_IFDIR ? "directory" : "regular file");
    if (st.st_uid != geteuid())
        return bh_err_set(diag, BH_E_UNSAFE_PATH, NULL,
                          "%s belongs to another user (uid %u); use one of your own",
                          bh_text_basename(name), (unsigned)st.st_uid);
    return BH_OK;
}

static int open_checked(int dirfd, const char *path, int flags, mode_t type, int *ret_fd,
                        struct bh_diag *diag)
{
    BH_SCOPED_FD int fd = openat(dirfd, path, flags | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        int error = errno;
        struct stat st;
        /* a symbolic link answers ELOOP, or ENOTDIR with O_DIRECTORY: say what it is */
        if (fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
            return bh_err_set(diag, BH_E_UNSAFE_PATH, NULL, "%s is a symbolic link",
                              bh_text_basename(path));
        return bh_err_sys(diag, error, "cannot open %s", bh_text_basename(path));
    }
    int result = check_owner(fd, path, type, diag);
    if (result < 0)
        return result;
    *ret_fd = bh_scoped_take_fd(&fd);
    return BH_OK;
}

int bh_io_open_dir(int dirfd, const char *path, int *ret_fd, struct bh_diag *diag)
{
    return open_checked(dirfd, path, O_RDONLY | O_DIRECTORY, S_IFDIR, ret_fd, diag);
}

static int make_parents(int dirfd, const char *path, struct bh_diag *diag)
{
    char partial[4096];
    size_t length = strlen(path);
    if (length >= sizeof partial)
        return bh_err_set(diag, BH_E_TOO_LONG, NULL, "a path is longer than 4095 bytes");
    memcpy(partial, path, length + 1);
    for (char *slash = strchr(partial + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdirat(dirfd, partial, 0700) < 0 && errno != EEXIST)
            return bh_err_sys(diag, errno, "cannot make directory %s", bh_text_basename(partial));
        *slash = '/';
    }
    return BH_OK;
}

int bh_io_make_dir(int dirfd, const char *path, bool parents, int *ret_fd, struct bh_diag *diag)
{
    if (parents) {
        int result = make_parents(dirfd, path, diag);
        if (result < 0)
            return result;
    }
    if (mkdirat(dirfd, path, 0700) < 0 && errno != EEXIST)
        return bh_err_sys(diag, errno, "cannot make directory %s", bh_text_basename(path));
    return bh_io_open_dir(dirfd, path, ret_fd, diag);
}

int bh_io_create(int dirfd, const char *name, int flags, int *ret_fd, struct bh_diag *diag)
{
    int fd = openat(dirfd, name, flags | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return bh_err_sys(diag, errno, "cannot create %s", bh_text_basename(name));
    *ret_fd = fd;
    return BH_OK;
}

int bh_io_open(int dirfd, const char *name, int flags, int *ret_fd, struct bh_diag *diag)
{
    return open_checked(dirfd, name, flags | O_NONBLOCK, S_IFREG, ret_fd, diag);
}

int bh_io_write_full(int fd, const void *data, size_t length)
{
    const char *at = data;
    while (length) {
        ssize_t n = write(fd, at, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_from_errno(errno);
        at += n;
        length -= (size_t)n;
    }
    return BH_OK;
}

int bh_io_pwrite_full(int fd, const void *data, size_t length, uint64_t offset)
{
    const char *at = data;
    while (length) {
        ssize_t n = pwrite(fd, at, length, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_from_errno(errno);
        at += n;
        offset += (uint64_t)n;
        length -= (size_t)n;
    }
    return BH_OK;
}

int bh_io_read_full(int fd, void *ret_data, size_t length)
{
    char *at = ret_data;
    size_t left = length;
    while (left) {
        ssize_t n = read(fd, at, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_from_errno(errno);
        if (n == 0)
            return left == length ? BH_E_END : BH_E_TRUNCATED;
        at += n;
        left -= (size_t)n;
    }
    return BH_OK;
}

int bh_io_pread(int fd, void *ret_data, size_t length, uint64_t offset, size_t *ret_length)
{
    size_t used = 0;
    while (used < length) {
        ssize_t n = pread(fd, (char *)ret_data + used, length - used, (off_t)(offset + used));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_from_errno(errno);
        if (n == 0)
            break;
        used += (size_t)n;
    }
    *ret_length = used;
    return BH_OK;
}

int bh_io_read_file(int dirfd, const char *name, size_t maximum, struct bh_bytes *ret_bytes,
                    struct bh_diag *diag)
{
    BH_SCOPED_FD int fd = -1;
    int result = bh_io_open(dirfd, name, O_RDONLY, &fd, diag);
    if (result < 0)
        return result;
    size_t start = ret_bytes->length;
    for (;;) {
        unsigned char *room = bh_bytes_reserve(ret_bytes, 65536);
        if (!room)
            return bh_err_set(diag, BH_E_NOMEM, NULL, "no memory to read %s",
                              bh_text_basename(name));
        ssize_t n = read(fd, room, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_sys(diag, errno, "cannot read %s", bh_text_basename(name));
        if (n == 0)
            break;
        ret_bytes->length += (size_t)n;
        if (ret_bytes->length - start > maximum)
            return bh_err_set(diag, BH_E_TOO_LONG, NULL, "%s is larger than %zu bytes",
                              bh_text_basename(name), maximum);
    }
    ret_bytes->data[ret_bytes->length] = '\0';
    return BH_OK;
}

static int write_temporary(int dirfd, const char *temporary, const void *data, size_t length,
                           bool sync, struct bh_diag *diag)
{
    /* a leftover of a killed writer is replaced, never followed */
    (void)unlinkat(dirfd, temporary, 0);
    BH_SCOPED_FD int fd = -1;
    int result = bh_io_create(dirfd, temporary, O_WRONLY, &fd, diag);
    if (result < 0)
        return result;
    result = bh_io_write_full(fd, data, length);
    if (result < 0)
        return bh_err_set(diag, result, NULL, "cannot write %s: %s", temporary,
                          bh_err_title(result));
    if (sync && fsync(fd) < 0)
        return bh_err_sys(diag, errno, "cannot sync %s", temporary);
    return BH_OK;
}

int bh_io_replace(int dirfd, const char *name, const void *data, size_t length, bool sync,
                  struct bh_diag *diag)
{
    char temporary[256];
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.tmp", name) >= sizeof temporary)
        return bh_err_set(diag, BH_E_TOO_LONG, NULL, "a file name is too long");
    int result = write_temporary(dirfd, temporary, data, length, sync, diag);
    if (result == BH_OK && renameat(dirfd, temporary, dirfd, name) < 0)
        result = bh_err_sys(diag, errno, "cannot put %s in place", name);
    if (result < 0) {
        (void)unlinkat(dirfd, temporary, 0);
        return result;
    }
    if (sync && fsync(dirfd) < 0)
        return bh_err_sys(diag, errno, "cannot sync the directory of %s", name);
    return BH_OK;
}

static int remove_entries(DIR *dir, struct bh_diag *diag)
{
    int result = BH_OK;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int one = bh_io_remove_tree(dirfd(dir), entry->d_name, diag);
        if (one < 0)
            result = one;
    }
    return result;
}

int bh_io_remove_tree(int dirfd, const char *name, struct bh_diag *diag)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return BH_OK;
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return bh_err_sys(diag, errno, "cannot remove %s", bh_text_basename(name));
    DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return bh_err_set(diag, BH_E_NOMEM, NULL, "no memory to remove %s", bh_text_basename(name));
    }
    int result = remove_entries(dir, diag);
    (void)closedir(dir);
    if (result == BH_OK && unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
        result = bh_err_sys(diag, errno, "cannot remove directory %s", bh_text_basename(name));
    return result;
}

int bh_io_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return bh_err_from_errno(errno);
    return BH_OK;
}

int bh_io_set_cloexec(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFD);
    if (flags < 0)
        return bh_err_from_errno(errno);
    flags = on ? flags | FD_CLOEXEC : flags & ~FD_CLOEXEC;
    return fcntl(fd, F_SETFD, flags) < 0 ? bh_err_from_errno(errno) : BH_OK;
}
