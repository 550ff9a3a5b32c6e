/* What a control group of the job's own offers and says: which files it has, its charge, its
 * events, who is in it (core/super/supervision.md, sections 1 and 5). Nothing is changed here. */
#ifdef __linux__

#include "core/platform/linux_read.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool bh_linux_keyed(const char *text, const char *key, uint64_t *ret_value)
{
    size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            line += length;
            *ret_value = bh_linux_number(&line);
            return true;
        }
    }
    return false;
}

/* ---- which files it has -----------------------------------------------------------------------
 */

static bool exists(int dir_fd, const char *name)
{
    return faccessat(dir_fd, name, F_OK, 0) == 0;
}

static int open_file(const struct bh_cgroup *cgroup, const char *name)
{
    return openat(cgroup->dir_fd, name, O_RDONLY | O_CLOEXEC);
}

/* "hugetlb.2MB.current"; not "hugetlb.2MB.rsvd.current", which counts promises. */
static bool counts_huge_pages(const char *name)
{
    if (strncmp(name, "hugetlb.", 8) != 0)
        return false;
    const char *rest = strchr(name + 8, '.');
    return rest && strcmp(rest, ".current") == 0;
}

static void open_huge(struct bh_cgroup *cgroup)
{
    int fd = openat(cgroup->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd); /* before launch: it may allocate */
    if (!dir) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    bool all = true;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (!counts_huge_pages(entry->d_name))
            continue;
        int file =
            cgroup->huge_count < BH_CGROUP_HUGE_SIZES ? open_file(cgroup, entry->d_name) : -1;
        all = all && file >= 0;
        if (file >= 0)
            cgroup->huge_fds[cgroup->huge_count++] = file;
    }
    (void)closedir(dir);
    while (!all && cgroup->huge_count) /* some of the sizes are no sum */
        (void)close(cgroup->huge_fds[--cgroup->huge_count]);
}

/* Hosts that account huge pages with the rest have them in memory.stat. */
static bool stat_has_huge(const struct bh_cgroup *cgroup)
{
    char text[8192];
    uint64_t bytes;
    return bh_linux_pread(cgroup->stat_fd, text, sizeof text) > 0 &&
           bh_linux_keyed(text, "hugetlb", &bytes);
}

void bh_linux_cgroup_detect(struct bh_cgroup *cgroup)
{
    cgroup->memory = exists(cgroup->dir_fd, "memory.max") && exists(cgroup->dir_fd, "memory.stat");
    cgroup->kill = exists(cgroup->dir_fd, "cgroup.kill");
    cgroup->freeze = exists(cgroup->dir_fd, "cgroup.freeze");
    if (!cgroup->memory)
        return;
    cgroup->stat_fd = open_file(cgroup, "memory.stat");
    cgroup->swap_fd = open_file(cgroup, "memory.swap.current");
    cgroup->current_fd = open_file(cgroup, "memory.current");
    cgroup->events_fd = open_file(cgroup, "memory.events");
    cgroup->memory = cgroup->stat_fd >= 0;
    cgroup->high =
        exists(cgroup->dir_fd, "memory.high") && cgroup->current_fd >= 0 && cgroup->events_fd >= 0;
    open_huge(cgroup);
    cgroup->huge = cgroup->huge_count > 0 || stat_has_huge(cgroup);
}

/* ---- what it says -----------------------------------------------------------------------------
 */

static uint64_t read_number(int fd)
{
    char text[64];
    const char *at = text;
    return fd >= 0 && bh_linux_pread(fd, text, sizeof text) > 0 ? bh_linux_number(&at) : 0;
}

static uint64_t keyed(const char *text, const char *key)
{
    uint64_t value = 0;
    return bh_linux_keyed(text, key, &value) ? value : 0;
}

/* From one source only: the same pages are in both. */
static uint64_t huge_bytes(const struct bh_cgroup *cgroup, const char *text)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < cgroup->huge_count; i++)
        sum += read_number(cgroup->huge_fds[i]);
    return cgroup->huge_count ? sum : keyed(text, "hugetlb");
}

/* All that is counted, less what the kernel takes back before it holds anybody up. */
static uint64_t held_bytes(const struct bh_cgroup *cgroup, const char *text)
{
    uint64_t current = read_number(cgroup->current_fd);
    uint64_t cache =
        keyed(text, "active_file") + keyed(text, "inactive_file") + keyed(text, "slab_reclaimable");
    return current > cache ? current - cache : 0;
}

int bh_linux_cgroup_charge(void *self, const struct bh_cgroup *cgroup, bool held,
                           struct bh_cgroup_charge *ret_charge)
{
    (void)self;
    char text[8192];
    uint64_t anon = 0, shmem = 0;
    int length = bh_linux_pread(cgroup->stat_fd, text, sizeof text);
    if (length <= 0)
        return length < 0 ? length : BH_E_AGAIN;
    if (!bh_linux_keyed(text, "anon", &anon) || !bh_linux_keyed(text, "shmem", &shmem))
        return BH_E_MALFORMED;
    uint64_t swap = read_number(cgroup->swap_fd);
    *ret_charge = (struct bh_cgroup_charge){
        .bytes = anon + shmem + keyed(text, "pagetables") + swap + huge_bytes(cgroup, text),
        .shmem_bytes = shmem,
        .held_bytes = held ? held_bytes(cgroup, text) + swap : 0,
    };
    return BH_OK;
}

int bh_linux_cgroup_events(void *self, const struct bh_cgroup *cgroup,
                           struct bh_cgroup_events *ret_events)
{
    (void)self;
    char text[1024];
    int length = bh_linux_pread(cgroup->events_fd, text, sizeof text);
    if (length < 0)
        return length;
    *ret_events = (struct bh_cgroup_events){.oom_kills = keyed(text, "oom_kill"),
                                            .highs = keyed(text, "high")};
    return BH_OK;
}

int bh_linux_cgroup_members(void *self, const struct bh_cgroup *cgroup, int *ret_pids,
                            size_t capacity, size_t *ret_count)
{
    (void)self;
    return cgroup->procs_fd < 0
               ? BH_E_UNSUPPORTED
               : bh_linux_read_pids(cgroup->procs_fd, ret_pids, capacity, ret_count);
}

bool bh_linux_is_below(const char *text, const char *name)
{
    char path[1024];
    size_t length = strlen(name);
    if (!bh_linux_find_own_group(text, path, sizeof path))
        return false;
    const char *at = strstr(path, name);
    return at && (at[length] == '\0' || at[length] == '/');
}

/* By its last part, which holds the run's id: what is above it looks different from within other
 * namespaces. */
int bh_linux_cgroup_has(void *self, const struct bh_cgroup *cgroup, const struct bh_proc *proc)
{
    (void)self;
    char text[4096];
    const char *name = strrchr(cgroup->path, '/');
    int length = bh_linux_read_at(proc->dir_fd, "cgroup", text, sizeof text);
    if (length <= 0 || !name)
        return length < 0 ? length : BH_E_NOT_FOUND;
    return bh_linux_is_below(text, name);
}

int bh_linux_cgroup_populated(void *self, const struct bh_cgroup *cgroup)
{
    (void)self;
    char text[256];
    uint64_t populated = 0;
    int length = bh_linux_read_at(cgroup->dir_fd, "cgroup.events", text, sizeof text);
    if (length < 0)
        return length;
    return bh_linux_keyed(text, "populated", &populated) ? populated != 0 : BH_E_MALFORMED;
}

#endif
