/* Who was born: the `children` files of all threads, and the cheap question whether anything was
 * born at all since the last look. */
#ifdef __linux__

#include "core/platform/linux_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct pid_list {
    int *pids;
    size_t capacity, count;
    bool full;
};

static void add_pid(struct pid_list *list, int pid)
{
    if (list->count < list->capacity)
        list->pids[list->count++] = pid;
    else
        list->full = true;
}

/* "12 345 67 ", possibly longer than one buffer: a number cut at its end goes on in the next. */
static int read_children(int fd, struct pid_list *list)
{
    char text[4096];
    off_t offset = 0;
    int number = 0;
    for (;;) {
        ssize_t n = pread(fd, text, sizeof text, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_from_errno(errno);
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                number = number * 10 + (text[i] - '0');
            } else if (number) {
                add_pid(list, number);
                number = 0;
            }
        }
        offset += n;
        /* the kernel fills a page and stops before the number that does not fit: only a piece that
         * leaves room for another is the last */
        if (n < (ssize_t)sizeof text - 16)
            break;
    }
    if (number)
        add_pid(list, number);
    return BH_OK;
}

static int open_children(const struct bh_proc *proc, int tid)
{
    char path[48];
    (void)snprintf(path, sizeof path, "task/%d/children", tid);
    return openat(proc->dir_fd, path, O_RDONLY | O_CLOEXEC);
}

static int read_once(const struct bh_proc *proc, int tid, struct pid_list *list)
{
    int fd = open_children(proc, tid);
    if (fd < 0 && (errno == ENOENT || errno == ESRCH))
        return BH_OK; /* the thread ended: its children went to another thread or to us */
    if (fd < 0)
        return bh_linux_open_error(errno);
    int result = read_children(fd, list);
    (void)close(fd);
    return result == BH_E_NOT_FOUND ? BH_OK : result;
}

static void forget_threads(struct bh_proc *proc)
{
    for (unsigned i = 0; i < proc->children_count; i++)
        (void)close(proc->children_fds[i]);
    proc->children_count = 0;
}

/* Few threads: their descriptors are kept for the next time. */
static int keep_threads(struct bh_proc *proc, const int *tids, size_t count)
{
    bool same = count == proc->children_count;
    for (size_t i = 0; same && i < count; i++)
        same = tids[i] == proc->children_tids[i];
    if (same)
        return BH_OK;
    forget_threads(proc);
    for (size_t i = 0; i < count; i++) {
        int fd = open_children(proc, tids[i]);
        if (fd < 0 && (errno == ENOENT || errno == ESRCH)) {
            proc->threads = 0; /* changed while listed: list again next time */
            continue;
        }
        if (fd < 0)
            return bh_linux_open_error(errno);
        proc->children_tids[proc->children_count] = tids[i];
        proc->children_fds[proc->children_count++] = fd;
    }
    return BH_OK;
}

static int read_kept(struct bh_proc *proc, struct pid_list *list)
{
    for (unsigned i = 0; i < proc->children_count; i++) {
        int result = read_children(proc->children_fds[i], list);
        if (result < 0)
            return result;
    }
    return BH_OK;
}

struct thread_walk {
    const struct bh_proc *proc;
    struct pid_list *list;
};

static int visit_thread(void *context, int tid)
{
    struct thread_walk *walk = context;
    return read_once(walk->proc, tid, walk->list);
}

static int read_listed(struct bh_proc *proc, struct pid_list *list)
{
    int tids[BH_PROC_THREADS];
    size_t count = 0;
    int result = bh_linux_list_numbers(proc->task_fd, tids, BH_PROC_THREADS, &count);
    if (result == BH_E_TOO_LONG) {
        struct thread_walk walk = {proc, list};
        forget_threads(proc);
        proc->threads = 0;
        return bh_linux_each_number(proc->task_fd, visit_thread, &walk);
    }
    if (result < 0)
        return result;
    proc->threads = (unsigned)count;
    result = keep_threads(proc, tids, count);
    if (result < 0)
        return result;
    result = read_kept(proc, list);
    return result == BH_E_NOT_FOUND ? BH_OK : result;
}

int bh_linux_proc_children(void *self, struct bh_proc *proc, bool relist, int *ret_pids,
                           size_t capacity, size_t *ret_count)
{
    (void)self;
    struct pid_list list = {.pids = ret_pids, .capacity = capacity};
    struct stat st;
    if (fstat(proc->task_fd, &st) < 0)
        return bh_err_from_errno(errno);
    /* the directory's link count is 2 + its threads, without listing it; 0 threads: it is gone */
    unsigned threads = st.st_nlink > 2 ? (unsigned)(st.st_nlink - 2) : 0;
    int result;
    if (!relist && threads == proc->threads && proc->children_count == threads && threads)
        result = read_kept(proc, &list);
    else
        result = read_listed(proc, &list);
    if (result < 0)
        return result;
    *ret_count = list.count;
    return list.full ? BH_E_TOO_LONG : BH_OK;
}

int bh_linux_read_pids(int fd, int *ret_pids, size_t capacity, size_t *ret_count)
{
    struct pid_list list = {.pids = ret_pids, .capacity = capacity};
    int result = read_children(fd, &list);
    if (result < 0)
        return result;
    *ret_count = list.count;
    return list.full ? BH_E_TOO_LONG : BH_OK;
}

int bh_linux_own_children(void *self, int *ret_pids, size_t capacity, size_t *ret_count)
{
    (void)self;
    static int kept = -1;
    static int owner;
    struct pid_list list = {.pids = ret_pids, .capacity = capacity};
    if (kept < 0 || owner != getpid()) {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
        kept = open(path, O_RDONLY | O_CLOEXEC);
        owner = getpid();
    }
    if (kept < 0)
        return errno == ENOENT ? BH_E_UNSUPPORTED : bh_linux_open_error(errno);
    int result = read_children(kept, &list);
    if (result < 0)
        return result;
    *ret_count = list.count;
    return list.full ? BH_E_TOO_LONG : BH_OK;
}

/* The last field of loadavg is the newest process number given out in our pid namespace; every
 * fork, thread and process of a nested namespace takes one. */
int bh_linux_births(void *self, uint64_t *ret_token)
{
    (void)self;
    static int kept = -1;
    static int owner;
    if (kept < 0 || owner != getpid()) {
        kept = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
        owner = getpid();
    }
    if (kept < 0)
        return BH_E_UNSUPPORTED;
    char text[128];
    int length = bh_linux_pread(kept, text, sizeof text);
    if (length <= 0)
        return BH_E_UNSUPPORTED;
    const char *last = strrchr(text, ' ');
    if (!last)
        return BH_E_UNSUPPORTED;
    *ret_token = bh_linux_number(&last);
    return BH_OK;
}

#endif
