#include "core/super/rings_mapped.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "123-456-0.ring", or ".123-456-789.tmp" while it is made: the pid, 0 for other names. */
static int pid_of(const char *name, bool *ret_making)
{
    int pid = 0;
    const char *at = name + (name[0] == '.');
    while (*at >= '0' && *at <= '9' && pid < 100000000)
        pid = pid * 10 + (*at++ - '0');
    size_t length = strlen(name);
    bool made = length > 5 && strcmp(name + length - 5, ".ring") == 0;
    *ret_making = name[0] == '.' && length > 4 && strcmp(name + length - 4, ".tmp") == 0;
    return *at == '-' && (made || *ret_making) ? pid : 0;
}

static void add_entry(struct bh_rings_mapped *rings, const char *name, struct bh_members *members)
{
    struct stat facts;
    bool making;
    int pid = pid_of(name, &making);
    if (pid == 0)
        return;
    /* not a member: gone and soon unlinked, or so new that the next look finds it */
    bool member = bh_members_find(members, pid) != NULL;
    if (making || !member)
        rings->settled = false;
    if (member && fstatat(dirfd(rings->dir), name, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(facts.st_mode))
        rings->bytes += (uint64_t)facts.st_size;
}

static void list(struct bh_rings_mapped *rings, struct bh_members *members)
{
    rings->bytes = 0;
    rings->settled = true;
    rewinddir(rings->dir);
    for (struct dirent *entry = readdir(rings->dir); entry; entry = readdir(rings->dir))
        add_entry(rings, entry->d_name, members);
}

void bh_rings_mapped_open(struct bh_rings_mapped *rings, int rings_fd)
{
    *rings = (struct bh_rings_mapped){0};
    int fd = rings_fd < 0 ? -1 : openat(rings_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rings->dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !rings->dir)
        (void)close(fd);
}

void bh_rings_mapped_done(struct bh_rings_mapped *rings)
{
    if (rings->dir)
        (void)closedir(rings->dir);
    rings->dir = NULL;
}

uint64_t bh_rings_mapped_bytes(struct bh_rings_mapped *rings, struct bh_members *members)
{
    struct stat facts;
    if (!rings->dir || fstat(dirfd(rings->dir), &facts) < 0)
        return 0;
    bool changed = facts.st_mtim.tv_sec != rings->changed.tv_sec ||
                   facts.st_mtim.tv_nsec != rings->changed.tv_nsec;
    if (!rings->settled || changed) {
        rings->changes += changed;
        rings->changed = facts.st_mtim;
        list(rings, members);
    }
    return rings->bytes;
}
