/* File access with the rules of the run directory: by directory descriptor, never through a
 * symbolic link, owner checked, files 0600, directories 0700, O_CLOEXEC always.
 *
 * Failures are converted errno values with a diag that names what was tried (never the full path).
 * Descriptors returned are the caller's. */
#ifndef BH_BASE_IO_H
#define BH_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/bytes.h"
#include "core/base/err.h"

/* Opens a directory for *at calls. Refuses symbolic links as last component, and other owners
 * (BH_E_UNSAFE_PATH). dirfd may be AT_FDCWD. */
int bh_io_open_dir(int dirfd, const char *path, int *ret_fd, struct bh_diag *diag);
/* mkdir 0700 (parents too when `parents`), then as above; an existing one is fine. */
int bh_io_make_dir(int dirfd, const char *path, bool parents, int *ret_fd, struct bh_diag *diag);
/* O_CREAT | O_EXCL, 0600, plus flags (O_RDWR, O_APPEND …). */
int bh_io_create(int dirfd, const char *name, int flags, int *ret_fd, struct bh_diag *diag);
/* Opens an existing regular file of our own. */
int bh_io_open(int dirfd, const char *name, int flags, int *ret_fd, struct bh_diag *diag);

/* Whole area or an error; EINTR retried. read_full: BH_E_END at a clean end before the first byte,
 * BH_E_TRUNCATED in between. */
int bh_io_write_full(int fd, const void *data, size_t length);
int bh_io_pwrite_full(int fd, const void *data, size_t length, uint64_t offset);
int bh_io_read_full(int fd, void *ret_data, size_t length);
/* Up to length bytes at offset; returns the count in ret_length, 0 at the end. */
int bh_io_pread(int fd, void *ret_data, size_t length, uint64_t offset, size_t *ret_length);

/* Whole file, at most maximum bytes (BH_E_TOO_LONG beyond), appended to ret_bytes. */
int bh_io_read_file(int dirfd, const char *name, size_t maximum, struct bh_bytes *ret_bytes,
                    struct bh_diag *diag);

/* The one replace: writes NAME.tmp 0600, syncs it, renames it over name, syncs the directory.
 * sync false leaves both syncs out (status.bin). */
int bh_io_replace(int dirfd, const char *name, const void *data, size_t length, bool sync,
                  struct bh_diag *diag);

/* Removes a directory tree below dirfd without following links; a missing one is fine. */
int bh_io_remove_tree(int dirfd, const char *name, struct bh_diag *diag);

int bh_io_set_nonblocking(int fd);
int bh_io_set_cloexec(int fd, bool on);

#endif
