#include "server/exports.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reply.h"
#include "core/base/log.h"
#include "server/trace.h"

struct export
{
    struct bh_source source; /* first member: a source is its export */
    struct export *next;
    struct bh_exports *exports;
    struct bh_call *call; /* NULL once it is answered */
    char id[BH_JOB_ID_SIZE];
    uint64_t max_entries;
    struct bh_export query;

    uv_thread_t thread;
    bool started;
    uv_mutex_t mutex; /* guards all below */
    uv_cond_t drained;
    struct bh_bytes buffer;
    size_t sent; /* of the buffer's start */
    bool done, cancelled;
    int result;
    struct bh_diag diag;
    bool source_freed; /* loop only */
};

struct bh_exports {
    struct bh_app *app;
    uv_async_t async;
    struct export *all;
    unsigned running, waiting;
    bool closed;
    struct bh_trace *spare[BH_EXPORTS_MAX]; /* connections not in use; under spare_mutex */
    uv_mutex_t spare_mutex;
};

static void on_async(uv_async_t *async);

int bh_exports_new(struct bh_app *app, struct bh_exports **ret_exports)
{
    struct bh_exports *exports = calloc(1, sizeof *exports);
    if (!exports)
        return BH_E_NOMEM;
    exports->app = app;
    (void)uv_async_init(&app->loop, &exports->async, on_async);
    (void)uv_mutex_init(&exports->spare_mutex);
    exports->async.data = exports;
    *ret_exports = exports;
    return BH_OK;
}

/* ---- on the export's thread ----------------------------------------------------------------- */

static struct bh_trace *take_connection(struct bh_exports *exports, struct bh_diag *diag,
                                        int *ret_result)
{
    struct bh_trace *trace = NULL;
    uv_mutex_lock(&exports->spare_mutex);
    for (unsigned i = 0; i < BH_EXPORTS_MAX && !trace; i++) {
        trace = exports->spare[i];
        exports->spare[i] = NULL;
    }
    uv_mutex_unlock(&exports->spare_mutex);
    *ret_result =
        trace ? BH_OK : bh_trace_open(bh_store_path_peek(exports->app->store), &trace, diag);
    return trace;
}

static void give_connection(struct bh_exports *exports, struct bh_trace *trace)
{
    uv_mutex_lock(&exports->spare_mutex);
    for (unsigned i = 0; i < BH_EXPORTS_MAX && trace; i++) {
        if (!exports->spare[i]) {
            exports->spare[i] = trace;
            trace = NULL;
        }
    }
    uv_mutex_unlock(&exports->spare_mutex);
    bh_trace_close(trace);
}

static int sink(void *user, const void *data, size_t length)
{
    struct export *export = user;
    uv_mutex_lock(&export->mutex);
    while (export->buffer.length - export->sent >= BH_EXPORT_BUFFER && !export->cancelled)
        uv_cond_wait(&export->drained, &export->mutex);
    bh_bytes_append(&export->buffer, data, length);
    int result = export->cancelled ? BH_E_CLOSED : export->buffer.failed ? BH_E_NOMEM : BH_OK;
    uv_mutex_unlock(&export->mutex);
    (void)uv_async_send(&export->exports->async);
    return result;
}

static int run_live(struct export *export, struct bh_trace *trace, struct bh_diag *diag)
{
    static const enum bh_trace_at at[] = {
        [BH_AT_INSTANT] = BH_TRACE_AT_TIME,
        [BH_AT_PEAK] = BH_TRACE_AT_PEAK,
        [BH_AT_LIMIT] = BH_TRACE_AT_LIMIT,
        [BH_AT_END] = BH_TRACE_AT_END,
    };
    const struct bh_export *query = &export->query;
    struct bh_trace_live_query live = {.at = at[query->at],
                                       .at_us = query->at_us,
                                       .by_primitive = query->by_primitive,
                                       .top = query->top,
                                       .since = query->has_since,
                                       .since_us = query->since_us,
                                       .collapsed = query->collapsed};
    return bh_trace_live(trace, export->id, &live, sink, export, diag);
}

static int run(struct export *export, struct bh_trace *trace, struct bh_diag *diag)
{
    const struct bh_export *query = &export->query;
    struct bh_trace_range range = {query->has_from ? query->from_us : INT64_MIN,
                                   query->has_to ? query->to_us : INT64_MAX};
    switch (query->kind) {
    case BH_EXPORT_PICKLE:
        return bh_trace_pickle(trace, export->id, range, export->max_entries, sink, export, diag);
    case BH_EXPORT_EVENTS:
        return bh_trace_events(trace, export->id, query->from_sequence, query->limit, query->ndjson,
                               sink, export, diag);
    case BH_EXPORT_TIMELINE:
        return bh_trace_timeline(trace, export->id, range, query->points, sink, export, diag);
    case BH_EXPORT_LIVE:
        return run_live(export, trace, diag);
    case BH_EXPORT_TRACE:
        return bh_trace_chrome(trace, export->id, range, sink, export, diag);
    }
    return BH_E_INTERNAL;
}

static void on_thread(void *user)
{
    struct export *export = user;
    struct bh_diag diag = {0};
    int result = BH_OK;
    struct bh_trace *trace = take_connection(export->exports, &diag, &result);
    if (result >= 0)
        result = run(export, trace, &diag);
    if (trace)
        give_connection(export->exports, trace);
    uv_mutex_lock(&export->mutex);
    export->result = result;
    export->diag = diag;
    export->done = true;
    uv_mutex_unlock(&export->mutex);
    (void)uv_async_send(&export->exports->async);
}

/* ---- on the loop ---------------------------------------------------------------------------- */

static int64_t read_source(struct bh_source *source, char *buffer, size_t capacity)
{
    struct export *export = (struct export *)source;
    uv_mutex_lock(&export->mutex);
    size_t left = export->buffer.length - export->sent;
    size_t n = left < capacity ? left : capacity;
    int64_t result = (int64_t)n;
    if (n) {
        memcpy(buffer, export->buffer.data + export->sent, n);
        export->sent += n;
        if (export->sent == export->buffer.length) {
            bh_bytes_clear(&export->buffer);
            export->sent = 0;
        }
        uv_cond_signal(&export->drained);
    } else if (export->done) {
        result = export->result < 0 ? BH_E_IO : BH_E_END;
    }
    uv_mutex_unlock(&export->mutex);
    return result;
}

static void cancel(struct export *export)
{
    uv_mutex_lock(&export->mutex);
    export->cancelled = true;
    uv_cond_signal(&export->drained);
    uv_mutex_unlock(&export->mutex);
}

static void free_source(struct bh_source *source)
{
    struct export *export = (struct export *)source;
    export->source_freed = true;
    cancel(export);
    (void)uv_async_send(&export->exports->async); /* frees it when its thread has ended */
}

static const char *type_of(const struct bh_export *query)
{
    if (query->kind == BH_EXPORT_PICKLE)
        return "application/octet-stream";
    if (query->kind == BH_EXPORT_EVENTS && query->ndjson)
        return "application/x-ndjson";
    return query->kind == BH_EXPORT_LIVE && query->collapsed ? BH_TYPE_TEXT : BH_TYPE_JSON;
}

static void add_headers(const struct export *export, struct bh_call *call)
{
    const char *ending = export->query.kind == BH_EXPORT_PICKLE  ? "pickle"
                         : export->query.kind == BH_EXPORT_TRACE ? "trace.json"
                                                                 : NULL;
    if (ending)
        bh_reply_header(call, "Content-Disposition", "attachment; filename=\"bulkhead-%s.%s\"",
                        export->id, ending);
}

/* Answers the call when enough is known. */
static void answer(struct export *export)
{
    struct bh_call *call = export->call;
    uv_mutex_lock(&export->mutex);
    bool done = export->done;
    bool full = export->buffer.length >= BH_EXPORT_BUFFER;
    int result = export->result;
    bool empty = export->buffer.length == 0;
    uv_mutex_unlock(&export->mutex);
    if (!done && !full)
        return;
    export->call = NULL;
    if (done && result < 0 && empty) {
        export->source_freed = true;
        bh_reply_error(call, result, export->diag.detail[0] ? &export->diag : NULL);
        return;
    }
    add_headers(export, call);
    if (done && result >= 0) {
        export->source_freed = true;
        call->reply.body = export->buffer;
        export->buffer = (struct bh_bytes){0};
        bh_reply_body(call, 200, type_of(&export->query));
        return;
    }
    bh_reply_source(call, 200, type_of(&export->query), &export->source, -1);
}

static void free_export(struct export *export)
{
    if (export->started)
        (void)uv_thread_join(&export->thread);
    uv_mutex_destroy(&export->mutex);
    uv_cond_destroy(&export->drained);
    bh_bytes_done(&export->buffer);
    free(export);
}

static void start_next(struct bh_exports *exports)
{
    struct export *next = NULL;
    if (exports->running >= BH_EXPORTS_MAX)
        return;
    for (struct export *at = exports->all; at; at = at->next) {
        if (!at->started && !at->done)
            next = at; /* the list is newest first: the last one waits longest */
    }
    if (!next)
        return;
    exports->waiting--;
    next->started = uv_thread_create(&next->thread, on_thread, next) == 0;
    if (next->started)
        exports->running++;
    else {
        next->done = true;
        next->result = BH_E_NOMEM;
        (void)uv_async_send(&exports->async);
    }
}

static void on_async(uv_async_t *async)
{
    struct bh_exports *exports = async->data;
    struct export **at = &exports->all;
    while (*at) {
        struct export *export = *at;
        if (export->call)
            answer(export);
        else if (!export->source_freed && export->source.wake)
            export->source.wake(export->source.wake_data);
        uv_mutex_lock(&export->mutex);
        bool over = export->done && export->source_freed;
        uv_mutex_unlock(&export->mutex);
        if (!over) {
            at = &export->next;
            continue;
        }
        *at = export->next;
        exports->running -= export->started;
        free_export(export);
    }
    start_next(exports);
}

void bh_exports_start(struct bh_exports *exports, struct bh_call *call, const char *id,
                      uint64_t max_entries, const struct bh_export *query)
{
    struct export *export = exports->closed || exports->waiting >= BH_EXPORTS_MAX_QUEUE
                                ? NULL
                                : calloc(1, sizeof *export);
    if (!export) {
        bh_reply_refuse(call, BH_E_BUSY, "Too many exports are waiting. Try again in a second.");
        return;
    }
    export->source.read = read_source;
    export->source.free = free_source;
    export->exports = exports;
    export->call = call;
    export->max_entries = max_entries;
    export->query = *query;
    (void)snprintf(export->id, sizeof export->id, "%s", id);
    (void)uv_mutex_init(&export->mutex);
    (void)uv_cond_init(&export->drained);
    export->next = exports->all;
    exports->all = export;
    exports->waiting++;
    start_next(exports);
}

void bh_exports_close(struct bh_exports *exports)
{
    exports->closed = true;
    for (struct export *at = exports->all; at; at = at->next) {
        cancel(at);
        if (at->call) {
            struct bh_call *call = at->call;
            at->call = NULL;
            at->source_freed = true;
            bh_reply_refuse(call, BH_E_BUSY, "The server is going down.");
        }
        if (at->started)
            (void)uv_thread_join(&at->thread); /* ends at its next piece */
        at->started = false;
        at->done = true;
    }
    uv_close((uv_handle_t *)&exports->async, NULL);
}

void bh_exports_free(struct bh_exports *exports)
{
    if (!exports)
        return;
    while (exports->all) {
        struct export *export = exports->all;
        exports->all = export->next;
        free_export(export);
    }
    for (unsigned i = 0; i < BH_EXPORTS_MAX; i++)
        bh_trace_close(exports->spare[i]);
    uv_mutex_destroy(&exports->spare_mutex);
    free(exports);
}
