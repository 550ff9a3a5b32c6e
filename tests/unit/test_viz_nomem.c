/* Every exporter with an allocator that fails the Nth call, for every N: a typed error, no crash,
 * nothing left behind. The sanitized build has an allocator of its own; there this file does
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <malloc.h>

#include "core/viz/events.h"
#include "core/viz/ingest.h"
#include "core/viz/live.h"
#include "core/viz/memviz.h"
#include "viz_random.h"

static long fail_at;     /* counts down while armed; 0 = off */
static long calls, held; /* while armed: allocations made, and those not freed */
static bool armed;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OWN_ALLOCATOR false
#else
#define OWN_ALLOCATOR true
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void __libc_free(void *pointer);

static bool refuse(void)
{
    if (!armed)
        return false;
    calls++;
    if (fail_at > 0 && --fail_at == 0) {
        errno = ENOMEM;
        return true;
    }
    return false;
}

void *malloc(size_t size)
{
    if (refuse())
        return NULL;
    held += armed;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (refuse())
        return NULL;
    held += armed;
    return __libc_calloc(count, size);
}

void *realloc(void *pointer, size_t size)
{
    if (refuse())
        return NULL;
    held += armed && !pointer;
    return __libc_realloc(pointer, size);
}

void free(void *pointer)
{
    held -= armed && pointer;
    __libc_free(pointer);
}
#endif

static int swallow(void *context, const void *data, size_t length)
{
    (void)context;
    (void)data;
    (void)length;
    return 0;
}

static const struct bh_sink SINK = {swallow, NULL};

static int take_keyframe(void *context, const struct bh_keyframe_info *info, const void *data,
                         size_t length)
{
    (void)context;
    (void)info;
    (void)data;
    (void)length;
    return 0;
}

static int take_loss(void *context, const struct bh_loss *loss)
{
    (void)context;
    (void)loss;
    return 0;
}

static int take_mark(void *context, const struct bh_mark *mark)
{
    (void)context;
    (void)mark;
    return 0;
}

static int do_pickle(const struct bh_trace_source *source)
{
    struct bh_memviz_options options = BH_MEMVIZ_ALL;
    options.limit_crossed = true;
    options.limit_us = VIZ_EPOCH_US + 500;
    return bh_memviz_write(source, VIZ_RUN_ID, &options, SINK, NULL);
}

static int do_events(const struct bh_trace_source *source)
{
    struct bh_events_query query = {.from = 10};
    return bh_events_write(source, NULL, &query, SINK, NULL);
}

static int do_live(const struct bh_trace_source *source)
{
    struct bh_dictionary *names;
    struct bh_live live;
    struct bh_live_query query = {.when = BH_LIVE_AT_PEAK, .growing = true, .since = true};
    int error = bh_dictionary_new(&names);
    if (error < 0)
        return error;
    error = bh_dictionary_load(names, source);
    if (error >= 0)
        error = bh_live_compute(source, names, NULL, NULL, &query, &live, NULL);
    if (error >= 0) {
        error = bh_live_json(&live, names, VIZ_RUN_ID, SINK);
        if (error >= 0)
            error = bh_live_collapsed(&live, names, SINK);
        bh_live_done(&live);
    }
    bh_dictionary_free(names);
    return error;
}

static int import_all(const struct bh_trace_source *source, struct bh_ingest *ingest,
                      const struct bh_ingest_store *store)
{
    const unsigned char *data;
    size_t length;
    int more = source->seek(source->context, 0, false);
    while (more >= 0 && (more = source->next(source->context, &data, &length)) > 0)
        more = bh_ingest_segment(ingest, data, length, NULL);
    return more < 0 ? more : bh_ingest_flush(ingest, store);
}

static int do_import(const struct bh_trace_source *source)
{
    struct bh_level_memory *memory;
    struct bh_ingest *ingest;
    int error = bh_level_memory_new(&memory);
    if (error < 0)
        return error;
    const struct bh_ingest_store store = {bh_level_memory_store(memory), NULL, take_keyframe,
                                          take_loss, take_mark};
    error = bh_ingest_new(source->header.anchor, &ingest);
    if (error >= 0) {
        error = import_all(source, ingest, &store);
        bh_ingest_free(ingest);
    }
    if (error >= 0) { /* and goes on from what is stored */
        error = bh_ingest_new(source->header.anchor, &ingest);
        if (error >= 0) {
            error = bh_ingest_restore(ingest, source, NULL, &store.levels, 1);
            bh_ingest_free(ingest);
        }
    }
    bh_level_memory_free(memory);
    return error;
}

static int do_keyframe(const struct bh_trace_source *source)
{
    struct bh_trace_reader reader;
    struct bh_evlog_record record;
    struct bh_replay replay, other;
    struct bh_keyframe_info info;
    struct bh_bytes blob = {0};
    bh_replay_init(&replay, source->header.anchor);
    bh_replay_init(&other, source->header.anchor);
    int more = bh_trace_reader_begin(&reader, source, 0, false);
    while (more >= 0 && (more = bh_trace_reader_next(&reader, &record)) > 0)
        more = bh_replay_apply(&replay, &record);
    if (more >= 0)
        more = bh_keyframe_encode(&replay, 1, &blob);
    if (more >= 0)
        more = bh_keyframe_decode(blob.data, blob.length, &other, &info);
    bh_bytes_done(&blob);
    bh_replay_done(&replay);
    bh_replay_done(&other);
    return more;
}

static void for_every_call(int (*operation)(const struct bh_trace_source *source))
{
    struct viz_random random;
    if (!OWN_ALLOCATOR)
        skip();
    viz_random_open(&random, 9, 1500);
    for (int i = 0; i < 1500; i++)
        viz_random_step(&random);
    const struct bh_trace_source *source = viz_log_source(&random.log);
    int result = BH_E_NOMEM;
    long n = 0;
    while (result < 0) {
        n++;
        fail_at = n;
        calls = held = 0;
        armed = true;
        result = operation(source);
        armed = false;
        if (result < 0 && result != BH_E_NOMEM)
            fail_msg("call %ld: %s", n, bh_err_code(result));
        if (held != 0)
            fail_msg("call %ld: %ld allocations were left behind", n, held);
        assert_true(result >= 0 || fail_at == 0);
    }
    assert_true(n > 5 && n == calls + 1); /* every call was the one that failed */
    viz_random_close(&random);
}

static void pickle_without_memory(void **state)
{
    (void)state;
    for_every_call(do_pickle);
}

static void events_without_memory(void **state)
{
    (void)state;
    for_every_call(do_events);
}

static void live_without_memory(void **state)
{
    (void)state;
    for_every_call(do_live);
}

static void import_without_memory(void **state)
{
    (void)state;
    for_every_call(do_import);
}

static void keyframe_without_memory(void **state)
{
    (void)state;
    for_every_call(do_keyframe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pickle_without_memory),   cmocka_unit_test(events_without_memory),
        cmocka_unit_test(live_without_memory),     cmocka_unit_test(import_without_memory),
        cmocka_unit_test(keyframe_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
