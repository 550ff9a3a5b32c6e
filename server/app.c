#include "server/app.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/reply.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/scoped.h"
#include "core/base/text.h"
#include "server/backend.h"
#include "server/exports.h"
#include "server/external.h"
#include "server/feed.h"
#include "server/idempotency.h"
#include "server/listen.h"
#include "server/log_notice.h"
#include "server/metrics.h"
#include "server/notify.h"
#include "server/state_dir.h"
#include "server/sup_link.h"
#include "server/supervise.h"

#define NOTICE_MS  500u /* between two looks at the logs, while somebody listens */
#define HOST_TURNS 4u   /* a host event every fourth time */
#define SETTLE_MS  20u
#define EXIT_MS    3000u /* at most, for answers still on their way */

void bh_app_run_path(const struct bh_app *app, const char *id, char *ret_path, size_t size)
{
    (void)snprintf(ret_path, size, "%s/jobs/%s", app->state_path, id);
}

int bh_app_login_link(struct bh_app *app, char *ret_url, size_t size, struct bh_diag *diag)
{
    char code[BH_AUTH_SECRET_SIZE];
    if (!app->url[0])
        return bh_err_set(diag, BH_E_UNSUPPORTED, NULL,
                          "The server has no TCP listener, so there is no page.");
    int result = bh_auth_new_code(app->auth, bh_clock_wall(), code);
    if (result >= 0)
        (void)snprintf(ret_url, size, "%s/#code=%s", app->url, code);
    return result;
}

/* ---- what the HTTP layer reports ------------------------------------------------------------ */

static void on_refused(void *user, int error, const char *peer, const char *path)
{
    struct bh_app *app = user;
    struct bh_security_event event = {.at = bh_clock_wall(), .count = 1};
    const char *colon = strrchr(peer, ':');
    app->refused_total++;
    (void)snprintf(event.code, sizeof event.code, "%s", bh_err_code(error));
    /* without the port, so that repeated tries are one row */
    (void)snprintf(event.peer, sizeof event.peer, "%.*s",
                   colon ? (int)(colon - peer) : (int)strlen(peer), peer);
    (void)bh_text_escape(path, strlen(path), event.detail, sizeof event.detail);
    (void)bh_store_security_add(app->store, &event);
}

static void on_done(void *user, const struct bh_route *route, enum bh_method method, int status)
{
    struct bh_app *app = user;
    bh_metrics_count(app->metrics, route, method, status);
}

/* ---- opening -------------------------------------------------------------------------------- */

static int make_epoch(struct bh_app *app)
{
    unsigned char bytes[4];
    int result = bh_random_bytes(bytes, sizeof bytes);
    if (result >= 0)
        bh_text_hex(bytes, sizeof bytes, app->epoch);
    return result;
}

static void read_openapi(struct bh_app *app)
{
    const char *path = bh_config_text(app->config, BH_PARAM_OPENAPI);
    FILE *file = *path ? fopen(path, "re") : NULL;
    char chunk[16384];
    size_t n;
    while (file && (n = fread(chunk, 1, sizeof chunk, file)) > 0)
        bh_bytes_append(&app->openapi, chunk, n);
    if (file)
        (void)fclose(file);
}

static int open_store(struct bh_app *app, struct bh_diag *diag)
{
    struct bh_store_start start = {0};
    int result = bh_store_open(app->state_path, app->config->reindex, &app->store, &start, diag);
    if (result >= 0 && start.moved_aside)
        bh_log(BH_LOG_WARNING,
               "the database was damaged (%s); it is now %s, and is rebuilt from the "
               "run directories",
               start.reason, start.aside);
    if (result >= 0)
        bh_notices_read(&app->notices, app->state_fd, start.aside, start.reason);
    return result;
}

static int listen_tcp(struct bh_app *app, struct bh_diag *diag)
{
    const struct bh_config_value *listen = &app->config->values[BH_PARAM_LISTEN];
    bool insecure = bh_config_number(app->config, BH_PARAM_INSECURE_LISTEN) != 0;
    int result = BH_OK;
    for (unsigned i = 0; i < listen->count && result >= 0; i++) {
        int fd = -1;
        uint16_t port = 0;
        if (strcmp(listen->texts[i], "none") == 0)
            continue;
        result = bh_listen_tcp(listen->texts[i], insecure, &fd, &port, diag);
        if (result < 0)
            break;
        result = bh_http_listen(app->http, fd, false, port, diag);
        app->ports[app->port_count++] = port;
        if (!app->url[0])
            (void)snprintf(app->url, sizeof app->url, "http://%s:%u",
                           listen->texts[i][0] == '[' ? "[::1]" : "127.0.0.1", (unsigned)port);
    }
    return result;
}

static int listen_all(struct bh_app *app, struct bh_diag *diag)
{
    const char *path = bh_config_text(app->config, BH_PARAM_SOCKET);
    int fd = -1;
    int result = BH_OK;
    if (strcmp(path, "none") != 0) {
        result = bh_listen_unix(path, &fd, diag);
        if (result >= 0)
            result = bh_http_listen(app->http, fd, true, 0, diag);
    }
    return result < 0 ? result : listen_tcp(app, diag);
}

static void init_gate(struct bh_app *app)
{
    const struct bh_config_value *hosts = &app->config->values[BH_PARAM_ALLOW_HOST];
    app->gate = (struct bh_gate){
        .auth = app->auth,
        .own_uid = geteuid(),
        .metrics_open = bh_config_number(app->config, BH_PARAM_METRICS_OPEN) != 0,
        .rate = bh_config_number(app->config, BH_PARAM_REQUEST_RATE),
    };
    for (unsigned i = 0; i < hosts->count; i++)
        app->gate.allowed[app->gate.allowed_count++] = hosts->texts[i];
}

static int open_parts(struct bh_app *app, struct bh_diag *diag)
{
    int result = bh_state_open(app, diag);
    if (result >= 0)
        result = bh_state_lock(app, diag);
    if (result >= 0)
        result = make_epoch(app);
    if (result >= 0)
        result = bh_auth_open(app->state_fd, &app->auth, diag);
    if (result >= 0)
        result = bh_static_load(bh_config_text(app->config, BH_PARAM_WEB), &app->files, diag);
    if (result >= 0)
        result = open_store(app, diag);
    if (result >= 0)
        result = bh_metrics_new(&app->metrics);
    if (result >= 0)
        result = bh_hub_new(&app->loop, app->epoch, &app->hub);
    if (result >= 0)
        result = bh_jobs_new(app, &app->jobs);
    if (result >= 0)
        result = bh_exports_new(app, &app->exports);
    if (result >= 0)
        result = bh_feed_new(app, &app->feed, diag);
    if (result < 0)
        return result;
    read_openapi(app);
    init_gate(app);
    bh_backend_init(app);
    struct bh_http_options options = {
        .loop = &app->loop,
        .gate = &app->gate,
        .files = app->files,
        .backend = &app->backend,
        .max_connections = (unsigned)bh_config_number(app->config, BH_PARAM_MAX_CONNECTIONS),
        .refused = on_refused,
        .done = on_done,
        .user = app,
    };
    result = bh_http_new(&options, &app->http);
    return result < 0 ? result : listen_all(app, diag);
}

static void find_programs(struct bh_app *app)
{
    const char *recorder = bh_config_text(app->config, BH_PARAM_RECORDER);
    char *real = realpath(recorder, NULL);
    (void)snprintf(app->supervisor, sizeof app->supervisor, "%s",
                   bh_config_text(app->config, BH_PARAM_SUPERVISOR));
    if (real)
        (void)snprintf(app->recorder, sizeof app->recorder, "%s", real);
    else if (*recorder && strcmp(recorder, "none") != 0)
        bh_log(BH_LOG_WARNING, "the recorder library is not at %s; jobs run without it", recorder);
    free(real);
}

/* ---- running -------------------------------------------------------------------------------- */

static void on_notice(uv_timer_t *timer)
{
    struct bh_app *app = timer->data;
    bh_log_notice(app);
    if (++app->host_turns % HOST_TURNS == 0 && bh_hub_streams(app->hub))
        bh_backend_publish_host(app);
}

/* The run directories are indexed: now jobs can be found again, and requests make sense. */
static void on_indexed(struct bh_app *app)
{
    struct bh_diag diag = {0};
    char url[256];
    app->ready = true;
    if (bh_supervise_adopt_all(app, &diag) < 0)
        bh_log(BH_LOG_ERROR, "unfinished jobs cannot be listed: %s", diag.detail);
    bh_idempotency_settle(app);
    bh_feed_purge(app->feed);
    if (bh_app_login_link(app, url, sizeof url, NULL) >= 0)
        (void)printf("Bulkhead %s serves %s (link valid 10 minutes, once)\n", BH_VERSION, url);
    else
        (void)printf("Bulkhead %s serves %s\n", BH_VERSION,
                     bh_config_text(app->config, BH_PARAM_SOCKET));
    (void)fflush(stdout);
    bh_notify("READY=1");
}

static void on_handle_closed(uv_handle_t *handle)
{
    (void)handle; /* lives in the app */
}

/* Everything is answered, or it took too long: close the listeners and all handles. */
static void on_settle(uv_timer_t *timer)
{
    struct bh_app *app = timer->data;
    bool busy = bh_feed_working(app->feed);
    for (struct bh_job *job = bh_jobs_first(app->jobs); job; job = job->next)
        busy = busy || job->busy;
    app->settle_turns++;
    if ((busy || bh_http_pending(app->http)) && app->settle_turns < EXIT_MS / SETTLE_MS)
        return;
    if (bh_feed_working(app->feed))
        return; /* a step ends in milliseconds, and must not outlive its connection */
    bh_exports_close(app->exports);
    bh_http_stop(app->http);
    bh_jobs_close(app->jobs);
    bh_hub_close(app->hub);
    bh_feed_close(app->feed);
    uv_close((uv_handle_t *)&app->on_term, on_handle_closed);
    uv_close((uv_handle_t *)&app->on_int, on_handle_closed);
    uv_close((uv_handle_t *)&app->host_timer, on_handle_closed);
    uv_close((uv_handle_t *)&app->settle_timer, on_handle_closed);
}

/* Jobs with on_server_exit: terminate are stopped; the others go on. */
static void stop_dependents(struct bh_app *app)
{
    struct bh_command stop = {.kind = BH_COMMAND_STOP};
    for (struct bh_job *job = bh_jobs_first(app->jobs); job; job = job->next) {
        if (job->spec->end_with_server && job->link)
            bh_link_command(job->link, &stop, NULL, NULL);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct bh_app *app = handle->data;
    (void)number;
    if (app->stopping)
        return;
    bh_notify("STOPPING=1");
    app->stopping = true;
    bh_http_quiesce(app->http);
    stop_dependents(app);
    for (struct bh_job *job = bh_jobs_first(app->jobs); job; job = job->next)
        bh_external_refuse(job);
    bh_hub_end(app->hub);
    bh_jobs_release_waiting(app->jobs);
    (void)uv_timer_start(&app->settle_timer, on_settle, SETTLE_MS, SETTLE_MS);
}

static void start_timers(struct bh_app *app)
{
    (void)uv_signal_init(&app->loop, &app->on_term);
    (void)uv_signal_init(&app->loop, &app->on_int);
    (void)uv_timer_init(&app->loop, &app->host_timer);
    (void)uv_timer_init(&app->loop, &app->settle_timer);
    app->on_term.data = app->on_int.data = app->host_timer.data = app->settle_timer.data = app;
    (void)uv_signal_start(&app->on_term, on_signal, SIGTERM);
    (void)uv_signal_start(&app->on_int, on_signal, SIGINT);
    (void)uv_timer_start(&app->host_timer, on_notice, NOTICE_MS, NOTICE_MS);
}

static void free_parts(struct bh_app *app)
{
    bh_http_free(app->http);
    bh_jobs_free(app->jobs);
    bh_exports_free(app->exports);
    bh_feed_free(app->feed);
    bh_hub_free(app->hub);
    bh_metrics_free(app->metrics);
    bh_store_close(app->store);
    bh_static_free(app->files);
    bh_auth_close(app->auth);
    bh_bytes_done(&app->openapi);
    const char *path = bh_config_text(app->config, BH_PARAM_SOCKET);
    if (app->lock_fd >= 0 && strcmp(path, "none") != 0)
        (void)unlink(path);
    bh_state_close(app);
}

int bh_app_run(struct bh_app *app, struct bh_config *config)
{
    struct bh_diag diag = {0};
    *app = (struct bh_app){.config = config, .state_fd = -1, .jobs_fd = -1, .lock_fd = -1};
    app->started_at = bh_clock_wall();
    if (uv_loop_init(&app->loop) < 0)
        return 70;
    (void)signal(SIGPIPE, SIG_IGN);
    find_programs(app);
    int result = open_parts(app, &diag);
    if (result < 0) {
        (void)fprintf(stderr, "bulkheadd: %s\n",
                      diag.detail[0] ? diag.detail : bh_err_title(result));
        _exit(bh_err_exit(result)); /* nothing was served, nothing is half written */
    }
    start_timers(app);
    bh_feed_reindex(app->feed, on_indexed);
    (void)uv_run(&app->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&app->loop);
    free_parts(app);
    return 0;
}
