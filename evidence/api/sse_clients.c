/* Many readers of GET /v1/events at once from one thread, and an account of what each got.
 *
 *     sse_clients PORT TOKEN CLIENTS SECONDS
 *
 * Nothing may be missing: every event of the server has a number, samples included, but only the
 * others carry it as their id ("<epoch>.<n>"). So between two ids a and b exactly b - a - 1 samples
 * must have come, on every stream; `host` events, two seconds apart, give the ids. Prints "name
 * value" lines. The lag of a sample is the time from its reading by the supervisor (to_us) to its
 * arrival here; it holds the up to 250 ms for which readings are put together. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUFFER   (1u << 20)
#define MAX_LAGS 8000000u

struct client {
    int fd;
    size_t raw, have; /* bytes of buffer (chunked), of text (decoded) */
    bool in_body;
    uint64_t last_id;       /* 0: none yet */
    uint64_t samples_since; /* samples after last_id */
    uint64_t checked, samples, others, gaps, missing;
    uint64_t first_us, last_us; /* arrival of the first and last sample */
    char *buffer, *text;
};

static uint32_t *lags_us;
static size_t lag_count;
static uint64_t total_bytes;

static uint64_t now_us(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void fail(const char *what)
{
    (void)fprintf(stderr, "sse_clients: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void open_stream(struct client *client, unsigned long port, const char *token)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    char request[512];
    int length =
        snprintf(request, sizeof request,
                 "GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:%lu\r\nAuthorization: Bearer %s\r\n"
                 "Accept: text/event-stream\r\n\r\n",
                 port, token);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    client->buffer = malloc(BUFFER + 1);
    client->text = malloc(BUFFER + 1);
    if (client->fd < 0 || !client->buffer || !client->text ||
        connect(client->fd, (struct sockaddr *)&to, sizeof to) < 0 ||
        send(client->fd, request, (size_t)length, 0) != length)
        fail("open");
}

/* One event, without its empty line. */
static void take_event(struct client *client, char *event, uint64_t arrived_us)
{
    char *id = strncmp(event, "id: ", 4) == 0 ? event + 4 : NULL;
    char *type = strstr(event, "event: ");
    if (!type)
        return; /* retry, or a comment that keeps the stream alive */
    type += 7;
    if (strncmp(type, "gap", 3) == 0)
        client->gaps++;
    if (strncmp(type, "sample\n", 7) == 0) {
        char *at = strstr(type, "\"to_us\":");
        uint64_t to_us = at ? strtoull(at + 8, NULL, 10) : 0;
        client->samples++;
        client->samples_since++;
        client->first_us = client->first_us ? client->first_us : arrived_us;
        client->last_us = arrived_us;
        if (to_us && arrived_us > to_us && lag_count < MAX_LAGS)
            lags_us[lag_count++] = (uint32_t)(arrived_us - to_us);
        return;
    }
    client->others++;
    char *number = id ? strchr(id, '.') : NULL;
    if (!number)
        return;
    uint64_t value = strtoull(number + 1, NULL, 10);
    if (client->last_id) {
        uint64_t expected = value - client->last_id - 1;
        client->checked++;
        client->missing += expected > client->samples_since ? expected - client->samples_since
                                                            : client->samples_since - expected;
    }
    client->last_id = value;
    client->samples_since = 0;
}

static void take_text(struct client *client, uint64_t arrived_us)
{
    char *at = client->text, *end;
    client->text[client->have] = '\0';
    while ((end = strstr(at, "\n\n"))) {
        *end = '\0';
        take_event(client, at, arrived_us);
        at = end + 2;
    }
    client->have -= (size_t)(at - client->text);
    memmove(client->text, at, client->have);
}

/* Decodes whole chunks out of buffer into text. */
static void take_chunks(struct client *client, uint64_t arrived_us)
{
    char *at = client->buffer, *limit = client->buffer + client->raw;
    for (;;) {
        *limit = '\0';
        char *line = strstr(at, "\r\n"), *rest;
        if (!line)
            break;
        size_t size = strtoul(at, &rest, 16);
        if (rest == at || size == 0)
            fail("the stream ended");
        if (line + 2 + size + 2 > limit)
            break;
        if (client->have + size > BUFFER)
            fail("an event is too long");
        memcpy(client->text + client->have, line + 2, size);
        client->have += size;
        take_text(client, arrived_us);
        at = line + 2 + size + 2;
    }
    client->raw = (size_t)(limit - at);
    memmove(client->buffer, at, client->raw);
}

static void take(struct client *client)
{
    ssize_t n = recv(client->fd, client->buffer + client->raw, BUFFER - client->raw, 0);
    if (n <= 0)
        fail("the server closed a stream");
    client->raw += (size_t)n;
    total_bytes += (uint64_t)n;
    client->buffer[client->raw] = '\0';
    if (!client->in_body) {
        char *end = strstr(client->buffer, "\r\n\r\n");
        if (!end)
            return;
        if (strncmp(client->buffer, "HTTP/1.1 200 ", 13) != 0) {
            (void)fprintf(stderr, "sse_clients: %.300s\n", client->buffer);
            exit(1);
        }
        client->in_body = true;
        client->raw -= (size_t)(end + 4 - client->buffer);
        memmove(client->buffer, end + 4, client->raw);
    }
    take_chunks(client, now_us(CLOCK_REALTIME));
}

static int by_value(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static void print(const struct client *clients, unsigned long count)
{
    uint64_t samples = 0, others = 0, gaps = 0, missing = 0, unchecked = 0, checked = 0;
    for (unsigned long i = 0; i < count; i++) {
        samples += clients[i].samples;
        others += clients[i].others;
        gaps += clients[i].gaps;
        missing += clients[i].missing;
        checked += clients[i].checked;
        unchecked += clients[i].checked == 0;
        (void)printf("samples_of_a_client %llu\n", (unsigned long long)clients[i].samples);
    }
    qsort(lags_us, lag_count, sizeof *lags_us, by_value);
    (void)printf("samples %llu\nother_events %llu\ngap_events %llu\nmissing %llu\nspans_checked "
                 "%llu\nclients_unchecked %llu\n"
                 "bytes %llu\ncpu_s %.3f\n",
                 (unsigned long long)samples, (unsigned long long)others, (unsigned long long)gaps,
                 (unsigned long long)missing, (unsigned long long)checked,
                 (unsigned long long)unchecked, (unsigned long long)total_bytes,
                 (double)now_us(CLOCK_PROCESS_CPUTIME_ID) / 1e6);
    if (lag_count)
        (void)printf(
            "lag_ms_min %.3f\nlag_ms_p50 %.3f\nlag_ms_p95 %.3f\nlag_ms_p99 %.3f\nlag_ms_max %.3f\n",
            lags_us[0] / 1e3, lags_us[lag_count / 2] / 1e3, lags_us[lag_count * 95 / 100] / 1e3,
            lags_us[lag_count * 99 / 100] / 1e3, lags_us[lag_count - 1] / 1e3);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 64;
    unsigned long count = strtoul(argv[3], NULL, 10);
    uint64_t end = now_us(CLOCK_MONOTONIC) + (uint64_t)(strtod(argv[4], NULL) * 1e6);
    struct client *clients = calloc(count, sizeof *clients);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    lags_us = malloc(MAX_LAGS * sizeof *lags_us);
    if (!clients || !lags_us || epoll < 0)
        fail("start");
    for (unsigned long i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};
        open_stream(&clients[i], strtoul(argv[1], NULL, 10), argv[2]);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event) < 0)
            fail("epoll");
    }
    while (now_us(CLOCK_MONOTONIC) < end) {
        struct epoll_event events[64];
        int n = epoll_wait(epoll, events, 64, 100);
        for (int i = 0; i < n; i++)
            take(events[i].data.ptr);
    }
    print(clients, count);
    return 0;
}
