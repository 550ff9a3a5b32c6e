/* Asks a server for one path over and over, on several kept connections from one thread, and prints
 * "name value" lines.
 *
 *     http_load SOCKET|PORT TOKEN|- PATH CONNECTIONS SECONDS
 *
 * Each connection sends its next request when it has read the whole answer (Content-Length). Ends
 * with 1 on any answer but 200. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_ANSWER  (1u << 20)
#define MAX_SAMPLES 4000000u

struct connection {
    int fd;
    size_t have, need; /* need 0: the head is not complete */
    uint64_t sent_ns;
    char *buffer;
};

static char request[2048];
static size_t request_length;
static uint32_t *latency_us;
static size_t samples;
static uint64_t bytes;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(const char *what)
{
    (void)fprintf(stderr, "http_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int open_connection(const char *where)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in loopback = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool is_path = where[0] == '/';
    int one = 1;
    int fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (is_path)
        (void)snprintf(local.sun_path, sizeof local.sun_path, "%s", where);
    else
        loopback.sin_port = htons((uint16_t)strtoul(where, NULL, 10));
    int result = is_path ? connect(fd, (struct sockaddr *)&local, sizeof local)
                         : connect(fd, (struct sockaddr *)&loopback, sizeof loopback);
    if (fd < 0 || result < 0)
        fail("connect");
    if (!is_path)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void ask(struct connection *at)
{
    at->have = at->need = 0;
    at->sent_ns = now_ns(CLOCK_MONOTONIC);
    if (send(at->fd, request, request_length, MSG_NOSIGNAL) != (ssize_t)request_length)
        fail("send");
}

/* True when the whole answer is there. */
static bool take(struct connection *at)
{
    ssize_t n = recv(at->fd, at->buffer + at->have, MAX_ANSWER - at->have, 0);
    if (n <= 0)
        fail("the server closed");
    at->have += (size_t)n;
    bytes += (uint64_t)n;
    at->buffer[at->have] = '\0';
    if (at->need == 0) {
        char *end = strstr(at->buffer, "\r\n\r\n");
        if (!end)
            return false;
        char *length = strstr(at->buffer, "Content-Length: ");
        if (strncmp(at->buffer, "HTTP/1.1 200 ", 13) != 0 || !length || length > end) {
            (void)fprintf(stderr, "http_load: %.300s\n", at->buffer);
            exit(1);
        }
        at->need = (size_t)(end + 4 - at->buffer) + strtoul(length + 16, NULL, 10);
        if (at->need > MAX_ANSWER)
            exit(1);
    }
    return at->have >= at->need;
}

static int by_value(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 64;
    const char *where = argv[1];
    unsigned long count = strtoul(argv[4], NULL, 10);
    double seconds = strtod(argv[5], NULL);
    struct connection *all = calloc(count, sizeof *all);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    latency_us = malloc(MAX_SAMPLES * sizeof *latency_us);
    if (!all || !latency_us || epoll < 0)
        fail("start");
    request_length = (size_t)snprintf(
        request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1%s%s\r\n%s%s%s\r\n", argv[3],
        where[0] == '/' ? "" : ":", where[0] == '/' ? "" : where,
        argv[2][0] == '-' ? "" : "Authorization: Bearer ", argv[2][0] == '-' ? "" : argv[2],
        argv[2][0] == '-' ? "" : "\r\n");
    for (unsigned long i = 0; i < count; i++) {
        all[i].fd = open_connection(where);
        all[i].buffer = malloc(MAX_ANSWER + 1);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        if (!all[i].buffer || epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event) < 0)
            fail("epoll");
        ask(&all[i]);
    }
    uint64_t began = now_ns(CLOCK_MONOTONIC), end = began + (uint64_t)(seconds * 1e9), now = began;
    while (now < end) {
        struct epoll_event events[64];
        int n = epoll_wait(epoll, events, 64, 1000);
        for (int i = 0; i < n; i++) {
            struct connection *at = events[i].data.ptr;
            if (!take(at))
                continue;
            if (samples < MAX_SAMPLES)
                latency_us[samples++] = (uint32_t)((now_ns(CLOCK_MONOTONIC) - at->sent_ns) / 1000);
            ask(at);
        }
        now = now_ns(CLOCK_MONOTONIC);
    }
    if (samples == 0)
        return 1;
    double took = (double)(now - began) / 1e9;
    qsort(latency_us, samples, sizeof *latency_us, by_value);
    (void)printf("answers %zu\nrate %.1f\np50_us %u\np95_us %u\np99_us %u\nbytes_per_answer "
                 "%.0f\ncpu_s %.3f\n",
                 samples, (double)samples / took, latency_us[samples / 2],
                 latency_us[samples * 95 / 100], latency_us[samples * 99 / 100],
                 (double)bytes / (double)samples, (double)now_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9);
    return 0;
}
