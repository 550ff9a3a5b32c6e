/* live: what was live at an instant. */
#include <string.h>

#include "core/base/text.h"
#include "core/tool/facts.h"
#include "core/viz/live_text.h"
#include "core/tool/tool.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_COLLAPSED };

struct request {
    const char *path, *out, *at, *group, *format;
    enum format chosen;
    struct bh_live_query query;
};

static int write_answer(const struct request *request, const struct bh_tool_trace *trace,
                        const struct bh_live *live, struct bh_sink sink)
{
    struct bh_bytes text = {0};
    if (request->chosen == FORMAT_JSON) {
        int error = bh_live_json(live, trace->dictionary, trace->run_id, sink);
        return error < 0 ? error : sink.write(sink.context, "\n", 1);
    }
    if (request->chosen == FORMAT_COLLAPSED)
        return bh_live_collapsed(live, trace->dictionary, sink);
    bh_live_text(&text, live, trace->dictionary);
    int error = text.failed ? BH_E_NOMEM : sink.write(sink.context, text.data, text.length);
    bh_bytes_done(&text);
    return error;
}

/* "peak", "limit", "end" or epoch microseconds. */
static int choose_instant(struct request *request, struct bh_diag *diag)
{
    static const char *const WORDS[] = {"peak", "limit", "end"};
    static const enum bh_live_when WHEN[] = {BH_LIVE_AT_PEAK, BH_LIVE_AT_LIMIT, BH_LIVE_AT_END};
    uint64_t us;
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(request->at, WORDS[i]) == 0) {
            request->query.when = WHEN[i];
            return BH_OK;
        }
    }
    int error = bh_text_u64(request->at, "--at", INT64_MAX - 1, &us, diag);
    if (error < 0)
        return bh_err_set(diag, error, "--at",
                          "\"%.40s\" is none of peak, limit, end and no time in microseconds",
                          request->at);
    request->query.when = BH_LIVE_AT_US;
    request->query.at_us = (int64_t)us;
    return BH_OK;
}

static int choose(struct request *request, struct bh_diag *diag)
{
    static const char *const GROUPS[] = {"stack", "primitive"};
    static const char *const FORMATS[] = {"text", "json", "collapsed"};
    int group = bh_tool_word(request->group, GROUPS, 2, "--group", diag);
    if (group < 0)
        return group;
    int format = bh_tool_word(request->format, FORMATS, 3, "--format", diag);
    if (format < 0)
        return format;
    request->query.by_primitive = group == 1;
    request->chosen = (enum format)format;
    if (request->chosen == FORMAT_COLLAPSED)
        request->query.top = UINT32_MAX; /* a flame graph needs all of it */
    return choose_instant(request, diag);
}

static int answer(struct request *request, const struct bh_tool_trace *trace, struct bh_diag *diag)
{
    struct bh_tool_facts facts;
    struct bh_tool_output output;
    struct bh_live live;
    if (!trace->source)
        return bh_err_set(diag, BH_E_NO_TRACE, NULL, "Nothing was recorded in this run");
    int error = bh_tool_facts_read(trace->dirfd, &facts, diag);
    if (error < 0)
        return error;
    request->query.limit_crossed = facts.limit_crossed;
    request->query.limit_us = facts.crossed_us;
    request->query.growing = true;
    bh_tool_facts_done(&facts);
    error =
        bh_live_compute(trace->source, trace->dictionary, NULL, NULL, &request->query, &live, diag);
    if (error < 0)
        return error;
    error = bh_tool_output_open(request->out, false, &output, diag);
    if (error >= 0) {
        error = write_answer(request, trace, &live, bh_tool_output_sink(&output));
        if (error < 0)
            (void)bh_err_set(diag, error, NULL, "The answer could not be written");
        error = bh_tool_output_close(&output, error, diag);
    }
    bh_live_done(&live);
    return error;
}

int bh_tool_live(int argc, char **argv, struct bh_diag *diag)
{
    struct request request = {.at = "end", .group = "stack", .format = "text"};
    uint64_t top = 20;
    struct bh_tool_option options[] = {
        {"-o", BH_TOOL_TEXT, &request.out, 0, "FILE", "write there instead of stdout", false},
        {"--at", BH_TOOL_TEXT, &request.at, 0, "US|peak|limit|end", "which instant, default end",
         false},
        {"--since", BH_TOOL_US, &request.query.since_us, 0, "US", "show growth since this time",
         false},
        {"--group", BH_TOOL_TEXT, &request.group, 0, "stack|primitive", "default stack", false},
        {"--top", BH_TOOL_U64, &top, 10000, "N", "groups shown, default 20", false},
        {"--format", BH_TOOL_TEXT, &request.format, 0, "text|json|collapsed",
         "collapsed: for flame graph tools; default text", false},
    };
    struct bh_tool_usage usage = {"live [options] RUNDIR|events.bhe", "", options, 6};
    struct bh_tool_trace trace;
    int result = bh_tool_parse(&usage, argc, argv, &request.path, diag);
    if (result != 0)
        return result < 0 ? result : 0;
    request.query.since = options[2].given;
    request.query.top = (uint32_t)top;
    result = choose(&request, diag);
    if (result >= 0)
        result = bh_tool_trace_open(request.path, &trace, diag);
    if (result < 0)
        return result;
    result = answer(&request, &trace, diag);
    bh_tool_trace_close(&trace);
    return result;
}
