/* The server as one object: what every part of server/ reaches the others through. Made in app.c,
 * lives on main's stack, one loop thread. Members are pointers to parts with headers of their own;
 * a part keeps the pointer to the app and looks up what it needs. */
#ifndef BH_SERVER_APP_H
#define BH_SERVER_APP_H

#include <limits.h>
#include <uv.h>

#include "api/api_types.h"
#include "server/auth.h"
#include "server/config.h"
#include "server/gate.h"
#include "server/http.h"
#include "server/hub.h"
#include "server/notices.h"
#include "server/static.h"
#include "server/store.h"

struct bh_jobs;
struct bh_feed;
struct bh_exports;
struct bh_metrics;

struct bh_app {
    uv_loop_t loop;
    struct bh_config *config; /* borrowed */
    char state_path[PATH_MAX];
    int state_fd, jobs_fd, lock_fd;
    char epoch[9]; /* names this start: random hexadecimal */
    struct bh_wall started_at;
    char supervisor[PATH_MAX], recorder[PATH_MAX]; /* recorder "" = none */
    struct bh_bytes openapi;

    struct bh_auth *auth;
    struct bh_gate gate;
    struct bh_static *files;
    struct bh_store *store;
    struct bh_http *http;
    struct bh_hub *hub;
    struct bh_jobs *jobs;
    struct bh_feed *feed;
    struct bh_exports *exports;
    struct bh_metrics *metrics;
    struct bh_backend backend;

    uint16_t ports[BH_CONFIG_MAX_VALUES]; /* of the TCP listeners, 0-terminated where fewer */
    unsigned port_count;
    char url[128];      /* of the first TCP listener, "" without */
    unsigned followers; /* followed logs, counted with the streams */
    uint64_t refused_total;
    struct bh_notices notices; /* read at the start */
    bool ready, stopping;
    unsigned settle_turns; /* while stopping */
    unsigned host_turns;
    uv_signal_t on_term, on_int;
    uv_timer_t host_timer, settle_timer;
};

/* Opens everything, serves until SIGTERM or SIGINT, closes everything. The exit status. */
int bh_app_run(struct bh_app *app, struct bh_config *config);

/* A fresh login link of the first TCP listener; BH_E_UNSUPPORTED without one. */
int bh_app_login_link(struct bh_app *app, char *ret_url, size_t size, struct bh_diag *diag);
/* A path of the run directory of a job. */
void bh_app_run_path(const struct bh_app *app, const char *id, char *ret_path, size_t size);

#endif
