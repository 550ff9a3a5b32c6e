#include "api/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void ready(struct bh_call *call, int status, const char *content_type)
{
    BH_BUG_ON(call->reply.ready);
    call->reply.ready = true;
    call->reply.status = status;
    call->reply.content_type = content_type;
    if (call->finish)
        call->finish(call);
}

void bh_reply_header(struct bh_call *call, const char *name, const char *format, ...)
{
    struct bh_reply *reply = &call->reply;
    BH_BUG_ON(reply->header_count == BH_API_MAX_HEADERS);
    struct bh_reply_header *header = &reply->headers[reply->header_count++];
    header->name = name;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(header->value, sizeof header->value, format, args);
    va_end(args);
}

static bool has_header(const struct bh_reply *reply, const char *name)
{
    for (unsigned i = 0; i < reply->header_count; i++) {
        if (strcmp(reply->headers[i].name, name) == 0)
            return true;
    }
    return false;
}

void bh_reply_body(struct bh_call *call, int status, const char *content_type)
{
    if (call->reply.body.failed) {
        bh_bytes_done(&call->reply.body);
        bh_reply_error(call, BH_E_NOMEM, NULL);
        return;
    }
    ready(call, status, content_type);
}

void bh_reply_text(struct bh_call *call, int status, const char *text)
{
    bh_bytes_append_text(&call->reply.body, text);
    bh_reply_body(call, status, BH_TYPE_TEXT);
}

void bh_reply_empty(struct bh_call *call, int status)
{
    ready(call, status, NULL);
}

void bh_reply_source(struct bh_call *call, int status, const char *content_type,
                     struct bh_source *source, int64_t length)
{
    call->reply.source = source;
    call->reply.source_length = length;
    ready(call, status, content_type);
}

void bh_reply_problem(struct bh_call *call, const struct bh_problem *problem)
{
    int error = bh_problem_public_error(problem->error);
    int status = bh_err_http(error);
    if (status == 401)
        bh_reply_header(call, "WWW-Authenticate", "Bearer realm=\"bulkhead\"");
    if ((status == 429 || status == 503) && !has_header(&call->reply, "Retry-After"))
        bh_reply_header(call, "Retry-After", "%d", 1);
    bh_bytes_clear(&call->reply.body);
    bh_problem_write(problem, call->path ? call->path : "/", &call->reply.body);
    call->reply.body.failed = false; /* without memory the status must do */
    ready(call, status, BH_TYPE_PROBLEM);
}

void bh_reply_error(struct bh_call *call, int error, const struct bh_diag *diag)
{
    struct bh_problem problem = {.error = error};
    if (diag && diag->field[0]) {
        char pointer[128];
        (void)snprintf(pointer, sizeof pointer, "/%s", diag->field);
        bh_problem_add(&problem, error, pointer, "%s", diag->detail);
    }
    if (diag)
        (void)snprintf(problem.detail, sizeof problem.detail, "%s", diag->detail);
    bh_reply_problem(call, &problem);
}

void bh_reply_refuse(struct bh_call *call, int error, const char *format, ...)
{
    struct bh_problem problem = {.error = error};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(problem.detail, sizeof problem.detail, format, args);
    va_end(args);
    bh_reply_problem(call, &problem);
}

void bh_reply_done(struct bh_reply *reply)
{
    bh_bytes_done(&reply->body);
    if (reply->source) {
        reply->source->wake = NULL;
        reply->source->free(reply->source);
    }
    *reply = (struct bh_reply){0};
}
