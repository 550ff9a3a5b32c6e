/* usage: bare_signal COUNT
 *
 * The least that a signal can cost here: COUNT times, a child that takes new pages all the time, a
 * wait of 250 us as between two readings, and one pidfd_send_signal of SIGTERM, timed from just
 * before to just after it. At the supervisor's priority. Prints microseconds, one a line. */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROOM (1ul << 30)

static double now_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

_Noreturn static void take_pages(void)
{
    char *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned long i = 0; room != MAP_FAILED; i = (i + 4096) % ROOM) {
        if (i == 0)
            madvise(room, ROOM, MADV_DONTNEED);
        room[i] = 1;
    }
    _exit(1);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 60;
    struct sched_param lowest = {.sched_priority = 1};
    (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest);
    (void)prctl(PR_SET_TIMERSLACK, 1);
    (void)mlockall(MCL_CURRENT);
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0)
            take_pages();
        int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
        struct timespec begin = {.tv_nsec = 20000000}, pause = {.tv_nsec = 250000};
        (void)ppoll(NULL, 0, &begin, NULL);
        (void)ppoll(NULL, 0, &pause, NULL);
        double before = now_us();
        if (syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) < 0)
            return 1;
        printf("%.3f\n", now_us() - before);
        (void)waitpid(child, NULL, 0);
        (void)close(pidfd);
    }
    return 0;
}
