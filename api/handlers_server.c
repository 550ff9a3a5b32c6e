/* handlers.h: the machine, the server and the page's login. */
#include <string.h>

#include "api/handlers.h"
#include "api/jget.h"
#include "api/query.h"
#include "api/reply.h"

static bool has_query(struct bh_call *call)
{
    static const char *const none[] = {NULL};
    struct bh_problem problem = {0};
    bh_query_known(call, none, &problem);
    if (problem.error)
        bh_reply_problem(call, &problem);
    return problem.error != 0;
}

void bh_handle_host(struct bh_call *call)
{
    if (!has_query(call))
        call->backend->host(call->backend->self, call);
}

void bh_handle_info(struct bh_call *call)
{
    if (!has_query(call))
        call->backend->info(call->backend->self, call);
}

void bh_handle_openapi(struct bh_call *call)
{
    if (!has_query(call))
        call->backend->openapi(call->backend->self, call);
}

void bh_handle_metrics(struct bh_call *call)
{
    const char *accept = call->header(call, "Accept");
    if (!has_query(call))
        call->backend->metrics(call->backend->self, call,
                               accept && strstr(accept, "application/openmetrics-text"));
}

void bh_handle_livez(struct bh_call *call)
{
    bh_reply_text(call, 200, "ok\n");
}

void bh_handle_readyz(struct bh_call *call)
{
    call->backend->ready(call->backend->self, call);
}

void bh_handle_login(struct bh_call *call)
{
    static const char *const members[] = {"code", NULL};
    struct bh_problem problem = {0};
    struct bh_jget body;
    const char *code = NULL;
    if (has_query(call))
        return;
    json_t *root = bh_jget_parse(call->body.data, call->body.length, &problem);
    if (root)
        bh_jget_open(&body, root, "", members, &problem);
    if (root && problem.error == 0 && !bh_jget_text(&body, "code", &code) && !problem.error)
        bh_jget_refuse(&body, BH_E_MISSING_MEMBER, "code", "Give the code of the login link.");
    if (problem.error)
        bh_reply_problem(call, &problem);
    else
        call->backend->login(call->backend->self, call, code);
    json_decref(root);
}

void bh_handle_login_link(struct bh_call *call)
{
    static const char *const none[] = {NULL};
    struct bh_problem problem = {0};
    struct bh_jget body;
    json_t *root = NULL;
    if (has_query(call))
        return;
    if (call->body.length)
        root = bh_jget_parse(call->body.data, call->body.length, &problem);
    if (root)
        bh_jget_open(&body, root, "", none, &problem);
    if (problem.error)
        bh_reply_problem(call, &problem);
    else
        call->backend->login_link(call->backend->self, call);
    json_decref(root);
}
