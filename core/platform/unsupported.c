/* Systems without an answer to platform.h: nothing is launched, and every helper says so. */
#if !defined(__linux__)

#include "core/platform/platform.h"

const struct bh_platform *bh_platform_host(void)
{
    return NULL; /* boot.c answers BH_E_UNSUPPORTED before anything else */
}

int bh_platform_signal_exact(int pid, uint64_t start_token, uint64_t identity, int signal)
{
    (void)pid;
    (void)start_token;
    (void)identity;
    (void)signal;
    return BH_E_UNSUPPORTED;
}

bool bh_platform_alive_exact(int pid, uint64_t start_token, uint64_t identity)
{
    (void)pid;
    (void)start_token;
    (void)identity;
    return true; /* unknown is not dead */
}

int bh_platform_mrelease(int pid, uint64_t start_token)
{
    (void)pid;
    (void)start_token;
    return BH_E_UNSUPPORTED;
}

int bh_platform_start_token(int pid, uint64_t *ret_token)
{
    (void)pid;
    (void)ret_token;
    return BH_E_UNSUPPORTED;
}

int bh_platform_boot_id(char *ret_text, size_t size)
{
    (void)ret_text;
    (void)size;
    return BH_E_UNSUPPORTED;
}

int bh_platform_own_path(char *ret_path, size_t size)
{
    (void)ret_path;
    (void)size;
    return BH_E_UNSUPPORTED;
}

int bh_platform_host_memory(struct bh_platform_memory *ret_memory)
{
    (void)ret_memory;
    return BH_E_UNSUPPORTED;
}

int bh_platform_maps_file(int pid, uint64_t start_token, const char *start)
{
    (void)pid;
    (void)start_token;
    (void)start;
    return BH_E_UNSUPPORTED;
}

int bh_platform_group_members(int group, int *ret_pids, size_t capacity, size_t *ret_count)
{
    (void)group;
    (void)ret_pids;
    (void)capacity;
    *ret_count = 0;
    return BH_E_UNSUPPORTED;
}

int bh_platform_dir_path(int dirfd, char *ret_path, size_t size)
{
    (void)dirfd;
    (void)ret_path;
    (void)size;
    return BH_E_UNSUPPORTED;
}

int bh_platform_want_sender(int fd)
{
    (void)fd;
    return BH_E_UNSUPPORTED;
}

int bh_platform_read_sender(int fd, void *ret_data, size_t size, int *ret_pid)
{
    (void)fd;
    (void)ret_data;
    (void)size;
    (void)ret_pid;
    return BH_E_UNSUPPORTED;
}

int bh_platform_peer_uid(int fd, unsigned *ret_uid)
{
    (void)fd;
    (void)ret_uid;
    return BH_E_UNSUPPORTED;
}

int bh_platform_punch(int fd, uint64_t length)
{
    (void)fd;
    (void)length;
    return BH_E_UNSUPPORTED;
}

bool bh_platform_is_tmpfs(int dirfd)
{
    (void)dirfd;
    return false;
}

int bh_platform_runtime_base(char *ret_path, size_t size)
{
    if (size)
        ret_path[0] = '\0';
    return size ? BH_OK : BH_E_TOO_LONG;
}

#endif
typedef int bh_platform_unsupported_not_empty; /* ISO C wants a declaration in every file */
