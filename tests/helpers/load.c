/* A program that behaves badly in a known way: what the hostile scenarios and the evidence scripts
 * put under bulkhead-supervise. They compile it, with load_memory.c, into a temporary directory.
 *
 *   hold KIND BYTES               takes BYTES of KIND and waits for the end of standard input
 *   grow KIND RATE CAP HOW [ARG]  grows by RATE bytes a second (0: at once) up to CAP
 *   workers BYTES N idle|write    N forked workers of a parent that holds BYTES
 *   shared BYTES N [OWN MS]       N exec'ed workers on one memfd, MS apart; the parent holds OWN
 *   escape N MS                   N double-forked setsid processes that live MS (0: for ever)
 *   hop N                         N processes that fork a successor and exit, for ever
 *   hop-step N CAP                the same, and after 200 ms CAP bytes at once
 *   deaf N                        N processes that ignore every signal that can be ignored
 *   orphans N                     leaves N sleepers behind and exits 7
 *   churn SECONDS RATE            short-lived children, RATE a second
 *
 * KIND: anon thp shared memfd sysv hugetlb tables private-file
 * HOW:  plain setsid double exec threads leader swarm thread-fork vm-child
 *
 * What holds says "ready" on standard output and ends with 0 when its input ends, or after 120 s,
 * so that a missed one is seen and leaves the machine alone. Units: bytes, ns. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "load_memory.h"

#define MAX_NS (120ull * 1000000000ull)

struct growth {
    const char *kind;
    unsigned long rate, cap;
    const char *how, *argument;
};

static char *own_path;

static unsigned long number(const char *text)
{
    return strtoul(text, NULL, 0);
}

static unsigned long long now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (unsigned long long)at.tv_sec * 1000000000ull + (unsigned long long)at.tv_nsec;
}

static void sleep_ns(unsigned long long ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000ull),
                            .tv_nsec = (long)(ns % 1000000000ull)};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

static void say_ready(void)
{
    if (write(STDOUT_FILENO, "ready\n", 6) < 0)
        _exit(98);
}

/* Until standard input ends. /dev/null ends at once: then until the time is up. */
static void wait_for_end(void)
{
    unsigned long long until = now_ns() + MAX_NS;
    char byte[64];
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    while (now_ns() < until) {
        if (poll(&in, 1, 1000) > 0 && read(STDIN_FILENO, byte, sizeof byte) <= 0)
            return;
    }
}

/* In steps of 100 us; one that comes late does not catch up at once: a ramp stays a ramp. */
static void grow(const char *kind, unsigned long rate, unsigned long cap)
{
    unsigned long most = rate / 4000 + LOAD_PAGE;
    char *at = load_reserve(kind, cap);
    unsigned long done = 0;
    unsigned long long start = now_ns();
    while (rate && done < cap) {
        unsigned long due = (unsigned long)((double)(now_ns() - start) * (double)rate / 1e9);
        if (due > done + most)
            due = done + most;
        if (due > cap)
            due = cap;
        load_touch(kind, at, done, due);
        done = due;
        sleep_ns(100000);
    }
    load_touch(kind, at, done, cap);
}

static void hold(const char *kind, unsigned long bytes)
{
    load_touch(kind, load_reserve(kind, bytes), 0, bytes);
    say_ready();
    wait_for_end();
}

/* ---- ways to hide while growing ------------------------------------------------------------ */

static void grow_and_wait(const struct growth *growth)
{
    grow(growth->kind, growth->rate, growth->cap);
    wait_for_end();
}

static void *grow_thread(void *context)
{
    grow_and_wait(context);
    return NULL;
}

static void wait_children(void)
{
    while (wait(NULL) > 0 || errno == EINTR)
        ;
}

static void grow_in_session(const struct growth *growth)
{
    if (fork() == 0) {
        setsid();
        grow_and_wait(growth);
        _exit(0);
    }
    wait_children();
}

static void grow_in_grandchild(const struct growth *growth)
{
    pid_t middle = fork();
    if (middle == 0) {
        if (fork() == 0) {
            setsid();
            grow_and_wait(growth);
        }
        _exit(0);
    }
    waitpid(middle, NULL, 0);
    wait_for_end();
}

static void grow_after_exec(const struct growth *growth)
{
    char rate[32], cap[32];
    snprintf(rate, sizeof rate, "%lu", growth->rate);
    snprintf(cap, sizeof cap, "%lu", growth->cap);
    unsigned long left = growth->argument ? number(growth->argument) : 20;
    char again[32];
    snprintf(again, sizeof again, "%lu", left ? left - 1 : 0);
    if (left) /* a chain of images, each by fork and exec, before the one that grows */
        execl(own_path, "load", "grow", growth->kind, rate, cap, "exec", again, (char *)NULL);
    if (fork() == 0)
        execl(own_path, "load", "grow", growth->kind, rate, cap, "plain", (char *)NULL);
    wait_children();
}

static void grow_in_threads(const struct growth *growth)
{
    pthread_t threads[8];
    static struct growth part;
    part = *growth;
    part.cap /= 8;
    part.rate /= 8;
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, grow_thread, &part);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}

static void grow_without_leader(const struct growth *growth)
{
    static struct growth kept;
    pthread_t thread;
    kept = *growth;
    pthread_create(&thread, NULL, grow_thread, &kept);
    pthread_detach(thread);
    pthread_exit(NULL);
}

static void grow_as_swarm(const struct growth *growth)
{
    unsigned long each = growth->cap / 64;
    for (int i = 0; i < 64; i++) {
        if (fork() == 0) {
            setpgid(0, 0);
            grow(growth->kind, growth->rate, each);
            wait_for_end();
            _exit(0);
        }
    }
    wait_children();
}

static void *fork_thread(void *context)
{
    grow_in_session(context);
    return NULL;
}

/* The child belongs to a thread that is not the leader. */
static void grow_in_thread_child(const struct growth *growth)
{
    pthread_t thread;
    struct growth copy = *growth;
    pthread_create(&thread, NULL, fork_thread, &copy);
    pthread_join(thread, NULL);
}

static int grow_borrowed(void *context)
{
    grow_and_wait(context);
    _exit(0);
}

/* A child in the parent's memory; the parent leaves, the child grows what is then its own. */
static void grow_in_borrowed_memory(const struct growth *growth)
{
    pid_t middle = fork();
    if (middle == 0) {
        static struct growth kept;
        static char stack[1 << 16];
        kept = *growth;
        if (clone(grow_borrowed, stack + sizeof stack, CLONE_VM | SIGCHLD, &kept) < 0)
            load_fail("clone");
        _exit(0);
    }
    waitpid(middle, NULL, 0);
    wait_for_end();
}

static void grow_how(const struct growth *growth)
{
    static const struct {
        const char *name;
        void (*run)(const struct growth *growth);
    } ways[] = {
        {"plain", grow_and_wait},
        {"setsid", grow_in_session},
        {"double", grow_in_grandchild},
        {"exec", grow_after_exec},
        {"threads", grow_in_threads},
        {"leader", grow_without_leader},
        {"swarm", grow_as_swarm},
        {"thread-fork", grow_in_thread_child},
        {"vm-child", grow_in_borrowed_memory},
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(ways[i].name, growth->how) == 0) {
            ways[i].run(growth);
            return;
        }
    }
    errno = EINVAL;
    load_fail(growth->how);
}

/* ---- trees --------------------------------------------------------------------------------- */

static void workers(unsigned long bytes, unsigned long count, const char *what)
{
    char *at = load_reserve("anon", bytes);
    load_touch("anon", at, 0, bytes);
    int done[2];
    if (pipe(done) < 0)
        load_fail("pipe");
    for (unsigned long i = 0; i < count; i++) {
        if (fork() == 0) {
            close(done[1]);
            char byte;
            for (unsigned long page = 0; strcmp(what, "write") == 0 && page < bytes;
                 page += LOAD_PAGE)
                at[page] = (char)(i + 2);
            (void)!read(done[0], &byte, 1);
            _exit(0);
        }
    }
    close(done[0]);
    say_ready();
    wait_for_end();
    close(done[1]);
    wait_children();
}

static void shared_workers(unsigned long bytes, unsigned long count, unsigned long own,
                           unsigned long ms)
{
    load_touch("anon", load_reserve("anon", own), 0, own);
    int fd = memfd_create("load", 0);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        load_fail("memfd");
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    load_touch("memfd", at, 0, bytes);
    char descriptor[16], size[32];
    snprintf(descriptor, sizeof descriptor, "%d", fd);
    snprintf(size, sizeof size, "%lu", bytes);
    for (unsigned long i = 0; i < count; i++) {
        if (fork() == 0)
            execl(own_path, "load", "map", descriptor, size, (char *)NULL);
        sleep_ns(ms * 1000000ull);
    }
    say_ready();
    wait_children();
}

static void map_shared(int fd, unsigned long bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        load_fail("mmap");
    load_touch("memfd", at, 0, bytes);
    wait_for_end();
}

static void escape(unsigned long count, unsigned long ms)
{
    for (unsigned long i = 0; i < count; i++) {
        pid_t middle = fork();
        if (middle == 0) {
            if (fork() == 0) {
                setsid();
                sleep_ns(ms ? ms * 1000000ull : MAX_NS);
            }
            _exit(0);
        }
        waitpid(middle, NULL, 0);
    }
    say_ready();
    wait_for_end();
}

/* Each one lives just long enough to leave a successor in a session of its own. */
static void hopper(void)
{
    unsigned long long until = now_ns() + MAX_NS / 4;
    for (int i = 1; i < 32; i++)
        signal(i, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    while (now_ns() < until) {
        pid_t next = fork();
        if (next > 0)
            _exit(0);
        if (next == 0)
            setsid();
        else
            sleep_ns(100000);
    }
    _exit(0);
}

static void hop(unsigned long count, unsigned long cap)
{
    for (unsigned long i = 0; i < count; i++) {
        if (fork() == 0)
            hopper();
    }
    say_ready();
    if (cap) {
        sleep_ns(200000000);
        grow("anon", 0, cap);
    }
    wait_for_end();
}

static void deaf(unsigned long count)
{
    for (int i = 1; i < 65; i++)
        signal(i, SIG_IGN);
    for (unsigned long i = 1; i < count; i++) {
        if (fork() == 0) {
            sleep_ns(MAX_NS);
            _exit(0);
        }
    }
    say_ready();
    sleep_ns(MAX_NS);
}

static void orphans(unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        if (fork() == 0) {
            sleep_ns(MAX_NS);
            _exit(0);
        }
    }
    say_ready();
    _exit(7);
}

static void churn(unsigned long seconds, unsigned long rate)
{
    unsigned long long start = now_ns();
    signal(SIGCHLD, SIG_IGN);
    for (unsigned long long i = 0; now_ns() - start < seconds * 1000000000ull; i++) {
        if (fork() == 0) {
            grow("anon", 0, 1ul << 20);
            _exit(0);
        }
        unsigned long long next = start + i * 1000000000ull / rate;
        if (next > now_ns())
            sleep_ns(next - now_ns());
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    unsigned long second = argc > 2 ? number(argv[2]) : 0, third = argc > 3 ? number(argv[3]) : 0;
    own_path = realpath("/proc/self/exe", NULL);
    if (strcmp(mode, "hold") == 0 && argc == 4)
        hold(argv[2], third);
    else if (strcmp(mode, "grow") == 0 && argc >= 6)
        grow_how(
            &(struct growth){argv[2], third, number(argv[4]), argv[5], argc > 6 ? argv[6] : NULL});
    else if (strcmp(mode, "workers") == 0 && argc == 5)
        workers(second, third, argv[4]);
    else if (strcmp(mode, "shared") == 0 && argc >= 4)
        shared_workers(second, third, argc > 4 ? number(argv[4]) : 0,
                       argc > 5 ? number(argv[5]) : 0);
    else if (strcmp(mode, "map") == 0 && argc == 4)
        map_shared((int)second, third);
    else if (strcmp(mode, "escape") == 0 && argc == 4)
        escape(second, third);
    else if (strcmp(mode, "hop") == 0 && argc == 3)
        hop(second, 0);
    else if (strcmp(mode, "hop-step") == 0 && argc == 4)
        hop(second, third);
    else if (strcmp(mode, "deaf") == 0 && argc == 3)
        deaf(second);
    else if (strcmp(mode, "orphans") == 0 && argc == 3)
        orphans(second);
    else if (strcmp(mode, "churn") == 0 && argc == 4)
        churn(second, third);
    else
        return 64;
    return 0;
}
