#include "server/backend.h"

#include <stdio.h>
#include <string.h>

#include "api/reply.h"
#include "api/view_json.h"
#include "core/base/text.h"
#include "core/wire/spec_file.h"

static int read_spec(struct bh_app *app, const char *id, struct bh_job_spec **ret_spec,
                     struct bh_diag *diag)
{
    struct bh_bytes bytes = {0};
    int result = bh_store_job_spec(app->store, id, &bytes, diag);
    if (result >= 0)
        result = bh_spec_file_decode(bytes.data, bytes.length, ret_spec, diag);
    bh_bytes_done(&bytes);
    return result;
}

int bh_backend_find(struct bh_app *app, const char *id_or_name, struct bh_found *ret_found,
                    struct bh_diag *diag)
{
    struct bh_found found = {.job = bh_jobs_find(app->jobs, id_or_name)};
    int result = BH_OK;
    if (!found.job) {
        result = bh_text_is_job_id(id_or_name)
                     ? bh_store_job_get(app->store, id_or_name, &found.row, diag)
                     : BH_E_NOT_FOUND;
        if (result >= 0)
            result = read_spec(app, id_or_name, &found.spec, diag);
    }
    if (result == BH_E_NOT_FOUND)
        return bh_err_set(
            diag, BH_E_NOT_FOUND, NULL,
            "No job has this id and no live job has this name. GET /v1/jobs lists them.");
    if (result >= 0)
        *ret_found = found;
    return result;
}

void bh_found_done(struct bh_found *found)
{
    if (!found->job)
        bh_spec_file_free(found->spec);
}

const char *bh_found_id(const struct bh_found *found)
{
    return found->job ? found->job->id : found->row.id;
}

const struct bh_job_spec *bh_found_spec(const struct bh_found *found)
{
    return found->job ? found->job->spec : found->spec;
}

void bh_found_view(const struct bh_found *found, struct bh_job_view *ret_view)
{
    if (found->job)
        bh_jobs_view(found->job, ret_view);
    else
        bh_jobs_view_row(&found->row, found->spec, ret_view);
}

bool bh_backend_need(struct bh_app *app, struct bh_call *call, struct bh_found *ret_found)
{
    struct bh_diag diag = {0};
    int result = bh_backend_find(app, call->id, ret_found, &diag);
    if (result < 0)
        bh_reply_error(call, result, &diag);
    return result >= 0;
}

static void answer_found(struct bh_call *call, int status, const struct bh_found *found)
{
    struct bh_job_view view;
    bh_found_view(found, &view);
    bh_view_job_document(&view, &call->reply.body);
    bh_reply_header(call, "ETag", "\"limits-%u\"", view.limits_revision ? view.limits_revision : 1);
    bh_reply_body(call, status, BH_TYPE_JSON);
}

void bh_backend_answer_job(struct bh_app *app, struct bh_call *call, int status,
                           const char *id_or_name)
{
    struct bh_diag diag = {0};
    struct bh_found found;
    int result = bh_backend_find(app, id_or_name, &found, &diag);
    if (result < 0) {
        bh_reply_error(call, result, &diag);
        return;
    }
    answer_found(call, status, &found);
    bh_found_done(&found);
}

static void op_get(void *self, struct bh_call *call, uint64_t wait_ns, bool has_since,
                   uint64_t since)
{
    struct bh_app *app = self;
    struct bh_found found;
    if (!bh_backend_need(app, call, &found))
        return;
    struct bh_job_view view;
    bh_found_view(&found, &view);
    bool wait =
        wait_ns > 0 && found.job && !app->stopping && !(has_since && view.event_sequence > since);
    if (!wait || bh_jobs_wait(found.job, call, wait_ns) < 0)
        answer_found(call, 200, &found);
    bh_found_done(&found);
}

static void op_spec(void *self, struct bh_call *call)
{
    struct bh_found found;
    if (!bh_backend_need(self, call, &found))
        return;
    bh_view_spec_document(bh_found_spec(&found), &call->reply.body);
    bh_found_done(&found);
    bh_reply_body(call, 200, BH_TYPE_JSON);
}

/* ---- list ----------------------------------------------------------------------------------- */

struct page {
    struct bh_app *app;
    const struct bh_list_query *query;
    struct bh_json *json;
    unsigned written;
    unsigned visited;
    char last[BH_JOB_ID_SIZE];   /* visited */
    char cursor[BH_JOB_ID_SIZE]; /* the last one written */
};

static bool has_label(const struct bh_job_spec *spec, const struct bh_list_query *query)
{
    if (!query->label_key)
        return true;
    for (size_t i = 0; i < spec->label_count; i++) {
        if (strcmp(spec->labels[i].key, query->label_key) == 0 &&
            strcmp(spec->labels[i].value, query->label_value) == 0)
            return true;
    }
    return false;
}

static int list_row(void *user, const struct bh_store_job *row)
{
    struct page *page = user;
    struct bh_found found = {.job = bh_jobs_find(page->app->jobs, row->id), .row = *row};
    enum bh_job_state state = found.job ? found.job->state : row->state;
    page->visited++;
    memcpy(page->last, row->id, sizeof page->last);
    if (page->query->states && !(page->query->states & (1u << state)))
        return BH_OK;
    if (!found.job && read_spec(page->app, row->id, &found.spec, NULL) < 0)
        return BH_OK; /* deleted meanwhile */
    int result = BH_OK;
    if (!has_label(bh_found_spec(&found), page->query)) {
        /* goes on */
    } else if (page->written == page->query->limit) {
        result = BH_E_END; /* one more than fits: there is a next page */
    } else {
        struct bh_job_view view;
        bh_found_view(&found, &view);
        bh_view_job(page->json, NULL, &view);
        memcpy(page->cursor, row->id, sizeof page->cursor);
        page->written++;
    }
    bh_found_done(&found);
    return result;
}

/* One state only: the store filters by it; live states change before their rows do. */
static int single_state(uint32_t states)
{
    if (states == 1u << BH_JOB_FINISHED)
        return BH_JOB_FINISHED;
    return states == 1u << BH_JOB_FAILED_TO_START ? BH_JOB_FAILED_TO_START : -1;
}

/* Rows of live jobs only: no walk through all finished ones for ?state=running. */
static bool only_live(uint32_t states)
{
    return states && !(states & ((1u << BH_JOB_FINISHED) | (1u << BH_JOB_FAILED_TO_START)));
}

static int list_live(struct page *page)
{
    int result = BH_OK;
    for (struct bh_job *job = bh_jobs_first(page->app->jobs); job && result == BH_OK;
         job = job->next) {
        struct bh_store_job row = {.state = job->state};
        memcpy(row.id, job->id, sizeof row.id);
        const char *name = page->query->name;
        if ((page->query->cursor[0] && strcmp(job->id, page->query->cursor) >= 0) ||
            (name && (!job->spec->name || strcmp(name, job->spec->name) != 0)))
            continue;
        result = list_row(page, &row);
    }
    return result;
}

static int list_stored(struct page *page, struct bh_diag *diag)
{
    struct bh_store_filter filter = {
        .state = single_state(page->query->states),
        .name = page->query->name,
        .label_key = page->query->label_key,
        .label_value = page->query->label_value,
        .before_id = page->query->cursor[0] ? page->query->cursor : NULL,
        .limit = page->query->limit < 1000 ? page->query->limit + 1 : 1000};
    char before[BH_JOB_ID_SIZE];
    int result;
    do {
        page->visited = 0;
        result = bh_store_job_list(page->app->store, &filter, list_row, page, diag);
        memcpy(before, page->last, sizeof before);
        filter.before_id = before;
    } while (result >= 0 && page->visited == filter.limit);
    return result;
}

static void op_list(void *self, struct bh_call *call, const struct bh_list_query *query)
{
    struct bh_app *app = self;
    struct bh_diag diag = {0};
    struct bh_json json;
    struct page page = {.app = app, .query = query, .json = &json};
    bh_json_begin(&json, &call->reply.body, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_array(&json, "jobs");
    int result = only_live(query->states) ? list_live(&page) : list_stored(&page, &diag);
    bool more = result == BH_E_END;
    if (result < 0 && !more) {
        bh_bytes_clear(&call->reply.body);
        bh_reply_error(call, result, &diag);
        return;
    }
    bh_json_end(&json);
    bh_json_string(&json, "next_cursor", more ? page.cursor : NULL);
    bh_json_end(&json);
    bh_json_finish(&json);
    bh_reply_body(call, 200, BH_TYPE_JSON);
}

void bh_backend_init(struct bh_app *app)
{
    app->backend = (struct bh_backend){
        .self = app,
        .get = op_get,
        .spec = op_spec,
        .list = op_list,
    };
    bh_backend_init_launch(app);
    bh_backend_init_control(app);
    bh_backend_init_results(app);
    bh_backend_init_history(app);
    bh_backend_init_server(app);
}
