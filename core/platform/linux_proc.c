/* One watched process: opening it without mistaking another for it, its facts, signals to it. */
#ifdef __linux__

#include "core/platform/linux_read.h"
#include "core/base/scoped.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/text.h"

#define FLAG_EXITING 0x4u /* PF_EXITING of linux/sched.h, in field 9 of stat since 2.6 */

static uint64_t mix(uint64_t left, uint64_t right)
{
    return (left ^ right) * 0x9e3779b97f4a7c15ull + (left >> 29);
}

/* Fields of proc(5) stat by their numbers there; 2 is the name in parentheses, which may itself
 * hold parentheses and blanks: the last ')' ends it. */
int bh_linux_parse_stat(const char *text, struct bh_proc_facts *ret_facts, uint64_t *ret_token)
{
    const char *open = strchr(text, '(');
    const char *close_mark = strrchr(text, ')');
    if (!open || !close_mark || close_mark < open || close_mark[1] != ' ' || !close_mark[2])
        return BH_E_MALFORMED;
    struct bh_proc_facts facts = {0};
    size_t length = (size_t)(close_mark - open - 1);
    if (length >= sizeof facts.comm)
        length = sizeof facts.comm - 1;
    memcpy(facts.comm, open + 1, length);
    facts.state = close_mark[2];
    const char *at = close_mark + 3;
    uint64_t image = 0;
    for (int field = 4; field <= 48; field++) {
        uint64_t value = bh_linux_number(&at);
        switch (field) {
        case 4:
            facts.parent_pid = (int)value;
            break;
        case 5:
            facts.group = (int)value;
            break;
        case 6:
            facts.session = (int)value;
            break;
        case 9:
            facts.exiting = (value & FLAG_EXITING) != 0;
            break;
        case 10:
            facts.minflt = value;
            break;
        case 20:
            facts.threads = (unsigned)value;
            break;
        case 22:
            *ret_token = value;
            break;
        case 26: /* start of code, stack and arguments: random per exec, kept by fork */
        case 28:
        case 48:
            image = mix(image, value);
            break;
        default:
            break;
        }
    }
    facts.image_token = image;
    *ret_facts = facts;
    return BH_OK;
}

int bh_linux_proc_facts(void *self, struct bh_proc *proc, struct bh_proc_facts *ret_facts)
{
    (void)self;
    char text[1024];
    int length = bh_linux_pread(proc->stat_fd, text, sizeof text);
    if (length < 0)
        return length;
    if (length == 0)
        return BH_E_NOT_FOUND;
    uint64_t token;
    return bh_linux_parse_stat(text, ret_facts, &token);
}

void bh_linux_proc_name(void *self, const struct bh_proc *proc, char *ret_name, size_t size)
{
    char path[4096];
    ssize_t n = readlinkat(proc->dir_fd, "exe", path, sizeof path - 1);
    if (n > 0) {
        path[n] = '\0';
        char *deleted = strstr(path, " (deleted)");
        if (deleted)
            *deleted = '\0';
        (void)snprintf(ret_name, size, "%s", bh_text_basename(path));
        return;
    }
    struct bh_proc_facts facts;
    struct bh_proc copy = *proc;
    if (bh_linux_proc_facts(self, &copy, &facts) == BH_OK)
        (void)snprintf(ret_name, size, "%s", facts.comm);
    else
        (void)snprintf(ret_name, size, "%s", "");
}

static int pidfd_open_or_minus(int pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static bool pidfd_ended(int pidfd)
{
    struct pollfd one = {.fd = pidfd, .events = POLLIN};
    return poll(&one, 1, 0) != 0;
}

static uint64_t pidfd_inode(int pidfd)
{
    struct stat st;
    /* before pidfs all pidfds share one anonymous inode with a small device number: no identity */
    if (fstat(pidfd, &st) < 0 || (st.st_mode & S_IFMT) != S_IFREG)
        return 0;
    return (uint64_t)st.st_ino;
}

static int open_files(struct bh_proc *proc)
{
    proc->statm_fd = openat(proc->dir_fd, "statm", O_RDONLY | O_CLOEXEC);
    if (proc->statm_fd < 0)
        return bh_linux_open_error(errno);
    proc->status_fd = openat(proc->dir_fd, "status", O_RDONLY | O_CLOEXEC);
    if (proc->status_fd < 0)
        return bh_linux_open_error(errno);
    proc->stat_fd = openat(proc->dir_fd, "stat", O_RDONLY | O_CLOEXEC);
    if (proc->stat_fd < 0)
        return bh_linux_open_error(errno);
    proc->task_fd = openat(proc->dir_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return proc->task_fd < 0 ? bh_linux_open_error(errno) : BH_OK;
}

static int open_all(int pid, struct bh_proc *proc, struct bh_proc_facts *facts)
{
    proc->pidfd = pidfd_open_or_minus(pid);
    if (proc->pidfd < 0 && errno != ENOSYS)
        return bh_linux_open_error(errno);
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/%d", pid);
    proc->dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc->dir_fd < 0)
        return bh_linux_open_error(errno);
    int result = open_files(proc);
    if (result < 0)
        return result;
    char text[1024];
    int length = bh_linux_pread(proc->stat_fd, text, sizeof text);
    if (length <= 0)
        return length < 0 ? length : BH_E_NOT_FOUND;
    result = bh_linux_parse_stat(text, facts, &proc->start_token);
    if (result < 0)
        return result;
    /* still alive now: so the pidfd, the directory and what was read are one process. A zombie's
     * pidfd is readable too, and a zombie's number cannot be reused before it is reaped. */
    if (proc->pidfd >= 0 && pidfd_ended(proc->pidfd) && facts->state != 'Z')
        return BH_E_NOT_FOUND;
    proc->identity = proc->pidfd >= 0 ? pidfd_inode(proc->pidfd) : 0;
    return BH_OK;
}

int bh_linux_proc_open(void *self, int pid, struct bh_proc *ret_proc,
                       struct bh_proc_facts *ret_facts)
{
    if (pid <= 1 || pid == getpid())
        return BH_E_RANGE;
    struct bh_proc proc = {.pid = pid,
                           .pidfd = -1,
                           .dir_fd = -1,
                           .statm_fd = -1,
                           .status_fd = -1,
                           .stat_fd = -1,
                           .task_fd = -1};
    int result = open_all(pid, &proc, ret_facts);
    if (result < 0) {
        bh_linux_proc_close(self, &proc);
        return result;
    }
    *ret_proc = proc;
    return BH_OK;
}

void bh_linux_proc_close(void *self, struct bh_proc *proc)
{
    (void)self;
    bh_close_fd(&proc->pidfd);
    bh_close_fd(&proc->dir_fd);
    bh_close_fd(&proc->statm_fd);
    bh_close_fd(&proc->status_fd);
    bh_close_fd(&proc->stat_fd);
    bh_close_fd(&proc->task_fd);
    for (unsigned i = 0; i < proc->children_count; i++)
        bh_close_fd(&proc->children_fds[i]);
    proc->children_count = 0;
}

/* Kernels before 5.3 have no pidfd: compare the start token, then kill. The window between the two
 * is microseconds and the number would have to come round in it. */
static int signal_by_number(const struct bh_proc *proc, int signal)
{
    char text[1024];
    int length = bh_linux_pread(proc->stat_fd, text, sizeof text);
    struct bh_proc_facts facts;
    uint64_t token;
    if (length <= 0 || bh_linux_parse_stat(text, &facts, &token) < 0 || token != proc->start_token)
        return BH_E_NOT_FOUND;
    return kill(proc->pid, signal) < 0 ? bh_err_from_errno(errno) : BH_OK;
}

int bh_linux_proc_signal(void *self, const struct bh_proc *proc, int signal)
{
    (void)self;
    BH_BUG_ON(proc->pid <= 1);
    if (proc->pidfd < 0)
        return signal_by_number(proc, signal);
    if (syscall(SYS_pidfd_send_signal, proc->pidfd, signal, NULL, 0) < 0)
        return bh_err_from_errno(errno);
    return BH_OK;
}

#endif
