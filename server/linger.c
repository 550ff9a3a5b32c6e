#include "server/linger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct lingering {
    uv_poll_t poll;
    uv_timer_t timer;
    int fd;
    unsigned open;   /* handles that are not closed yet */
    unsigned *count; /* the owner's; outlives the loop */
    size_t dropped;
    bool closing;
};

static void on_closed(uv_handle_t *handle)
{
    struct lingering *linger = handle->data;
    if (--linger->open > 0)
        return;
    (void)close(linger->fd);
    --*linger->count;
    free(linger);
}

static void finish(struct lingering *linger)
{
    if (linger->closing)
        return;
    linger->closing = true;
    uv_close((uv_handle_t *)&linger->poll, on_closed);
    uv_close((uv_handle_t *)&linger->timer, on_closed);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct lingering *linger = poll->data;
    char chunk[65536];
    (void)events;
    if (status < 0) {
        finish(linger);
        return;
    }
    ssize_t n = recv(linger->fd, chunk, sizeof chunk, MSG_DONTWAIT);
    if (n > 0)
        linger->dropped += (size_t)n;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || linger->dropped > BH_LINGER_BYTES)
        finish(linger);
}

static void on_timeout(uv_timer_t *timer)
{
    finish(timer->data);
}

void bh_linger(uv_loop_t *loop, int fd, unsigned *count)
{
    struct lingering *linger = *count < BH_LINGER_MAX ? calloc(1, sizeof *linger) : NULL;
    if (!linger)
        return;
    linger->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (linger->fd < 0 || uv_poll_init(loop, &linger->poll, linger->fd) < 0) {
        if (linger->fd >= 0)
            (void)close(linger->fd);
        free(linger);
        return;
    }
    (void)uv_timer_init(loop, &linger->timer);
    linger->poll.data = linger->timer.data = linger;
    linger->open = 2;
    linger->count = count;
    ++*count;
    (void)uv_poll_start(&linger->poll, UV_READABLE, on_readable);
    (void)uv_timer_start(&linger->timer, on_timeout, BH_LINGER_MS, 0);
}
