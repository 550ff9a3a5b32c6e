/* Chrome trace events (the JSON format that Perfetto and chrome://tracing open): counters active,
 * reserved and charge, instants for markers. Counters carry extremes: a span of the timeline gives
 * two points where its least and greatest value differ, so no peak is lost by the reduction. */
#include <stdlib.h>

#include "core/base/json_out.h"
#include "server/trace_internal.h"

#define CELLS 20000u /* spans over the range: 40,000 points a counter at most, about 4 MiB */

struct chrome {
    struct bh_trace *trace;
    struct bh_trace_job *job;
    int64_t from_us, to_us;
    uint32_t cells;
    uint64_t *min, *max; /* owned */
    struct bh_bytes text;
    struct bh_json json;
    struct bh_sink sink;
    struct bh_diag *diag;
};

static int give(struct chrome *chrome, size_t above)
{
    int result;

    if (chrome->text.failed)
        return bh_err_set(chrome->diag, BH_E_NOMEM, NULL, "Out of memory");
    if (chrome->text.length <= above)
        return 0;
    result = chrome->sink.write(chrome->sink.context, chrome->text.data, chrome->text.length);
    bh_bytes_clear(&chrome->text);
    return result;
}

static void write_counter(struct chrome *chrome, const char *name, int64_t at_us, uint64_t bytes)
{
    struct bh_json *json = &chrome->json;

    bh_json_object(json, NULL);
    bh_json_string(json, "name", name);
    bh_json_string(json, "ph", "C");
    bh_json_i64(json, "ts", at_us);
    bh_json_u64(json, "pid", 1);
    bh_json_object(json, "args");
    bh_json_u64(json, "bytes", bytes);
    bh_json_end(json);
    bh_json_end(json);
}

/* The extreme nearer to what was shown last comes first: a rise is drawn as a rise, and no dip or
 * spike appears that is not in the trace. */
static void write_cell(struct chrome *chrome, const char *name, uint32_t cell, uint64_t *shown)
{
    uint64_t least = chrome->min[cell], greatest = chrome->max[cell];
    uint32_t next = cell + 1 < chrome->cells ? cell + 1 : cell;
    int64_t at_us = bh_timeline_cell_us(chrome->from_us, chrome->to_us, chrome->cells, cell);
    int64_t next_us = bh_timeline_cell_us(chrome->from_us, chrome->to_us, chrome->cells, next);
    uint64_t before = *shown == BH_SERIES_UNKNOWN ? 0 : *shown;
    bool up = before <= least || (before < greatest && before - least < greatest - before);

    if (*shown != (up ? least : greatest))
        write_counter(chrome, name, at_us, up ? least : greatest);
    if (least != greatest)
        write_counter(chrome, name, at_us + (next_us - at_us) / 2, up ? greatest : least);
    *shown = up ? greatest : least;
}

static int write_cells(struct chrome *chrome, const char *name)
{
    uint64_t shown = BH_SERIES_UNKNOWN;

    for (uint32_t i = 0; i < chrome->cells; i++) {
        int result;

        if (chrome->min[i] == BH_SERIES_UNKNOWN)
            continue;
        write_cell(chrome, name, i, &shown);
        result = give(chrome, 32768);
        if (result < 0)
            return result;
    }
    return 0;
}

static int write_series(struct chrome *chrome, enum bh_series series, const char *name)
{
    struct bh_level_store levels = bh_trace_rows_levels(&chrome->job->rows);
    struct bh_series_summary summary;
    int result = bh_series_summary(&levels, series, &summary);

    if (result < 0 || summary.points == 0)
        return result;
    chrome->from_us = summary.first_us > chrome->from_us ? summary.first_us : chrome->from_us;
    if (summary.first_us > chrome->to_us)
        return 0;
    chrome->cells = bh_timeline_cells(chrome->from_us, chrome->to_us, CELLS);
    result = bh_series_query(&levels, series, chrome->from_us, chrome->to_us, INT64_MAX,
                             chrome->cells, chrome->min, chrome->max);
    return result < 0 ? result : write_cells(chrome, name);
}

static int write_marker(void *user, const struct bh_trace_marker *marker)
{
    struct chrome *chrome = user;
    struct bh_json *json = &chrome->json;
    char text[160];

    bh_json_object(json, NULL);
    bh_json_string(json, "name", bh_trace_marker_text(marker, text, sizeof text));
    bh_json_string(json, "ph", "i");
    bh_json_i64(json, "ts", marker->at_us);
    bh_json_u64(json, "pid", 1);
    bh_json_u64(json, "tid", 1);
    bh_json_string(json, "s", "g"); /* a line over the whole height */
    bh_json_end(json);
    return give(chrome, 32768);
}

/* One metadata event: what the process, or its one track of instants, is called. */
static void write_name(struct chrome *chrome, const char *event, const char *name)
{
    struct bh_json *json = &chrome->json;

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

/* The end of an open range: the last thing known. */
static int64_t known_end(const struct bh_trace_job *job)
{
    int64_t now_us = job->finished ? 0 : bh_clock_wall().us;
    int64_t end_us = job->ended_at.us > job->last_at.us ? job->ended_at.us : job->last_at.us;

    return end_us > now_us ? end_us : now_us;
}

static int write_all(struct chrome *chrome, struct bh_trace_range range)
{
    static const struct {
        enum bh_series series;
        const char *name;
    } counters[] = {{BH_SERIES_ACTIVE, "active"},
                    {BH_SERIES_RESERVED, "reserved"},
                    {BH_SERIES_CHARGE, "charge"}};
    int result = 0;

    bh_json_begin(&chrome->json, &chrome->text, BH_JSON_COMPACT);
    bh_json_object(&chrome->json, NULL);
    bh_json_string(&chrome->json, "displayTimeUnit", "ms");
    bh_json_array(&chrome->json, "traceEvents");
    write_name(chrome, "process_name", chrome->job->id);
    write_name(chrome, "thread_name", "markers");
    for (size_t i = 0; i < 3 && result >= 0; i++) {
        chrome->from_us = range.from_us;
        chrome->to_us = range.to_us == INT64_MAX ? known_end(chrome->job) : range.to_us;
        result = write_series(chrome, counters[i].series, counters[i].name);
    }
    if (result >= 0)
        result = bh_trace_markers(chrome->trace, chrome->job, range.from_us, range.to_us,
                                  write_marker, chrome, chrome->diag);
    if (result < 0)
        return result;
    bh_json_end(&chrome->json);
    bh_json_end(&chrome->json);
    bh_json_finish(&chrome->json);
    return give(chrome, 0);
}

int bh_trace_chrome(struct bh_trace *trace, const char *id, struct bh_trace_range range,
                    bh_trace_sink sink, void *user, struct bh_diag *diag)
{
    struct bh_trace_job job;
    struct chrome chrome = {.trace = trace, .job = &job, .sink = {sink, user}, .diag = diag};
    int result;

    if (range.from_us > range.to_us)
        return bh_err_set(diag, BH_E_BAD_QUERY, "from_us", "from_us is later than to_us");
    result = bh_trace_begin(trace, id, &job, diag);
    if (result < 0)
        return result;
    chrome.min = calloc(CELLS + 1, sizeof *chrome.min);
    chrome.max = calloc(CELLS + 1, sizeof *chrome.max);
    if (!chrome.min || !chrome.max)
        result = bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    else
        result = write_all(&chrome, range);
    free(chrome.min);
    free(chrome.max);
    bh_bytes_done(&chrome.text);
    result = bh_trace_end(trace, &job, result);
    if (result < 0 && diag && diag->detail[0] == '\0')
        return bh_err_set(diag, result, NULL, "The trace cannot be exported");
    return result;
}
