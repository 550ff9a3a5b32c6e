/* What a process is charged with: statm every tick, status when something changed, smaps_rollup for
 * an exact round (core/super/supervision.md, section 1). */
#ifdef __linux__

#include "core/platform/linux_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t page_bytes(void)
{
    static uint64_t size;
    if (!size)
        size = (uint64_t)sysconf(_SC_PAGESIZE);
    return size;
}

static int read_statm(int fd, uint64_t *ret_resident, uint64_t *ret_shared)
{
    char text[128];
    int length = bh_linux_pread(fd, text, sizeof text);
    if (length <= 0)
        return length < 0 ? length : BH_E_NOT_FOUND;
    const char *at = text;
    (void)bh_linux_number(&at);
    *ret_resident = bh_linux_number(&at);
    *ret_shared = bh_linux_number(&at);
    return BH_OK;
}

static int open_in_thread(const struct bh_proc *proc, int tid, const char *name)
{
    char path[48];
    (void)snprintf(path, sizeof path, "task/%d/%s", tid, name);
    return openat(proc->dir_fd, path, O_RDONLY | O_CLOEXEC);
}

/* The leader exited and other threads live on: its own statm reads as zeros, theirs do not. */
static int switch_to_thread(struct bh_proc *proc, uint64_t *ret_resident, uint64_t *ret_shared)
{
    int tids[64];
    size_t count = 0;
    int result = bh_linux_list_numbers(proc->task_fd, tids, sizeof tids / sizeof tids[0], &count);
    if (result < 0 && result != BH_E_TOO_LONG)
        return result;
    for (size_t i = 0; i < count; i++) {
        if (tids[i] == proc->pid)
            continue;
        int statm = open_in_thread(proc, tids[i], "statm");
        int status = open_in_thread(proc, tids[i], "status");
        if (statm >= 0 && status >= 0 && read_statm(statm, ret_resident, ret_shared) == BH_OK &&
            *ret_resident) {
            (void)close(proc->statm_fd);
            (void)close(proc->status_fd);
            proc->statm_fd = statm;
            proc->status_fd = status;
            proc->live_tid = tids[i];
            return BH_OK;
        }
        if (statm >= 0)
            (void)close(statm);
        if (status >= 0)
            (void)close(status);
    }
    return BH_E_AGAIN;
}

static int explain_zero(void *self, struct bh_proc *proc, uint64_t *ret_resident,
                        uint64_t *ret_shared)
{
    struct bh_proc_facts facts;
    int result = bh_linux_proc_facts(self, proc, &facts);
    if (result < 0)
        return result;
    if (facts.state == 'X')
        return BH_E_NOT_FOUND;
    /* its own threads first: a leader that exited alone leaves the memory to them */
    if (facts.threads > 1 && switch_to_thread(proc, ret_resident, ret_shared) == BH_OK)
        return BH_OK;
    if (facts.state == 'Z' && facts.threads <= 1)
        return BH_E_CLOSED;
    return facts.exiting ? BH_E_BUSY : BH_E_AGAIN;
}

int bh_linux_proc_fast(void *self, struct bh_proc *proc, struct bh_proc_fast *ret_fast)
{
    uint64_t resident = 0, shared = 0;
    int result = read_statm(proc->statm_fd, &resident, &shared);
    if (result == BH_E_NOT_FOUND && proc->live_tid)
        resident = 0; /* the thread we read instead ended; another may live */
    else if (result < 0)
        return result;
    if (!resident) {
        result = explain_zero(self, proc, &resident, &shared);
        if (result < 0)
            return result;
    }
    ret_fast->anon_bytes = resident > shared ? (resident - shared) * page_bytes() : 0;
    ret_fast->shared_bytes = shared * page_bytes();
    return BH_OK;
}

/* The clock that clock_getcpuclockid gives: ~pid above the three bits of its kind, 2 = scheduler
 * time of the whole process. A third of what statm costs. */
int bh_linux_proc_cpu_ns(void *self, const struct bh_proc *proc, uint64_t *ret_ns)
{
    (void)self;
    struct timespec time;
    clockid_t clock = (clockid_t)(~(unsigned)proc->pid << 3 | 2u);
    if (clock_gettime(clock, &time) < 0)
        return BH_E_NOT_FOUND;
    *ret_ns = (uint64_t)time.tv_sec * BH_NS_PER_S + (uint64_t)time.tv_nsec;
    return BH_OK;
}

static uint64_t caught_signals(const char *text)
{
    const char *at = strstr(text, "\nSigCgt:");
    if (!at)
        return 0;
    at += 8;
    while (*at == ' ' || *at == '\t')
        at++;
    uint64_t bits = 0;
    for (;; at++) {
        if (*at >= '0' && *at <= '9')
            bits = bits << 4 | (uint64_t)(*at - '0');
        else if (*at >= 'a' && *at <= 'f')
            bits = bits << 4 | (uint64_t)(*at - 'a' + 10);
        else
            return bits;
    }
}

int bh_linux_proc_rest(void *self, struct bh_proc *proc, struct bh_proc_rest *ret_rest)
{
    (void)self;
    char text[4096];
    int length = bh_linux_pread(proc->status_fd, text, sizeof text);
    if (length <= 0)
        return length < 0 ? length : BH_E_NOT_FOUND;
    struct bh_proc_rest rest = {.caught_signals = caught_signals(text)};
    if (!bh_linux_kb(text, "RssAnon", &rest.anon_bytes)) {
        *ret_rest = rest; /* no memory image: a zombie */
        return BH_E_CLOSED;
    }
    uint64_t swap = 0, tables = 0;
    (void)bh_linux_kb(text, "RssShmem", &rest.shmem_bytes);
    (void)bh_linux_kb(text, "VmSwap", &swap);
    (void)bh_linux_kb(text, "HugetlbPages", &rest.huge_bytes);
    (void)bh_linux_kb(text, "VmPTE", &tables);
    rest.rest_bytes = rest.shmem_bytes + swap + rest.huge_bytes + tables;
    *ret_rest = rest;
    return BH_OK;
}

int bh_linux_proc_rollup(void *self, struct bh_proc *proc, struct bh_charge_rollup *ret_rollup)
{
    (void)self;
    char text[2048];
    int fd = proc->live_tid ? open_in_thread(proc, proc->live_tid, "smaps_rollup")
                            : openat(proc->dir_fd, "smaps_rollup", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return bh_linux_open_error(errno);
    int length = bh_linux_pread(fd, text, sizeof text);
    (void)close(fd);
    if (length <= 0)
        return length < 0 ? length : BH_E_NOT_FOUND;
    uint64_t anon = 0, shmem = 0, swap = 0, huge = 0, shared_huge = 0, tables = 0;
    if (!bh_linux_kb(text, "Pss_Anon", &anon))
        return BH_E_UNSUPPORTED; /* kernels before 5.2: no split, `upper` decides */
    (void)bh_linux_kb(text, "Pss_Shmem", &shmem);
    (void)bh_linux_kb(text, "SwapPss", &swap);
    (void)bh_linux_kb(text, "Private_Hugetlb", &huge);
    (void)bh_linux_kb(text, "Shared_Hugetlb", &shared_huge);
    char status[4096];
    if (bh_linux_pread(proc->status_fd, status, sizeof status) > 0)
        (void)bh_linux_kb(status, "VmPTE", &tables);
    ret_rollup->pss_bytes = anon + shmem + swap + huge + tables;
    ret_rollup->private_hugetlb_bytes = huge;
    ret_rollup->shared_hugetlb_bytes = shared_huge;
    return BH_OK;
}

#endif
