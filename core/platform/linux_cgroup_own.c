/* The kernel ring of core/super/supervision.md, section 5: a control group (version 2) of the job's
 * own, where one may be made. Its absence is normal and never an error. */
#ifdef __linux__

#include "core/platform/linux_read.h"
#include "core/base/scoped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* ---- texts ------------------------------------------------------------------------------------
 */

static bool copy_part(const char *from, size_t length, char *ret_text, size_t size)
{
    if (length >= size)
        return false;
    memcpy(ret_text, from, length);
    ret_text[length] = '\0';
    return true;
}

/* "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw": field 5 of a line whose type,
 * behind " - ", is cgroup2. A mount of a part of the tree (field 4 is not "/") shows other paths
 * than /proc/self/cgroup does: not used. */
bool bh_linux_find_cgroup2(const char *mountinfo, char *ret_path, size_t size)
{
    for (const char *line = mountinfo; line && *line;) {
        const char *end = strchr(line, '\n');
        size_t length = end ? (size_t)(end - line) : strlen(line);
        const char *type = memmem(line, length, " - cgroup2 ", 11);
        const char *at = line;
        for (int field = 1; type && field < 4 && at; field++) {
            at = memchr(at, ' ', (size_t)(type - at));
            at = at ? at + 1 : NULL;
        }
        if (type && at && strncmp(at, "/ ", 2) == 0)
            return copy_part(at + 2, strcspn(at + 2, " "), ret_path, size);
        line = end ? end + 1 : NULL;
    }
    return false;
}

bool bh_linux_find_own_group(const char *text, char *ret_path, size_t size)
{
    for (const char *line = text; line && *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, "0::/", 4) == 0)
            return copy_part(line + 3, length - 3, ret_path, size);
        line += length + (line[length] == '\n');
    }
    return false;
}

/* ---- may we -----------------------------------------------------------------------------------
 */

static bool has_delegation(const char *path)
{
    char value[8] = "";
    return (getxattr(path, "user.delegate", value, sizeof value - 1) > 0 && value[0] == '1') ||
           (getxattr(path, "trusted.delegate", value, sizeof value - 1) > 0 && value[0] == '1');
}

/* Where systemd rules, only a delegated part of the tree is ours to change. */
static bool is_delegated(const char *root, const char *group)
{
    char path[1024];
    if (access("/run/systemd/system", F_OK) < 0)
        return true;
    size_t length = strlen(group);
    for (;;) {
        int n = snprintf(path, sizeof path, "%s%.*s", root, (int)length, group);
        if (n > 0 && (size_t)n < sizeof path && has_delegation(path))
            return true;
        if (!length)
            return false;
        do
            length--;
        while (length && group[length] != '/');
    }
}

/* Where cgroup2 is mounted and which group we are in ("" = its root), or the reason why not. */
static const char *find_own(char *ret_root, size_t root_size, char *ret_group, size_t group_size)
{
    static char text[16384]; /* before launch only; mountinfo can be long */
    if (bh_linux_read_at(AT_FDCWD, "/proc/self/mountinfo", text, sizeof text) <= 0 ||
        !bh_linux_find_cgroup2(text, ret_root, root_size))
        return "no cgroup version 2 is mounted";
    if (bh_linux_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) <= 0 ||
        !bh_linux_find_own_group(text, ret_group, group_size))
        return "this process is in no group of cgroup version 2";
    if (strcmp(ret_group, "/") == 0)
        ret_group[0] = '\0';
    return NULL;
}

/* The absolute path of a group, or the reason why nothing can be made there. */
static const char *find_place(const char *root, const char *group, char *ret_path, size_t size)
{
    if (!is_delegated(root, group))
        return "the control group is not delegated to us";
    int n = snprintf(ret_path, size, "%s%s", root, group);
    if (n < 0 || (size_t)n >= size)
        return "the path of the control group is too long";
    return access(ret_path, W_OK) == 0 ? NULL : "control groups are read-only here";
}

/* A job placed beside our group leaves whatever was set on it: only where nothing was. */
static bool is_unlimited(const char *root, const char *group)
{
    static const char *const files[] = {"memory.max", "memory.high", "memory.swap.max", "pids.max",
                                        "cpu.max"};
    char path[1100], text[64];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        int n = snprintf(path, sizeof path, "%s%s/%s", root, group, files[i]);
        if (n < 0 || (size_t)n >= sizeof path)
            return false;
        if (bh_linux_read_at(AT_FDCWD, path, text, sizeof text) > 0 && strncmp(text, "max", 3) != 0)
            return false;
    }
    return true;
}

/* ---- files ------------------------------------------------------------------------------------
 */

static int write_file(int dir_fd, const char *name, const char *text)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return bh_err_from_errno(errno);
    ssize_t n = write(fd, text, strlen(text));
    int result = n < 0 ? bh_err_from_errno(errno) : BH_OK;
    (void)close(fd);
    return result;
}

static int write_limit(int dir_fd, const char *name, uint64_t bytes)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    return write_file(dir_fd, name, bytes ? text : "max");
}

/* The controllers have to be passed on by our own group, which the kernel refuses while processes
 * (we ourselves) sit in it, except at the root. One write each: a controller that is not there
 * fails the whole write. */
static void pass_controllers_on(const char *own)
{
    int fd = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)write_file(fd, "cgroup.subtree_control", "+memory");
    (void)write_file(fd, "cgroup.subtree_control", "+hugetlb"); /* to count its pages */
    (void)close(fd);
}

/* Makes the group below the one named; NULL when it has the memory controller. */
static const char *make_below(const char *root, const char *group,
                              const struct bh_cgroup_wish *wish, struct bh_cgroup *cgroup)
{
    char place[1030];
    const char *reason = find_place(root, group, place, sizeof place);
    if (reason)
        return reason;
    pass_controllers_on(place);
    int n = snprintf(cgroup->path, sizeof cgroup->path, "%s/bulkhead-%s", place, wish->run_id);
    if (n < 0 || (size_t)n >= sizeof cgroup->path) {
        cgroup->path[0] = '\0';
        return "the path of the control group is too long";
    }
    if (mkdir(cgroup->path, 0755) < 0) {
        cgroup->path[0] = '\0';
        return "a control group could not be made";
    }
    (void)snprintf(cgroup->procs_path, sizeof cgroup->procs_path, "%s/cgroup.procs", cgroup->path);
    cgroup->dir_fd = open(cgroup->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cgroup->dir_fd < 0 || access(cgroup->procs_path, W_OK) < 0) {
        bh_linux_cgroup_remove(NULL, cgroup);
        return "processes cannot be moved into a control group here";
    }
    cgroup->procs_fd = openat(cgroup->dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    cgroup->made = true;
    bh_linux_cgroup_detect(cgroup);
    return cgroup->memory ? NULL : "the memory controller is not available to our control group";
}

static const struct bh_cgroup no_cgroup = {
    .dir_fd = -1, .stat_fd = -1, .swap_fd = -1, .current_fd = -1, .events_fd = -1, .procs_fd = -1};

/* Below our own group; where that cannot have the memory controller because processes sit in it
 * (every group but the root), beside it. */
static const char *make(const struct bh_cgroup_wish *wish, struct bh_cgroup *cgroup)
{
    char root[512], group[512];
    const char *reason = find_own(root, sizeof root, group, sizeof group);
    if (reason)
        return reason;
    reason = make_below(root, group, wish, cgroup);
    char *last = strrchr(group, '/');
    if (!reason || !last || !is_unlimited(root, group))
        return reason;
    *last = '\0';
    struct bh_cgroup beside = no_cgroup;
    if (make_below(root, group, wish, &beside) != NULL) {
        bh_linux_cgroup_remove(NULL, &beside);
        return reason;
    }
    bh_linux_cgroup_remove(NULL, cgroup);
    *cgroup = beside;
    return NULL;
}

int bh_linux_cgroup_make(void *self, const struct bh_cgroup_wish *wish,
                         struct bh_cgroup *ret_cgroup, char *ret_reason, size_t reason_size)
{
    struct bh_cgroup cgroup = no_cgroup;
    const char *reason = make(wish, &cgroup);
    if (cgroup.memory) {
        (void)write_file(cgroup.dir_fd, "memory.oom.group", "1");
        cgroup.limits =
            bh_linux_cgroup_limit(self, &cgroup, wish->max_bytes, wish->high_bytes) == BH_OK;
        if (!cgroup.limits)
            reason = "the control group takes no limits";
    }
    (void)snprintf(ret_reason, reason_size, "%s", reason ? reason : "");
    *ret_cgroup = cgroup;
    return BH_OK;
}

int bh_linux_cgroup_limit(void *self, const struct bh_cgroup *cgroup, uint64_t max_bytes,
                          uint64_t high_bytes)
{
    (void)self;
    if (!cgroup->memory)
        return BH_E_UNSUPPORTED;
    int result = write_limit(cgroup->dir_fd, "memory.max", max_bytes);
    int brake = cgroup->high ? write_limit(cgroup->dir_fd, "memory.high", high_bytes) : BH_OK;
    return result < 0 ? result : brake;
}

int bh_linux_cgroup_kill(void *self, const struct bh_cgroup *cgroup)
{
    (void)self;
    return cgroup->kill ? write_file(cgroup->dir_fd, "cgroup.kill", "1") : BH_E_UNSUPPORTED;
}

void bh_linux_cgroup_remove(void *self, struct bh_cgroup *cgroup)
{
    (void)self;
    bh_close_fd(&cgroup->stat_fd);
    bh_close_fd(&cgroup->swap_fd);
    bh_close_fd(&cgroup->current_fd);
    while (cgroup->huge_count)
        bh_close_fd(&cgroup->huge_fds[--cgroup->huge_count]);
    bh_close_fd(&cgroup->events_fd);
    bh_close_fd(&cgroup->procs_fd);
    bh_close_fd(&cgroup->dir_fd);
    if (cgroup->path[0])
        (void)rmdir(cgroup->path);
    cgroup->made = cgroup->memory = cgroup->kill = cgroup->freeze = false;
    cgroup->high = cgroup->huge = cgroup->limits = false;
}

#endif
