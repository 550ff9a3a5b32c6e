/* events.bhe and all that is made of it, from any bytes. Input: first byte a mode, then
 *     0  the bytes as they are: a file, a keyframe, a chunk, a root
 *     1  bodies of segments (u8 length / 8 each) that get right headers and checksums, so that
 * records of any content reach the replay, pickles, live sets, events and the import */
#include <stdlib.h>
#include <string.h>

#include "core/viz/events.h"
#include "core/viz/ingest.h"
#include "core/viz/level.h"
#include "core/viz/live.h"
#include "core/viz/memviz.h"
#include "core/wire/evlog_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int swallow(void *context, const void *data, size_t length)
{
    (void)context;
    (void)data;
    (void)length;
    return 0;
}

static int take_keyframe(void *context, const struct bh_keyframe_info *info, const void *data,
                         size_t length)
{
    struct bh_replay replay;
    struct bh_keyframe_info again;
    (void)context;
    bh_replay_init(&replay, (struct bh_anchor){{0}, {0}});
    if (bh_keyframe_decode(data, length, &replay, &again) < 0 || again.sequence != info->sequence)
        abort();
    bh_replay_done(&replay);
    return 0;
}

static int take_loss(void *context, const struct bh_loss *loss)
{
    (void)context;
    if (loss->from_us > loss->to_us)
        abort();
    return 0;
}

static int take_mark(void *context, const struct bh_mark *mark)
{
    (void)context;
    if (!mark->label.bytes)
        abort();
    return 0;
}

static void import(const struct bh_trace_source *source)
{
    struct bh_level_memory *memory;
    struct bh_ingest *ingest;
    const unsigned char *data;
    size_t length;
    if (bh_level_memory_new(&memory) < 0)
        return;
    if (bh_ingest_new(source->header.anchor, &ingest) >= 0) {
        const struct bh_ingest_store store = {bh_level_memory_store(memory), NULL, take_keyframe,
                                              take_loss, take_mark};
        (void)source->seek(source->context, 0, false);
        while (source->next(source->context, &data, &length) > 0 &&
               bh_ingest_segment(ingest, data, length, NULL) >= 0)
            (void)bh_ingest_flush(ingest, &store);
        bh_ingest_free(ingest);
    }
    bh_level_memory_free(memory);
}

static void ask(const struct bh_trace_source *source, const struct bh_dictionary *names,
                struct bh_sink sink)
{
    static const enum bh_live_when WHEN[] = {BH_LIVE_AT_US, BH_LIVE_AT_PEAK, BH_LIVE_AT_END};
    for (int i = 0; i < 3; i++) {
        struct bh_live live;
        struct bh_live_query query = {
            .when = WHEN[i], .growing = true, .since = i, .limit_crossed = true, .limit_us = 3};
        if (bh_live_compute(source, names, NULL, NULL, &query, &live, NULL) < 0)
            continue;
        (void)bh_live_json(&live, names, "x", sink);
        (void)bh_live_collapsed(&live, names, sink);
        bh_live_done(&live);
    }
}

static void use_log(const unsigned char *data, size_t size)
{
    const struct bh_sink sink = {swallow, NULL};
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    struct bh_events_query query = {.from = 2, .limit = 1000};
    struct bh_trace_file *file;
    struct bh_dictionary *names;
    if (bh_trace_memory_open(data, size, &file, NULL) < 0)
        return;
    const struct bh_trace_source *source = bh_trace_file_source(file);
    options.limit_crossed = true;
    options.limit_us = 4;
    options.max_entries = 50;
    (void)bh_memviz_write(source, "x", &options, sink, NULL);
    (void)bh_events_write(source, NULL, &query, sink, NULL);
    if (bh_dictionary_new(&names) >= 0) {
        if (bh_dictionary_load(names, source) >= 0)
            ask(source, names, sink);
        bh_dictionary_free(names);
    }
    import(source);
    bh_trace_file_close(file);
}

static void use_bytes(const unsigned char *data, size_t size)
{
    struct bh_replay replay;
    struct bh_keyframe_info info;
    struct bh_level_chunk chunk;
    struct bh_level_node all;
    struct bh_level_point points[BH_LEVEL_BLOCK];
    uint32_t top;
    bh_replay_init(&replay, (struct bh_anchor){{0}, {0}});
    (void)bh_keyframe_decode(data, size, &replay, &info);
    bh_replay_done(&replay);
    (void)bh_level_root_decode(data, size, &all, &top);
    if (bh_level_chunk_open(data, size, &chunk) >= 0) {
        for (uint32_t i = 0; i < chunk.blocks; i++) {
            (void)bh_level_chunk_node(&chunk, i);
            if (!chunk.nodes)
                (void)bh_level_chunk_points(&chunk, i, points);
        }
    }
    use_log(data, size);
}

static void use_bodies(const unsigned char *data, size_t size)
{
    struct bh_bytes log = {0};
    unsigned char header[BH_EVLOG_HEADER_BYTES];
    struct bh_evlog_header first = {.run_id = "0mhq2v9k3dx7c1p5n8tb", .anchor = {{10}, {0}}};
    bh_evlog_header_encode(&first, header);
    bh_bytes_append(&log, header, sizeof header);
    for (uint64_t number = 0; size >= 2; number++) {
        uint32_t length = data[0] * 8u, records = data[1];
        data += 2;
        size -= 2;
        if (length > size)
            length = (uint32_t)size;
        struct bh_evlog_segment segment = {
            .number = number,
            .definitions = 1,
            .records = records,
            .body_bytes = length,
            .first_sequence = 1,
            .last_sequence = UINT64_MAX,
            .first_at.ns = number * 1000,
            .body = data,
        };
        bh_evlog_segment_encode(&segment, header);
        bh_bytes_append(&log, header, sizeof header);
        bh_bytes_append(&log, data, length);
        data += length;
        size -= length;
    }
    if (!log.failed)
        use_log(log.data, log.length);
    bh_bytes_done(&log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 20000)
        return 0;
    if (data[0] & 1)
        use_bodies(data + 1, size - 1);
    else
        use_bytes(data + 1, size - 1);
    return 0;
}
