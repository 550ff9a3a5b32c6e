#include "server/external.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "api/events_json.h"
#include "api/reply.h"
#include "api/report_json.h"
#include "core/base/io.h"
#include "server/backend.h"
#include "server/feed.h"
#include "server/foreign.h"

static struct bh_job *need_external(struct bh_app *app, struct bh_call *call)
{
    struct bh_found found;
    if (!bh_backend_need(app, call, &found))
        return NULL;
    struct bh_job *job = found.job;
    bool external = bh_found_spec(&found)->external;
    bh_found_done(&found);
    if (!external)
        bh_reply_refuse(call, BH_E_WRONG_STATE,
                        "Only a job launched with \"external\": true takes this.");
    else if (!job || job->put)
        bh_reply_refuse(call, BH_E_WRONG_STATE, "The job has ended already.");
    else if (job->busy)
        bh_reply_refuse(call, BH_E_BUSY,
                        "The events before are still being stored. Send this again.");
    else
        return job;
    return NULL;
}

/* ---- report -----------------------------------------------------------------------------------
 */

/* A report that waits until the events before it are in the database. */
struct bh_external_put {
    struct bh_call *call;
    struct bh_report_facts facts;
};

void bh_external_put_report(void *self, struct bh_call *call)
{
    struct bh_app *app = self;
    struct bh_problem problem = {0};
    struct bh_diag diag = {0};
    struct bh_job *job = need_external(app, call);
    struct bh_external_put *put = job ? calloc(1, sizeof *put) : NULL;
    if (!job)
        return;
    int result = put ? bh_report_read_facts(call->body.data, call->body.length, job->id,
                                            &put->facts, &problem)
                     : BH_E_NOMEM;
    if (result >= 0)
        /* the run directory is the truth: a lost database is rebuilt from it */
        result = bh_io_replace(job->dirfd, "report.json", call->body.data, call->body.length, true,
                               &diag);
    if (result < 0) {
        free(put);
        if (problem.error)
            bh_reply_problem(call, &problem);
        else
            bh_reply_error(call, result, NULL);
        return;
    }
    put->call = call;
    job->put = put;
    bh_feed_want(app->feed, job);
}

void bh_external_imported(struct bh_job *job)
{
    struct bh_external_put *put = job->put;
    struct bh_call *call = put->call;
    struct bh_diag diag = {0};
    int result = bh_store_report_put(job->app->store, job->id, call->body.data, call->body.length,
                                     put->facts.outcome, put->facts.cause, put->facts.sentence,
                                     bh_clock_wall(), &diag);
    job->put = NULL;
    free(put);
    if (result < 0) {
        bh_reply_error(call, result, &diag);
        return;
    }
    bh_jobs_finish(job);
    bh_reply_empty(call, 204);
}

void bh_external_refuse(struct bh_job *job)
{
    if (!job->put)
        return;
    bh_reply_refuse(job->put->call, BH_E_BUSY, "The server is going down. Send the report again.");
    free(job->put);
    job->put = NULL;
}

/* ---- events -----------------------------------------------------------------------------------
 */

struct ingest {
    uv_work_t work;
    struct bh_job *job;
    struct bh_call *call;
    enum bh_events_form form;
    struct bh_foreign *foreign;
    struct bh_problem problem;
    uint64_t last;
    int result;
};

/* On the pool from here … */

static int on_entry(void *user, const struct bh_event_entry *entry, struct bh_diag *diag)
{
    struct ingest *ingest = user;
    struct bh_foreign_frame frames[BH_EVENTS_MAX_FRAMES];
    struct bh_foreign_event event = {
        .has_sequence = entry->has_sequence,
        .sequence = entry->sequence,
        .pid = entry->pid,
        .image = entry->image,
        .address = entry->address,
        .size_bytes = entry->size_bytes,
        .requested_bytes = entry->requested_bytes,
        .timestamp_us = entry->timestamp_us,
        .primitive = entry->primitive,
        .stream = entry->stream,
        .frames = entry->frames ? frames : NULL,
        .frame_count = entry->frame_count,
        .count = entry->count,
        .label = entry->label,
        .cached = entry->cached,
    };
    for (size_t i = 0; i < entry->frame_count; i++)
        frames[i] = (struct bh_foreign_frame){entry->frames[i].file, entry->frames[i].function,
                                              entry->frames[i].line};
    if (bh_foreign_action(entry->action, &event.action) < 0)
        return bh_err_set(diag, BH_E_INVALID_VALUE, "action", "Not an action that is known.");
    return bh_foreign_add(ingest->foreign, &event, diag);
}

static void on_ingest(uv_work_t *work)
{
    struct ingest *ingest = work->data;
    struct bh_diag diag = {0};
    const char *text = (const char *)ingest->call->body.data;
    ingest->result = bh_foreign_open(ingest->job->dirfd, ingest->job->id, &ingest->foreign, &diag);
    if (ingest->result >= 0) {
        int64_t count = bh_events_read(text ? text : "", ingest->call->body.length, ingest->form,
                                       on_entry, ingest, &ingest->problem);
        ingest->result = count < 0 ? (int)count : BH_OK;
        ingest->last = bh_foreign_last(ingest->foreign);
        if (count > 0)
            ingest->result = bh_foreign_commit(ingest->foreign, &ingest->last, &diag);
        bh_foreign_free(ingest->foreign);
    }
    if (ingest->result < 0 && !ingest->problem.error)
        bh_problem_set(&ingest->problem, ingest->result, "%s", diag.detail);
}

/* … to here. */

/* The last sequence that is stored, for a 409. */
static void add_last(struct ingest *ingest)
{
    struct bh_foreign *foreign = NULL;
    if (ingest->problem.error != BH_E_SEQUENCE_BACK ||
        bh_foreign_open(ingest->job->dirfd, ingest->job->id, &foreign, NULL) < 0)
        return;
    ingest->problem.has_last_sequence = true;
    ingest->problem.last_sequence = bh_foreign_last(foreign);
    bh_foreign_free(foreign);
}

static void on_ingested(uv_work_t *work, int status)
{
    struct ingest *ingest = work->data;
    (void)status;
    ingest->job->busy = false;
    if (ingest->result < 0) {
        add_last(ingest);
        bh_reply_problem(ingest->call, &ingest->problem);
    } else {
        bh_feed_want(ingest->job->app->feed, ingest->job);
        bh_reply_empty(ingest->call, 204);
    }
    free(ingest);
}

void bh_external_post_events(void *self, struct bh_call *call, bool ndjson)
{
    struct bh_app *app = self;
    const char *type = call->header(call, "Content-Type");
    struct bh_job *job = need_external(app, call);
    struct ingest *ingest = job ? calloc(1, sizeof *ingest) : NULL;
    if (!job)
        return;
    if (!ingest) {
        bh_reply_error(call, BH_E_NOMEM, NULL);
        return;
    }
    *ingest = (struct ingest){.job = job, .call = call};
    ingest->work.data = ingest;
    bool octets = type && strncasecmp(type, "application/octet-stream", 24) == 0;
    ingest->form = octets ? BH_EVENTS_EITHER : ndjson ? BH_EVENTS_LINES : BH_EVENTS_ARRAY;
    job->busy = true;
    (void)uv_queue_work(&app->loop, &ingest->work, on_ingest, on_ingested);
}
