/* Where an export begins to read: at a keyframe before its window, if there is one. */
#include "core/viz/memviz_internal.h"
#include "core/wire/evlog_record.h"

/* The newest keyframe not later than a time, or a sequence (time INT64_MIN): 1 and the blob, or 0.
 * A damaged one counts as none. */
static int find(const struct bh_keyframe_store *store, int64_t at_us, uint64_t sequence,
                struct bh_bytes *ret_blob, struct bh_keyframe_info *ret_info)
{
    bh_bytes_clear(ret_blob);
    int found = at_us == INT64_MIN ? store->by_sequence(store->context, sequence, ret_blob)
                                   : store->by_time(store->context, at_us, ret_blob);
    if (found <= 0)
        return found;
    if (ret_blob->failed)
        return BH_E_NOMEM;
    return bh_keyframe_peek(ret_blob->data, ret_blob->length, ret_info) < 0 ? 0 : 1;
}

/* Sequence of the last event before to_us, reading from a keyframe on. */
static int find_last(const struct bh_trace_source *source, const struct bh_memviz_options *options,
                     uint64_t *ret_last)
{
    struct bh_bytes blob = {0};
    struct bh_keyframe_info info = {0};
    struct bh_join join;
    const struct bh_event *event;
    bool open = options->to_us == INT64_MAX;
    int more =
        find(options->keyframes, open ? INT64_MIN : options->to_us - 1, UINT64_MAX, &blob, &info);
    bh_bytes_done(&blob);
    uint64_t last = more > 0 ? info.sequence : 0;
    if (more >= 0)
        more = bh_join_begin(&join, source, more > 0 ? info.next_segment : 0);
    if (more < 0)
        return more;
    while ((more = bh_join_next(&join, &event)) > 0 && event->at_us < options->to_us) {
        if (bh_evlog_kind_has_sequence(event->record.kind))
            last = event->record.sequence;
    }
    bh_join_done(&join);
    *ret_last = last;
    return more < 0 ? more : BH_OK;
}

/* Takes a keyframe if it lies later than the one chosen so far. */
static int consider(struct bh_survey *survey, const struct bh_memviz_options *options,
                    int64_t at_us, uint64_t sequence)
{
    struct bh_bytes blob = {0};
    struct bh_keyframe_info info;
    int found = find(options->keyframes, at_us, sequence, &blob, &info);
    if (found > 0 && info.next_segment > survey->start_segment) {
        bh_bytes_done(&survey->keyframe);
        survey->keyframe = blob;
        survey->start_segment = info.next_segment;
        return BH_OK;
    }
    bh_bytes_done(&blob);
    return found < 0 ? found : BH_OK;
}

int bh_memviz_start_choose(struct bh_survey *survey, const struct bh_trace_source *source,
                           const struct bh_memviz_options *options)
{
    uint64_t last = 0;
    int error = BH_OK;
    if (!options->keyframes)
        return BH_OK;
    if (options->from_us != INT64_MIN)
        error = consider(survey, options, options->from_us - 1, 0);
    if (error >= 0 && options->max_entries)
        error = find_last(source, options, &last);
    if (error >= 0 && last > options->max_entries && options->max_entries)
        error = consider(survey, options, INT64_MIN, last - options->max_entries);
    if (error < 0 || survey->keyframe.length == 0)
        return error;
    /* One that does not decode would fail both passes: read from the beginning instead. */
    struct bh_replay probe;
    bh_replay_init(&probe, source->header.anchor);
    error = bh_memviz_start_state(survey, UINT32_MAX, &probe);
    bh_replay_done(&probe);
    if (error < 0 && error != BH_E_NOMEM) {
        bh_bytes_done(&survey->keyframe);
        survey->start_segment = 0;
        return BH_OK;
    }
    return error;
}

static int copy_image(const struct bh_replay *all, uint32_t image, struct bh_replay *replay)
{
    int error = BH_OK;
    for (uint32_t i = 0; i < all->image_count && error >= 0; i++)
        error = bh_replay_image_put(replay, i, &all->images[i]);
    for (uint32_t i = 0; i < all->pool_used && error >= 0; i++) {
        if (all->pool[i].state != BH_BUFFER_FREE && all->pool[i].image == image)
            error = bh_replay_put(replay, &all->pool[i]);
    }
    replay->at_us = all->at_us;
    replay->began_us = all->began_us;
    replay->began = all->began;
    replay->sequence = all->sequence;
    return error;
}

int bh_memviz_start_state(const struct bh_survey *survey, uint32_t image, struct bh_replay *replay)
{
    struct bh_keyframe_info info;
    struct bh_replay all;
    if (survey->keyframe.length == 0)
        return BH_OK;
    if (image == UINT32_MAX)
        return bh_keyframe_decode(survey->keyframe.data, survey->keyframe.length, replay, &info);
    bh_replay_init(&all, replay->anchor);
    int error = bh_keyframe_decode(survey->keyframe.data, survey->keyframe.length, &all, &info);
    if (error >= 0)
        error = copy_image(&all, image, replay);
    bh_replay_done(&all);
    return error;
}

/* ---- the allocation that crossed the limit ---- */

static int far_link(void *context, const struct bh_evlog_record *link)
{
    struct bh_replay *replay = context;
    return bh_replay_apply(replay, link);
}

static int replay_to(struct bh_replay *replay, const struct bh_trace_source *source,
                     uint64_t segment, int64_t at_us)
{
    struct bh_join join;
    const struct bh_event *event;
    int more = bh_join_begin(&join, source, segment);
    if (more < 0)
        return more;
    join.far = far_link;
    join.context = replay;
    while (more >= 0 && (more = bh_join_next(&join, &event)) > 0 && event->at_us <= at_us)
        more = bh_replay_apply(replay, &event->record);
    bh_join_done(&join);
    return more < 0 ? more : BH_OK;
}

int bh_memviz_find_crossing(struct bh_survey *survey, const struct bh_trace_source *source,
                            const struct bh_memviz_options *options)
{
    struct bh_replay replay;
    struct bh_bytes blob = {0};
    struct bh_keyframe_info info = {0};
    int found =
        options->keyframes ? find(options->keyframes, options->limit_us, 0, &blob, &info) : 0;
    bh_replay_init(&replay, source->header.anchor);
    if (found > 0 && bh_keyframe_decode(blob.data, blob.length, &replay, &info) < 0) {
        bh_replay_done(&replay);
        info.next_segment = 0;
    }
    int error =
        found < 0 ? found : replay_to(&replay, source, info.next_segment, options->limit_us);
    uint32_t at = error < 0 ? BH_REPLAY_NONE : bh_replay_crossing(&replay);
    if (at != BH_REPLAY_NONE) {
        survey->crossing_sequence = replay.pool[at].sequence;
        survey->crossing_bytes = replay.pool[at].size_bytes;
        survey->crossing_image = replay.pool[at].image;
    }
    bh_bytes_done(&blob);
    bh_replay_done(&replay);
    return error;
}
