/* One request: from MHD's callbacks to a call, through the gate to the handler, and back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/query.h"
#include "api/reply.h"
#include "api/router.h"
#include "core/base/text.h"
#include "server/http_internal.h"
#include "server/linger.h"

#define DRAIN_BYTES (8u << 20) /* of a refused body, before the connection is cut */
#define BLOCK_BYTES 65536u     /* of a source, at a time */

static const char *header(const struct bh_call *call, const char *name)
{
    const struct bh_http_exchange *exchange = call->transport;
    return MHD_lookup_connection_value(exchange->mhd, MHD_HEADER_KIND, name);
}

static void resume(struct bh_http_exchange *exchange)
{
    if (!exchange->suspended)
        return;
    exchange->suspended = false;
    MHD_resume_connection(exchange->mhd);
    bh_http_kick(exchange->listener);
}

static void finish(struct bh_call *call)
{
    resume(call->transport);
}

static void wake(void *data)
{
    resume(data);
}

static void suspend(struct bh_http_exchange *exchange)
{
    exchange->suspended = true;
    MHD_suspend_connection(exchange->mhd);
}

/* Cuts the target into authority (absolute form), path and query. */
static void split_target(struct bh_http_exchange *exchange)
{
    static char root[] = "/";
    char *text = exchange->target;
    char *scheme = text[0] == '/' ? NULL : strstr(text, "://");
    if (scheme) {
        char *rest = scheme + 3;
        size_t length = strcspn(rest, "/?");
        /* a scheme that is not ours keeps its colon: no authority that is allowed has one there */
        bool ours = strncasecmp(text, "http://", 7) == 0;
        text = rest + length;
        /* to the left, so that the authority can be terminated in place */
        exchange->authority = exchange->target;
        if (ours)
            memmove(exchange->target, rest, length);
        exchange->target[ours ? length : (size_t)(rest - exchange->target)] = '\0';
    } else if (text[0] != '/') {
        exchange->bad_target = true;
    }
    char *query = strchr(text, '?');
    if (query)
        *query++ = '\0';
    if (scheme && !*text)
        text = root;
    exchange->call.path = text;
    if (bh_query_decode(text, false) < 0 || bh_query_parse(&exchange->call, query) < 0)
        exchange->bad_target = true;
}

void *bh_http_on_target(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct bh_http_listener *listener = cls;
    struct bh_http *http = listener->http;
    struct bh_http_exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->target = strdup(uri);
    if (!exchange->target) {
        free(exchange);
        return NULL;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    exchange->listener = listener;
    exchange->mhd = mhd;
    exchange->connection = info ? info->socket_context : NULL;
    exchange->call.header = header;
    exchange->call.finish = finish;
    exchange->call.transport = exchange;
    exchange->call.local = listener->local;
    exchange->call.port = listener->port;
    exchange->call.backend = http->options.backend;
    exchange->next = http->exchanges;
    if (exchange->next)
        exchange->next->previous = exchange;
    http->exchanges = exchange;
    http->exchange_count++;
    /* the head that began with this line must be complete in time */
    if (exchange->connection)
        exchange->connection->deadline_ms = uv_now(http->options.loop) + BH_HTTP_HEADER_MS;
    split_target(exchange);
    return exchange;
}

/* What the head said, gathered in one pass; a repeated field counts as a wrong one. */
struct head {
    struct bh_gate_request request;
    bool has_length, has_encoding, expects;
    bool bad_encoding; /* anything but one "chunked": where the body ends is not known */
    uint64_t length;
};

static void take(const char **slot, const char *value)
{
    *slot = *slot ? "" : value;
}

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                 const char *value)
{
    struct head *head = cls;
    struct bh_gate_request *request = &head->request;
    const struct {
        const char *name;
        const char **slot;
    } slots[] = {
        {"Host", &request->host},
        {"Origin", &request->origin},
        {"Sec-Fetch-Site", &request->fetch_site},
        {"Authorization", &request->authorization},
        {"Cookie", &request->cookie},
        {"X-Bulkhead-CSRF", &request->csrf},
        {"Content-Type", &request->content_type},
        {"Accept", &request->accept},
    };
    (void)kind;
    if (!value)
        value = "";
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        if (strcasecmp(key, slots[i].name) == 0)
            take(slots[i].slot, value);
    }
    if (strcasecmp(key, "Host") == 0)
        request->host_count++;
    if (strcasecmp(key, "Expect") == 0)
        head->expects = true;
    if (strcasecmp(key, "Transfer-Encoding") == 0) {
        head->bad_encoding |= head->has_encoding || strcasecmp(value, "chunked") != 0;
        head->has_encoding = true;
    }
    if (strcasecmp(key, "Content-Length") == 0) {
        /* twice, or no number: as long as can be, so that it is refused */
        if (head->has_length ||
            bh_text_u64(value, "Content-Length", INT64_MAX, &head->length, NULL) < 0)
            head->length = UINT64_MAX;
        head->has_length = true;
    }
    return MHD_YES;
}

static void refuse(struct bh_http_exchange *exchange, int error, const struct bh_gate_pass *pass,
                   const struct bh_diag *diag)
{
    const struct bh_http_options *options = &exchange->listener->http->options;
    if (error == BH_E_METHOD && pass->allow[0])
        bh_reply_header(&exchange->call, "Allow", "%s", pass->allow);
    bh_reply_error(&exchange->call, error, diag);
    if (options->refused && bh_err_http(error) != 404 && bh_err_http(error) != 405) {
        char peer[64];
        bh_http_describe_peer(exchange, peer, sizeof peer);
        options->refused(options->user, error, peer, exchange->call.path);
    }
}

/* Checks the head. The answer is there afterwards when it is a refusal. */
static void check(struct bh_http_exchange *exchange, struct head *head)
{
    struct bh_http *http = exchange->listener->http;
    struct bh_gate_request *request = &head->request;
    struct bh_call *call = &exchange->call;
    struct bh_gate_pass pass = {0};
    struct bh_diag diag = {0};
    request->local = exchange->listener->local;
    request->port = exchange->listener->port;
    request->path = call->path;
    request->method = call->method;
    request->authority = exchange->authority;
    request->uid_known = exchange->connection && exchange->connection->uid_known;
    request->uid = exchange->connection ? exchange->connection->uid : 0;
    request->has_body = head->has_encoding || head->length > 0;
    request->is_static = bh_static_has(http->options.files, call->path);
    if (head->has_encoding && head->has_length) {
        call->reply.close = true;
        bh_reply_refuse(call, BH_E_USAGE, "Send Content-Length or Transfer-Encoding, not both.");
        return;
    }
    if (head->bad_encoding) {
        call->reply.close = true;
        bh_reply_refuse(call, BH_E_USAGE, "The one Transfer-Encoding taken here is chunked.");
        return;
    }
    int result =
        bh_gate_check(http->options.gate, request, bh_clock_wall(), bh_clock_mono(), &pass, &diag);
    call->route = pass.route;
    call->scope = pass.scope;
    memcpy(call->id, pass.id, sizeof call->id);
    exchange->body_limit =
        pass.route && pass.route->body == BH_BODY_EVENTS ? BH_API_MAX_EVENTS_BODY : BH_API_MAX_BODY;
    if (result < 0) {
        refuse(exchange, result, &pass, &diag);
    } else if (exchange->bad_target) {
        bh_reply_refuse(call, BH_E_BAD_QUERY,
                        "The path or the query holds a bad %%-escape, bytes that are not UTF-8, or "
                        "more than %d fields.",
                        BH_API_MAX_QUERY);
    } else if (head->length > exchange->body_limit) {
        call->reply.close = true;
        bh_reply_refuse(call, BH_E_TOO_LARGE, "A body here has at most %zu bytes.",
                        exchange->body_limit);
    }
}

/* ---- response ------------------------------------------------------------------------------- */

static ssize_t on_read(void *cls, uint64_t position, char *buffer, size_t capacity)
{
    struct bh_http_exchange *exchange = cls;
    struct bh_source *source = exchange->call.reply.source;
    (void)position;
    if (exchange->listener->http->stopped)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (exchange->gone)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    int64_t n = source->read(source, buffer, capacity);
    if (n > 0)
        return (ssize_t)n;
    if (n == BH_E_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n < 0)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    suspend(exchange);
    return 0;
}

static struct MHD_Response *make_response(struct bh_http_exchange *exchange)
{
    struct bh_reply *reply = &exchange->call.reply;
    if (reply->source) { /* for HEAD too: its headers are those of GET, and nothing is read */
        uint64_t size =
            reply->source_length < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)reply->source_length;
        reply->source->wake = wake;
        reply->source->wake_data = exchange;
        return MHD_create_response_from_callback(size, BLOCK_BYTES, on_read, exchange, NULL);
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->body.length, reply->body.data, MHD_RESPMEM_MUST_FREE);
    if (response)
        reply->body = (struct bh_bytes){0}; /* MHD frees it */
    return response;
}

static void add_headers(struct MHD_Response *response, const struct bh_reply *reply, bool page)
{
    static const char *const always[][2] = {
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"X-Frame-Options", "DENY"},
    };
    bool cache = false;
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        (void)MHD_add_response_header(response, always[i][0], always[i][1]);
    (void)MHD_add_response_header(
        response, "Content-Security-Policy",
        page ? "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
               "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
               "form-action 'none'; frame-ancestors 'none'"
             : "default-src 'none'; frame-ancestors 'none'");
    for (unsigned i = 0; i < reply->header_count; i++) {
        (void)MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
        cache = cache || strcmp(reply->headers[i].name, "Cache-Control") == 0;
    }
    if (!cache)
        (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    if (reply->content_type)
        (void)MHD_add_response_header(response, "Content-Type", reply->content_type);
    if (reply->close)
        (void)MHD_add_response_header(response, "Connection", "close");
}

static enum MHD_Result queue(struct bh_http_exchange *exchange)
{
    struct bh_reply *reply = &exchange->call.reply;
    struct MHD_Response *response = make_response(exchange);
    if (!response)
        return MHD_NO;
    add_headers(response, reply, exchange->call.route == NULL);
    enum MHD_Result result = MHD_queue_response(exchange->mhd, (unsigned)reply->status, response);
    MHD_destroy_response(response); /* only our reference */
    exchange->queued = true;
    if (exchange->connection) /* from here on the library's own stall timer counts */
        exchange->connection->deadline_ms = 0;
    return result;
}

static enum MHD_Result begin(struct bh_http_exchange *exchange, const char *method)
{
    struct head head = {0};
    exchange->started = true;
    exchange->head = strcmp(method, "HEAD") == 0;
    exchange->call.method = bh_method_from_text(method);
    if (exchange->connection)
        exchange->connection->deadline_ms =
            uv_now(exchange->listener->http->options.loop) + BH_HTTP_IDLE_MS;
    (void)MHD_get_connection_values(exchange->mhd, MHD_HEADER_KIND, on_header, &head);
    check(exchange, &head);
    if (!exchange->call.reply.ready)
        return MHD_YES;
    /* A small refused body is read and dropped first, so that the connection can be kept; a large
     * one, and one that waits for 100-continue, is answered now. */
    bool body = head.has_encoding || head.length > 0;
    bool now = !body || head.expects || head.length > BH_API_MAX_BODY ||
               (head.has_encoding && head.has_length) || head.bad_encoding;
    if (!now)
        return MHD_YES;
    if (body && exchange->connection)
        bh_linger(exchange->listener->http->options.loop, exchange->connection->fd,
                  &exchange->listener->http->lingering);
    return queue(exchange);
}

/* Refuses a body that does not end: MHD takes no answer in the middle of an upload, so it is
 * written to the socket, which MHD closes next; the lingering copy lets it arrive. */
static void answer_past_library(struct bh_http_exchange *exchange)
{
    const struct bh_reply *reply = &exchange->call.reply;
    struct bh_http *http = exchange->listener->http;
    struct bh_bytes text = {0};
    if (!exchange->connection)
        return;
    bh_bytes_printf(&text,
                    "HTTP/1.1 %d Refused\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                    "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
                    reply->status, reply->content_type, reply->body.length);
    bh_bytes_append(&text, reply->body.data, reply->body.length);
    if (!text.failed &&
        send(exchange->connection->fd, text.data, text.length, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        bh_linger(http->options.loop, exchange->connection->fd, &http->lingering);
    bh_bytes_done(&text);
}

static enum MHD_Result take_body(struct bh_http_exchange *exchange, const char *upload,
                                 size_t *upload_size)
{
    struct bh_call *call = &exchange->call;
    size_t size = *upload_size;
    *upload_size = 0;
    if (!call->reply.ready && call->body.length + size > exchange->body_limit) {
        call->reply.close = true;
        bh_bytes_done(&call->body);
        bh_reply_refuse(call, BH_E_TOO_LARGE, "A body here has at most %zu bytes.",
                        exchange->body_limit);
    }
    if (call->reply.ready) {
        exchange->discarded += size;
        if (exchange->discarded <= DRAIN_BYTES)
            return MHD_YES;
        answer_past_library(exchange);
        return MHD_NO;
    }
    bh_bytes_append(&call->body, upload, size);
    return call->body.failed ? MHD_NO : MHD_YES;
}

static void dispatch(struct bh_http_exchange *exchange)
{
    struct bh_call *call = &exchange->call;
    exchange->dispatched = true;
    if (call->reply.ready)
        return;
    if (exchange->connection)
        exchange->connection->deadline_ms = 0;
    if (call->route)
        call->route->handle(call);
    else
        bh_static_answer(exchange->listener->http->options.files, call);
}

enum MHD_Result bh_http_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_size, void **context)
{
    struct bh_http_exchange *exchange = *context;
    (void)cls;
    (void)mhd;
    (void)url, (void)version;
    if (!exchange || exchange->listener->http->stopped)
        return MHD_NO;
    if (!exchange->started)
        return begin(exchange, method);
    if (exchange->queued)
        return MHD_YES;
    if (*upload_size)
        return take_body(exchange, upload, upload_size);
    if (!exchange->dispatched)
        dispatch(exchange);
    if (exchange->call.reply.ready)
        return queue(exchange);
    suspend(exchange);
    return MHD_YES;
}

void bh_http_on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_RequestTerminationCode code)
{
    struct bh_http_exchange *exchange = *context;
    (void)cls;
    (void)mhd;
    (void)code;
    if (!exchange)
        return;
    struct bh_http *http = exchange->listener->http;
    *context = NULL;
    if (http->options.done && exchange->queued)
        http->options.done(http->options.user, exchange->call.route, exchange->call.method,
                           exchange->call.reply.status);
    if (exchange->connection)
        exchange->connection->deadline_ms = uv_now(http->options.loop) + BH_HTTP_IDLE_MS;
    if (exchange->previous)
        exchange->previous->next = exchange->next;
    else
        http->exchanges = exchange->next;
    if (exchange->next)
        exchange->next->previous = exchange->previous;
    http->exchange_count--;
    bh_reply_done(&exchange->call.reply);
    bh_bytes_done(&exchange->call.body);
    free(exchange->target);
    free(exchange);
}
