/* Live sets, event lists and pickles: core/viz over the database. */
#include <stdlib.h>
#include <string.h>

#include "core/viz/events.h"
#include "core/viz/live.h"
#include "core/viz/memviz.h"
#include "server/trace_internal.h"

/* core/viz reports an error without words in some places. */
static int with_words(int result, struct bh_diag *diag, const char *words)
{
    if (result < 0 && diag && diag->detail[0] == '\0')
        return bh_err_set(diag, result, NULL, "%s: %s", words, bh_err_title(result));
    return result;
}

static const struct bh_trace_source *source_of(const struct bh_trace_job *job)
{
    return job->segments > 0 ? &job->rows.source : NULL;
}

/* ---- live ---- */

static enum bh_live_when when_of(enum bh_trace_at at)
{
    switch (at) {
    case BH_TRACE_AT_TIME:
        return BH_LIVE_AT_US;
    case BH_TRACE_AT_PEAK:
        return BH_LIVE_AT_PEAK;
    case BH_TRACE_AT_LIMIT:
        return BH_LIVE_AT_LIMIT;
    case BH_TRACE_AT_END:
        return BH_LIVE_AT_END;
    }
    return BH_LIVE_AT_END;
}

static struct bh_live_query live_query(const struct bh_trace_job *job,
                                       const struct bh_trace_live_query *query)
{
    return (struct bh_live_query){
        .when = when_of(query->at),
        .at_us = query->at_us,
        .by_primitive = query->by_primitive,
        .top = query->collapsed ? UINT32_MAX : query->top,
        .since = query->since,
        .since_us = query->since_us,
        .growing = !query->collapsed,
        .limit_crossed = job->limit_crossed_at.us != 0,
        .limit_us = job->limit_crossed_at.us,
    };
}

static int write_live(const struct bh_live *live, const struct bh_dictionary *dictionary,
                      const struct bh_trace_job *job, bool collapsed, struct bh_sink sink)
{
    if (collapsed)
        return bh_live_collapsed(live, dictionary, sink);
    return bh_live_json(live, dictionary, job->id, sink);
}

static int live(struct bh_trace *trace, struct bh_trace_job *job,
                const struct bh_trace_live_query *query, struct bh_sink sink, struct bh_diag *diag)
{
    const struct bh_dictionary *dictionary;
    struct bh_keyframe_store keyframes = bh_trace_rows_keyframes(&job->rows);
    struct bh_live_query wanted = live_query(job, query);
    const struct bh_live_hint hint = {
        .events = job->events,
        .peak_sequence = job->peak_sequence,
        .last_sequence = job->event_sequence,
        .began_us = job->began_at.us,
        .event_us = job->last_at.us,
    };
    struct bh_live answer = {0};
    int result;

    if (query->at == BH_TRACE_AT_LIMIT && job->limit_crossed_at.us == 0)
        return bh_err_set(diag, BH_E_LIMIT_NOT_CROSSED, "at", "This job never reached its limit");
    if (job->segments == 0)
        return bh_err_set(diag, BH_E_NO_TRACE, NULL, "Nothing was recorded in this job");
    result = bh_trace_dictionary(trace, job, &dictionary, diag);
    if (result < 0)
        return result;
    result =
        bh_live_compute(&job->rows.source, dictionary, &keyframes, &hint, &wanted, &answer, diag);
    if (result < 0)
        return result;
    result = write_live(&answer, dictionary, job, query->collapsed, sink);
    bh_live_done(&answer);
    return result;
}

int bh_trace_live(struct bh_trace *trace, const char *id, const struct bh_trace_live_query *query,
                  bh_trace_sink sink, void *user, struct bh_diag *diag)
{
    struct bh_trace_job job;
    int result = bh_trace_begin(trace, id, &job, diag);

    if (result < 0)
        return result;
    result = live(trace, &job, query, (struct bh_sink){sink, user}, diag);
    return with_words(bh_trace_end(trace, &job, result), diag, "The live set cannot be made");
}

/* ---- events ---- */

int bh_trace_events(struct bh_trace *trace, const char *id, uint64_t from, uint32_t limit,
                    bool ndjson, bh_trace_sink sink, void *user, struct bh_diag *diag)
{
    struct bh_events_query query = {
        .from = from,
        .limit = limit > BH_TRACE_EVENTS_MAX ? BH_TRACE_EVENTS_MAX : limit,
        .ndjson = ndjson,
    };
    const struct bh_dictionary *dictionary = NULL;
    struct bh_trace_job job;
    int result;

    if (limit == 0)
        query.limit = BH_TRACE_EVENTS_DEFAULT;
    result = bh_trace_begin(trace, id, &job, diag);
    if (result < 0)
        return result;
    result = bh_trace_dictionary(trace, &job, &dictionary, diag);
    if (result >= 0)
        result = bh_events_write(source_of(&job), dictionary, &query, (struct bh_sink){sink, user},
                                 diag);
    return with_words(bh_trace_end(trace, &job, result), diag, "The events cannot be listed");
}

/* ---- pickle ---- */

#define MAX_ANNOTATIONS                                                                            \
    4096u /* a program that marks every step would fill the viewer otherwise                       \
           */

struct annotations {
    struct bh_annotation *list; /* owned */
    char *texts;                /* owned */
    size_t count;
};
#define TEXT_BYTES 128

static int add_annotation(void *user, const struct bh_trace_marker *marker)
{
    struct annotations *annotations = user;
    char *text = annotations->texts + annotations->count * TEXT_BYTES;

    if (annotations->count == MAX_ANNOTATIONS)
        return 0;
    annotations->list[annotations->count++] =
        (struct bh_annotation){marker->at_us, bh_trace_marker_text(marker, text, TEXT_BYTES)};
    return 0;
}

static void annotations_done(struct annotations *annotations)
{
    free(annotations->list);
    free(annotations->texts);
}

static int take_annotations(struct bh_trace *trace, const struct bh_trace_job *job,
                            struct bh_trace_range range, struct annotations *ret_annotations,
                            struct bh_diag *diag)
{
    struct annotations annotations = {0};
    int result;

    annotations.list = calloc(MAX_ANNOTATIONS, sizeof *annotations.list);
    annotations.texts = malloc((size_t)MAX_ANNOTATIONS * TEXT_BYTES);
    if (!annotations.list || !annotations.texts)
        result = bh_err_set(diag, BH_E_NOMEM, NULL, "Out of memory");
    else
        result = bh_trace_markers(trace, job, range.from_us, range.to_us, add_annotation,
                                  &annotations, diag);
    if (result < 0) {
        annotations_done(&annotations);
        return result;
    }
    *ret_annotations = annotations;
    return 0;
}

int bh_trace_pickle(struct bh_trace *trace, const char *id, struct bh_trace_range range,
                    uint64_t max_entries, bh_trace_sink sink, void *user, struct bh_diag *diag)
{
    struct bh_keyframe_store keyframes;
    struct annotations annotations;
    struct bh_memviz_options options;
    struct bh_trace_job job;
    int result = bh_trace_begin(trace, id, &job, diag);

    if (result < 0)
        return result;
    result = take_annotations(trace, &job, range, &annotations, diag);
    if (result < 0)
        return bh_trace_end(trace, &job, result);
    keyframes = bh_trace_rows_keyframes(&job.rows);
    options = (struct bh_memviz_options){
        .keyframes = &keyframes,
        .from_us = range.from_us,
        .to_us = range.to_us,
        .max_entries = max_entries,
        .limit_crossed = job.limit_crossed_at.us != 0,
        .limit_us = job.limit_crossed_at.us,
        .limit_bytes = job.limit_bytes,
        .warning_bytes = job.warning_bytes,
        .recovery_bytes = job.recovery_bytes,
        .emergency_bytes = job.emergency_bytes,
        .crossed_bytes = job.limit_crossed_bytes,
        .annotations = annotations.list,
        .annotation_count = annotations.count,
    };
    result = bh_memviz_write(source_of(&job), job.id, &options, (struct bh_sink){sink, user}, diag);
    annotations_done(&annotations);
    return with_words(bh_trace_end(trace, &job, result), diag, "The snapshot cannot be written");
}
