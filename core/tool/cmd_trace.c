/* events export, pickle: what the server serves, from a run directory. */
#include <stdio.h>

#include "core/tool/facts.h"
#include "core/tool/tool.h"
#include "core/viz/events.h"
#include "core/viz/memviz.h"

#define DEFAULT_ENTRIES 1000000

int bh_tool_events_export(int argc, char **argv, struct bh_diag *diag)
{
    static const char *const FORMATS[] = {"json", "ndjson"};
    const char *path, *out = NULL, *format = "ndjson";
    struct bh_events_query query = {.from = 1};
    struct bh_tool_option options[] = {
        {"-o", BH_TOOL_TEXT, &out, 0, "FILE", "write there instead of stdout", false},
        {"--format", BH_TOOL_TEXT, &format, 0, "json|ndjson", "default ndjson, an event a line",
         false},
        {"--from", BH_TOOL_U64, &query.from, 0, "SEQ", "first event, default 1", false},
        {"--limit", BH_TOOL_U64, &query.limit, 0, "N", "events at most, default 0 = all", false},
    };
    struct bh_tool_usage usage = {"events export [options] RUNDIR|events.bhe", "", options, 4};
    struct bh_tool_trace trace;
    struct bh_tool_output output;
    int result = bh_tool_parse(&usage, argc, argv, &path, diag);
    if (result != 0)
        return result < 0 ? result : 0;
    int chosen = bh_tool_word(format, FORMATS, 2, "--format", diag);
    if (chosen < 0)
        return chosen;
    query.ndjson = chosen == 1;
    result = bh_tool_trace_open(path, &trace, diag);
    if (result < 0)
        return result;
    result = bh_tool_output_open(out, false, &output, diag);
    if (result >= 0) {
        result = bh_events_write(trace.source, trace.dictionary, &query,
                                 bh_tool_output_sink(&output), diag);
        result = bh_tool_output_close(&output, result, diag);
    }
    bh_tool_trace_close(&trace);
    return result;
}

static struct bh_memviz_options memviz_options(const struct bh_tool_facts *facts)
{
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    options.limit_crossed = facts->limit_crossed;
    options.limit_us = facts->crossed_us;
    options.crossed_bytes = facts->crossed_bytes;
    options.limit_bytes = facts->limits.limit_bytes;
    options.warning_bytes = facts->limits.warning_bytes;
    options.recovery_bytes = facts->limits.recovery_bytes;
    options.emergency_bytes = facts->limits.emergency_bytes;
    options.annotations = facts->annotations;
    options.annotation_count = facts->annotation_count;
    return options;
}

static int write_pickle(const char *path, const char *out, int64_t from_us, int64_t to_us,
                        uint64_t max_entries, struct bh_diag *diag)
{
    struct bh_tool_trace trace;
    struct bh_tool_facts facts;
    struct bh_tool_output output;
    int result = bh_tool_trace_open(path, &trace, diag);
    if (result < 0)
        return result;
    result = bh_tool_facts_read(trace.dirfd, &facts, diag);
    if (result >= 0) {
        struct bh_memviz_options options = memviz_options(&facts);
        options.from_us = from_us;
        options.to_us = to_us;
        options.max_entries = max_entries;
        result = bh_tool_output_open(out, true, &output, diag);
        if (result >= 0) {
            result = bh_memviz_write(trace.source, trace.run_id, &options,
                                     bh_tool_output_sink(&output), diag);
            result = bh_tool_output_close(&output, result, diag);
        }
        bh_tool_facts_done(&facts);
    }
    bh_tool_trace_close(&trace);
    return result;
}

int bh_tool_pickle(int argc, char **argv, struct bh_diag *diag)
{
    const char *path, *out = NULL;
    int64_t from_us = INT64_MIN, to_us = INT64_MAX;
    uint64_t max_entries = DEFAULT_ENTRIES;
    struct bh_tool_option options[] = {
        {"-o", BH_TOOL_TEXT, &out, 0, "FILE", "write there instead of stdout", false},
        {"--from-us", BH_TOOL_US, &from_us, 0, "US", "from this time on (epoch microseconds)",
         false},
        {"--to-us", BH_TOOL_US, &to_us, 0, "US", "before this time", false},
        {"--max-entries", BH_TOOL_U64, &max_entries, 0, "N",
         "the last N events; 0 = all; default 1000000", false},
    };
    struct bh_tool_usage usage = {
        "pickle [options] RUNDIR|events.bhe",
        "Open the file at docs.pytorch.org/memory_viz or with torch/cuda/_memory_viz.py.\n",
        options, 4};
    int result = bh_tool_parse(&usage, argc, argv, &path, diag);
    if (result != 0)
        return result < 0 ? result : 0;
    return write_pickle(path, out, from_us, to_us, max_entries, diag);
}
