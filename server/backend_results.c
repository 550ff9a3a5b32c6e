/* What a job left behind or does now: report, histories, exports, logs, events. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/reply.h"
#include "api/report_json.h"
#include "api/view_json.h"
#include "core/base/io.h"
#include "core/base/scoped.h"
#include "core/base/text.h"
#include "server/backend.h"
#include "server/exports.h"
#include "server/external.h"
#include "server/log_source.h"

/* ---- report --------------------------------------------------------------------------------- */

/* reclamation.json: imported 12 s after the end; before that, what the file says. */
static int read_reclamation(struct bh_app *app, const char *id, struct bh_bytes *ret_bytes)
{
    BH_SCOPED_FD int dirfd = -1;
    if (bh_store_reclamation_get(app->store, id, ret_bytes, NULL) >= 0)
        return BH_OK;
    int result = bh_io_open_dir(app->jobs_fd, id, &dirfd, NULL);
    return result < 0 ? result : bh_io_read_file(dirfd, "reclamation.json", 65536, ret_bytes, NULL);
}

static void answer_report(struct bh_app *app, struct bh_call *call, const char *id, bool merged)
{
    struct bh_diag diag = {0};
    struct bh_bytes reclamation = {0};
    struct bh_bytes report = {0};
    int result = bh_store_report_get(app->store, id, &report, &diag);
    if (result >= 0 && merged && read_reclamation(app, id, &reclamation) >= 0)
        result = bh_report_merge(&report, &reclamation, &call->reply.body);
    else if (result >= 0)
        bh_bytes_append(&call->reply.body, report.data, report.length);
    bh_bytes_done(&reclamation);
    bh_bytes_done(&report);
    if (result < 0)
        bh_reply_error(call, result, diag.detail[0] ? &diag : NULL);
    else
        bh_reply_body(call, 200, BH_TYPE_JSON);
}

static void op_report(void *self, struct bh_call *call, bool merged)
{
    struct bh_app *app = self;
    struct bh_found found;
    if (!bh_backend_need(app, call, &found))
        return;
    if (found.job)
        bh_reply_refuse(call, BH_E_REPORT_NOT_READY,
                        "The report appears when the job has ended. Wait with GET "
                        "/v1/jobs/{id}?wait=30s.");
    else if (found.row.state == BH_JOB_FAILED_TO_START)
        bh_reply_refuse(
            call, BH_E_REPORT_SUPPRESSED,
            "The program never ran, so there is no report. The job's outcome says why.");
    else
        answer_report(app, call, bh_found_id(&found), merged);
    bh_found_done(&found);
}

/* ---- exports, logs -------------------------------------------------------------------------- */

static void op_export(void *self, struct bh_call *call, const struct bh_export *query)
{
    struct bh_app *app = self;
    struct bh_found found;
    if (!bh_backend_need(app, call, &found))
        return;
    bh_exports_start(app->exports, call, bh_found_id(&found), bh_found_spec(&found)->max_entries,
                     query);
    bh_found_done(&found);
}

static void op_logs(void *self, struct bh_call *call, const struct bh_logs *logs)
{
    struct bh_app *app = self;
    struct bh_found found;
    if (!bh_backend_need(app, call, &found))
        return;
    bh_log_answer(app, call, bh_found_id(&found), logs);
    bh_found_done(&found);
}

/* ---- events --------------------------------------------------------------------------------- */

struct replay {
    struct bh_bytes *out;
    const char *id;
    struct bh_anchor anchor;
    struct bh_wall started;
    unsigned types;
    uint64_t last;
};

static int replay_fact(void *user, const struct bh_record *record)
{
    struct replay *replay = user;
    struct bh_bytes data = {0};
    struct bh_json json;
    unsigned type = record->kind == BH_RECORD_TRANSITION ? BH_EVENT_TRANSITION
                    : record->kind == BH_RECORD_SIGNAL   ? BH_EVENT_SIGNAL
                                                         : BH_EVENT_CHECKPOINT;
    replay->last = record->sequence;
    if (!(type & replay->types))
        return BH_OK;
    bh_json_begin(&json, &data, BH_JSON_COMPACT);
    if (type == BH_EVENT_TRANSITION)
        bh_view_transition(&json, NULL, replay->id, record, replay->anchor, replay->started);
    else if (type == BH_EVENT_SIGNAL)
        bh_view_signal(&json, NULL, replay->id, record, replay->anchor, replay->started);
    else
        bh_view_checkpoint(&json, NULL, replay->id, record, replay->anchor, replay->started);
    bh_json_finish(&json);
    char id[24];
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)record->sequence);
    bh_hub_format(replay->out, id, bh_hub_type_text(type), data.data, data.length);
    bh_bytes_done(&data);
    return BH_OK;
}

static void append_job(struct bh_bytes *out, const struct bh_job_view *view, bool with_id)
{
    struct bh_bytes data = {0};
    char id[24];
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)view->event_sequence);
    bh_view_job_document(view, &data);
    bh_hub_format(out, with_id ? id : NULL, "job", data.data, data.length);
    bh_bytes_done(&data);
}

static void append_gap(struct bh_bytes *out, const char *reason, const char *resume)
{
    char data[128];
    int length = snprintf(data, sizeof data,
                          "{\"reason\":\"%s\",\"missed\":null,\"resume\":\"fetch %s again\"}",
                          reason, resume);
    bh_hub_format(out, NULL, "gap", data, (size_t)length);
}

static bool streams_full(struct bh_app *app, struct bh_call *call)
{
    if (bh_hub_streams(app->hub) + app->followers <
        bh_config_number(app->config, BH_PARAM_MAX_STREAMS))
        return false;
    bh_reply_refuse(call, BH_E_STREAMS_FULL,
                    "All event streams are in use. Close one, or poll with ?wait=.");
    return true;
}

static void answer_stream(struct bh_app *app, struct bh_call *call,
                          const struct bh_stream_options *options, struct bh_bytes *first)
{
    struct bh_source *source = NULL;
    int result = first->failed ? BH_E_NOMEM : bh_hub_stream(app->hub, options, first, &source);
    bh_bytes_done(first);
    if (result < 0)
        bh_reply_error(call, result, NULL);
    else
        bh_reply_source(call, 200, BH_TYPE_SSE, source, -1);
}

static void job_stream(struct bh_app *app, struct bh_call *call, const struct bh_events *events)
{
    struct bh_found found;
    struct bh_job_view view;
    struct bh_bytes first = {0};
    uint64_t since = 0;
    if (!bh_backend_need(app, call, &found))
        return;
    bh_found_view(&found, &view);
    bh_bytes_append_text(&first, "retry: 2000\n\n");
    struct replay replay = {.out = &first,
                            .id = view.id,
                            .anchor = view.anchor,
                            .started = view.started_at,
                            .types = events->types};
    bool has_since =
        events->since && bh_text_u64(events->since, "since", INT64_MAX, &since, NULL) >= 0;
    if ((events->since && !has_since) || since > view.event_sequence)
        append_gap(&first, "unknown_id", "the job");
    else if (has_since)
        (void)bh_store_records(app->store, view.id,
                               BH_STORE_KIND(TRANSITION) | BH_STORE_KIND(SIGNAL) |
                                   BH_STORE_KIND(CHECKPOINT),
                               since, 10000, replay_fact, &replay, NULL);
    if (events->types & BH_EVENT_JOB)
        append_job(&first, &view, true);
    char id[BH_JOB_ID_SIZE];
    (void)snprintf(id, sizeof id, "%s", view.id);
    uint64_t told = has_since ? replay.last : view.event_sequence;
    struct bh_stream_options options = {
        .types = events->types,
        .job_id = id,
        .of_job = true,
        /* facts that are not imported yet are still in the ring: look back a little for them */
        .from = has_since && bh_hub_next(app->hub) > 2048 ? bh_hub_next(app->hub) - 2048
                : has_since                               ? 1
                                                          : bh_hub_next(app->hub),
        .after_sequence = told > since ? told : since,
    };
    bh_found_done(&found);
    answer_stream(app, call, &options, &first);
}

/* "epoch.n" of this start and not from the future. */
static bool read_global_id(struct bh_app *app, const char *text, uint64_t *ret_number)
{
    size_t length = strlen(app->epoch);
    return strncmp(text, app->epoch, length) == 0 && text[length] == '.' &&
           bh_text_u64(text + length + 1, "since", INT64_MAX, ret_number, NULL) >= 0 &&
           *ret_number < bh_hub_next(app->hub);
}

static void append_snapshot(struct bh_app *app, struct bh_bytes *first,
                            const struct bh_events *events, const char *only)
{
    for (struct bh_job *job = bh_jobs_first(app->jobs); job; job = job->next) {
        struct bh_job_view view;
        if (!(events->types & BH_EVENT_JOB) || (only && strcmp(only, job->id) != 0))
            continue;
        bh_jobs_view(job, &view);
        append_job(first, &view, false);
    }
}

/* The id of the job that ?job= names, by id or name; false after having answered 404. */
static bool find_job(struct bh_app *app, struct bh_call *call, const char *name,
                     char ret_id[static BH_JOB_ID_SIZE])
{
    struct bh_found found;
    struct bh_diag diag = {0};
    int result = bh_backend_find(app, name, &found, &diag);
    if (result < 0) {
        bh_reply_error(call, result, &diag);
        return false;
    }
    memcpy(ret_id, bh_found_id(&found), BH_JOB_ID_SIZE);
    bh_found_done(&found);
    return true;
}

static void op_events(void *self, struct bh_call *call, const struct bh_events *events)
{
    struct bh_app *app = self;
    struct bh_bytes first = {0};
    uint64_t number = 0;
    char job_id[BH_JOB_ID_SIZE];
    if (streams_full(app, call) || (events->job && !find_job(app, call, events->job, job_id)))
        return;
    if (events->of_job) {
        job_stream(app, call, events);
        return;
    }
    struct bh_stream_options options = {.types = events->types,
                                        .job_id = events->job ? job_id : NULL,
                                        .from = bh_hub_next(app->hub)};
    bool resumed = events->since && read_global_id(app, events->since, &number);
    bh_bytes_append_text(&first, "retry: 2000\n\n");
    if (events->since && !resumed)
        append_gap(&first, "unknown_id", "/v1/jobs");
    if (resumed)
        options.from = number + 1;
    else
        append_snapshot(app, &first, events, options.job_id);
    answer_stream(app, call, &options, &first);
    if (!resumed && (events->types & BH_EVENT_HOST))
        bh_backend_publish_host(app);
}

void bh_backend_init_results(struct bh_app *app)
{
    app->backend.report = op_report;
    app->backend.export = op_export;
    app->backend.logs = op_logs;
    app->backend.events = op_events;
    app->backend.put_report = bh_external_put_report;
    app->backend.post_events = bh_external_post_events;
}
