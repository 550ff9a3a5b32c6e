/* timeline: the three series as JSON; trace: the same as Chrome trace events. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/json_out.h"
#include "core/tool/series.h"

#define POINTS_DEFAULT 1000
#define POINTS_MAX     10000

struct request {
    const char *path, *out;
    int64_t from_us, to_us;
    uint64_t points;
};

/* A request's series, cut into cells. */
struct cut {
    struct bh_tool_trace trace;
    struct bh_tool_facts facts;
    struct bh_tool_series series;
    int64_t from_us, to_us;
    uint32_t cells;
    uint64_t *min[BH_SERIES_COUNT], *max[BH_SERIES_COUNT]; /* owned */
};

static const char *const NAMES[BH_SERIES_COUNT] = {"active", "reserved", "charge"};

static int fill(struct cut *cut, const struct request *request, struct bh_diag *diag)
{
    cut->from_us = request->from_us == INT64_MIN ? cut->series.from_us : request->from_us;
    cut->to_us = request->to_us == INT64_MAX ? cut->series.to_us : request->to_us;
    if (cut->from_us > cut->to_us)
        return bh_err_set(diag, BH_E_BAD_QUERY, "--from-us", "It lies after the end");
    if (cut->series.from_us == 0 && cut->series.to_us == 0)
        return BH_OK; /* nothing is known at all: no cells */
    cut->cells = bh_timeline_cells(cut->from_us, cut->to_us, (uint32_t)request->points);
    for (int i = 0; i < BH_SERIES_COUNT; i++) {
        cut->min[i] = calloc(cut->cells, sizeof *cut->min[i]);
        cut->max[i] = calloc(cut->cells, sizeof *cut->max[i]);
        if (!cut->min[i] || !cut->max[i])
            return bh_err_set(diag, BH_E_NOMEM, NULL, "No memory for the timeline");
        int error = bh_series_query(&cut->series.store, (enum bh_series)i, cut->from_us, cut->to_us,
                                    cut->series.to_us, cut->cells, cut->min[i], cut->max[i]);
        if (error < 0)
            return bh_err_set(diag, error, NULL, "The timeline cannot be read");
    }
    return BH_OK;
}

static void cut_done(struct cut *cut)
{
    for (int i = 0; i < BH_SERIES_COUNT; i++) {
        free(cut->min[i]);
        free(cut->max[i]);
    }
    bh_tool_series_done(&cut->series);
    bh_tool_facts_done(&cut->facts);
    bh_tool_trace_close(&cut->trace);
}

static int cut_make(const struct request *request, struct cut *ret_cut, struct bh_diag *diag)
{
    struct cut cut = {0};
    int error = bh_tool_trace_open(request->path, &cut.trace, diag);
    if (error < 0)
        return error;
    error = bh_tool_facts_read(cut.trace.dirfd, &cut.facts, diag);
    if (error >= 0)
        error = bh_tool_series_build(&cut.trace, &cut.facts, &cut.series, diag);
    if (error >= 0)
        error = fill(&cut, request, diag);
    if (error < 0) {
        cut_done(&cut);
        return error;
    }
    *ret_cut = cut;
    return BH_OK;
}

static int parse(struct request *request, const char *line, const char *text, int argc, char **argv,
                 struct bh_diag *diag)
{
    struct bh_tool_option options[] = {
        {"-o", BH_TOOL_TEXT, &request->out, 0, "FILE", "write there instead of stdout", false},
        {"--from-us", BH_TOOL_US, &request->from_us, 0, "US",
         "from this time on (epoch microseconds)", false},
        {"--to-us", BH_TOOL_US, &request->to_us, 0, "US", "up to this time, inclusive", false},
        {"--points", BH_TOOL_U64, &request->points, POINTS_MAX, "N", "spans, default 1000", false},
    };
    struct bh_tool_usage usage = {line, text, options, 4};
    request->from_us = INT64_MIN;
    request->to_us = INT64_MAX;
    request->points = POINTS_DEFAULT;
    int result = bh_tool_parse(&usage, argc, argv, &request->path, diag);
    if (result == 0 && request->points == 0)
        return bh_err_set(diag, BH_E_INVALID_VALUE, "--points", "At least 1");
    return result;
}

static int write_out(const char *path, struct bh_bytes *text, struct bh_diag *diag)
{
    struct bh_tool_output output;
    if (text->failed)
        return bh_err_set(diag, BH_E_NOMEM, NULL, "No memory for the answer");
    int error = bh_tool_output_open(path, false, &output, diag);
    if (error < 0)
        return error;
    struct bh_sink sink = bh_tool_output_sink(&output);
    error = sink.write(sink.context, text->data, text->length);
    if (error < 0)
        (void)bh_err_set(diag, error, NULL, "The answer could not be written");
    return bh_tool_output_close(&output, error, diag);
}

/* ---- timeline ---- */

static void put_series(struct bh_json *json, const char *name, const char *what,
                       const uint64_t *values, uint32_t cells)
{
    char key[32];
    (void)snprintf(key, sizeof key, "%s_%s", name, what);
    bh_json_array(json, key);
    for (uint32_t i = 0; i < cells; i++) {
        if (values[i] == BH_SERIES_UNKNOWN)
            bh_json_null(json, NULL);
        else
            bh_json_u64(json, NULL, values[i]);
    }
    bh_json_end(json);
}

static void put_limits(struct bh_json *json, const struct bh_tool_facts *facts)
{
    bh_json_array(json, "limits");
    for (size_t i = 0; i < facts->change_count; i++) {
        const struct bh_tool_limits *limits = &facts->changes[i];
        bh_json_object(json, NULL);
        bh_json_i64(json, "at_us", limits->at_us);
        bh_json_u64(json, "limit_bytes", limits->limit_bytes);
        bh_json_u64(json, "warning_bytes", limits->warning_bytes);
        bh_json_u64(json, "recovery_bytes", limits->recovery_bytes);
        bh_json_u64(json, "emergency_bytes", limits->emergency_bytes);
        bh_json_end(json);
    }
    bh_json_end(json);
}

static void put_markers(struct bh_json *json, const struct cut *cut)
{
    bh_json_array(json, "markers");
    for (size_t i = 0; i < cut->facts.annotation_count; i++) {
        const struct bh_annotation *marker = &cut->facts.annotations[i];
        if (marker->at_us < cut->from_us || marker->at_us > cut->to_us)
            continue;
        bh_json_object(json, NULL);
        bh_json_i64(json, "at_us", marker->at_us);
        bh_json_string(json, "text", marker->name);
        bh_json_end(json);
    }
    bh_json_end(json);
}

static void put_losses(struct bh_json *json, const struct cut *cut)
{
    bh_json_array(json, "losses");
    for (size_t i = 0; i < cut->series.loss_count; i++) {
        const struct bh_loss *loss = &cut->series.losses[i];
        bh_json_object(json, NULL);
        bh_json_i64(json, "from_us", loss->from_us);
        bh_json_i64(json, "to_us", loss->to_us);
        bh_json_u64(json, "count", loss->count);
        bh_json_string(json, "reason", "events_lost");
        bh_json_end(json);
    }
    bh_json_end(json);
}

static void put_peak(struct bh_json *json, const struct cut *cut)
{
    bh_json_object(json, "peak");
    for (int i = BH_SERIES_COUNT - 1; i >= 0; i--) {
        const struct bh_series_summary *summary = &cut->series.summary[i];
        char key[32];
        (void)snprintf(key, sizeof key, "%s_bytes", NAMES[i]);
        if (!summary->points || summary->min > summary->max) {
            bh_json_null(json, NAMES[i]);
            continue;
        }
        bh_json_object(json, NAMES[i]);
        bh_json_i64(json, "at_us", summary->max_us);
        bh_json_u64(json, key, summary->max);
        bh_json_end(json);
    }
    bh_json_end(json);
}

static void put_timeline(struct bh_bytes *out, const struct cut *cut)
{
    struct bh_json json;
    bh_json_begin(&json, out, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_string(&json, "job_id", cut->trace.run_id);
    bh_json_i64(&json, "from_us", cut->from_us);
    bh_json_i64(&json, "to_us", cut->to_us);
    bh_json_array(&json, "t_us");
    for (uint32_t i = 0; i < cut->cells; i++)
        bh_json_i64(&json, NULL, bh_timeline_cell_us(cut->from_us, cut->to_us, cut->cells, i));
    bh_json_end(&json);
    for (int i = 0; i < BH_SERIES_COUNT; i++) {
        put_series(&json, NAMES[i], "min", cut->min[i], cut->cells);
        put_series(&json, NAMES[i], "max", cut->max[i], cut->cells);
    }
    put_limits(&json, &cut->facts);
    put_markers(&json, cut);
    put_losses(&json, cut);
    put_peak(&json, cut);
    bh_json_end(&json);
    bh_json_finish(&json);
    bh_bytes_append(out, "\n", 1);
}

int bh_tool_timeline(int argc, char **argv, struct bh_diag *diag)
{
    struct request request = {0};
    struct bh_bytes out = {0};
    struct cut cut;
    int result = parse(&request, "timeline [options] RUNDIR|events.bhe", "", argc, argv, diag);
    if (result != 0)
        return result < 0 ? result : 0;
    result = cut_make(&request, &cut, diag);
    if (result < 0)
        return result;
    put_timeline(&out, &cut);
    result = write_out(request.out, &out, diag);
    bh_bytes_done(&out);
    cut_done(&cut);
    return result;
}

/* ---- Chrome trace ---- */

static void put_counter(struct bh_json *json, const char *name, int64_t at_us, uint64_t value)
{
    if (value == BH_SERIES_UNKNOWN)
        return;
    bh_json_object(json, NULL);
    bh_json_string(json, "name", name);
    bh_json_string(json, "ph", "C");
    bh_json_i64(json, "ts", at_us);
    bh_json_u64(json, "pid", 1);
    bh_json_object(json, "args");
    bh_json_u64(json, "bytes", value);
    bh_json_end(json);
    bh_json_end(json);
}

/* Both extremes of a span, the one nearer to what was shown last first. */
static void put_extremes(struct bh_json *json, const struct cut *cut, int series, uint32_t cell,
                         uint64_t *shown)
{
    uint64_t least = cut->min[series][cell], greatest = cut->max[series][cell];
    int64_t at_us = bh_timeline_cell_us(cut->from_us, cut->to_us, cut->cells, cell);
    int64_t next_us = cell + 1 < cut->cells
                          ? bh_timeline_cell_us(cut->from_us, cut->to_us, cut->cells, cell + 1)
                          : cut->to_us;
    uint64_t before = *shown == BH_SERIES_UNKNOWN ? 0 : *shown;
    bool up = before <= least || (before < greatest && before - least < greatest - before);

    if (*shown != (up ? least : greatest))
        put_counter(json, NAMES[series], at_us, up ? least : greatest);
    if (least != greatest)
        put_counter(json, NAMES[series], at_us + (next_us - at_us) / 2, up ? greatest : least);
    *shown = up ? greatest : least;
}

static void put_counters(struct bh_json *json, const struct cut *cut)
{
    uint64_t shown[BH_SERIES_COUNT] = {BH_SERIES_UNKNOWN, BH_SERIES_UNKNOWN, BH_SERIES_UNKNOWN};
    for (uint32_t i = 0; i < cut->cells; i++) {
        for (int j = 0; j < BH_SERIES_COUNT; j++) {
            if (cut->min[j][i] != BH_SERIES_UNKNOWN)
                put_extremes(json, cut, j, i, &shown[j]);
        }
    }
}

/* What the process and its one track of instants are called. */
static void put_name(struct bh_json *json, const char *event, const char *name)
{
    bh_json_object(json, NULL);
    bh_json_string(json, "name", event);
    bh_json_string(json, "ph", "M");
    bh_json_u64(json, "pid", 1);
    bh_json_u64(json, "tid", 1);
    bh_json_object(json, "args");
    bh_json_string(json, "name", name);
    bh_json_end(json);
    bh_json_end(json);
}

static void put_instants(struct bh_json *json, const struct cut *cut)
{
    for (size_t i = 0; i < cut->facts.annotation_count; i++) {
        const struct bh_annotation *marker = &cut->facts.annotations[i];
        if (marker->at_us < cut->from_us || marker->at_us > cut->to_us)
            continue;
        bh_json_object(json, NULL);
        bh_json_string(json, "name", marker->name);
        bh_json_string(json, "ph", "i");
        bh_json_i64(json, "ts", marker->at_us);
        bh_json_u64(json, "pid", 1);
        bh_json_u64(json, "tid", 1);
        bh_json_string(json, "s", "g");
        bh_json_end(json);
    }
}

int bh_tool_trace(int argc, char **argv, struct bh_diag *diag)
{
    struct request request = {0};
    struct bh_bytes out = {0};
    struct bh_json json;
    struct cut cut;
    int result = parse(&request, "trace [options] RUNDIR|events.bhe",
                       "Open the file at ui.perfetto.dev or chrome://tracing.\n", argc, argv, diag);
    if (result != 0)
        return result < 0 ? result : 0;
    result = cut_make(&request, &cut, diag);
    if (result < 0)
        return result;
    bh_json_begin(&json, &out, BH_JSON_COMPACT);
    bh_json_object(&json, NULL);
    bh_json_array(&json, "traceEvents");
    put_name(&json, "process_name", "bulkhead");
    put_name(&json, "thread_name", "markers");
    put_counters(&json, &cut);
    put_instants(&json, &cut);
    bh_json_end(&json);
    bh_json_string(&json, "displayTimeUnit", "ms");
    bh_json_end(&json);
    bh_json_finish(&json);
    result = write_out(request.out, &out, diag);
    bh_bytes_done(&out);
    cut_done(&cut);
    return result;
}
