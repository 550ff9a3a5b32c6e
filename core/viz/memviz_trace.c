/* Second pass, once per image: its entries, and its state at the end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/viz/memviz_internal.h"
#include "core/wire/evlog_record.h"

#define SMALL_BYTES (1024u * 1024u) /* PyTorch's border between small and large segments */

struct tracer {
    struct bh_names *names;
    const struct bh_survey *survey;
    const struct bh_memviz_options *options;
    uint32_t image;
    int64_t at_us;    /* of the event under way */
    bool inside;      /* the window has begun */
    uint64_t lost;    /* inside */
    bool oom_pending; /* the limit was crossed in this image and is not shown yet */
};

#define BH_VIZ_CHANGE(change, first, second, third)                                                \
    [BH_CHANGE_##change] = {BH_VIZ_ENTRY_##first, BH_VIZ_ENTRY_##second, BH_VIZ_ENTRY_##third},
static const uint8_t ENTRIES_OF[][3] = {
#include "core/viz/actions.def"
};
#undef BH_VIZ_CHANGE

static void key_u64(struct bh_names *names, enum bh_name key, uint64_t value)
{
    bh_names_fixed(names, key);
    bh_pickle_u64(names->pickle, value);
}

static void put_entry(struct bh_names *names, enum bh_viz_entry entry,
                      const struct bh_buffer *buffer, int64_t at_us)
{
    bool own = entry == BH_VIZ_ENTRY_ALLOC || entry == BH_VIZ_ENTRY_SEGMENT_ALLOC;
    bh_pickle_dict(names->pickle);
    bh_names_fixed(names, BH_NAME_ACTION);
    bh_names_entry(names, entry);
    key_u64(names, BH_NAME_ADDR, buffer->address);
    key_u64(names, BH_NAME_SIZE, buffer->size_bytes);
    bh_names_fixed(names, BH_NAME_STREAM);
    bh_pickle_i64(names->pickle, buffer->stream);
    bh_names_fixed(names, BH_NAME_TIME_US);
    bh_pickle_i64(names->pickle, at_us);
    bh_names_fixed(names, BH_NAME_FRAMES);
    bh_names_frames(names, own ? buffer->stack : 0); /* a free has no stack of its own */
    bh_names_fixed(names, BH_NAME_CATEGORY);
    bh_names_string(names, buffer->primitive);
    bh_names_fixed(names, BH_NAME_USER_METADATA);
    bh_names_metadata(names, buffer->primitive, own ? 0 : buffer->stack);
    key_u64(names, BH_NAME_REQUESTED_SIZE, buffer->requested_bytes);
    bh_pickle_end(names->pickle);
}

/* Entries about no buffer: snapshot, oom, annotate. metadata NULL = an empty text. */
static void put_notice(struct bh_names *names, enum bh_viz_entry entry, uint64_t size,
                       int64_t at_us, const char *metadata)
{
    bool oom = entry == BH_VIZ_ENTRY_OOM;
    bh_pickle_dict(names->pickle);
    bh_names_fixed(names, BH_NAME_ACTION);
    bh_names_entry(names, entry);
    key_u64(names, oom ? BH_NAME_DEVICE_FREE : BH_NAME_ADDR, 0);
    key_u64(names, BH_NAME_SIZE, size);
    key_u64(names, BH_NAME_STREAM, 0);
    bh_names_fixed(names, BH_NAME_TIME_US);
    bh_pickle_i64(names->pickle, at_us);
    bh_names_fixed(names, BH_NAME_FRAMES);
    bh_names_frames(names, 0);
    bh_names_fixed(names, BH_NAME_CATEGORY);
    bh_names_fixed(names, BH_NAME_UNKNOWN);
    bh_names_fixed(names, BH_NAME_USER_METADATA);
    bh_pickle_text(names->pickle, metadata ? metadata : "", metadata ? strlen(metadata) : 0);
    key_u64(names, BH_NAME_REQUESTED_SIZE, size);
    bh_pickle_end(names->pickle);
}

static int put_change(void *context, enum bh_change change, const struct bh_buffer *buffer,
                      bool implied, bool base)
{
    struct tracer *tracer = context;
    (void)implied; /* an implied change is shown like any other: the history must add up */
    if (!tracer->inside || base)
        return BH_OK;
    for (size_t i = 0; i < 3 && ENTRIES_OF[change][i] != BH_VIZ_ENTRY_NONE; i++)
        put_entry(tracer->names, (enum bh_viz_entry)ENTRIES_OF[change][i], buffer, tracer->at_us);
    return tracer->names->pickle->error;
}

static void put_oom(struct tracer *tracer)
{
    char text[128];
    (void)snprintf(text, sizeof text,
                   "Bulkhead: the charge of the job reached its limit (%" PRIu64 " of %" PRIu64
                   " bytes)",
                   tracer->options->crossed_bytes, tracer->options->limit_bytes);
    put_notice(tracer->names, BH_VIZ_ENTRY_OOM, tracer->survey->crossing_bytes,
               tracer->options->limit_us, text);
    tracer->oom_pending = false;
}

/* Before the first event after the crossing: the mark of it. */
static void pass_time(struct tracer *tracer, int64_t at_us)
{
    if (tracer->inside && tracer->oom_pending && at_us > tracer->options->limit_us)
        put_oom(tracer);
}

static void put_lost(struct tracer *tracer, const struct bh_event *event)
{
    char text[96];
    (void)snprintf(text, sizeof text, "Bulkhead: %" PRIu64 " events were lost here",
                   event->record.count);
    put_notice(tracer->names, BH_VIZ_ENTRY_ANNOTATE, 0, event->at_us, text);
}

/* The LINK that bh_join could not reach. */
static struct bh_evlog_record with_far_link(const struct tracer *tracer,
                                            const struct bh_event *event)
{
    struct bh_evlog_record record = event->record;
    bool alloc = record.kind >= BH_EVLOG_ALLOC_NEW && record.kind <= BH_EVLOG_ALLOC_MAKE_BUFFER;
    const struct bh_far_link *far =
        alloc && !event->linked ? bh_survey_far(tracer->survey, record.sequence) : NULL;
    if (!far || far->image != record.image)
        return record;
    if (!record.stack)
        record.stack = far->stack;
    if (!record.primitive)
        record.primitive = far->primitive;
    if (record.stream == -1)
        record.stream = far->stream;
    return record;
}

static int take_event(struct tracer *tracer, struct bh_replay *replay, const struct bh_event *event)
{
    const struct bh_memviz_options *options = tracer->options;
    bool ours = event->record.image == tracer->image;
    bool begins = bh_evlog_kind_has_sequence(event->record.kind) && tracer->survey->events &&
                  event->record.sequence >= tracer->survey->first_sequence;
    if (!tracer->inside && begins) {
        tracer->inside = true;
        /* a crossing before the first event shown is not shown, unless it lies in the window asked
         * for */
        if (options->limit_us < options->from_us ||
            (options->max_entries && event->at_us > options->limit_us))
            tracer->oom_pending = false;
    }
    if (!ours && event->record.kind != BH_EVLOG_IMAGE)
        return BH_OK;
    pass_time(tracer, event->at_us);
    tracer->at_us = event->at_us;
    struct bh_evlog_record record = with_far_link(tracer, event);
    int error = bh_replay_apply(replay, &record);
    if (error >= 0 && ours && tracer->inside && record.kind == BH_EVLOG_LOST) {
        put_lost(tracer, event);
        tracer->lost += record.count;
    }
    return error < 0 ? error : tracer->names->pickle->error;
}

/* To a buffer that was allocated before the start. */
static int far_link(void *context, const struct bh_evlog_record *link)
{
    struct bh_replay *replay = context;
    return bh_replay_find_pending(replay, link->sequence) == BH_REPLAY_NONE
               ? BH_OK
               : bh_replay_apply(replay, link);
}

static int take_all(struct tracer *tracer, const struct bh_trace_source *source,
                    struct bh_replay *replay)
{
    struct bh_join join;
    const struct bh_event *event;
    int more = bh_memviz_start_state(tracer->survey, tracer->image, replay);
    if (more >= 0)
        more = bh_join_begin(&join, source, tracer->survey->start_segment);
    if (more < 0)
        return more;
    join.far = far_link;
    join.context = replay;
    while (more >= 0 && (more = bh_join_next(&join, &event)) > 0) {
        if (event->at_us >= tracer->options->to_us)
            break;
        more = take_event(tracer, replay, event);
    }
    bh_join_done(&join);
    return more < 0 ? more : BH_OK;
}

void bh_memviz_trace_empty(struct bh_names *names, int64_t at_us)
{
    bh_pickle_list(names->pickle);
    put_notice(names, BH_VIZ_ENTRY_SNAPSHOT, 0, at_us, NULL);
    bh_pickle_end(names->pickle);
}

int bh_memviz_trace(struct bh_names *names, const struct bh_survey *survey,
                    const struct bh_trace_source *source, const struct bh_memviz_options *options,
                    uint32_t image, struct bh_replay *final, uint64_t *ret_lost)
{
    struct tracer tracer = {
        .names = names,
        .survey = survey,
        .options = options,
        .image = image,
        .oom_pending = options->limit_crossed && survey->crossing_image == image &&
                       options->limit_us < options->to_us,
    };
    final->observer.change = put_change;
    final->observer.context = &tracer;
    bh_pickle_list(names->pickle);
    int error = take_all(&tracer, source, final);
    final->observer.change = NULL;
    if (error < 0)
        return error;
    int64_t last_us = survey->last_us;
    pass_time(&tracer, INT64_MAX);
    if (options->limit_crossed && options->limit_us > last_us && options->limit_us < options->to_us)
        last_us = options->limit_us;
    put_notice(names, BH_VIZ_ENTRY_SNAPSHOT, 0, last_us, NULL);
    bh_pickle_end(names->pickle);
    *ret_lost = tracer.lost;
    return names->error;
}

/* ---- segments ---- */

static void put_block(struct bh_names *names, const struct bh_buffer *buffer)
{
    bool active = buffer->state == BH_BUFFER_ACTIVE;
    bh_pickle_dict(names->pickle);
    key_u64(names, BH_NAME_ADDRESS, buffer->address);
    key_u64(names, BH_NAME_SIZE, buffer->size_bytes);
    key_u64(names, BH_NAME_REQUESTED_SIZE, buffer->requested_bytes);
    bh_names_fixed(names, BH_NAME_STATE);
    bh_names_fixed(names, active ? BH_NAME_ACTIVE_ALLOCATED : BH_NAME_INACTIVE);
    bh_names_fixed(names, BH_NAME_FRAMES);
    bh_names_frames(names, buffer->stack);
    bh_pickle_end(names->pickle);
}

static void put_segment(struct bh_names *names, const struct bh_buffer *buffer, uint32_t device)
{
    uint64_t active = buffer->state == BH_BUFFER_ACTIVE ? buffer->size_bytes : 0;
    bh_pickle_dict(names->pickle);
    key_u64(names, BH_NAME_DEVICE, device);
    key_u64(names, BH_NAME_ADDRESS, buffer->address);
    key_u64(names, BH_NAME_TOTAL_SIZE, buffer->size_bytes);
    bh_names_fixed(names, BH_NAME_STREAM);
    bh_pickle_i64(names->pickle, buffer->stream);
    bh_names_fixed(names, BH_NAME_SEGMENT_TYPE);
    bh_names_fixed(names, buffer->size_bytes > SMALL_BYTES ? BH_NAME_LARGE : BH_NAME_SMALL);
    key_u64(names, BH_NAME_ALLOCATED_SIZE, active);
    key_u64(names, BH_NAME_ACTIVE_SIZE, active);
    key_u64(names, BH_NAME_REQUESTED_SIZE, active ? buffer->requested_bytes : 0);
    bh_names_fixed(names, BH_NAME_SEGMENT_POOL_ID);
    bh_pickle_pair(names->pickle, 0, 0);
    bh_names_fixed(names, BH_NAME_IS_EXPANDABLE);
    bh_pickle_bool(names->pickle, false);
    bh_names_fixed(names, BH_NAME_FRAMES);
    bh_names_frames(names, buffer->stack);
    bh_names_fixed(names, BH_NAME_BLOCKS);
    bh_pickle_list(names->pickle);
    put_block(names, buffer);
    bh_pickle_end(names->pickle);
    bh_pickle_end(names->pickle);
}

static int compare_addresses(const void *left, const void *right)
{
    const struct bh_buffer *a = *(const struct bh_buffer *const *)left;
    const struct bh_buffer *b = *(const struct bh_buffer *const *)right;
    return a->address < b->address ? -1 : a->address > b->address;
}

int bh_memviz_segments(struct bh_names *names, const struct bh_replay *state, uint32_t device)
{
    const struct bh_buffer **sorted = malloc((state->live + 1) * sizeof(*sorted));
    if (!sorted)
        return BH_E_NOMEM;
    uint32_t count = 0;
    for (uint32_t i = 0; i < state->pool_used; i++) {
        if (state->pool[i].state != BH_BUFFER_FREE)
            sorted[count++] = &state->pool[i];
    }
    qsort(sorted, count, sizeof(*sorted), compare_addresses);
    for (uint32_t i = 0; i < count; i++)
        put_segment(names, sorted[i], device);
    free(sorted);
    return names->error;
}
