/* First pass over the log: what the window holds, which images have a trace, and the LINKs that
 * come too late for bh_join. */
#include <stdlib.h>

#include "core/viz/memviz_internal.h"
#include "core/wire/evlog_record.h"

static int note_far(void *context, const struct bh_evlog_record *link)
{
    struct bh_survey *survey = context;
    if (survey->far_count == survey->far_capacity) {
        size_t capacity = survey->far_capacity ? survey->far_capacity * 2 : 256;
        struct bh_far_link *grown = realloc(survey->far, capacity * sizeof *grown);
        if (!grown)
            return BH_E_NOMEM;
        survey->far = grown;
        survey->far_capacity = capacity;
    }
    survey->far[survey->far_count++] = (struct bh_far_link){
        .sequence = link->sequence,
        .image = link->image,
        .stack = link->stack,
        .primitive = link->primitive,
        .stream = link->stream,
    };
    return BH_OK;
}

static int compare_far(const void *left, const void *right)
{
    const struct bh_far_link *a = left, *b = right;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

const struct bh_far_link *bh_survey_far(const struct bh_survey *survey, uint64_t sequence)
{
    struct bh_far_link key = {.sequence = sequence};
    if (survey->far_count == 0)
        return NULL;
    return bsearch(&key, survey->far, survey->far_count, sizeof key, compare_far);
}

static int reserve_image(struct bh_survey *survey, uint32_t image)
{
    if (image < survey->image_count)
        return BH_OK;
    if (image > bh_dictionary_images(survey->dictionary))
        return BH_E_MALFORMED;
    struct bh_survey_image *grown = realloc(survey->images, (image + 1) * sizeof *grown);
    if (!grown)
        return BH_E_NOMEM;
    for (uint32_t i = survey->image_count; i <= image; i++)
        grown[i] = (struct bh_survey_image){0};
    survey->images = grown;
    survey->image_count = image + 1;
    return BH_OK;
}

static void note_inside(struct bh_survey *survey, const struct bh_evlog_record *record)
{
    if (survey->events == 0)
        survey->first_sequence = record->sequence;
    survey->last_sequence = record->sequence;
    survey->events++;
}

static int note(struct bh_survey *survey, const struct bh_memviz_options *options,
                const struct bh_event *event)
{
    const struct bh_evlog_record *record = &event->record;
    int error = reserve_image(survey, record->image);
    if (error < 0)
        return error;
    if (record->kind == BH_EVLOG_FULL)
        survey->full = true;
    if (event->at_us >= options->to_us)
        return BH_OK;
    survey->last_us = event->at_us;
    if (record->image && record->kind != BH_EVLOG_IMAGE && record->kind != BH_EVLOG_HOLE &&
        record->kind != BH_EVLOG_TAKEN)
        survey->images[record->image].seen = true;
    survey->marks += record->kind == BH_EVLOG_MARK;
    if (bh_evlog_kind_has_sequence(record->kind) && event->at_us >= options->from_us)
        note_inside(survey, record);
    return BH_OK;
}

/* Only the last N: sequences are dense, so the first one follows from the last. */
static void keep_last(struct bh_survey *survey, uint64_t max_entries)
{
    if (max_entries == 0 || survey->events <= max_entries)
        return;
    survey->first_sequence = survey->last_sequence - max_entries + 1;
    survey->events = max_entries;
}

/* Images that were recorded before the start. */
static int note_start(struct bh_survey *survey, struct bh_anchor anchor)
{
    struct bh_replay state;
    bh_replay_init(&state, anchor);
    int error = bh_memviz_start_state(survey, UINT32_MAX, &state);
    survey->last_us = state.at_us;
    survey->full = state.full;
    for (uint32_t i = 1; error >= 0 && i < state.image_count; i++) {
        error = reserve_image(survey, i);
        if (error >= 0)
            survey->images[i].seen = state.images[i].based;
    }
    bh_replay_done(&state);
    return error;
}

/* Past the window's end a LINK may still come: all of the log is read for it, or, with keyframes,
 * as far as a LINK usually lies behind. */
static int read_on(const struct bh_memviz_options *options, const struct bh_event *event,
                   uint32_t *beyond)
{
    if (event->at_us < options->to_us || !options->keyframes)
        return 1;
    return ++*beyond < BH_JOIN_EVENTS;
}

static int read_log(struct bh_survey *survey, const struct bh_trace_source *source,
                    const struct bh_memviz_options *options)
{
    struct bh_join join;
    const struct bh_event *event;
    uint32_t beyond = 0;
    int more = bh_join_begin(&join, source, survey->start_segment);
    if (more < 0)
        return more;
    join.dictionary = survey->keyframe.length ? NULL : survey->dictionary;
    join.far = note_far;
    join.context = survey;
    while (more >= 0 && (more = bh_join_next(&join, &event)) > 0 &&
           read_on(options, event, &beyond))
        more = note(survey, options, event);
    bh_join_done(&join);
    return more < 0 ? more : BH_OK;
}

int bh_survey_run(struct bh_survey *survey, const struct bh_trace_source *source,
                  const struct bh_memviz_options *options)
{
    int error = bh_memviz_start_choose(survey, source, options);
    if (error >= 0 && survey->keyframe.length) {
        error = bh_dictionary_load(survey->dictionary, source);
        if (error >= 0)
            error = note_start(survey, source->header.anchor);
    }
    if (error >= 0)
        error = read_log(survey, source, options);
    if (error >= 0 && options->limit_crossed)
        error = bh_memviz_find_crossing(survey, source, options);
    if (error < 0)
        return error;
    if (survey->far_count)
        qsort(survey->far, survey->far_count, sizeof *survey->far, compare_far);
    keep_last(survey, options->max_entries);
    /* A job that passed its limit without any allocation of MLX: shown in the first trace. */
    for (uint32_t i = 1; survey->crossing_image == 0 && i < survey->image_count; i++) {
        if (survey->images[i].seen)
            survey->crossing_image = i;
    }
    return BH_OK;
}

void bh_survey_done(struct bh_survey *survey)
{
    bh_dictionary_free(survey->dictionary);
    bh_bytes_done(&survey->keyframe);
    free(survey->images);
    free(survey->far);
    *survey = (struct bh_survey){0};
}
