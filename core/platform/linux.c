/* The Linux answer to platform.h: the table, signals, waiting, reaping, exact signals. */
#ifdef __linux__

#include "core/platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/platform/linux_read.h"
#include "core/platform/posix.h"

#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif
#define KCMP_VM_NUMBER 1 /* KCMP_VM of linux/kcmp.h */
#define MAX_POLL_FDS   64
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static int signal_fd = -1;

static struct bh_mono now(void *self)
{
    (void)self;
    return bh_clock_mono();
}

static struct bh_wall wall(void *self)
{
    (void)self;
    return bh_clock_wall();
}

static uint64_t cpu_ns(void *self)
{
    (void)self;
    struct timespec used;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) < 0)
        return 0;
    return (uint64_t)used.tv_sec * BH_NS_PER_S + (uint64_t)used.tv_nsec;
}

static int become_reaper(void *self, bool *ret_subreaper)
{
    (void)self;
    *ret_subreaper = prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
    /* timers end within 50 us of their time by default; 250 us intervals want better */
    (void)prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    return BH_OK;
}

static int collect_signals(void *self)
{
    (void)self;
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGTSTP, SIGTTIN,
                                  SIGTTOU, SIGCONT, SIGCHLD, SIGUSR1, SIGUSR2, SIGWINCH};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        (void)sigaddset(&set, numbers[i]);
    /* an ignored signal is dropped before it reaches the descriptor: a shell's `&` ignores SIGINT,
     * and an ignored SIGCHLD would reap behind our back */
    struct sigaction standard;
    memset(&standard, 0, sizeof standard);
    standard.sa_handler = SIG_DFL;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        (void)sigaction(numbers[i], &standard, NULL);
    struct sigaction ignored = standard;
    ignored.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &ignored, NULL);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return bh_err_from_errno(errno);
    signal_fd = signalfd(signal_fd, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signal_fd < 0 ? bh_linux_open_error(errno) : BH_OK;
}

extern const char __executable_start[], etext[]; /* the linker's */

/* The stop path runs once, at the worst moment: its code is mapped now, not fault by fault then. */
static void populate_code(void)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)__executable_start & ~(page - 1);
    uintptr_t to = ((uintptr_t)etext + page - 1) & ~(page - 1);
    /* numbers become an address again: the range is that of two symbols */
    void *area = (void *)from;
    (void)madvise(area, to - from, MADV_POPULATE_READ);
}

static bool lock_memory(void *self)
{
    (void)self;
    populate_code();
#ifdef MCL_ONFAULT
    return mlockall(MCL_CURRENT | MCL_ONFAULT) == 0;
#else
    return mlockall(MCL_CURRENT) == 0;
#endif
}

static bool raise_priority(void *self)
{
    (void)self;
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t ignored = write(fd, "-900", 4); /* refused to ordinary users: then we live with 0 */
        (void)ignored;
        (void)close(fd);
    }
    struct sched_param lowest = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) == 0)
        return true;
    (void)setpriority(PRIO_PROCESS, 0, -5);
    return false;
}

static int same_memory(void *self, const struct bh_proc *left, const struct bh_proc *right)
{
    (void)self;
    long order = syscall(SYS_kcmp, left->pid, right->pid, KCMP_VM_NUMBER, 0ul, 0ul);
    if (order < 0)
        return bh_err_from_errno(errno);
    return order == 0;
}

static int wait_status(const siginfo_t *info)
{
    if (info->si_code == CLD_EXITED)
        return (info->si_status & 0xff) << 8;
    return (info->si_status & 0x7f) | (info->si_code == CLD_DUMPED ? 0x80 : 0);
}

static int reap(void *self, struct bh_reaped *ret_reaped)
{
    (void)self;
    siginfo_t info;
    struct rusage usage;
    memset(&info, 0, sizeof info);
    memset(&usage, 0, sizeof usage);
    /* the system call, because glibc's waitid leaves the rusage out */
    if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | __WALL, &usage) < 0)
        return errno == ECHILD ? BH_E_NOT_FOUND : bh_err_from_errno(errno);
    if (info.si_pid == 0)
        return 0;
    ret_reaped->pid = info.si_pid;
    ret_reaped->wait_status = wait_status(&info);
    ret_reaped->max_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    return 1;
}

static bool child_ended(void *self, int pid)
{
    (void)self;
    siginfo_t info;
    memset(&info, 0, sizeof info);
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
           info.si_pid == pid;
}

static bool child_stopped(void *self, int pid)
{
    (void)self;
    siginfo_t info;
    memset(&info, 0, sizeof info);
    return waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == pid;
}

static int signal_group(void *self, int group, int signal)
{
    (void)self;
    BH_BUG_ON(group <= 1 || group == getpgrp());
    return kill(-group, signal) < 0 ? bh_err_from_errno(errno) : BH_OK;
}

static void read_signals(struct bh_wait *request)
{
    struct signalfd_siginfo infos[16];
    for (;;) {
        ssize_t n = read(signal_fd, infos, sizeof infos);
        if (n <= 0)
            return;
        for (size_t i = 0; i < (size_t)n / sizeof infos[0]; i++) {
            if (infos[i].ssi_signo >= 1 && infos[i].ssi_signo <= 64)
                request->ret_signals |= (uint64_t)1 << (infos[i].ssi_signo - 1);
        }
    }
}

static int wait_for(void *self, struct bh_wait *request)
{
    (void)self;
    struct pollfd fds[MAX_POLL_FDS];
    BH_BUG_ON(request->count >= MAX_POLL_FDS);
    memcpy(fds, request->fds, request->count * sizeof fds[0]);
    fds[request->count] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
    uint64_t at = bh_clock_mono().ns;
    uint64_t left = request->until.ns > at ? request->until.ns - at : 0;
    struct timespec timeout = {.tv_sec = (time_t)(left / BH_NS_PER_S),
                               .tv_nsec = (long)(left % BH_NS_PER_S)};
    request->ret_signals = 0;
    int ready = ppoll(fds, request->count + 1, &timeout, NULL);
    if (ready < 0 && errno != EINTR)
        return bh_err_from_errno(errno);
    for (size_t i = 0; i < request->count; i++)
        request->fds[i].revents = ready > 0 ? fds[i].revents : 0;
    if (ready > 0 && fds[request->count].revents)
        read_signals(request);
    return BH_OK;
}

static const struct bh_platform linux_platform = {
    .now = now,
    .wall = wall,
    .host = bh_linux_host,
    .memory = bh_linux_memory,
    .oom_kills = bh_linux_oom_kills,
    .cpu_ns = cpu_ns,
    .become_reaper = become_reaper,
    .collect_signals = collect_signals,
    .lock_memory = lock_memory,
    .raise_priority = raise_priority,
    .launch = bh_posix_launch,
    .proc_open = bh_linux_proc_open,
    .proc_close = bh_linux_proc_close,
    .proc_facts = bh_linux_proc_facts,
    .proc_fast = bh_linux_proc_fast,
    .proc_rest = bh_linux_proc_rest,
    .proc_cpu_ns = bh_linux_proc_cpu_ns,
    .proc_rollup = bh_linux_proc_rollup,
    .proc_children = bh_linux_proc_children,
    .proc_same_memory = same_memory,
    .proc_name = bh_linux_proc_name,
    .proc_signal = bh_linux_proc_signal,
    .own_children = bh_linux_own_children,
    .births = bh_linux_births,
    .reap = reap,
    .child_ended = child_ended,
    .child_stopped = child_stopped,
    .signal_group = signal_group,
    .cgroup_make = bh_linux_cgroup_make,
    .cgroup_limit = bh_linux_cgroup_limit,
    .cgroup_charge = bh_linux_cgroup_charge,
    .cgroup_events = bh_linux_cgroup_events,
    .cgroup_members = bh_linux_cgroup_members,
    .cgroup_has = bh_linux_cgroup_has,
    .cgroup_kill = bh_linux_cgroup_kill,
    .cgroup_populated = bh_linux_cgroup_populated,
    .cgroup_remove = bh_linux_cgroup_remove,
    .wait = wait_for,
};

const struct bh_platform *bh_platform_host(void)
{
    return &linux_platform;
}

/* ---- outside the loop ------------------------------------------------------------------------ */

static int open_exact(int pid, uint64_t start_token, uint64_t identity, struct bh_proc *ret_proc,
                      struct bh_proc_facts *ret_facts)
{
    int result = bh_linux_proc_open(NULL, pid, ret_proc, ret_facts);
    if (result < 0)
        return result;
    bool same = ret_proc->start_token == start_token &&
                (!identity || !ret_proc->identity || identity == ret_proc->identity);
    if (same)
        return BH_OK;
    bh_linux_proc_close(NULL, ret_proc);
    return BH_E_NOT_FOUND;
}

int bh_platform_signal_exact(int pid, uint64_t start_token, uint64_t identity, int signal)
{
    struct bh_proc proc;
    struct bh_proc_facts facts;
    int result = open_exact(pid, start_token, identity, &proc, &facts);
    if (result < 0)
        return result == BH_E_RANGE ? BH_E_NOT_FOUND : result;
    result = bh_linux_proc_signal(NULL, &proc, signal);
    bh_linux_proc_close(NULL, &proc);
    return result;
}

bool bh_platform_alive_exact(int pid, uint64_t start_token, uint64_t identity)
{
    struct bh_proc proc;
    struct bh_proc_facts facts;
    if (open_exact(pid, start_token, identity, &proc, &facts) < 0)
        return false;
    bh_linux_proc_close(NULL, &proc);
    return facts.state != 'X' && !(facts.state == 'Z' && facts.threads <= 1);
}

int bh_platform_mrelease(int pid, uint64_t start_token)
{
    struct bh_proc proc;
    struct bh_proc_facts facts;
    int result = open_exact(pid, start_token, 0, &proc, &facts);
    if (result == BH_E_NOT_FOUND)
        return BH_OK;
    if (result < 0)
        return result;
    if (proc.pidfd < 0)
        result = BH_E_UNSUPPORTED;
    else if (syscall(SYS_process_mrelease, proc.pidfd, 0) < 0 && errno != ESRCH)
        result = bh_err_from_errno(errno);
    bh_linux_proc_close(NULL, &proc);
    return result;
}

int bh_platform_start_token(int pid, uint64_t *ret_token)
{
    char path[48], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int length = bh_linux_read_at(AT_FDCWD, path, text, sizeof text);
    if (length <= 0)
        return length < 0 ? length : BH_E_NOT_FOUND;
    struct bh_proc_facts facts;
    return bh_linux_parse_stat(text, &facts, ret_token);
}

int bh_platform_dir_path(int dirfd, char *ret_path, size_t size)
{
    int n = snprintf(ret_path, size, "/proc/self/fd/%d", dirfd);
    return n > 0 && (size_t)n < size ? BH_OK : BH_E_TOO_LONG;
}

int bh_platform_want_sender(int fd)
{
    int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
        return bh_err_from_errno(errno);
    return BH_OK;
}

int bh_platform_read_sender(int fd, void *ret_data, size_t size, int *ret_pid)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec part = {.iov_base = ret_data, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return bh_err_from_errno(errno);
    *ret_pid = 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_CREDENTIALS) {
            struct ucred sender;
            memcpy(&sender, CMSG_DATA(at), sizeof sender);
            *ret_pid = (int)sender.pid;
        }
    }
    return (int)n;
}

int bh_platform_peer_uid(int fd, unsigned *ret_uid)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return bh_err_from_errno(errno);
    *ret_uid = (unsigned)peer.uid;
    return BH_OK;
}

#endif
