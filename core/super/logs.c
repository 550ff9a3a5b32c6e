/* Bounding out.log and err.log: the oldest blocks are given back, offsets stay. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/platform/platform.h"
#include "core/super/super.h"

#define BLOCK_BYTES 4096u

static void trim(int run_fd, const char *name, uint64_t maximum)
{
    struct stat st;
    BH_SCOPED_FD int fd = openat(run_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    uint64_t held = (uint64_t)st.st_blocks * 512;
    /* an eighth of slack: not every call has something to punch */
    if ((uint64_t)st.st_size <= maximum || held <= maximum + maximum / 8)
        return;
    uint64_t cut = ((uint64_t)st.st_size - maximum) / BLOCK_BYTES * BLOCK_BYTES;
    (void)bh_platform_punch(fd, cut); /* a file system without holes keeps its whole log */
}

void bh_logs_trim(const struct bh_run *run)
{
    if (run->foreground || !run->spec || run->spec->log_max_bytes == 0)
        return;
    trim(run->run_fd, BH_RUN_OUT_NAME, run->spec->log_max_bytes);
    trim(run->run_fd, BH_RUN_ERR_NAME, run->spec->log_max_bytes);
}
