/* Who is in a process group: all of /proc is looked at, so not for the loop. */
#ifdef __linux__

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "core/platform/linux_read.h"

struct search {
    int proc_fd, group;
    int *pids;
    size_t capacity, count;
};

static int look_at(void *context, int pid)
{
    struct search *search = context;
    struct bh_proc_facts facts;
    uint64_t token;
    char name[32], text[1024];
    (void)snprintf(name, sizeof name, "%d/stat", pid);
    if (bh_linux_read_at(search->proc_fd, name, text, sizeof text) <= 0 ||
        bh_linux_parse_stat(text, &facts, &token) < 0 || facts.group != search->group)
        return BH_OK; /* gone meanwhile, or another's */
    if (search->count == search->capacity)
        return BH_E_TOO_LONG;
    search->pids[search->count++] = pid;
    return BH_OK;
}

int bh_platform_group_members(int group, int *ret_pids, size_t capacity, size_t *ret_count)
{
    struct search search = {.proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                            .group = group,
                            .pids = ret_pids,
                            .capacity = capacity};
    if (search.proc_fd < 0)
        return BH_E_UNSUPPORTED;
    int result = bh_linux_each_number(search.proc_fd, look_at, &search);
    (void)close(search.proc_fd);
    *ret_count = search.count;
    return result;
}

#endif
typedef int bh_linux_group_not_empty; /* ISO C wants a declaration in every file */
