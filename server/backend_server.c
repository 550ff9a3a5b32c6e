/* The machine and the server: host, info, openapi, metrics, health, login. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/reply.h"
#include "api/view_json.h"
#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/platform/platform.h"
#include "server/backend.h"
#include "server/metrics.h"

/* "some avg10=0.12 avg60=…" */
static bool read_average(const char *text, const char *word, double *ret_value)
{
    const char *line = strstr(text, word);
    const char *number = line ? strstr(line, "avg10=") : NULL;
    unsigned whole = 0;
    unsigned part = 0;
    if (!number || sscanf(number, "avg10=%u.%2u", &whole, &part) != 2)
        return false;
    *ret_value = (double)whole + (double)part / 100.0;
    return true;
}

static void read_pressure(struct bh_host_view *view)
{
    char text[512];
    size_t length = 0;
    BH_SCOPED_FD int fd = open("/proc/pressure/memory", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || bh_io_pread(fd, text, sizeof text - 1, 0, &length) < 0)
        return;
    text[length] = '\0';
    view->has_pressure = read_average(text, "some", &view->some_avg10);
    if (view->has_pressure && !read_average(text, "full", &view->full_avg10))
        view->full_avg10 = 0.0;
}

static int by_charge(const void *left, const void *right)
{
    const struct bh_charged_view *a = left;
    const struct bh_charged_view *b = right;
    return a->charge_bytes < b->charge_bytes ? 1 : a->charge_bytes > b->charge_bytes ? -1 : 0;
}

static void add_jobs(struct bh_app *app, struct bh_host_view *view, struct bh_charged_view *charged)
{
    size_t count = 0;
    for (struct bh_job *job = bh_jobs_first(app->jobs); job; job = job->next) {
        struct bh_job_view at;
        bh_jobs_view(job, &at);
        bool known = at.charge.status == BH_VALUE_AVAILABLE;
        if (job->over || job->spec->external)
            continue;
        view->live_jobs++;
        if (known) {
            view->charged_bytes += at.charge.value;
            charged[count++] = (struct bh_charged_view){
                job->id, job->spec->name ? job->spec->name : job->id, at.charge.value};
        }
        if (at.limit_bytes) {
            view->committed_bytes += at.limit_bytes;
            view->committed_jobs++;
        } else if (known) {
            view->observed_bytes += at.charge.value;
        }
        if (job->has_status)
            view->boundary = job->status.boundary;
    }
    qsort(charged, count, sizeof *charged, by_charge);
    view->charged = charged;
    view->charged_count = count;
}

void bh_backend_host(struct bh_app *app, struct bh_host_view *ret_view,
                     struct bh_charged_view *ret_charged)
{
    struct bh_platform_memory memory = {0};
    struct bh_platform_host host = {0};
    uint64_t counts[6] = {0};
    const struct bh_platform *platform = bh_platform_host();
    *ret_view = (struct bh_host_view){.at = bh_clock_wall(), .boundary = BH_BOUNDARY_SAMPLED};
    (void)bh_platform_host_memory(&memory);
    if (platform->host(platform->self, &host) < 0)
        host = (struct bh_platform_host){0};
    (void)bh_store_job_counts(app->store, counts);
    ret_view->total_bytes = memory.total_bytes;
    ret_view->available_bytes = memory.available_bytes;
    ret_view->finished_jobs = counts[BH_JOB_FINISHED] + counts[BH_JOB_FAILED_TO_START];
    add_jobs(app, ret_view, ret_charged);
    uint64_t used = memory.total_bytes - memory.available_bytes;
    ret_view->other_bytes = used > ret_view->charged_bytes ? used - ret_view->charged_bytes : 0;
    ret_view->fits_now_bytes = (int64_t)(memory.total_bytes - ret_view->other_bytes) -
                               (int64_t)ret_view->committed_bytes -
                               (int64_t)ret_view->observed_bytes;
    read_pressure(ret_view);
    ret_view->metric = "RssAnon + RssShmem + VmSwap + HugetlbPages + VmPTE";
    ret_view->boundary_reason = ret_view->boundary == BH_BOUNDARY_KERNEL
                                    ? NULL
                                    : "no control group was available to the last job";
    ret_view->subreaper = true;
    ret_view->cgroup = ret_view->boundary == BH_BOUNDARY_KERNEL;
    ret_view->recorder = app->recorder[0] != '\0';
    ret_view->pidfd = host.pidfd;
}

static int write_host(struct bh_app *app, struct bh_bytes *ret_body)
{
    struct bh_host_view view;
    struct bh_charged_view *charged = calloc(bh_jobs_count(app->jobs) + 1, sizeof *charged);
    if (!charged)
        return BH_E_NOMEM;
    bh_backend_host(app, &view, charged);
    bh_view_host_document(&view, ret_body);
    free(charged);
    return ret_body->failed ? BH_E_NOMEM : BH_OK;
}

void bh_backend_publish_host(struct bh_app *app)
{
    struct bh_bytes body = {0};
    if (write_host(app, &body) >= 0)
        bh_hub_publish(app->hub, BH_EVENT_HOST, NULL, 0, body.data, body.length);
    bh_bytes_done(&body);
}

static void op_host(void *self, struct bh_call *call)
{
    if (write_host(self, &call->reply.body) < 0)
        bh_reply_error(call, BH_E_NOMEM, NULL);
    else
        bh_reply_body(call, 200, BH_TYPE_JSON);
}

struct refusals {
    struct bh_refusal_view items[50];
    char codes[50][48];
    size_t count;
};

static int add_refusal(void *user, const struct bh_security_event *event)
{
    struct refusals *refusals = user;
    if (refusals->count == 50)
        return BH_E_END;
    char *code = refusals->codes[refusals->count];
    (void)snprintf(code, 48, "%s", event->code);
    refusals->items[refusals->count++] = (struct bh_refusal_view){event->at, code, event->count};
    return BH_OK;
}

static void op_info(void *self, struct bh_call *call)
{
    struct bh_app *app = self;
    struct bh_platform_host host = {0};
    struct refusals refusals = {.count = 0};
    const struct bh_platform *platform = bh_platform_host();
    if (platform->host(platform->self, &host) < 0)
        host = (struct bh_platform_host){0};
    (void)bh_store_security_list(app->store, 50, add_refusal, &refusals, NULL);
    struct bh_info_view view = {
        .epoch = app->epoch,
        .pid = (int)getpid(),
        .started_at = app->started_at,
        .os = host.os,
        .kernel = host.kernel,
        .machine = host.machine,
        .page_bytes = host.page_bytes,
        .max_streams = (uint32_t)bh_config_number(app->config, BH_PARAM_MAX_STREAMS),
        .refused_total = app->refused_total,
        .refusals = refusals.items,
        .refusal_count = refusals.count,
        .notices = app->notices.views,
        .notice_count = app->notices.count,
    };
    bh_view_info_document(&view, &call->reply.body);
    bh_reply_body(call, 200, BH_TYPE_JSON);
}

static void op_openapi(void *self, struct bh_call *call)
{
    struct bh_app *app = self;
    if (app->openapi.length == 0) {
        bh_reply_refuse(call, BH_E_NOT_FOUND, "openapi.json is not installed here.");
        return;
    }
    bh_bytes_append(&call->reply.body, app->openapi.data, app->openapi.length);
    bh_reply_body(call, 200, BH_TYPE_JSON);
}

static void op_metrics(void *self, struct bh_call *call, bool openmetrics)
{
    bh_metrics_write(self, openmetrics, &call->reply.body);
    bh_reply_body(call, 200,
                  openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                              : "text/plain; version=0.0.4; charset=utf-8");
}

static void op_ready(void *self, struct bh_call *call)
{
    struct bh_app *app = self;
    bool ready = app->ready && !app->stopping;
    if (!ready)
        bh_reply_header(call, "Retry-After", "1");
    bh_reply_text(call, ready ? 200 : 503, ready ? "ready\n" : "not ready\n");
}

static void op_login(void *self, struct bh_call *call, const char *code)
{
    struct bh_app *app = self;
    struct bh_session session;
    struct bh_diag diag = {0};
    struct bh_json json;
    if (call->local) {
        bh_reply_refuse(call, BH_E_WRONG_STATE,
                        "The page is served over TCP only; the socket needs no login.");
        return;
    }
    int result = bh_auth_login(app->auth, code, bh_clock_wall(), &session, &diag);
    if (result == BH_E_RATE)
        bh_reply_header(call, "Retry-After", "60"); /* failures are counted by the minute */
    if (result < 0) {
        bh_reply_error(call, result, &diag);
        return;
    }
    bh_reply_header(call, "Set-Cookie",
                    "bulkhead_%u=%s; Path=/; Max-Age=%lld; HttpOnly; "
                    "SameSite=Strict",
                    (unsigned)call->port, session.cookie, BH_AUTH_SESSION_US / 1000000);
    bh_json_begin(&json, &call->reply.body, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_string(&json, "csrf", session.csrf);
    bh_view_time(&json, "expires_at", session.expires_at);
    bh_json_end(&json);
    bh_json_finish(&json);
    bh_reply_body(call, 200, BH_TYPE_JSON);
}

static void op_login_link(void *self, struct bh_call *call)
{
    char url[256];
    struct bh_diag diag = {0};
    struct bh_json json;
    int result = bh_app_login_link(self, url, sizeof url, &diag);
    if (result < 0) {
        bh_reply_error(call, result, &diag);
        return;
    }
    bh_json_begin(&json, &call->reply.body, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_string(&json, "url", url);
    bh_json_end(&json);
    bh_json_finish(&json);
    bh_reply_body(call, 200, BH_TYPE_JSON);
}

void bh_backend_init_server(struct bh_app *app)
{
    app->backend.host = op_host;
    app->backend.info = op_info;
    app->backend.openapi = op_openapi;
    app->backend.metrics = op_metrics;
    app->backend.ready = op_ready;
    app->backend.login = op_login;
    app->backend.login_link = op_login_link;
}
