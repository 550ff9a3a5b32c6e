/* Which files a process maps. */
#ifdef __linux__

#include "core/platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One line of maps: five columns, then the path; a line may be longer than the buffer. */
struct scan {
    const char *start;
    size_t start_length;
    bool in_path;   /* behind the first '/' of the line */
    size_t matched; /* of start, at the present component; SIZE_MAX: it cannot match */
    bool found;     /* the component read so far begins so */
};

static void scan_byte(struct scan *scan, char c)
{
    if (c == '\n') {
        scan->in_path = false;
    } else if (c == '/') {
        scan->in_path = true;
        scan->matched = 0;
        scan->found = false; /* it was a directory */
    } else if (scan->in_path && scan->matched < scan->start_length) {
        scan->matched = c == scan->start[scan->matched] ? scan->matched + 1 : SIZE_MAX;
        scan->found = scan->matched == scan->start_length;
    }
}

static int scan_maps(int fd, const char *start)
{
    struct scan scan = {.start = start, .start_length = strlen(start)};
    char piece[4096];
    for (;;) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? 0 : bh_err_from_errno(errno);
        for (ssize_t i = 0; i < n; i++) {
            if (piece[i] == '\n' && scan.in_path && scan.found)
                return 1;
            scan_byte(&scan, piece[i]);
        }
    }
}

int bh_platform_maps_file(int pid, uint64_t start_token, const char *start)
{
    char path[48];
    uint64_t token = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/maps", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? BH_E_NOT_FOUND : bh_err_from_errno(errno);
    /* the descriptor is of one process: asked now, the token is of that one or of none */
    int result = bh_platform_start_token(pid, &token);
    if (result == BH_OK && token != start_token)
        result = BH_E_NOT_FOUND;
    if (result == BH_OK)
        result = scan_maps(fd, start);
    (void)close(fd);
    return result;
}

#endif
typedef int bh_linux_maps_not_empty; /* ISO C wants a declaration in every file */
