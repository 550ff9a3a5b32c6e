/* Shared by http.c (listeners, connections, deadlines) and http_request.c (one request). */
#ifndef BH_SERVER_HTTP_INTERNAL_H
#define BH_SERVER_HTTP_INTERNAL_H

#include <microhttpd.h>

#include "server/http.h"

#define BH_HTTP_MAX_LISTENERS 9

struct bh_http_listener {
    struct bh_http *http;
    struct MHD_Daemon *daemon;
    uv_poll_t poll;
    uv_timer_t timer;
    bool local;
    bool running; /* inside MHD_run */
    bool kicked;  /* run again soon */
    bool open;    /* handles are initialised */
    uint16_t port;
};

/* One accepted connection; MHD's socket context. */
struct bh_http_connection {
    struct bh_http_connection *previous, *next;
    struct bh_http_listener *listener;
    int fd;
    uint64_t deadline_ms; /* loop time; 0 = none */
    bool uid_known;
    unsigned uid;
};

/* One request; MHD's request context. */
struct bh_http_exchange {
    struct bh_call call;
    struct bh_http_exchange *previous, *next;
    struct bh_http_listener *listener;
    struct bh_http_connection *connection;
    struct MHD_Connection *mhd;
    char *target;    /* owned copy of the request target; path and query point into it */
    char *authority; /* of an absolute-form target, or NULL */
    bool bad_target;
    bool started;    /* the head was checked */
    bool dispatched; /* the handler was called */
    bool queued;     /* the response is MHD's */
    bool suspended;
    bool gone; /* the client of a stream has left */
    bool head; /* HEAD: no body */
    size_t body_limit;
    size_t discarded;
};

struct bh_http {
    struct bh_http_options options;
    struct bh_http_listener listeners[BH_HTTP_MAX_LISTENERS];
    unsigned listener_count;
    struct bh_http_connection *connections;
    struct bh_http_exchange *exchanges;
    unsigned exchange_count;
    unsigned lingering; /* sockets of answered requests whose bodies still come */
    uv_timer_t sweeper;
    bool stopped;
};

/* http.c */
void bh_http_kick(struct bh_http_listener *listener);
/* "127.0.0.1:40000" or "uid 1000", for security events. */
void bh_http_describe_peer(const struct bh_http_exchange *exchange, char *buffer, size_t size);

/* http_request.c: MHD's callbacks */
void *bh_http_on_target(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result bh_http_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_size, void **context);
void bh_http_on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_RequestTerminationCode code);

#endif
