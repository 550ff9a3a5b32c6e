/* libmicrohttpd inside the libuv loop: one daemon per listener, each an epoll descriptor polled by
 * uv, no thread. Turns connections and requests into struct bh_call, passes them through the gate
 * to the route's handler, and sends what the reply holds: bytes, or a source that is suspended
 * while it has nothing and resumed by its wake.
 *
 * Known traps handled here: the access handler is called several times per request; a response may
 * be queued only before the body or after all of it; suspended connections never time out and must
 * be resumed before a daemon is stopped; slow headers keep the library's idle timer fresh, so a
 * deadline of our own closes such connections. Loop thread only. */
#ifndef BH_SERVER_HTTP_H
#define BH_SERVER_HTTP_H

#include <uv.h>

#include "api/api_types.h"
#include "server/gate.h"
#include "server/static.h"

#define BH_HTTP_HEADER_MS                                                                          \
    10000u                     /* from accept, or the first byte we know of, to the whole head     \
                                */
#define BH_HTTP_IDLE_MS 75000u /* between requests of one connection, and for a body */
#define BH_HTTP_STALL_S 60u    /* a client that takes nothing of its answer */

struct bh_http_options {
    uv_loop_t *loop;
    struct bh_gate *gate;
    const struct bh_static *files;
    const struct bh_backend *backend;
    unsigned max_connections; /* per listener */
    /* The gate refused a request (peer: "127.0.0.1:4711" or "uid 1000"). May be NULL. */
    void (*refused)(void *user, int error, const char *peer, const char *detail);
    /* A request is over; route NULL = none matched. May be NULL. */
    void (*done)(void *user, const struct bh_route *route, enum bh_method method, int status);
    void *user;
};

struct bh_http;

int bh_http_new(const struct bh_http_options *options, struct bh_http **ret_http);
/* Serves a listening, non-blocking socket, which it takes. local: a unix socket. */
int bh_http_listen(struct bh_http *http, int fd, bool local, uint16_t port, struct bh_diag *diag);
/* No new connections. */
void bh_http_quiesce(struct bh_http *http);
/* Runs every listener once, so that answers given just now go out. */
void bh_http_flush(struct bh_http *http);
/* Number of requests whose answer is not out yet. */
unsigned bh_http_pending(const struct bh_http *http);
/* Cuts what is left and closes all; handles end in the loop's next turns. */
void bh_http_stop(struct bh_http *http);
/* After the loop has ended. */
void bh_http_free(struct bh_http *http);

#endif
