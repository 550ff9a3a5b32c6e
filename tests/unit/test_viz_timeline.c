/* The pyramid answers exactly what a plain scan over all points answers, for any range and width,
 * at any size, and after any interruption. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/viz/level.h"
#include "core/viz/timeline.h"

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_u64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t below(uint64_t limit)
{
    return random_u64() % limit;
}

/* The plain answer. */
static void scan(const struct bh_level_point *points, size_t count, int64_t from, int64_t to,
                 int64_t until, uint32_t cells, uint64_t *ret_min, uint64_t *ret_max)
{
    for (uint32_t i = 0; i < cells; i++) {
        int64_t start = bh_timeline_cell_us(from, to, cells, i);
        int64_t end = i + 1 < cells ? bh_timeline_cell_us(from, to, cells, i + 1) - 1 : to;
        uint64_t min = UINT64_MAX, max = 0, value = BH_SERIES_UNKNOWN;
        if (end > until)
            end = until;
        for (size_t j = 0; j < count && points[j].at_us < start; j++)
            value = points[j].value;
        if (value != BH_SERIES_UNKNOWN && start <= end)
            min = max = value;
        for (size_t j = 0; j < count && points[j].at_us <= end; j++) {
            if (points[j].at_us < start || points[j].value == BH_SERIES_UNKNOWN)
                continue;
            min = points[j].value < min ? points[j].value : min;
            max = points[j].value > max ? points[j].value : max;
        }
        ret_min[i] = min <= max ? min : BH_SERIES_UNKNOWN;
        ret_max[i] = min <= max ? max : BH_SERIES_UNKNOWN;
    }
}

static void compare(const struct bh_level_store *store, const struct bh_level_point *points,
                    size_t count, int64_t from, int64_t to, int64_t until, uint32_t wanted)
{
    uint64_t min[600], max[600], plain_min[600], plain_max[600];
    uint32_t cells = bh_timeline_cells(from, to, wanted);
    assert_true(cells >= 1 && cells <= 600 && cells <= (wanted ? wanted : 1));
    assert_int_equal(bh_series_query(store, BH_SERIES_ACTIVE, from, to, until, cells, min, max), 0);
    scan(points, count, from, to, until, cells, plain_min, plain_max);
    for (uint32_t i = 0; i < cells; i++) {
        if (min[i] != plain_min[i] || max[i] != plain_max[i])
            fail_msg("cell %u of %u in [%lld, %lld]: %llu..%llu, plainly %llu..%llu", i, cells,
                     (long long)from, (long long)to, (unsigned long long)min[i],
                     (unsigned long long)max[i], (unsigned long long)plain_min[i],
                     (unsigned long long)plain_max[i]);
    }
}

/* Random points, sometimes many at one time, sometimes unknown. */
static size_t make_points(struct bh_level_point *points, size_t count)
{
    int64_t at = 1796002200000000;
    uint64_t last = BH_SERIES_UNKNOWN;
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        at += (int64_t)(below(4) ? below(50) : 0);
        uint64_t value = below(50) ? below(1ull << below(50)) : BH_SERIES_UNKNOWN;
        if (made && value == last)
            continue; /* the builder leaves repeated values out, so the plain list does too */
        points[made++] = (struct bh_level_point){at, value};
        last = value;
    }
    return made;
}

static void check_size(size_t count, unsigned queries, bool interrupted)
{
    struct bh_level_point *points = calloc(count + 1, sizeof *points);
    struct bh_series_builder *builder;
    struct bh_level_memory *memory;
    assert_non_null(points);
    count = make_points(points, count);
    assert_int_equal(bh_level_memory_new(&memory), 0);
    assert_int_equal(bh_series_new(BH_SERIES_ACTIVE, &builder), 0);
    struct bh_level_store store = bh_level_memory_store(memory);
    for (size_t i = 0; i < count; i++) {
        if (interrupted && below(300) == 0) {
            assert_int_equal(bh_series_flush(builder, &store), 0);
            bh_series_free(builder);
            assert_int_equal(bh_series_new(BH_SERIES_ACTIVE, &builder), 0);
            assert_int_equal(bh_series_restore(builder, &store), 0);
        }
        assert_int_equal(bh_series_add(builder, points[i].at_us, points[i].value), 0);
    }
    assert_int_equal(bh_series_flush(builder, &store), 0);
    assert_int_equal(bh_series_flush(builder, &store), 0);
    bh_series_free(builder);
    int64_t first = count ? points[0].at_us : 1000, last = count ? points[count - 1].at_us : 2000;
    uint64_t span = (uint64_t)(last - first) + 200;
    compare(&store, points, count, first, last, INT64_MAX, 500);
    for (unsigned i = 0; i < queries; i++) {
        int64_t from = first - 100 + (int64_t)below(span), to = first - 100 + (int64_t)below(span);
        if (from > to) {
            int64_t swapped = from;
            from = to;
            to = swapped;
        }
        int64_t until = below(3) ? INT64_MAX : first + (int64_t)below(span);
        compare(&store, points, count, from, to, until, (uint32_t)(1 + below(600)));
    }
    bh_level_memory_free(memory);
    free(points);
}

static void equals_a_plain_scan(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 127, 128, 129, 1023, 1024, 1025, 2048, 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        check_size(sizes[i], 40, false);
    check_size(70000, 4, false); /* a third level */
}

static void survives_interruptions(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++)
        check_size(3000 + below(3000), 10, true);
    check_size(70000, 2, true);
}

/* A flush and a restore exactly where chunks of every level end. */
static void restores_at_full_chunks(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1024, 65536, 65537, 66560, 131072};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct bh_series_builder *builder;
        struct bh_level_memory *memory;
        struct bh_series_summary summary;
        uint64_t min, max;
        assert_int_equal(bh_level_memory_new(&memory), 0);
        struct bh_level_store store = bh_level_memory_store(memory);
        assert_int_equal(bh_series_new(BH_SERIES_CHARGE, &builder), 0);
        for (uint32_t j = 0; j < sizes[i]; j++)
            assert_int_equal(bh_series_add(builder, j, j), 0);
        assert_int_equal(bh_series_flush(builder, &store), 0);
        bh_series_free(builder);
        assert_int_equal(bh_series_new(BH_SERIES_CHARGE, &builder), 0);
        assert_int_equal(bh_series_restore(builder, &store), 0);
        for (uint32_t j = 0; j < 3000; j++)
            assert_int_equal(bh_series_add(builder, sizes[i] + j, 7000000 + j), 0);
        assert_int_equal(bh_series_flush(builder, &store), 0);
        assert_int_equal(bh_series_summary(&store, BH_SERIES_CHARGE, &summary), 0);
        assert_int_equal(summary.points, sizes[i] + 3000);
        assert_int_equal(summary.max, 7002999);
        assert_int_equal(summary.max_us, sizes[i] + 2999);
        assert_int_equal(
            bh_series_query(&store, BH_SERIES_CHARGE, 5, sizes[i] - 1, INT64_MAX, 1, &min, &max),
            0);
        assert_int_equal(min, 4);
        assert_int_equal(max, sizes[i] - 1);
        bh_series_free(builder);
        bh_level_memory_free(memory);
    }
}

static void time_never_goes_back(void **state)
{
    (void)state;
    struct bh_series_builder *builder;
    struct bh_level_memory *memory;
    struct bh_series_summary summary;
    uint64_t min[2], max[2];
    assert_int_equal(bh_level_memory_new(&memory), 0);
    assert_int_equal(bh_series_new(BH_SERIES_ACTIVE, &builder), 0);
    struct bh_level_store store = bh_level_memory_store(memory);
    assert_int_equal(bh_series_summary(&store, BH_SERIES_ACTIVE, &summary), 0);
    assert_int_equal(summary.points, 0);
    assert_int_equal(bh_series_add(builder, 100, 5), 0);
    assert_int_equal(bh_series_add(builder, 90, 6), 0);
    assert_int_equal(bh_series_add(builder, 200, 7), 0);
    assert_int_equal(bh_series_flush(builder, &store), 0);
    assert_int_equal(bh_series_query(&store, BH_SERIES_ACTIVE, 80, 119, INT64_MAX, 2, min, max), 0);
    assert_true(min[0] == BH_SERIES_UNKNOWN && max[0] == BH_SERIES_UNKNOWN);
    assert_true(min[1] == 5 && max[1] == 6);
    assert_int_equal(bh_series_query(&store, BH_SERIES_ACTIVE, 2, 1, INT64_MAX, 2, min, max),
                     BH_E_BAD_QUERY);
    bh_series_free(builder);
    bh_level_memory_free(memory);
}

/* No blob, however damaged, is read beyond its end or believed. */
static void damaged_blobs(void **state)
{
    (void)state;
    struct bh_level_point points[300];
    struct bh_bytes blob = {0}, root = {0};
    struct bh_level_chunk chunk;
    struct bh_level_node all = {0};
    uint32_t top;
    for (uint32_t i = 0; i < 300; i++) {
        points[i] = (struct bh_level_point){i * 3, i * i};
        bh_level_node_add_point(&all, &points[i]);
    }
    assert_int_equal(bh_level_points_encode(points, 300, &blob), 0);
    assert_int_equal(bh_level_root_encode(&all, 0, &root), 0);
    for (size_t cut = 0; cut < blob.length; cut++)
        assert_true(bh_level_chunk_open(blob.data, cut, &chunk) < 0);
    for (size_t i = 0; i < blob.length * 8; i++) {
        blob.data[i / 8] ^= (unsigned char)(1u << i % 8);
        assert_true(bh_level_chunk_open(blob.data, blob.length, &chunk) < 0);
        blob.data[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    for (size_t i = 0; i < root.length * 8; i++) {
        root.data[i / 8] ^= (unsigned char)(1u << i % 8);
        assert_true(bh_level_root_decode(root.data, root.length, &all, &top) < 0);
        root.data[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    bh_bytes_done(&blob);
    bh_bytes_done(&root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_a_plain_scan),     cmocka_unit_test(survives_interruptions),
        cmocka_unit_test(restores_at_full_chunks), cmocka_unit_test(time_never_goes_back),
        cmocka_unit_test(damaged_blobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
