/* What this Linux machine is and has. */
#ifdef __linux__

#include "core/platform/linux_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TMPFS_NUMBER 0x01021994 /* TMPFS_MAGIC of linux/magic.h */
#define RAMFS_NUMBER 0x858458f6

/* Cut at the end where it does not fit. */
static void copy_text(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);
    if (length >= size)
        length = size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

int bh_platform_boot_id(char *ret_text, size_t size)
{
    char text[64];
    int length = bh_linux_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof text);
    if (length < 0)
        return length;
    text[strcspn(text, "\n")] = '\0';
    copy_text(ret_text, size, text);
    return BH_OK;
}

uint64_t bh_linux_oom_kills(void *self)
{
    (void)self;
    char text[8192];
    if (bh_linux_read_at(AT_FDCWD, "/proc/vmstat", text, sizeof text) < 0)
        return 0;
    const char *at = strstr(text, "\noom_kill ");
    if (!at)
        return 0;
    at += 10;
    return bh_linux_number(&at);
}

static uint32_t memory_pressure(void)
{
    char text[256];
    if (bh_linux_read_at(AT_FDCWD, "/proc/pressure/memory", text, sizeof text) < 0)
        return 0;
    const char *at = strstr(text, "avg10=");
    if (!at)
        return 0;
    at += 6;
    uint64_t whole = bh_linux_number(&at);
    uint64_t cents = 0;
    if (*at == '.') {
        at++;
        cents = bh_linux_number(&at);
    }
    return (uint32_t)(whole * 100 + cents);
}

int bh_platform_host_memory(struct bh_platform_memory *ret_memory)
{
    char text[4096];
    int length = bh_linux_read_at(AT_FDCWD, "/proc/meminfo", text, sizeof text);
    if (length < 0)
        return length;
    struct bh_platform_memory memory = {0};
    if (!bh_linux_kb(text, "MemTotal", &memory.total_bytes) ||
        !bh_linux_kb(text, "MemAvailable", &memory.available_bytes))
        return BH_E_MALFORMED;
    memory.pressure_some_x100 = memory_pressure();
    *ret_memory = memory;
    return BH_OK;
}

int bh_linux_memory(void *self, struct bh_platform_memory *ret_memory)
{
    (void)self;
    return bh_platform_host_memory(ret_memory);
}

/* Kernels 6.2 to 6.16 keep RSS in per-CPU counters that statm and status read without summing: each
 * counter may be off by batch x CPUs pages, batch = max(32, 2 x CPUs). */
static void describe_counters(struct bh_platform_host *host)
{
    const char *at = host->kernel;
    uint64_t major = bh_linux_number(&at);
    uint64_t minor = 0;
    if (*at == '.') {
        at++;
        minor = bh_linux_number(&at);
    }
    if (major != 6 || minor < 2 || minor > 16)
        return;
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    uint64_t count = cpus > 0 ? (uint64_t)cpus : 1;
    uint64_t batch = count * 2 > 32 ? count * 2 : 32;
    (void)snprintf(host->metric_note, sizeof host->metric_note,
                   "kernel counters are approximate: each process up to %llu KiB off",
                   (unsigned long long)(batch * count * host->page_bytes / 1024));
}

static void probe_features(struct bh_platform_host *host)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    host->pidfd = fd >= 0;
    struct stat st;
    host->pidfs = fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == S_IFREG;
    if (fd >= 0)
        (void)close(fd);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    host->children_files = access(path, R_OK) == 0;
    host->rollup = access("/proc/self/smaps_rollup", R_OK) == 0;
}

int bh_linux_host(void *self, struct bh_platform_host *ret_host)
{
    (void)self;
    struct bh_platform_host host = {0};
    struct utsname name;
    if (uname(&name) < 0)
        return bh_err_from_errno(errno);
    copy_text(host.os, sizeof host.os, name.sysname);
    copy_text(host.kernel, sizeof host.kernel, name.release);
    copy_text(host.machine, sizeof host.machine, name.machine);
    (void)bh_platform_boot_id(host.boot_id, sizeof host.boot_id);
    host.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    copy_text(host.metric, sizeof host.metric,
              "RssAnon + RssShmem + VmSwap + HugetlbPages + VmPTE");
    describe_counters(&host);
    struct bh_platform_memory memory;
    int result = bh_platform_host_memory(&memory);
    if (result < 0)
        return result;
    host.memory_bytes = memory.total_bytes;
    host.available_bytes = memory.available_bytes;
    host.outer_limit_bytes = bh_linux_outer_limit();
    if (host.outer_limit_bytes >= host.memory_bytes)
        host.outer_limit_bytes = 0;
    probe_features(&host);
    *ret_host = host;
    return BH_OK;
}

bool bh_platform_is_tmpfs(int dirfd)
{
    struct statfs fs;
    return fstatfs(dirfd, &fs) == 0 &&
           ((uint32_t)fs.f_type == TMPFS_NUMBER || (uint32_t)fs.f_type == RAMFS_NUMBER);
}

static bool is_own_tmpfs_dir(const char *path, bool any_owner)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct stat st;
    bool good =
        bh_platform_is_tmpfs(fd) && fstat(fd, &st) == 0 && (any_owner || st.st_uid == geteuid());
    (void)close(fd);
    return good;
}

int bh_platform_runtime_base(char *ret_path, size_t size)
{
    const char *given = getenv("XDG_RUNTIME_DIR");
    int length;
    if (given && given[0] == '/' && is_own_tmpfs_dir(given, false))
        length = snprintf(ret_path, size, "%s/bulkhead", given);
    else if (is_own_tmpfs_dir("/dev/shm", true))
        length = snprintf(ret_path, size, "/dev/shm/bulkhead-%u", (unsigned)geteuid());
    else
        length = snprintf(ret_path, size, "%s", "");
    return length >= 0 && (size_t)length < size ? BH_OK : BH_E_TOO_LONG;
}

int bh_platform_own_path(char *ret_path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", ret_path, size);
    if (n < 0)
        return bh_err_from_errno(errno);
    if ((size_t)n >= size)
        return BH_E_TOO_LONG;
    ret_path[n] = '\0';
    return BH_OK;
}

int bh_platform_punch(int fd, uint64_t length)
{
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)length) < 0)
        return bh_err_from_errno(errno);
    return BH_OK;
}

#endif
