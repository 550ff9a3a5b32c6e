/* A run that is imported, and a reader of its trace. cmocka.h must have been included. */
#ifndef BH_TESTS_TRACE_FIXTURE_H
#define BH_TESTS_TRACE_FIXTURE_H

#include <jansson.h>

#include "server/import.h"
#include "server/store.h"
#include "server/trace.h"
#include "trace_maker.h"

struct fixture {
    struct maker maker;
    struct bh_store *store;
    struct bh_import *import;
    struct bh_trace *trace;
};

static inline void open_all(struct fixture *f)
{
    struct bh_store_start start;
    struct bh_diag diag = {0};

    assert_int_equal(bh_store_open(f->maker.state, false, &f->store, &start, &diag), 0);
    assert_int_equal(bh_import_open(bh_store_path_peek(f->store), &f->import, &diag), 0);
    assert_int_equal(bh_trace_open(bh_store_path_peek(f->store), &f->trace, &diag), 0);
}

static inline int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    maker_state(&f->maker);
    maker_run(&f->maker, MAKER_ID, 3);
    f->maker.keep_history = true;
    open_all(f);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;

    bh_trace_close(f->trace);
    bh_import_close(f->import);
    bh_store_close(f->store);
    maker_run_close(&f->maker);
    maker_done(&f->maker);
    free(f);
    return 0;
}

static inline void take(struct fixture *f, bool ended)
{
    struct bh_reindex_result result;
    struct bh_import_step step = {.more = true};
    struct bh_diag diag = {0};

    /* makes the row on the first call */
    assert_int_equal(bh_reindex(f->import, f->maker.jobs_fd, NULL, NULL, NULL, &result, &diag), 0);
    while (step.more)
        assert_int_equal(
            bh_import_step(f->import, f->maker.id, f->maker.dirfd, ended, 0, &step, &diag), 0);
    assert_int_equal(step.complete, ended);
}

static inline void make_run(struct fixture *f, uint64_t events)
{
    struct maker *maker = &f->maker;

    maker_begin(maker);
    maker_events(maker, events / 2);
    maker_mark(maker, "epoch 2");
    maker_events(maker, events - events / 2);
    maker->now_ns = MAKER_MONO_NS + 1000000000;
    maker_samples(maker, 1000, 5000);
    maker->now_ns = MAKER_MONO_NS + 2000000000;
    maker_samples(maker, 4000, 1096847360);
    maker_limit_crossed(maker, 1096847360);
    maker_transition(maker, 2, 4);
    maker_signal(maker);
    maker->now_ns = MAKER_MONO_NS + 2500000000;
    maker_outcome(maker);
    maker_flush(maker);
    maker_report(maker);
    take(f, true);
}

static inline int collect(void *user, const void *data, size_t length)
{
    bh_bytes_append(user, data, length);
    return 0;
}

static inline json_t *parse(struct bh_bytes *bytes)
{
    json_error_t error;
    json_t *json = json_loadb((const char *)bytes->data, bytes->length, 0, &error);

    if (!json)
        fail_msg("no JSON: %s near %.80s", error.text, (char *)bytes->data);
    bh_bytes_done(bytes);
    return json;
}

static inline json_t *timeline(struct fixture *f, struct bh_trace_range range, uint32_t points)
{
    struct bh_bytes bytes = {0};
    struct bh_diag diag = {0};
    int result = bh_trace_timeline(f->trace, f->maker.id, range, points, collect, &bytes, &diag);

    if (result < 0)
        print_error("%s\n", diag.detail);
    assert_int_equal(result, 0);
    return parse(&bytes);
}

static inline int64_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static inline int64_t at(const json_t *object, const char *key, size_t index)
{
    const json_t *value = json_array_get(json_object_get(object, key), index);

    return json_is_null(value) ? -1 : json_integer_value(value);
}

#endif
