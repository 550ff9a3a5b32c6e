/* Snapshots for PyTorch's viewer: byte for byte against the golden pickles. What the goldens must
 * hold is checked from the outside by tests/helpers/memviz_decode.py (tests/wire/test_memviz.py
 * runs it on every golden file); here they are pinned.
 *
 * BH_UPDATE_GOLDEN=1 in the environment writes them anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/viz/memviz.h"
#include "scratch.h"
#include "viz_log.h"

static struct bh_bytes export_log(struct viz_log *log, const struct bh_memviz_options *options)
{
    struct bh_bytes out = {0};
    struct bh_diag diag = {"", ""};
    int error =
        bh_memviz_write(viz_log_source(log), VIZ_RUN_ID, options, bh_sink_bytes(&out), &diag);
    if (error < 0)
        fail_msg("%s", diag.detail);
    return out;
}

static void compare_golden(const char *name, const struct bh_bytes *out)
{
    char path[64];
    (void)snprintf(path, sizeof path, "pickle/%s.pickle", name);
    assert_true(golden_equal(path, out->data, out->length));
}

static void check_log(struct viz_log *log, const char *name,
                      const struct bh_memviz_options *options)
{
    struct bh_bytes out = export_log(log, options);
    compare_golden(name, &out);
    bh_bytes_done(&out);
    viz_log_close(log);
}

static uint32_t leaf_stack(struct viz_log *log, const char *file)
{
    uint32_t frames[2] = {viz_log_frame(log, file, "keep", 12),
                          viz_log_frame(log, file, "<module>", 31)};
    return viz_log_stack(log, frames, 2);
}

static void empty_trace(void **state)
{
    (void)state;
    struct bh_bytes out = {0};
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    assert_int_equal(bh_memviz_write(NULL, VIZ_RUN_ID, &options, bh_sink_bytes(&out), NULL), 0);
    compare_golden("empty", &out);
    bh_bytes_done(&out);

    struct viz_log log; /* an image that allocates nothing is as empty */
    viz_log_open(&log);
    viz_log_image(&log, 4121);
    check_log(&log, "empty_image", &options);
}

static void one_alloc_and_free(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    viz_log_open(&log);
    viz_log_image(&log, 4121);
    uint32_t full = viz_log_string(&log, "Full"), stack = leaf_stack(&log, "/home/ada/leaky.py");
    uint64_t first = viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x7f0000001000, 4096, 4000);
    viz_log_link(&log, first, stack, full, 0);
    viz_log_event(&log, BH_EVLOG_FREE_TO_OS, 0x7f0000001000, 4096, 4000);
    check_log(&log, "alloc_free", &options);
}

static void reuse(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    viz_log_open(&log);
    viz_log_image(&log, 4121);
    uint32_t full = viz_log_string(&log, "Full"), add = viz_log_string(&log, "Add");
    uint32_t stack = leaf_stack(&log, "/home/ada/leaky.py");
    viz_log_link(&log, viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x1000, 8192, 8192), stack, full, 0);
    viz_log_event(&log, BH_EVLOG_FREE_TO_CACHE, 0x1000, 8192, 8192);
    viz_log_link(&log, viz_log_event(&log, BH_EVLOG_ALLOC_REUSE, 0x1000, 8192, 5000), stack, add,
                 1);
    check_log(&log, "reuse", &options);
}

static void make_buffer_and_release(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    viz_log_open(&log);
    viz_log_image(&log, 4121);
    viz_log_event(&log, BH_EVLOG_ALLOC_MAKE_BUFFER, 0x2000, 100, 100);
    viz_log_event(&log, BH_EVLOG_RELEASE, 0x2000, 100, 100);
    check_log(&log, "make_buffer_release", &options);
}

static void cache_eviction(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    viz_log_open(&log);
    viz_log_image(&log, 4121);
    viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x3000, 2 << 20, 2 << 20);
    viz_log_event(&log, BH_EVLOG_FREE_TO_CACHE, 0x3000, 2 << 20, 2 << 20);
    viz_log_event(&log, BH_EVLOG_CACHE_TO_OS, 0x3000, 2 << 20, 2 << 20);
    viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x3000, 3 << 20, 3 << 20);
    check_log(&log, "eviction", &options);
}

static void baseline_log(struct viz_log *log)
{
    viz_log_open(log);
    viz_log_image(log, 4121);
    viz_log_add(log, (struct bh_evlog_record){
                         .kind = BH_EVLOG_BASELINE_BEGIN, .image = 1, .count = 3, .stream = -1});
    for (uint64_t i = 1; i <= 3; i++)
        viz_log_add(log, (struct bh_evlog_record){.kind = BH_EVLOG_BASELINE,
                                                  .sequence = ++log->sequence,
                                                  .image = 1,
                                                  .address = i << 16,
                                                  .size_bytes = i * 1024,
                                                  .requested_bytes = i * 1024,
                                                  .cached = i == 3,
                                                  .stream = -1});
    viz_log_event(log, BH_EVLOG_FREE_TO_OS, 1 << 16, 1024, 1024);
    viz_log_event(log, BH_EVLOG_ALLOC_REUSE, 3 << 16, 3072, 2000);
}

static void baseline(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    baseline_log(&log);
    check_log(&log, "baseline", &options);

    /* switched off and on again: what went meanwhile leaves, what came enters */
    baseline_log(&log);
    viz_log_add(&log, (struct bh_evlog_record){.kind = BH_EVLOG_OFF, .image = 1, .stream = -1});
    viz_log_add(&log, (struct bh_evlog_record){
                          .kind = BH_EVLOG_BASELINE_BEGIN, .image = 1, .count = 2, .stream = -1});
    for (uint64_t i = 3; i <= 4; i++)
        viz_log_add(&log, (struct bh_evlog_record){.kind = BH_EVLOG_BASELINE,
                                                   .sequence = ++log.sequence,
                                                   .image = 1,
                                                   .address = i << 16,
                                                   .size_bytes = i * 1024,
                                                   .requested_bytes = i * 1024,
                                                   .stream = -1});
    check_log(&log, "baseline_again", &options);
}

static void lost_events(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    viz_log_open(&log);
    viz_log_image(&log, 4121);
    viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x1000, 64, 64);
    viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x2000, 64, 64);
    viz_log_add(&log, (struct bh_evlog_record){.kind = BH_EVLOG_LOST,
                                               .sequence = ++log.sequence,
                                               .image = 1,
                                               .count = 12288,
                                               .stream = -1});
    /* what the gap hid: a free of one, a reuse of what was never seen, a free of nothing */
    viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x1000, 128, 128);
    viz_log_event(&log, BH_EVLOG_ALLOC_REUSE, 0x9000, 256, 250);
    viz_log_event(&log, BH_EVLOG_FREE_TO_CACHE, 0xa000, 512, 512);
    viz_log_event(&log, BH_EVLOG_CACHE_TO_OS, 0x2000, 64, 64);
    check_log(&log, "lost", &options);
}

static void unicode_file_names(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    char long_name[300];
    viz_log_open(&log);
    viz_log_image(&log, 4121);
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0'; /* beyond SHORT_BINUNICODE */
    uint32_t names[] = {leaf_stack(&log, "/home/\xc3\xa4\xc3\xb6/\xe6\xa8\xa1\xe5\x9e\x8b.py"),
                        leaf_stack(&log, "/tmp/\xf0\x9f\x90\x99.py"),
                        leaf_stack(&log, "/bad/\xff\xc0\x80/\xed\xa0\x80.py"),
                        leaf_stack(&log, long_name)};
    uint32_t primitive = viz_log_string(&log, "\xce\xa3um");
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t address = (i + 1) << 12;
        viz_log_link(&log, viz_log_event(&log, BH_EVLOG_ALLOC_NEW, address, 64, 64), names[i],
                     primitive, 0);
        viz_log_event(&log, BH_EVLOG_FREE_TO_OS, address, 64, 64);
    }
    check_log(&log, "unicode", &options);
}

static void largest_safe_address(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    static const uint64_t edges[] = {1,
                                     0x7f,
                                     0x80,
                                     0xff,
                                     0x100,
                                     0xffff,
                                     0x10000,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     (1ull << 39) - 1,
                                     1ull << 47,
                                     (1ull << 53) - 1};
    viz_log_open(&log);
    viz_log_image(&log, 4121);
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        viz_log_event(&log, BH_EVLOG_ALLOC_NEW, edges[i], edges[i], edges[i]);
    viz_log_event(&log, BH_EVLOG_FREE_TO_OS, (1ull << 53) - 1, (1ull << 53) - 1, (1ull << 53) - 1);
    check_log(&log, "edges", &options);
}

/* Lists of 998 to 1001 and 2,500 entries, the closing snapshot among them. */
static void batches(void **state)
{
    (void)state;
    static const unsigned sizes[] = {998, 999, 1000, 1001, 2500};
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct viz_log log;
        char name[32];
        viz_log_open(&log);
        viz_log_image(&log, 4121);
        viz_log_add(&log,
                    (struct bh_evlog_record){
                        .kind = BH_EVLOG_BASELINE_BEGIN, .image = 1, .count = 1, .stream = -1});
        viz_log_add(&log, (struct bh_evlog_record){.kind = BH_EVLOG_BASELINE,
                                                   .sequence = ++log.sequence,
                                                   .image = 1,
                                                   .address = 0x1000,
                                                   .size_bytes = 64,
                                                   .requested_bytes = 64,
                                                   .cached = true,
                                                   .stream = -1});
        for (unsigned entries = 1; entries < sizes[i];) {
            viz_log_event(&log, BH_EVLOG_ALLOC_REUSE, 0x1000, 64, 64);
            entries++;
            if (entries + 2 <= sizes[i]) {
                viz_log_event(&log, BH_EVLOG_FREE_TO_CACHE, 0x1000, 64, 64);
                entries += 2;
            } else if (entries < sizes[i]) { /* one more alone: a buffer of the cache goes */
                viz_log_add(&log, (struct bh_evlog_record){.kind = BH_EVLOG_LOST,
                                                           .sequence = ++log.sequence,
                                                           .image = 1,
                                                           .count = 1,
                                                           .stream = -1});
                entries++;
            }
        }
        (void)snprintf(name, sizeof name, "batch_%u", sizes[i]);
        check_log(&log, name, &options);
    }
}

/* Two processes that use the same addresses, a third that ends; marks, limit, annotations. */
static void many_log(struct viz_log *log)
{
    viz_log_open(log);
    uint32_t full = viz_log_string(log, "Full"), mark = viz_log_string(log, "epoch 2");
    uint32_t stack = leaf_stack(log, "/home/ada/leaky.py");
    for (int process = 0; process < 3; process++) {
        viz_log_image(log, 4121 + process);
        viz_log_link(log, viz_log_event(log, BH_EVLOG_ALLOC_NEW, 0x1000, 4096, 4000), stack, full,
                     0);
        viz_log_event(log, BH_EVLOG_ALLOC_NEW, 0x4000, 1024, 1000);
    }
    viz_log_add(log,
                (struct bh_evlog_record){.kind = BH_EVLOG_IMAGE_END, .image = 3, .stream = -1});
    viz_log_add(
        log, (struct bh_evlog_record){
                 .kind = BH_EVLOG_MARK, .sequence = ++log->sequence, .text = mark, .stream = -1});
    log->image = 1;
    viz_log_event(log, BH_EVLOG_FREE_TO_CACHE, 0x1000, 4096, 4000);
    log->image = 2;
    viz_log_event(log, BH_EVLOG_FREE_TO_OS, 0x4000, 1024, 1000);
}

static const struct bh_annotation NOTES[] = {
    {VIZ_EPOCH_US + 1, "started"}, {VIZ_EPOCH_US + 9, "SIGTERM"}, {VIZ_EPOCH_US + 15, "SIGKILL"}};

static struct bh_memviz_options limit_options(void)
{
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    options.limit_crossed = true;
    options.limit_us = VIZ_EPOCH_US + 8;
    options.limit_bytes = 10000;
    options.warning_bytes = 9000;
    options.recovery_bytes = 8000;
    options.emergency_bytes = 11000;
    options.crossed_bytes = 10240;
    options.annotations = NOTES;
    options.annotation_count = 3;
    return options;
}

static void processes_limit_annotations(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = limit_options();
    many_log(&log);
    check_log(&log, "processes", &options);
}

static void window_and_last_n(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = limit_options();
    options.from_us = VIZ_EPOCH_US + 4;
    options.to_us = VIZ_EPOCH_US + 14;
    many_log(&log);
    check_log(&log, "window", &options);

    options = limit_options();
    options.max_entries = 3;
    many_log(&log);
    check_log(&log, "last_3", &options);

    options.from_us = 2;
    options.to_us = 1;
    many_log(&log);
    assert_int_equal(bh_memviz_write(viz_log_source(&log), VIZ_RUN_ID, &options,
                                     (struct bh_sink){NULL, NULL}, NULL),
                     BH_E_BAD_QUERY);
    viz_log_close(&log);
}

/* A LINK that comes long after its allocation still reaches it. */
static void far_link(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    viz_log_open(&log);
    viz_log_image(&log, 4121);
    uint32_t full = viz_log_string(&log, "Full"), stack = leaf_stack(&log, "/home/ada/leaky.py");
    uint64_t early = viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x1000, 64, 64);
    for (unsigned i = 0; i < 20000; i++) {
        viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x2000, 64, 64);
        viz_log_event(&log, BH_EVLOG_FREE_TO_OS, 0x2000, 64, 64);
    }
    viz_log_link(&log, early, stack, full, 0);
    options.max_entries = log.sequence; /* the early one is inside */
    struct bh_bytes out = export_log(&log, &options);
    assert_non_null(memmem(out.data, out.length, "/home/ada/leaky.py", 18));
    assert_non_null(memmem(out.data, out.length, "Full", 4));
    bh_bytes_done(&out);
    viz_log_close(&log);
}

/* Foreign events may name no process: the trace's pid is None then, not 0. */
static void no_process_is_none(void **state)
{
    static const char name[] = {'\x8c', 3, 'p', 'i', 'd', 'N'};
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    viz_log_open(&log);
    viz_log_image(&log, 0);
    viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x1000, 64, 64);
    struct bh_bytes out = export_log(&log, &options);
    assert_non_null(memmem(out.data, out.length, name, sizeof name));
    bh_bytes_done(&out);
    viz_log_close(&log);
}

/* The first LINK counts, and fills in only what the event left open; one of another image is not
 * for this event. */
static void links_fill_in_once(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    viz_log_open(&log);
    viz_log_image(&log, 4122);
    viz_log_image(&log, 4121);
    uint32_t own = viz_log_string(&log, "Own"), late = viz_log_string(&log, "Late");
    uint32_t other = viz_log_string(&log, "Other"), stack = leaf_stack(&log, "/home/ada/leaky.py");
    uint64_t first = viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x1000, 64, 64);
    viz_log_add(&log, (struct bh_evlog_record){.kind = BH_EVLOG_ALLOC_NEW,
                                               .sequence = ++log.sequence,
                                               .image = log.image,
                                               .address = 0x2000,
                                               .size_bytes = 64,
                                               .requested_bytes = 64,
                                               .primitive = own,
                                               .stream = -1});
    log.image = 1;
    viz_log_link(&log, first, stack, other, 3);
    log.image = 2;
    viz_log_link(&log, first, stack, 0, -1);
    viz_log_link(&log, first, 0, late, 5);
    viz_log_link(&log, log.sequence, stack, late, 1);
    check_log(&log, "links", &options);
}

static int refuse(void *context, const void *data, size_t length)
{
    (void)data;
    size_t *left = context;
    if (length > *left)
        return BH_E_CLOSED;
    *left -= length;
    return 0;
}

static void sink_error_ends_it(void **state)
{
    (void)state;
    struct viz_log log;
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    size_t room = 100000;
    viz_log_open(&log);
    viz_log_image(&log, 4121);
    for (unsigned i = 0; i < 20000; i++)
        viz_log_event(&log, BH_EVLOG_ALLOC_NEW, 0x1000 * (i + 1), 64, 64);
    assert_int_equal(bh_memviz_write(viz_log_source(&log), VIZ_RUN_ID, &options,
                                     (struct bh_sink){refuse, &room}, NULL),
                     BH_E_CLOSED);
    viz_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_trace),
        cmocka_unit_test(one_alloc_and_free),
        cmocka_unit_test(reuse),
        cmocka_unit_test(make_buffer_and_release),
        cmocka_unit_test(cache_eviction),
        cmocka_unit_test(baseline),
        cmocka_unit_test(lost_events),
        cmocka_unit_test(unicode_file_names),
        cmocka_unit_test(largest_safe_address),
        cmocka_unit_test(batches),
        cmocka_unit_test(processes_limit_annotations),
        cmocka_unit_test(window_and_last_n),
        cmocka_unit_test(far_link),
        cmocka_unit_test(no_process_is_none),
        cmocka_unit_test(links_fill_in_once),
        cmocka_unit_test(sink_error_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
