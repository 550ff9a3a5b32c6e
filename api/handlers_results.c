/* handlers.h: report, traces, histories, logs, events. */
#include <string.h>

#include "api/handlers.h"
#include "api/query.h"
#include "api/reply.h"
#include "core/base/text.h"

/* 2^53 - 1: times and ids stay below, so that JSON readers keep them exact */
#define MAX_EXACT 9007199254740991ull

static bool refused(struct bh_call *call, const struct bh_problem *problem)
{
    if (problem->error)
        bh_reply_problem(call, problem);
    return problem->error != 0;
}

void bh_handle_report(struct bh_call *call)
{
    static const char *const known[] = {"merged", NULL};
    static const char *const choices[] = {"0", "1", NULL};
    struct bh_problem problem = {0};
    int merged = 0;
    bh_query_known(call, known, &problem);
    (void)bh_query_choice(call, "merged", choices, &merged, &problem);
    if (!refused(call, &problem))
        call->backend->report(call->backend->self, call, merged == 1);
}

void bh_handle_put_report(struct bh_call *call)
{
    static const char *const known[] = {NULL};
    struct bh_problem problem = {0};
    bh_query_known(call, known, &problem);
    if (!refused(call, &problem))
        call->backend->put_report(call->backend->self, call);
}

static bool read_instant(struct bh_call *call, const char *key, int64_t *ret_us,
                         struct bh_problem *problem)
{
    uint64_t value = 0;
    if (!bh_query_u64(call, key, 0, MAX_EXACT, &value, problem))
        return false;
    *ret_us = (int64_t)value;
    return true;
}

static void read_range(struct bh_call *call, struct bh_export *query, struct bh_problem *problem)
{
    query->has_from = read_instant(call, "from_us", &query->from_us, problem);
    query->has_to = read_instant(call, "to_us", &query->to_us, problem);
    if (query->has_from && query->has_to && query->from_us > query->to_us)
        bh_problem_add(problem, BH_E_BAD_QUERY, "?from_us", "from_us lies behind to_us.");
}

static void export(struct bh_call *call, const struct bh_export *query,
                   const struct bh_problem *problem)
{
    if (!refused(call, problem))
        call->backend->export(call->backend->self, call, query);
}

void bh_handle_pickle(struct bh_call *call)
{
    static const char *const known[] = {"from_us", "to_us", NULL};
    struct bh_problem problem = {0};
    struct bh_export query = {.kind = BH_EXPORT_PICKLE};
    bh_query_known(call, known, &problem);
    read_range(call, &query, &problem);
    export(call, &query, &problem);
}

void bh_handle_trace(struct bh_call *call)
{
    static const char *const known[] = {"from_us", "to_us", NULL};
    struct bh_problem problem = {0};
    struct bh_export query = {.kind = BH_EXPORT_TRACE};
    bh_query_known(call, known, &problem);
    read_range(call, &query, &problem);
    export(call, &query, &problem);
}

void bh_handle_timeline(struct bh_call *call)
{
    static const char *const known[] = {"from_us", "to_us", "points", NULL};
    struct bh_problem problem = {0};
    struct bh_export query = {.kind = BH_EXPORT_TIMELINE};
    uint64_t points = 1000;
    bh_query_known(call, known, &problem);
    read_range(call, &query, &problem);
    (void)bh_query_u64(call, "points", 1, 10000, &points, &problem);
    query.points = (uint32_t)points;
    export(call, &query, &problem);
}

void bh_handle_memory_events(struct bh_call *call)
{
    static const char *const known[] = {"from", "limit", "format", NULL};
    static const char *const formats[] = {"json", "ndjson", NULL};
    struct bh_problem problem = {0};
    struct bh_export query = {.kind = BH_EXPORT_EVENTS};
    uint64_t limit = 10000;
    int format = 0;
    bh_query_known(call, known, &problem);
    (void)bh_query_u64(call, "from", 0, MAX_EXACT, &query.from_sequence, &problem);
    (void)bh_query_u64(call, "limit", 1, 100000, &limit, &problem);
    (void)bh_query_choice(call, "format", formats, &format, &problem);
    query.limit = (uint32_t)limit;
    query.ndjson = format == 1;
    export(call, &query, &problem);
}

void bh_handle_live(struct bh_call *call)
{
    static const char *const known[] = {"at_us", "at", "group", "top", "since_us", "format", NULL};
    static const char *const at[] = {"", "peak", "limit", "end", NULL};
    static const char *const groups[] = {"stack", "primitive", NULL};
    static const char *const formats[] = {"json", "collapsed", NULL};
    struct bh_problem problem = {0};
    struct bh_export query = {.kind = BH_EXPORT_LIVE};
    uint64_t top = 100;
    int where = BH_AT_END;
    int group = 0;
    int format = 0;
    bh_query_known(call, known, &problem);
    if (read_instant(call, "at_us", &query.at_us, &problem))
        where = BH_AT_INSTANT;
    if (bh_query_choice(call, "at", at + 1, &where, &problem)) {
        where++; /* the choices start at peak */
        if (bh_query_text(call, "at_us"))
            bh_problem_add(&problem, BH_E_BAD_QUERY, "?at", "Give either at or at_us.");
    }
    (void)bh_query_choice(call, "group", groups, &group, &problem);
    (void)bh_query_u64(call, "top", 1, 10000, &top, &problem);
    query.has_since = read_instant(call, "since_us", &query.since_us, &problem);
    (void)bh_query_choice(call, "format", formats, &format, &problem);
    query.at = (enum bh_live_at)where;
    query.by_primitive = group == 1;
    query.top = (uint32_t)top;
    query.collapsed = format == 1;
    export(call, &query, &problem);
}

void bh_handle_post_events(struct bh_call *call)
{
    static const char *const known[] = {NULL};
    struct bh_problem problem = {0};
    const char *type = call->header(call, "Content-Type");
    bh_query_known(call, known, &problem);
    if (!refused(call, &problem))
        call->backend->post_events(call->backend->self, call,
                                   type && strncasecmp(type, "application/json", 16) != 0);
}

static void history(struct bh_call *call, enum bh_history which)
{
    static const char *const known[] = {NULL};
    struct bh_problem problem = {0};
    bh_query_known(call, known, &problem);
    if (!refused(call, &problem))
        call->backend->history(call->backend->self, call, which);
}

void bh_handle_transitions(struct bh_call *call)
{
    history(call, BH_HISTORY_TRANSITIONS);
}

void bh_handle_signals(struct bh_call *call)
{
    history(call, BH_HISTORY_SIGNALS);
}

void bh_handle_members(struct bh_call *call)
{
    history(call, BH_HISTORY_MEMBERS);
}

/* "bytes=0-99", "bytes=100-", "bytes=-10"; any other form is ignored, as RFC 9110 allows. */
static void read_byte_range(const char *text, struct bh_logs *logs)
{
    if (!text || strncmp(text, "bytes=", 6) != 0)
        return;
    char first[24];
    const char *dash = strchr(text, '-');
    if (!dash || (size_t)(dash - text - 6) >= sizeof first)
        return;
    memcpy(first, text + 6, (size_t)(dash - text - 6));
    first[dash - text - 6] = '\0';
    logs->range_first = 0;
    logs->range_last = UINT64_MAX;
    bool has_first = first[0] != '\0';
    if (has_first && bh_text_u64(first, "Range", INT64_MAX, &logs->range_first, NULL) < 0)
        return;
    if (dash[1] && bh_text_u64(dash + 1, "Range", INT64_MAX, &logs->range_last, NULL) < 0)
        return;
    if ((!has_first && !dash[1]) || (has_first && logs->range_last < logs->range_first))
        return;
    logs->range_suffix = !has_first;
    logs->range = true;
}

void bh_handle_logs(struct bh_call *call)
{
    static const char *const known[] = {"stream", "from", "follow", NULL};
    static const char *const streams[] = {"stdout", "stderr", NULL};
    static const char *const choices[] = {"0", "1", NULL};
    struct bh_problem problem = {0};
    struct bh_logs logs = {0};
    int stream = 0;
    int follow = 0;
    bh_query_known(call, known, &problem);
    (void)bh_query_choice(call, "stream", streams, &stream, &problem);
    logs.has_from = bh_query_u64(call, "from", 0, INT64_MAX, &logs.from, &problem);
    (void)bh_query_choice(call, "follow", choices, &follow, &problem);
    logs.stderr_stream = stream == 1;
    logs.follow = follow == 1;
    if (!logs.follow && !logs.has_from)
        read_byte_range(call->header(call, "Range"), &logs);
    if (!refused(call, &problem))
        call->backend->logs(call->backend->self, call, &logs);
}

/* "job,sample" to bits. */
static void read_types(const char *text, uint32_t *ret_types, struct bh_problem *problem)
{
    static const char *const names[] = {"job",        "sample",   "transition", "signal",
                                        "checkpoint", "recorder", "log",        "host"};
    if (!text || !*text)
        return;
    *ret_types = 0;
    while (*text) {
        size_t length = strcspn(text, ",");
        size_t i = 0;
        while (i < 8 && (strlen(names[i]) != length || strncmp(names[i], text, length) != 0))
            i++;
        if (i == 8) {
            bh_problem_add(
                problem, BH_E_BAD_QUERY, "?types",
                "Give job, sample, transition, signal, checkpoint, recorder, log or host, "
                "several separated by commas.");
            return;
        }
        *ret_types |= 1u << i;
        text += length;
        if (*text == ',')
            text++;
    }
}

static const char *last_event(const struct bh_call *call)
{
    const char *header = call->header(call, "Last-Event-ID");
    return header && *header ? header : bh_query_text(call, "since");
}

void bh_handle_job_events(struct bh_call *call)
{
    static const char *const known[] = {"since", "types", NULL};
    struct bh_problem problem = {0};
    struct bh_events events = {.types = BH_EVENT_ALL & ~BH_EVENT_HOST, .of_job = true};
    bh_query_known(call, known, &problem);
    read_types(bh_query_text(call, "types"), &events.types, &problem);
    events.since = last_event(call);
    if (!refused(call, &problem))
        call->backend->events(call->backend->self, call, &events);
}

void bh_handle_events(struct bh_call *call)
{
    static const char *const known[] = {"since", "types", "job", NULL};
    struct bh_problem problem = {0};
    struct bh_events events = {.types = BH_EVENT_ALL};
    bh_query_known(call, known, &problem);
    read_types(bh_query_text(call, "types"), &events.types, &problem);
    events.job = bh_query_text(call, "job");
    events.since = last_event(call);
    if (!refused(call, &problem))
        call->backend->events(call->backend->self, call, &events);
}
