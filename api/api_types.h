/* What the HTTP server and the API's handlers tell each other: a call (request in, reply out), a
 * source (a body that comes in pieces) and the backend (the operations behind the routes). No
 * library types: the server fills these from libmicrohttpd, a unit test by hand.
 *
 * One thread: everything here lives on the server's loop. A call is owned by the HTTP layer and
 * lives until its request is over; an operation that answers later keeps the pointer and must
 * answer exactly once. Strings of a call live as long as the call. */
#ifndef BH_API_TYPES_H
#define BH_API_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/base/err.h"
#include "core/model/job.h"

enum bh_method {
    BH_METHOD_GET, /* HEAD too: the HTTP layer leaves the body out */
    BH_METHOD_POST,
    BH_METHOD_PUT,
    BH_METHOD_PATCH,
    BH_METHOD_DELETE,
    BH_METHOD_OPTIONS,
    BH_METHOD_OTHER,
};

/* Each includes the ones before it. */
enum bh_scope {
    BH_SCOPE_OPEN,
    BH_SCOPE_READ,
    BH_SCOPE_CONTROL,
    BH_SCOPE_LAUNCH,
};

enum bh_body_kind {
    BH_BODY_NONE,     /* whatever comes is ignored */
    BH_BODY_OPTIONAL, /* JSON or nothing */
    BH_BODY_JSON,     /* JSON */
    BH_BODY_EVENTS,   /* JSON or NDJSON, up to BH_API_MAX_EVENTS_BODY */
};

enum bh_answer_kind {
    BH_ANSWER_JSON,
    BH_ANSWER_ANY, /* chosen by the query, or a type of its own: Accept is not looked at */
};

#define BH_API_MAX_BODY        (1u << 20)
#define BH_API_MAX_EVENTS_BODY (64u << 20)
#define BH_API_MAX_QUERY       16
#define BH_API_MAX_HEADERS     8
#define BH_API_ID_SIZE         65 /* a job id or a job name */
#define BH_API_MAX_WAIT_NS     (60ull * 1000000000ull)

struct bh_call;

struct bh_route {
    enum bh_method method;
    const char *pattern; /* "/v1/jobs/{id}/stop" */
    enum bh_scope scope;
    enum bh_body_kind body;
    enum bh_answer_kind answer;
    void (*handle)(struct bh_call *call);
};

struct bh_query_item {
    const char *key, *value; /* decoded */
};

/* A body that comes in pieces. Owned by the reply; freed once by the HTTP layer. */
struct bh_source {
    /* Copies up to capacity bytes. > 0: that many; 0: nothing yet, `wake` will be called when there
     * is; BH_E_END: the body is complete; other errors: the connection is cut. */
    int64_t (*read)(struct bh_source *source, char *buffer, size_t capacity);
    void (*free)(struct bh_source *source);
    /* Set by the HTTP layer; called by the source's owner on the loop. NULL before and after. */
    void (*wake)(void *wake_data);
    void *wake_data;
};

struct bh_reply_header {
    const char *name; /* static */
    char value[256];
};

struct bh_reply {
    bool ready;
    int status;
    const char *content_type; /* static; NULL = no body */
    struct bh_bytes body;     /* or: */
    struct bh_source *source;
    int64_t source_length; /* -1 unknown */
    struct bh_reply_header headers[BH_API_MAX_HEADERS];
    unsigned header_count;
    bool close; /* end the connection after this answer */
};

struct bh_backend;

struct bh_call {
    enum bh_method method;
    const char *path; /* decoded, without the query */
    const struct bh_route *route;
    char id[BH_API_ID_SIZE]; /* {id} of the path */
    struct bh_query_item query[BH_API_MAX_QUERY];
    unsigned query_count;
    struct bh_bytes body;
    enum bh_scope scope; /* what the caller may do */
    bool local;          /* came over the unix socket */
    uint16_t port;       /* listener's, 0 on the unix socket */
    const struct bh_backend *backend;
    struct bh_reply reply;

    /* Set by the HTTP layer. header: first value of a request header or NULL. finish: the reply is
     * ready (called once, also from inside the handler). */
    const char *(*header)(const struct bh_call *call, const char *name);
    void (*finish)(struct bh_call *call);
    void *transport;
};

/* ---- inputs of the operations --------------------------------------------------------------- */

struct bh_launch_request {
    struct bh_job_spec spec;     /* resolved; borrows from root */
    bool return_existing;        /* if_exists: return */
    const char *idempotency_key; /* NULL = none */
    void *root;                  /* parsed body, owned (job_json.h) */
    void *arrays;                /* owned */
};

struct bh_list_query {
    uint32_t states; /* bit per enum bh_job_state; 0 = all */
    const char *label_key, *label_value;
    const char *name;
    unsigned limit;
    char cursor[BH_JOB_ID_SIZE]; /* last id of the page before, "" = first page */
};

enum bh_command_kind {
    BH_COMMAND_STOP,
    BH_COMMAND_KILL,
    BH_COMMAND_CHECKPOINT,
    BH_COMMAND_SIGNAL,
    BH_COMMAND_LIMITS,
    BH_COMMAND_RECORDING,
};

struct bh_command {
    enum bh_command_kind kind;
    bool has_grace, checkpoint; /* stop */
    uint64_t grace_ns;
    int signal;
    uint32_t revision; /* limits: the one that If-Match names */
    uint64_t limit_bytes, warning_bytes, recovery_bytes, emergency_bytes; /* 0 = not given */
    bool has_enabled, enabled;
    char mark[129]; /* "" = none */
};

enum bh_history {
    BH_HISTORY_TRANSITIONS,
    BH_HISTORY_SIGNALS,
    BH_HISTORY_MEMBERS,
};

enum bh_export_kind {
    BH_EXPORT_PICKLE,
    BH_EXPORT_EVENTS,
    BH_EXPORT_TIMELINE,
    BH_EXPORT_LIVE,
    BH_EXPORT_TRACE,
};

enum bh_live_at {
    BH_AT_INSTANT,
    BH_AT_PEAK,
    BH_AT_LIMIT,
    BH_AT_END,
};

struct bh_export {
    enum bh_export_kind kind;
    bool has_from, has_to, has_since;
    int64_t from_us, to_us, at_us, since_us;
    uint64_t from_sequence;
    uint32_t limit; /* entries of memory-events */
    uint32_t points;
    uint32_t top;
    enum bh_live_at at;
    bool by_primitive;
    bool ndjson, collapsed;
};

struct bh_logs {
    bool stderr_stream;
    bool follow;
    bool has_from;
    uint64_t from;
    bool range;                       /* a Range header; then: */
    bool range_suffix;                /* last range_last bytes */
    uint64_t range_first, range_last; /* inclusive; UINT64_MAX = to the end */
};

#define BH_EVENT_JOB        (1u << 0)
#define BH_EVENT_SAMPLE     (1u << 1)
#define BH_EVENT_TRANSITION (1u << 2)
#define BH_EVENT_SIGNAL     (1u << 3)
#define BH_EVENT_CHECKPOINT (1u << 4)
#define BH_EVENT_RECORDER   (1u << 5)
#define BH_EVENT_LOG        (1u << 6)
#define BH_EVENT_HOST       (1u << 7)
#define BH_EVENT_ALL        0xffu

struct bh_events {
    uint32_t types;    /* BH_EVENT_* wanted */
    const char *job;   /* global stream narrowed to one job, NULL = all */
    bool of_job;       /* the stream of call->id: ids are journal sequences */
    const char *since; /* Last-Event-ID or since=, NULL = now */
};

/* The operations. Each answers the call (reply.h), now or later. Inputs are borrowed for the time
 * of the call of the operation only, except launch, which takes what it needs. */
struct bh_backend {
    void *self;
    void (*launch)(void *self, struct bh_call *call, const struct bh_launch_request *launch);
    void (*relaunch)(void *self, struct bh_call *call);
    void (*list)(void *self, struct bh_call *call, const struct bh_list_query *query);
    void (*get)(void *self, struct bh_call *call, uint64_t wait_ns, bool has_since, uint64_t since);
    void (*spec)(void *self, struct bh_call *call);
    void (*command)(void *self, struct bh_call *call, const struct bh_command *command);
    void (*remove)(void *self, struct bh_call *call);
    void (*report)(void *self, struct bh_call *call, bool merged);
    void (*put_report)(void *self, struct bh_call *call);
    void (*history)(void *self, struct bh_call *call, enum bh_history which);
    void (*export)(void *self, struct bh_call *call, const struct bh_export *query);
    void (*post_events)(void *self, struct bh_call *call, bool ndjson);
    void (*logs)(void *self, struct bh_call *call, const struct bh_logs *logs);
    void (*events)(void *self, struct bh_call *call, const struct bh_events *events);
    void (*host)(void *self, struct bh_call *call);
    void (*info)(void *self, struct bh_call *call);
    void (*openapi)(void *self, struct bh_call *call);
    void (*metrics)(void *self, struct bh_call *call, bool openmetrics);
    void (*ready)(void *self, struct bh_call *call);
    void (*login)(void *self, struct bh_call *call, const char *code);
    void (*login_link)(void *self, struct bh_call *call);
};

#endif
