/* A LINK that comes long after its allocation, with keyframes between the two: whoever asks for an
 * instant after the allocation, before or after the LINK, is told the same stack and primitive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/viz/ingest.h"
#include "core/viz/keyframe.h"
#include "core/viz/live.h"
#include "viz_log.h"

#define BETWEEN (3u * BH_KEYFRAME_EVENTS)

struct table {
    struct {
        int64_t at_us;
        uint64_t sequence;
        struct bh_bytes blob;
    } keyframes[16];
    size_t count;
};

static int put_keyframe(void *context, const struct bh_keyframe_info *info, const void *data,
                        size_t length)
{
    struct table *table = context;
    assert_true(table->count < 16);
    table->keyframes[table->count].at_us = info->at_us;
    table->keyframes[table->count].sequence = info->sequence;
    bh_bytes_append(&table->keyframes[table->count++].blob, data, length);
    return 0;
}

static int put_loss(void *context, const struct bh_loss *loss)
{
    (void)context;
    (void)loss;
    return 0;
}

static int put_mark(void *context, const struct bh_mark *mark)
{
    (void)context;
    (void)mark;
    return 0;
}

static int give(const struct table *table, size_t index, struct bh_bytes *ret_blob)
{
    const struct bh_bytes *blob = &table->keyframes[index].blob;
    bh_bytes_append(ret_blob, blob->data, blob->length);
    return 1;
}

static int by_sequence(void *context, uint64_t sequence, struct bh_bytes *ret_blob)
{
    struct table *table = context;
    for (size_t i = table->count; i > 0; i--) {
        if (table->keyframes[i - 1].sequence <= sequence)
            return give(table, i - 1, ret_blob);
    }
    return 0;
}

static int by_time(void *context, int64_t at_us, struct bh_bytes *ret_blob)
{
    struct table *table = context;
    for (size_t i = table->count; i > 0; i--) {
        if (table->keyframes[i - 1].at_us <= at_us)
            return give(table, i - 1, ret_blob);
    }
    return 0;
}

static void import(struct table *table, const struct bh_trace_source *source)
{
    struct bh_level_memory *levels;
    struct bh_ingest *ingest;
    const unsigned char *data;
    size_t length;
    assert_int_equal(bh_level_memory_new(&levels), 0);
    struct bh_ingest_store store = {bh_level_memory_store(levels), table, put_keyframe, put_loss,
                                    put_mark};
    assert_int_equal(bh_ingest_new(source->header.anchor, &ingest), 0);
    assert_int_equal(source->seek(source->context, 0, false), 0);
    while (source->next(source->context, &data, &length) > 0) {
        assert_int_equal(bh_ingest_segment(ingest, data, length, NULL), 0);
        assert_int_equal(bh_ingest_flush(ingest, &store), 0);
    }
    bh_ingest_free(ingest);
    bh_level_memory_free(levels);
}

static void check(const struct bh_trace_source *source, struct table *table, bool with_keyframes,
                  struct bh_live_query query, const char *primitive)
{
    struct bh_keyframe_store keyframes = {table, by_sequence, by_time};
    struct bh_dictionary *names;
    struct bh_live live;
    assert_int_equal(bh_dictionary_new(&names), 0);
    assert_int_equal(bh_dictionary_load(names, source), 0);
    query.by_primitive = true;
    assert_int_equal(bh_live_compute(source, names, with_keyframes ? &keyframes : NULL, NULL,
                                     &query, &live, NULL),
                     0);
    assert_int_equal(live.total_bytes, 64);
    assert_int_equal(live.group_count, 1);
    struct bh_text name = bh_dictionary_string(names, live.groups[0].primitive);
    assert_int_equal(name.length, strlen(primitive));
    assert_memory_equal(name.bytes, primitive, name.length);
    bh_live_done(&live);
    bh_dictionary_free(names);
}

static void a_link_far_behind_keyframes_is_found(void **state)
{
    (void)state;
    struct viz_log log;
    struct table table = {.count = 0};
    viz_log_open(&log);
    viz_log_image(&log, 4121);
    uint32_t full = viz_log_string(&log, "Full");
    uint64_t early = viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x1000, 64, 64);
    for (unsigned i = 0; i < BETWEEN; i++)
        viz_log_event(&log, i % 2 ? BH_EVLOG_FREE_TO_OS : BH_EVLOG_ALLOC_NEW, 0x2000, 64, 64);
    int64_t before_us = bh_clock_epoch_us(viz_log_source(&log)->header.anchor,
                                          (struct bh_mono){log.now_ns - log.step_ns});
    viz_log_link(&log, early, 0, full, 0);
    for (unsigned i = 0; i < 100; i++)
        viz_log_event(&log, i % 2 ? BH_EVLOG_FREE_TO_OS : BH_EVLOG_ALLOC_NEW, 0x2000, 64, 64);
    const struct bh_trace_source *source = viz_log_source(&log);
    import(&table, source);
    assert_true(table.count >= 2);
    for (int with = 0; with < 2; with++) {
        check(source, &table, with, (struct bh_live_query){.when = BH_LIVE_AT_END}, "Full");
        check(source, &table, with,
              (struct bh_live_query){.when = BH_LIVE_AT_US, .at_us = before_us}, "Full");
    }
    for (size_t i = 0; i < table.count; i++)
        bh_bytes_done(&table.keyframes[i].blob);
    viz_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_far_behind_keyframes_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
