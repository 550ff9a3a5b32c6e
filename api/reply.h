/* Answering a call: fills call->reply once and tells the HTTP layer. Called by handlers and by the
 * backend, on the loop. A second answer is a bug and aborts. */
#ifndef BH_API_REPLY_H
#define BH_API_REPLY_H

#include "api/problem.h"

#define BH_TYPE_JSON    "application/json"
#define BH_TYPE_PROBLEM "application/problem+json"
#define BH_TYPE_TEXT    "text/plain; charset=utf-8"
#define BH_TYPE_SSE     "text/event-stream"

/* Adds a header; name is static, the value is cut at 255 bytes. */
void bh_reply_header(struct bh_call *call, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Answers with what lies in call->reply.body (memory failure there becomes 503). */
void bh_reply_body(struct bh_call *call, int status, const char *content_type);
/* Answers with a static text. */
void bh_reply_text(struct bh_call *call, int status, const char *text);
/* 204 and the like. */
void bh_reply_empty(struct bh_call *call, int status);
/* Answers with a source, which the call then owns; length -1 when unknown. */
void bh_reply_source(struct bh_call *call, int status, const char *content_type,
                     struct bh_source *source, int64_t length);
/* Answers with a problem; adds Retry-After and WWW-Authenticate where the status wants them. */
void bh_reply_problem(struct bh_call *call, const struct bh_problem *problem);
/* The same from an error and a diag (NULL allowed). */
void bh_reply_error(struct bh_call *call, int error, const struct bh_diag *diag);
/* The same from an error and a sentence. */
void bh_reply_refuse(struct bh_call *call, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Releases what the reply owns; the call can be answered again. */
void bh_reply_done(struct bh_reply *reply);

#endif
