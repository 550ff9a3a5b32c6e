/* Properties of the replay and what stands on it, over random histories: sums equal the model after
 * every event, live sets equal active to the byte at any instant, with keyframes and without; an
 * import that is interrupted anywhere ends where one without interruption ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/viz/ingest.h"
#include "core/viz/live.h"
#include "core/viz/memviz.h"
#include "core/viz/replay.h"
#include "viz_random.h"

/* ---- a database in memory ---- */

struct table {
    struct bh_level_memory *levels;
    struct {
        struct bh_keyframe_info info;
        struct bh_bytes blob;
    } keyframes[64];
    size_t keyframe_count;
    size_t losses, marks;
};

static int put_keyframe(void *context, const struct bh_keyframe_info *info, const void *data,
                        size_t length)
{
    struct table *table = context;
    assert_true(table->keyframe_count < 64);
    table->keyframes[table->keyframe_count].info = *info;
    bh_bytes_append(&table->keyframes[table->keyframe_count++].blob, data, length);
    return 0;
}

static int put_loss(void *context, const struct bh_loss *loss)
{
    struct table *table = context;
    assert_true(loss->from_us <= loss->to_us);
    table->losses++;
    return 0;
}

static int put_mark(void *context, const struct bh_mark *mark)
{
    struct table *table = context;
    assert_true(mark->label.length > 0);
    table->marks++;
    return 0;
}

static int by_sequence(void *context, uint64_t sequence, struct bh_bytes *ret_blob)
{
    struct table *table = context;
    for (size_t i = table->keyframe_count; i > 0; i--) {
        if (table->keyframes[i - 1].info.sequence > sequence)
            continue;
        bh_bytes_append(ret_blob, table->keyframes[i - 1].blob.data,
                        table->keyframes[i - 1].blob.length);
        return 1;
    }
    return 0;
}

static int by_time(void *context, int64_t at_us, struct bh_bytes *ret_blob)
{
    struct table *table = context;
    for (size_t i = table->keyframe_count; i > 0; i--) {
        if (table->keyframes[i - 1].info.at_us > at_us)
            continue;
        bh_bytes_append(ret_blob, table->keyframes[i - 1].blob.data,
                        table->keyframes[i - 1].blob.length);
        return 1;
    }
    return 0;
}

static void table_open(struct table *table)
{
    memset(table, 0, sizeof *table);
    assert_int_equal(bh_level_memory_new(&table->levels), 0);
}

static void table_close(struct table *table)
{
    for (size_t i = 0; i < table->keyframe_count; i++)
        bh_bytes_done(&table->keyframes[i].blob);
    bh_level_memory_free(table->levels);
}

static struct bh_ingest_store table_store(struct table *table)
{
    return (struct bh_ingest_store){bh_level_memory_store(table->levels), table, put_keyframe,
                                    put_loss, put_mark};
}

static struct bh_keyframe_store table_keyframes(struct table *table)
{
    return (struct bh_keyframe_store){table, by_sequence, by_time};
}

/* Imports everything; every `interrupt`th segment or so is followed by a flush, a kill and a
 * restore. */
static void import(struct table *table, struct viz_random *random,
                   const struct bh_trace_source *source, unsigned interrupt)
{
    struct bh_ingest *ingest;
    struct bh_ingest_store store = table_store(table);
    struct bh_keyframe_store keyframes = table_keyframes(table);
    assert_int_equal(bh_ingest_new(source->header.anchor, &ingest), 0);
    assert_int_equal(source->seek(source->context, 0, false), 0);
    const unsigned char *data;
    size_t length;
    while (source->next(source->context, &data, &length) > 0) {
        assert_int_equal(bh_ingest_segment(ingest, data, length, NULL), 0);
        assert_int_equal(bh_ingest_segment(ingest, data, length, NULL), BH_E_SEQUENCE_BACK);
        if (!interrupt || viz_random_below(random, interrupt))
            continue;
        uint64_t taken = bh_ingest_segments(ingest);
        assert_int_equal(bh_ingest_flush(ingest, &store), 0);
        bh_ingest_free(ingest);
        assert_int_equal(bh_ingest_new(source->header.anchor, &ingest), 0);
        assert_int_equal(bh_ingest_restore(ingest, source, &keyframes, &store.levels, taken), 0);
        assert_int_equal(bh_ingest_segments(ingest), taken);
        assert_int_equal(source->seek(source->context, taken, false), 0);
    }
    assert_int_equal(bh_ingest_flush(ingest, &store), 0);
    const struct bh_replay *replay = bh_ingest_replay(ingest);
    const struct viz_moment *last = &random->moments[random->moment_count - 1];
    assert_int_equal(replay->sequence, last->sequence);
    assert_int_equal(replay->events, last->sequence);
    assert_int_equal(replay->active_bytes, last->active);
    assert_int_equal(replay->reserved_bytes, last->reserved);
    bh_ingest_free(ingest);
}

/* ---- properties ---- */

static void sums_equal_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct viz_random random;
        struct bh_trace_reader reader;
        struct bh_evlog_record record;
        struct bh_replay replay;
        uint64_t peak = 0, peak_sequence = 0;
        viz_random_open(&random, seed, 3000);
        for (int i = 0; i < 3000; i++)
            viz_random_step(&random);
        const struct bh_trace_source *source = viz_log_source(&random.log);
        bh_replay_init(&replay, source->header.anchor);
        assert_int_equal(bh_trace_reader_begin(&reader, source, 0, false), 0);
        while (bh_trace_reader_next(&reader, &record) > 0) {
            assert_int_equal(bh_replay_apply(&replay, &record), 0);
            if (!record.sequence || record.kind == BH_EVLOG_LINK)
                continue;
            const struct viz_moment *moment = &random.moments[record.sequence - 1];
            assert_int_equal(replay.active_bytes, moment->active);
            assert_int_equal(replay.reserved_bytes, moment->reserved);
            assert_int_equal(replay.at_us, moment->at_us);
            if (moment->active > peak) {
                peak = moment->active;
                peak_sequence = moment->sequence;
            }
        }
        assert_int_equal(replay.peak_bytes, peak);
        assert_int_equal(replay.peak_sequence, peak_sequence);
        bh_replay_done(&replay);
        viz_random_close(&random);
    }
}

static void compare_stores(struct table *left, struct table *right, int64_t from, int64_t to)
{
    struct bh_level_store one = bh_level_memory_store(left->levels);
    struct bh_level_store two = bh_level_memory_store(right->levels);
    uint64_t min[2][100], max[2][100];
    for (int series = 0; series < 2; series++) {
        assert_int_equal(
            bh_series_query(&one, (enum bh_series)series, from, to, INT64_MAX, 100, min[0], max[0]),
            0);
        assert_int_equal(
            bh_series_query(&two, (enum bh_series)series, from, to, INT64_MAX, 100, min[1], max[1]),
            0);
        assert_memory_equal(min[0], min[1], sizeof min[0]);
        assert_memory_equal(max[0], max[1], sizeof max[0]);
    }
    assert_int_equal(left->keyframe_count, right->keyframe_count);
    for (size_t i = 0; i < left->keyframe_count; i++) {
        assert_int_equal(left->keyframes[i].blob.length, right->keyframes[i].blob.length);
        assert_memory_equal(left->keyframes[i].blob.data, right->keyframes[i].blob.data,
                            left->keyframes[i].blob.length);
    }
    assert_int_equal(bh_level_memory_bytes(left->levels), bh_level_memory_bytes(right->levels));
}

/* Extremes of the imported series against the model. */
static void check_series(struct table *table, struct viz_random *random)
{
    struct bh_level_store store = bh_level_memory_store(table->levels);
    struct bh_series_summary summary;
    uint64_t peak = 0;
    for (size_t i = 0; i < random->moment_count; i++)
        peak = random->moments[i].active > peak ? random->moments[i].active : peak;
    assert_int_equal(bh_series_summary(&store, BH_SERIES_ACTIVE, &summary), 0);
    assert_int_equal(summary.max, peak);
    assert_int_equal(summary.last, random->moments[random->moment_count - 1].active);
    for (int i = 0; i < 50; i++) {
        uint64_t min, max, low = UINT64_MAX, high = 0, carried = 0;
        int64_t from = random->moments[viz_random_below(random, random->moment_count)].at_us;
        int64_t to = from + (int64_t)viz_random_below(random, 100);
        bool ends = false; /* the model has no moment where an image ends */
        for (size_t j = 0; j < random->moment_count; j++) {
            const struct viz_moment *moment = &random->moments[j];
            if (moment->at_us < from) {
                carried = moment->reserved;
            } else if (moment->at_us <= to) {
                low = moment->reserved < low ? moment->reserved : low;
                high = moment->reserved > high ? moment->reserved : high;
            }
        }
        for (int j = 0; j < 8; j++)
            ends |= random->images[j].ended;
        low = carried < low ? carried : low;
        high = carried > high ? carried : high;
        assert_int_equal(
            bh_series_query(&store, BH_SERIES_RESERVED, from, to, INT64_MAX, 1, &min, &max), 0);
        if (!ends) {
            assert_int_equal(min, low);
            assert_int_equal(max, high);
        }
    }
}

static void interrupted_import_ends_the_same(void **state)
{
    (void)state;
    struct viz_random random;
    struct table straight, broken;
    viz_random_open(&random, 7, 200000);
    for (int i = 0; i < 200000; i++)
        viz_random_step(&random);
    const struct bh_trace_source *source = viz_log_source(&random.log);
    table_open(&straight);
    table_open(&broken);
    import(&straight, &random, source, 0);
    import(&broken, &random, source, 400);
    assert_int_equal(straight.keyframe_count, 3);
    compare_stores(&straight, &broken, random.moments[0].at_us,
                   random.moments[random.moment_count - 1].at_us);
    check_series(&straight, &random);
    table_close(&straight);
    table_close(&broken);
    viz_random_close(&random);
}

static struct bh_live ask(const struct bh_trace_source *source, const struct bh_dictionary *names,
                          const struct bh_keyframe_store *keyframes,
                          const struct bh_live_query *query)
{
    struct bh_live live;
    struct bh_diag diag = {"", ""};
    int error = bh_live_compute(source, names, keyframes, NULL, query, &live, &diag);
    if (error < 0)
        fail_msg("%s", diag.detail);
    uint64_t bytes = live.other.bytes, count = live.other.count;
    for (uint32_t i = 0; i < live.group_count; i++) {
        bytes += live.groups[i].bytes;
        count += live.groups[i].count;
        assert_true(i == 0 || live.groups[i].bytes <= live.groups[i - 1].bytes);
    }
    assert_int_equal(bytes, live.total_bytes);
    assert_int_equal(count, live.total_count);
    return live;
}

/* The same answer, whether it started at a keyframe or at the beginning. */
static void assert_same_live(const struct bh_live *left, const struct bh_live *right)
{
    assert_int_equal(left->total_bytes, right->total_bytes);
    assert_int_equal(left->total_count, right->total_count);
    assert_int_equal(left->group_count, right->group_count);
    assert_int_equal(left->other_groups, right->other_groups);
    assert_int_equal(left->other.growth_bytes, right->other.growth_bytes);
    for (uint32_t i = 0; i < left->group_count; i++) {
        const struct bh_live_group *a = &left->groups[i], *b = &right->groups[i];
        assert_true(a->stack == b->stack && a->primitive == b->primitive && a->bytes == b->bytes &&
                    a->count == b->count && a->growth_bytes == b->growth_bytes &&
                    a->keeps_growing == b->keeps_growing);
    }
    assert_int_equal(left->crossed_by.sequence, right->crossed_by.sequence);
    assert_int_equal(left->crossed_by.stack, right->crossed_by.stack);
}

static void live_sums_equal_active(void **state)
{
    (void)state;
    struct viz_random random;
    struct table table;
    struct bh_dictionary *names;
    viz_random_open(&random, 11, 150000);
    for (int i = 0; i < 150000; i++)
        viz_random_step(&random);
    const struct bh_trace_source *source = viz_log_source(&random.log);
    table_open(&table);
    import(&table, &random, source, 0);
    struct bh_keyframe_store keyframes = table_keyframes(&table);
    assert_int_equal(bh_dictionary_new(&names), 0);
    assert_int_equal(bh_dictionary_load(names, source), 0);
    for (int i = 0; i < 12; i++) {
        size_t pick = viz_random_below(&random, random.moment_count);
        size_t other = viz_random_below(&random, random.moment_count);
        struct bh_live_query query = {
            .when = BH_LIVE_AT_SEQUENCE,
            .sequence = random.moments[pick].sequence,
            .by_primitive = i % 2,
            .top = i % 3 ? 5 : 1000,
            .since = true,
            .since_us = random.moments[other].at_us,
            .growing = true,
            .limit_crossed = true,
            .limit_us = random.moments[viz_random_below(&random, random.moment_count)].at_us,
        };
        struct bh_live plain = ask(source, names, NULL, &query);
        struct bh_live quick = ask(source, names, &keyframes, &query);
        assert_int_equal(plain.total_bytes, random.moments[pick].active);
        assert_true(plain.crossed_by.known);
        assert_same_live(&plain, &quick);
        bh_live_done(&plain);
        bh_live_done(&quick);

        /* at a time: after the last event of that microsecond */
        query.when = BH_LIVE_AT_US;
        query.at_us = random.moments[pick].at_us;
        while (pick + 1 < random.moment_count &&
               random.moments[pick + 1].at_us == random.moments[pick].at_us)
            pick++;
        plain = ask(source, names, NULL, &query);
        quick = ask(source, names, &keyframes, &query);
        assert_int_equal(plain.total_bytes, random.moments[pick].active);
        assert_same_live(&plain, &quick);
        bh_live_done(&plain);
        bh_live_done(&quick);
    }
    struct bh_live_query peak = {.when = BH_LIVE_AT_PEAK};
    struct bh_live at_peak = ask(source, names, &keyframes, &peak);
    uint64_t highest = 0;
    for (size_t i = 0; i < random.moment_count; i++)
        highest = random.moments[i].active > highest ? random.moments[i].active : highest;
    assert_int_equal(at_peak.total_bytes, highest);
    bh_live_done(&at_peak);
    bh_dictionary_free(names);
    table_close(&table);
    viz_random_close(&random);
}

/* An export that starts at a keyframe is the same file. */
static void pickles_with_keyframes_are_the_same(void **state)
{
    (void)state;
    struct viz_random random;
    struct table table;
    viz_random_open(&random, 13, 230000);
    for (int i = 0; i < 230000; i++)
        viz_random_step(&random);
    const struct bh_trace_source *source = viz_log_source(&random.log);
    table_open(&table);
    import(&table, &random, source, 0);
    assert_true(table.keyframe_count >= 3);
    struct bh_keyframe_store keyframes = table_keyframes(&table);
    for (int i = 0; i < 8; i++) {
        struct bh_bytes plain = {0}, quick = {0};
        struct bh_memviz_options options = BH_MEMVIZ_ALL;
        int64_t one = random.moments[viz_random_below(&random, random.moment_count)].at_us;
        int64_t two = random.moments[viz_random_below(&random, random.moment_count)].at_us;
        if (i != 0) {
            options.from_us = i % 3 ? (one < two ? one : two) : INT64_MIN;
            options.to_us = i % 4 ? (one < two ? two : one) : INT64_MAX;
        }
        options.max_entries = i % 2 ? 0 : 1 + viz_random_below(&random, 20000);
        options.limit_crossed = true;
        options.limit_us = random.moments[viz_random_below(&random, random.moment_count)].at_us;
        assert_int_equal(bh_memviz_write(source, VIZ_RUN_ID, &options, bh_sink_bytes(&plain), NULL),
                         0);
        options.keyframes = &keyframes;
        assert_int_equal(bh_memviz_write(source, VIZ_RUN_ID, &options, bh_sink_bytes(&quick), NULL),
                         0);
        assert_int_equal(plain.length, quick.length);
        assert_memory_equal(plain.data, quick.data, plain.length);
        bh_bytes_done(&plain);
        bh_bytes_done(&quick);
    }
    table_close(&table);
    viz_random_close(&random);
}

static void end_counts_ended_images(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_dictionary *names;
    viz_log_open(&log);
    for (int i = 0; i < 2; i++) {
        viz_log_image(&log, 10 + i);
        viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x1000, 100, 100);
    }
    viz_log_add(&log,
                (struct bh_evlog_record){.kind = BH_EVLOG_IMAGE_END, .image = 1, .stream = -1});
    viz_log_add(&log,
                (struct bh_evlog_record){.kind = BH_EVLOG_IMAGE_END, .image = 2, .stream = -1});
    const struct bh_trace_source *source = viz_log_source(&log);
    assert_int_equal(bh_dictionary_new(&names), 0);
    assert_int_equal(bh_dictionary_load(names, source), 0);
    struct bh_live_query query = {.when = BH_LIVE_AT_END};
    struct bh_live live = ask(source, names, NULL, &query);
    assert_int_equal(live.total_bytes, 200);
    bh_live_done(&live);
    query = (struct bh_live_query){.when = BH_LIVE_AT_US, .at_us = INT64_MAX};
    live = ask(source, names, NULL, &query);
    assert_int_equal(live.total_bytes, 0);
    bh_live_done(&live);
    query = (struct bh_live_query){.when = BH_LIVE_AT_LIMIT};
    assert_int_equal(bh_live_compute(source, names, NULL, NULL, &query, &live, NULL),
                     BH_E_LIMIT_NOT_CROSSED);
    bh_dictionary_free(names);
    viz_log_close(&log);
}

static void add_baseline(struct viz_log *log, uint64_t count, uint64_t first, uint64_t last)
{
    viz_log_add(log, (struct bh_evlog_record){.kind = BH_EVLOG_BASELINE_BEGIN,
                                              .image = log->image,
                                              .count = count,
                                              .stream = -1});
    for (uint64_t i = first; i <= last; i++)
        viz_log_event(log, BH_EVLOG_BASELINE, i << 12, 100, 100);
}

/* A baseline takes effect with its last entry; instants before that see the state before it, and a
 * look at one of them changes nothing for later ones. One that is cut short drops nothing. */
static void baselines_take_effect_as_a_whole(void **state)
{
    (void)state;
    static const uint64_t expected[] = {100, 200, 300, 300, 300, 200, 200, 200, 310};
    struct viz_log log;
    struct bh_dictionary *names;
    viz_log_open(&log);
    viz_log_image(&log, 10);
    for (uint64_t i = 1; i <= 3; i++)
        viz_log_event(&log, BH_EVLOG_ALLOC_NEW, i << 12, 100, 100);
    add_baseline(&log, 3, 3, 4);                               /* 1, 2 are gone, 4 is new … */
    viz_log_event(&log, BH_EVLOG_BASELINE, 4 << 12, 100, 100); /* … (twice) */
    add_baseline(&log, 9, 4, 5);                               /* cut short: 3 stays, 5 is new */
    viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 6 << 12, 10, 10);
    const struct bh_trace_source *source = viz_log_source(&log);
    assert_int_equal(log.sequence, 9);
    assert_int_equal(bh_dictionary_new(&names), 0);
    assert_int_equal(bh_dictionary_load(names, source), 0);
    for (uint64_t sequence = 1; sequence <= log.sequence; sequence++) {
        struct bh_live_query query = {
            .when = BH_LIVE_AT_SEQUENCE, .sequence = sequence, .growing = true};
        struct bh_live live = ask(source, names, NULL, &query);
        assert_int_equal(live.total_bytes, expected[sequence - 1]);
        bh_live_done(&live);
    }
    bh_dictionary_free(names);
    viz_log_close(&log);
}

/* What grows all the time is told from what does not. */
static void keeps_growing(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_dictionary *names;
    viz_log_open(&log);
    viz_log_image(&log, 10);
    uint32_t leak = viz_log_string(&log, "Leak"), once = viz_log_string(&log, "Once");
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t sequence = viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x1000 + i * 64, 64, 64);
        viz_log_link(&log, sequence, 0, i == 3 ? once : leak, 0);
    }
    viz_log_add(&log,
                (struct bh_evlog_record){.kind = BH_EVLOG_IMAGE_END, .image = 1, .stream = -1});
    const struct bh_trace_source *source = viz_log_source(&log);
    assert_int_equal(bh_dictionary_new(&names), 0);
    assert_int_equal(bh_dictionary_load(names, source), 0);
    struct bh_live_query query = {.when = BH_LIVE_AT_PEAK, .by_primitive = true, .growing = true};
    struct bh_live live = ask(source, names, NULL, &query);
    assert_int_equal(live.group_count, 2);
    assert_int_equal(live.groups[0].bytes, 99 * 64);
    assert_true(live.groups[0].keeps_growing);
    assert_false(live.groups[1].keeps_growing);
    bh_live_done(&live);
    bh_dictionary_free(names);
    viz_log_close(&log);
}

/* A keyframe with any bit wrong is refused. */
static void damaged_keyframes(void **state)
{
    (void)state;
    struct viz_random random;
    struct bh_trace_reader reader;
    struct bh_evlog_record record;
    struct bh_replay replay;
    struct bh_bytes blob = {0};
    struct bh_keyframe_info info;
    viz_random_open(&random, 3, 500);
    for (int i = 0; i < 500; i++)
        viz_random_step(&random);
    const struct bh_trace_source *source = viz_log_source(&random.log);
    bh_replay_init(&replay, source->header.anchor);
    assert_int_equal(bh_trace_reader_begin(&reader, source, 0, false), 0);
    while (bh_trace_reader_next(&reader, &record) > 0)
        assert_int_equal(bh_replay_apply(&replay, &record), 0);
    assert_int_equal(bh_keyframe_encode(&replay, 1, &blob), 0);
    bh_replay_done(&replay);
    for (size_t i = 0; i < blob.length * 8; i += 7) {
        struct bh_replay other;
        bh_replay_init(&other, source->header.anchor);
        blob.data[i / 8] ^= (unsigned char)(1u << i % 8);
        assert_true(bh_keyframe_decode(blob.data, blob.length, &other, &info) < 0);
        blob.data[i / 8] ^= (unsigned char)(1u << i % 8);
        bh_replay_done(&other);
    }
    bh_bytes_done(&blob);
    viz_random_close(&random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_equal_the_model),
        cmocka_unit_test(interrupted_import_ends_the_same),
        cmocka_unit_test(live_sums_equal_active),
        cmocka_unit_test(pickles_with_keyframes_are_the_same),
        cmocka_unit_test(end_counts_ended_images),
        cmocka_unit_test(baselines_take_effect_as_a_whole),
        cmocka_unit_test(keeps_growing),
        cmocka_unit_test(damaged_keyframes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
