/* The snapshot as a whole: order of the parts and what stands beside traces and segments. */
#include "core/viz/memviz.h"

#include <stdlib.h>
#include <string.h>

#include "core/viz/memviz_internal.h"

#define SAME_MARK_US 2000000 /* a mark's way through the journal and through the log, at most */

struct trace {
    uint32_t image;
    struct bh_replay state; /* at the window's end */
    uint64_t lost;          /* inside the window */
};

struct export
{
    const struct bh_trace_source *source;
    const struct bh_memviz_options *options;
    const char *job_id;
    struct bh_survey survey;
    struct bh_names names;
    struct bh_pickle *pickle;
    struct trace *traces;
    uint32_t trace_count;
};

static void key(struct export *export, const char *name)
{
    bh_pickle_text(export->pickle, name, strlen(name));
}

static void key_text(struct export *export, const char *name, const char *text)
{
    key(export, name);
    bh_pickle_text(export->pickle, text, strlen(text));
}

static void key_u64(struct export *export, const char *name, uint64_t value)
{
    key(export, name);
    bh_pickle_u64(export->pickle, value);
}

static void key_i64(struct export *export, const char *name, int64_t value)
{
    key(export, name);
    bh_pickle_i64(export->pickle, value);
}

static void key_bool(struct export *export, const char *name, bool value)
{
    key(export, name);
    bh_pickle_bool(export->pickle, value);
}

/* None where the value is the one that stands for unknown. */
static void key_or_none(struct export *export, const char *name, int64_t value, int64_t unknown)
{
    key(export, name);
    if (value == unknown)
        bh_pickle_none(export->pickle);
    else
        bh_pickle_i64(export->pickle, value);
}

/* ---- parts ---- */

static int put_traces(struct export *export)
{
    key(export, "device_traces");
    bh_pickle_list(export->pickle);
    for (uint32_t i = 0; i < export->trace_count; i++) {
        struct trace *trace = &export->traces[i];
        int error = bh_memviz_trace(&export->names, &export->survey, export->source,
                                    export->options, trace->image, &trace->state, &trace->lost);
        if (error < 0)
            return error;
    }
    if (export->trace_count == 0)
        bh_memviz_trace_empty(&export->names, export->survey.last_us);
    bh_pickle_end(export->pickle);
    return BH_OK;
}

static int put_segments(struct export *export)
{
    key(export, "segments");
    bh_pickle_list(export->pickle);
    for (uint32_t i = 0; i < export->trace_count; i++) {
        int error = bh_memviz_segments(&export->names, &export->traces[i].state, i);
        if (error < 0)
            return error;
    }
    bh_pickle_end(export->pickle);
    return BH_OK;
}

static struct bh_text mlx_version(const struct export *export)
{
    for (uint32_t i = 0; i < export->trace_count; i++) {
        const struct bh_image *image =
            bh_dictionary_image(export->survey.dictionary, export->traces[i].image);
        if (image && image->mlx_version)
            return bh_dictionary_string(export->survey.dictionary, image->mlx_version);
    }
    return (struct bh_text){"", 0};
}

static void put_settings(struct export *export)
{
    struct bh_text version = mlx_version(export);
    key(export, "allocator_settings");
    bh_pickle_dict(export->pickle);
    key_text(export, "backend", "mlx");
    if (version.length) {
        key(export, "mlx_version");
        bh_pickle_text(export->pickle, version.bytes, version.length);
    }
    bh_pickle_end(export->pickle);
}

static void put_stage(struct export *export, const char *name, size_t length, int64_t at_us,
                      uint32_t device, enum bh_name stage)
{
    struct bh_names *names = &export->names;
    bh_pickle_dict(export->pickle);
    bh_names_fixed(names, BH_NAME_NAME);
    bh_pickle_text(export->pickle, name, length);
    bh_names_fixed(names, BH_NAME_STAGE);
    bh_names_fixed(names, stage);
    bh_names_fixed(names, BH_NAME_DEVICE);
    bh_pickle_u64(export->pickle, device);
    bh_names_fixed(names, BH_NAME_TIME_US);
    bh_pickle_i64(export->pickle, at_us);
    bh_pickle_end(export->pickle);
}

/* An instant is a stage that starts and ends at once, in every trace. */
static void put_instant(struct export *export, const char *name, size_t length, int64_t at_us)
{
    uint32_t devices = export->trace_count ? export->trace_count : 1;
    for (uint32_t device = 0; device < devices; device++) {
        put_stage(export, name, length, at_us, device, BH_NAME_START);
        put_stage(export, name, length, at_us, device, BH_NAME_END);
    }
}

/* The caller's annotations up to a time, from *next on. */
static void put_given(struct export *export, size_t *next, int64_t until_us)
{
    const struct bh_memviz_options *options = export->options;
    for (; *next < options->annotation_count; (*next)++) {
        const struct bh_annotation *given = &options->annotations[*next];
        if (given->at_us > until_us)
            return;
        if (given->at_us >= options->from_us && given->at_us < options->to_us)
            put_instant(export, given->name, strlen(given->name), given->at_us);
    }
}

/* The caller may know a mark from the journal, or have read it from the log itself. */
static bool is_given(const struct export *export, size_t *from, struct bh_text label, int64_t at_us)
{
    const struct bh_memviz_options *options = export->options;
    while (*from < options->annotation_count &&
           options->annotations[*from].at_us < at_us - SAME_MARK_US)
        (*from)++;
    for (size_t i = *from; i < options->annotation_count; i++) {
        if (options->annotations[i].at_us > at_us + SAME_MARK_US)
            return false;
        if (strcmp(options->annotations[i].name, label.bytes) == 0)
            return true;
    }
    return false;
}

static int put_annotations(struct export *export)
{
    struct bh_join join;
    const struct bh_event *event;
    size_t next = 0, same = 0;
    int more = 0;
    key(export, "external_annotations");
    bh_pickle_list(export->pickle);
    if (export->survey.marks) {
        more = bh_join_begin(&join, export->source, export->survey.start_segment);
        while (more >= 0 && (more = bh_join_next(&join, &event)) > 0) {
            if (event->record.kind != BH_EVLOG_MARK || event->at_us < export->options->from_us ||
                event->record.sequence < export->survey.first_sequence)
                continue;
            if (event->at_us >= export->options->to_us)
                break;
            struct bh_text label =
                bh_dictionary_string(export->survey.dictionary, event->record.text);
            if (is_given(export, &same, label, event->at_us))
                continue;
            put_given(export, &next, event->at_us);
            put_instant(export, label.bytes, label.length, event->at_us);
        }
        bh_join_done(&join);
    }
    put_given(export, &next, INT64_MAX);
    bh_pickle_end(export->pickle);
    return more < 0 ? more : BH_OK;
}

static void put_limits(struct export *export)
{
    const struct bh_memviz_options *options = export->options;
    key(export, "limits");
    bh_pickle_dict(export->pickle);
    if (options->limit_bytes) {
        key_u64(export, "limit_bytes", options->limit_bytes);
        key_u64(export, "warning_bytes", options->warning_bytes);
        key_u64(export, "recovery_bytes", options->recovery_bytes);
        key_u64(export, "emergency_bytes", options->emergency_bytes);
    }
    if (options->limit_crossed) {
        key_i64(export, "crossed_at_us", options->limit_us);
        key_u64(export, "crossed_bytes", options->crossed_bytes);
        key_u64(export, "crossed_by_seq", export->survey.crossing_sequence);
    }
    bh_pickle_end(export->pickle);
}

static void put_trace_names(struct export *export)
{
    key(export, "traces");
    bh_pickle_list(export->pickle);
    for (uint32_t i = 0; i < export->trace_count; i++) {
        const struct bh_replay *state = &export->traces[i].state;
        uint32_t id = export->traces[i].image;
        const struct bh_image *image = bh_dictionary_image(export->survey.dictionary, id);
        bh_pickle_dict(export->pickle);
        key_or_none(export, "pid", image ? image->pid : 0, 0);
        key_u64(export, "image", image ? image->number : 0);
        key_u64(export, "device", i);
        key_u64(export, "active_bytes",
                id < state->image_count ? state->images[id].active_bytes : 0);
        key_u64(export, "cached_bytes",
                id < state->image_count ? state->images[id].cached_bytes : 0);
        key_u64(export, "events_lost", export->traces[i].lost);
        bh_pickle_end(export->pickle);
    }
    bh_pickle_end(export->pickle);
}

static void put_extras(struct export *export)
{
    const struct bh_survey *survey = &export->survey;
    const struct bh_memviz_options *options = export->options;
    uint64_t lost = 0;
    for (uint32_t i = 0; i < export->trace_count; i++)
        lost += export->traces[i].lost;
    key(export, "bulkhead");
    bh_pickle_dict(export->pickle);
    key_text(export, "schema", "bulkhead.trace");
    key_u64(export, "schema_version", 1);
    key_text(export, "package_version", BH_VERSION);
    key_text(export, "job_id", export->job_id);
    key(export, "anchor");
    bh_pickle_dict(export->pickle);
    if (export->source) {
        key_u64(export, "boottime_ns", export->source->header.anchor.mono.ns);
        key_i64(export, "epoch_us", export->source->header.anchor.wall.us);
    }
    bh_pickle_end(export->pickle);
    key_or_none(export, "from_us", options->from_us, INT64_MIN);
    key_or_none(export, "to_us", options->to_us, INT64_MAX);
    key_u64(export, "events", survey->events);
    key_u64(export, "first_seq", survey->events ? survey->first_sequence : 0);
    key_u64(export, "last_seq", survey->events ? survey->last_sequence : 0);
    key_u64(export, "events_lost", lost);
    key_bool(export, "trace_full", survey->full);
    put_limits(export);
    put_trace_names(export);
    bh_pickle_end(export->pickle);
}

/* ---- the whole ---- */

static int choose_traces(struct export *export)
{
    const struct bh_survey *survey = &export->survey;
    export->traces = calloc(survey->image_count + 1, sizeof *export->traces);
    if (!export->traces)
        return BH_E_NOMEM;
    for (uint32_t i = 0; i < survey->image_count; i++) {
        if (!survey->images[i].seen)
            continue;
        struct trace *trace = &export->traces[export->trace_count++];
        trace->image = i;
        bh_replay_init(&trace->state, export->source->header.anchor);
    }
    return BH_OK;
}

static int write_all(struct export *export)
{
    bh_pickle_dict(export->pickle);
    int error = put_traces(export);
    if (error >= 0)
        error = put_segments(export);
    if (error < 0)
        return error;
    put_settings(export);
    error = put_annotations(export);
    if (error < 0)
        return error;
    put_extras(export);
    bh_pickle_end(export->pickle);
    error = bh_pickle_finish(export->pickle);
    return error < 0 ? error : export->names.error;
}

static int run(struct export *export, struct bh_sink sink)
{
    int error = bh_dictionary_new(&export->survey.dictionary);
    if (error >= 0 && export->source)
        error = bh_survey_run(&export->survey, export->source, export->options);
    if (error >= 0)
        error = choose_traces(export);
    if (error < 0)
        return error;
    bh_pickle_begin(export->pickle, sink);
    bh_names_begin(&export->names, export->pickle, export->survey.dictionary);
    error = write_all(export);
    bh_names_done(&export->names);
    return error;
}

int bh_memviz_write(const struct bh_trace_source *source, const char *job_id,
                    const struct bh_memviz_options *options, struct bh_sink sink,
                    struct bh_diag *diag)
{
    struct export export = {.source = source, .options = options, .job_id = job_id};
    if (options->from_us > options->to_us)
        return bh_err_set(diag, BH_E_BAD_QUERY, "from_us", "from_us lies after to_us");
    export.pickle = malloc(sizeof *export.pickle);
    int error = export.pickle ? run(&export, sink) : BH_E_NOMEM;
    for (uint32_t i = 0; i < export.trace_count; i++)
        bh_replay_done(&export.traces[i].state);
    free(export.traces);
    free(export.pickle);
    bh_survey_done(&export.survey);
    if (error < 0)
        return bh_err_set(diag, error, NULL, "The snapshot cannot be written: %s",
                          bh_err_title(error));
    return BH_OK;
}
