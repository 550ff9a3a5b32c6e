#include "server/external.h"

#include "api/reply.h"
#include "api/report_json.h"
#include "server/backend.h"

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
    else if (!job)
        bh_reply_refuse(call, BH_E_WRONG_STATE, "The job has ended already.");
    return external ? job : NULL;
}

void bh_external_put_report(void *self, struct bh_call *call)
{
    struct bh_app *app = self;
    struct bh_problem problem = {0};
    struct bh_diag diag = {0};
    struct bh_report_facts facts;
    struct bh_job *job = need_external(app, call);
    if (!job)
        return;
    if (bh_report_read_facts(call->body.data, call->body.length, job->id, &facts, &problem) < 0) {
        bh_reply_problem(call, &problem);
        return;
    }
    int result =
        bh_store_report_put(app->store, job->id, call->body.data, call->body.length, facts.outcome,
                            facts.cause, facts.sentence, bh_clock_wall(), &diag);
    if (result < 0) {
        bh_reply_error(call, result, &diag);
        return;
    }
    bh_jobs_finish(job);
    bh_reply_empty(call, 204);
}

void bh_external_post_events(void *self, struct bh_call *call, bool ndjson)
{
    (void)ndjson;
    if (need_external(self, call))
        bh_reply_refuse(call, BH_E_UNSUPPORTED,
                        "Taking memory events over HTTP is specified and not served yet.");
}
