#define _GNU_SOURCE
#include "load_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <unistd.h>

#define HUGE_PAGE (2ul << 20)

_Noreturn void load_fail(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    _exit(99);
}

static char *aligned(int flags, int fd, unsigned long bytes)
{
    /* 2 MiB aligned, so that its page tables are exactly bytes / 512 */
    char *room = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        load_fail("mmap");
    char *at = (char *)(((unsigned long)room + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
    char *got = mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
    if (got == MAP_FAILED)
        load_fail("mmap");
    return got;
}

static int file_of(const char *kind, unsigned long bytes)
{
    int fd = -1;
    if (strcmp(kind, "memfd") == 0) {
        fd = memfd_create("load", MFD_CLOEXEC);
    } else if (strcmp(kind, "private-file") == 0) {
        char name[] = "/tmp/load-XXXXXX";
        fd = mkstemp(name);
        unlink(name);
    }
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        load_fail(kind);
    return fd;
}

static pid_t sleeper; /* has the room of the last `handed` at the same address */

static char *start_sleeper(char *at)
{
    sleeper = fork();
    if (sleeper < 0)
        load_fail("fork");
    if (sleeper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return at;
}

static void hand(char *at, unsigned long from, unsigned long to)
{
    static char page[LOAD_PAGE];
    for (unsigned long i = (from + LOAD_PAGE - 1) / LOAD_PAGE * LOAD_PAGE; i < to; i += LOAD_PAGE) {
        struct iovec mine = {page, sizeof page}, its = {at + i, sizeof page};
        page[0] = (char)(i >> 12 | 1);
        if (process_vm_writev(sleeper, &mine, 1, &its, 1, 0) < 0)
            load_fail("process_vm_writev");
    }
}

char *load_reserve(const char *kind, unsigned long bytes)
{
    int anon = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (bytes == 0)
        return NULL;
    if (strcmp(kind, "anon") == 0 || strcmp(kind, "thp") == 0) {
        char *at = aligned(anon, -1, bytes);
        madvise(at, bytes, kind[0] == 't' ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        return at;
    }
    if (strcmp(kind, "handed") == 0)
        return start_sleeper(aligned(anon, -1, bytes));
    if (strcmp(kind, "shared") == 0)
        return aligned(MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, bytes);
    if (strcmp(kind, "memfd") == 0)
        return aligned(MAP_SHARED, file_of(kind, bytes), bytes);
    if (strcmp(kind, "private-file") == 0)
        return aligned(MAP_PRIVATE, file_of(kind, bytes), bytes);
    if (strcmp(kind, "hugetlb") == 0)
        return aligned(anon | MAP_HUGETLB, -1, bytes);
    if (strcmp(kind, "tables") == 0) {
        /* one page table of 4 KiB for each 2 MiB that is read somewhere: 512 times the room */
        char *at = aligned(anon, -1, bytes * 512);
        madvise(at, bytes * 512, MADV_NOHUGEPAGE);
        return at;
    }
    if (strcmp(kind, "sysv") == 0) {
        int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
        char *at = id < 0 ? (char *)-1 : shmat(id, NULL, 0);
        if (at == (char *)-1)
            load_fail("shm");
        shmctl(id, IPC_RMID, NULL);
        return at;
    }
    errno = EINVAL;
    load_fail(kind);
    return NULL;
}

void load_touch(const char *kind, char *at, unsigned long from, unsigned long to)
{
    unsigned long step = strcmp(kind, "hugetlb") == 0 ? HUGE_PAGE : LOAD_PAGE;
    if (strcmp(kind, "handed") == 0) {
        hand(at, from, to);
        return;
    }
    for (unsigned long i = (from + step - 1) / step * step; i < to; i += step) {
        if (kind[0] == 't' && kind[1] == 'a')
            (void)*(volatile char *)(at + i * 512);
        else
            *(volatile char *)(at + i) = (char)(i >> 12 | 1);
    }
}
