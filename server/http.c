#include "server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http_internal.h"

static void on_timer(uv_timer_t *timer);

static void run(struct bh_http_listener *listener)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
    if (!listener->daemon || listener->running)
        return;
    listener->running = true;
    listener->kicked = false;
    (void)MHD_run(listener->daemon);
    listener->running = false;
    if (listener->kicked)
        timeout_ms = 0;
    else if (MHD_get_timeout(listener->daemon, &timeout_ms) != MHD_YES) {
        (void)uv_timer_stop(&listener->timer);
        return;
    }
    (void)uv_timer_start(&listener->timer, on_timer, timeout_ms, 0);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run(poll->data);
}

static void on_timer(uv_timer_t *timer)
{
    run(timer->data);
}

void bh_http_kick(struct bh_http_listener *listener)
{
    listener->kicked = true;
    if (!listener->running && listener->daemon)
        (void)uv_timer_start(&listener->timer, on_timer, 0, 0);
}

static void look_at_peer(struct bh_http_connection *connection)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (!connection->listener->local ||
        getsockopt(connection->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return;
    connection->uid_known = true;
    connection->uid = peer.uid;
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct bh_http_listener *listener = cls;
    struct bh_http *http = listener->http;
    struct bh_http_connection *connection = *context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (!connection)
            return;
        if (connection->previous)
            connection->previous->next = connection->next;
        else
            http->connections = connection->next;
        if (connection->next)
            connection->next->previous = connection->previous;
        free(connection);
        *context = NULL;
        return;
    }
    connection = calloc(1, sizeof *connection);
    *context = connection;
    if (!connection)
        return; /* its requests are refused in on_request */
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    connection->listener = listener;
    connection->fd = info ? info->connect_fd : -1;
    connection->deadline_ms = uv_now(http->options.loop) + BH_HTTP_HEADER_MS;
    look_at_peer(connection);
    connection->next = http->connections;
    if (connection->next)
        connection->next->previous = connection;
    http->connections = connection;
}

void bh_http_describe_peer(const struct bh_http_exchange *exchange, char *buffer, size_t size)
{
    const struct bh_http_connection *connection = exchange->connection;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    char text[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;
    if (exchange->listener->local) {
        (void)snprintf(buffer, size, "uid %u", connection ? connection->uid : 0);
        return;
    }
    const struct sockaddr *address = info ? info->client_addr : NULL;
    if (address && address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        (void)inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
        port = ntohs(in.sin_port);
    } else if (address && address->sa_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, address, sizeof in);
        (void)inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
        port = ntohs(in.sin6_port);
    }
    (void)snprintf(buffer, size, "%s:%u", text, port);
}

/* The client sends nothing more: it has gone, or closed its sending side. */
static bool is_at_end(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Ends connections whose deadline has passed, and those that wait for more of a request from a
 * client that sends nothing more (MHD would wait for its body): MHD sees the end and cleans up. */
static void sweep_connections(struct bh_http *http)
{
    uint64_t now = uv_now(http->options.loop);
    for (struct bh_http_connection *at = http->connections; at; at = at->next) {
        if (at->deadline_ms && at->fd >= 0 && (now > at->deadline_ms || is_at_end(at->fd))) {
            at->deadline_ms = 0;
            (void)shutdown(at->fd, SHUT_RDWR);
        }
    }
}

/* A suspended stream does not notice that its client has left before the next write. */
static void sweep_streams(struct bh_http *http)
{
    struct bh_http_exchange *next;
    for (struct bh_http_exchange *at = http->exchanges; at; at = next) {
        next = at->next;
        if (at->suspended && at->call.reply.source && at->connection &&
            is_at_end(at->connection->fd)) {
            at->gone = true;
            at->suspended = false;
            MHD_resume_connection(at->mhd);
            bh_http_kick(at->listener);
        }
    }
}

static void on_sweep(uv_timer_t *timer)
{
    sweep_connections(timer->data);
    sweep_streams(timer->data);
}

int bh_http_new(const struct bh_http_options *options, struct bh_http **ret_http)
{
    struct bh_http *http = calloc(1, sizeof *http);
    if (!http)
        return BH_E_NOMEM;
    http->options = *options;
    (void)uv_timer_init(options->loop, &http->sweeper);
    http->sweeper.data = http;
    (void)uv_timer_start(&http->sweeper, on_sweep, 1000, 1000);
    *ret_http = http;
    return BH_OK;
}

static int watch(struct bh_http_listener *listener, struct bh_diag *diag)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    uv_loop_t *loop = listener->http->options.loop;
    if (!info || uv_poll_init(loop, &listener->poll, info->epoll_fd) < 0)
        return bh_err_set(diag, BH_E_INTERNAL, "listen", "the listener cannot be watched");
    (void)uv_timer_init(loop, &listener->timer);
    listener->poll.data = listener;
    listener->timer.data = listener;
    listener->open = true;
    (void)uv_poll_start(&listener->poll, UV_READABLE, on_poll);
    return BH_OK;
}

int bh_http_listen(struct bh_http *http, int fd, bool local, uint16_t port, struct bh_diag *diag)
{
    if (http->listener_count == BH_HTTP_MAX_LISTENERS) {
        (void)close(fd);
        return bh_err_set(diag, BH_E_USAGE, "listen", "at most %d listeners",
                          BH_HTTP_MAX_LISTENERS);
    }
    struct bh_http_listener *listener = &http->listeners[http->listener_count];
    listener->http = http;
    listener->local = local;
    listener->port = port;
    listener->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL, bh_http_on_request,
        listener, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        http->options.max_connections, MHD_OPTION_CONNECTION_TIMEOUT, BH_HTTP_STALL_S,
        MHD_OPTION_URI_LOG_CALLBACK, bh_http_on_target, listener, MHD_OPTION_NOTIFY_COMPLETED,
        bh_http_on_completed, listener, MHD_OPTION_NOTIFY_CONNECTION, on_connection, listener,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (!listener->daemon) {
        (void)close(fd);
        return bh_err_set(diag, BH_E_INTERNAL, "listen", "the HTTP library did not start");
    }
    http->listener_count++;
    return watch(listener, diag);
}

void bh_http_quiesce(struct bh_http *http)
{
    for (unsigned i = 0; i < http->listener_count; i++) {
        MHD_socket fd = http->listeners[i].daemon ? MHD_quiesce_daemon(http->listeners[i].daemon)
                                                  : MHD_INVALID_SOCKET;
        if (fd != MHD_INVALID_SOCKET)
            (void)close(fd);
    }
}

void bh_http_flush(struct bh_http *http)
{
    for (unsigned i = 0; i < http->listener_count; i++)
        run(&http->listeners[i]);
}

unsigned bh_http_pending(const struct bh_http *http)
{
    return http->exchange_count;
}

static void resume_all(struct bh_http *http)
{
    for (struct bh_http_exchange *at = http->exchanges; at; at = at->next) {
        if (at->suspended) {
            at->suspended = false;
            MHD_resume_connection(at->mhd);
        }
    }
}

static void on_closed(uv_handle_t *handle)
{
    (void)handle; /* lives in struct bh_http, freed after the loop */
}

void bh_http_stop(struct bh_http *http)
{
    if (http->stopped)
        return;
    http->stopped = true; /* exchanges that are run once more cut their connection */
    resume_all(http);
    for (unsigned i = 0; i < http->listener_count; i++) {
        struct bh_http_listener *listener = &http->listeners[i];
        run(listener);
        if (listener->open) {
            (void)uv_poll_stop(&listener->poll);
            uv_close((uv_handle_t *)&listener->poll, on_closed);
            uv_close((uv_handle_t *)&listener->timer, on_closed);
        }
        if (listener->daemon)
            MHD_stop_daemon(listener->daemon);
        listener->daemon = NULL;
    }
    uv_close((uv_handle_t *)&http->sweeper, on_closed);
}

void bh_http_free(struct bh_http *http)
{
    free(http);
}
