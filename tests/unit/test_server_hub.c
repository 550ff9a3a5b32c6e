/* The event ring: order, ids, filters, gaps for slow readers, the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/hub.h"

#define A "aaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbb"

struct fixture {
    uv_loop_t loop;
    struct bh_hub *hub;
    char text[1 << 20];
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    assert_int_equal(bh_hub_new(&fixture->loop, "0123abcd", &fixture->hub), 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    bh_hub_close(fixture->hub);
    (void)uv_run(&fixture->loop, UV_RUN_DEFAULT);
    bh_hub_free(fixture->hub);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    free(fixture);
    return 0;
}

static void publish(struct fixture *fixture, unsigned type, const char *job, uint64_t sequence,
                    const char *data)
{
    bh_hub_publish(fixture->hub, type, job, sequence, data, strlen(data));
}

static struct bh_source *open_stream(struct fixture *fixture, struct bh_stream_options options)
{
    struct bh_bytes first = {0};
    struct bh_source *source = NULL;
    assert_int_equal(bh_hub_stream(fixture->hub, &options, &first, &source), 0);
    return source;
}

/* Everything that is there now, in pieces of `piece` bytes; the last result comes back. */
static int64_t drain(struct fixture *fixture, struct bh_source *source, size_t piece)
{
    size_t used = 0;
    int64_t n;
    while ((n = source->read(source, fixture->text + used, piece)) > 0) {
        used += (size_t)n;
        assert_true(used + piece < sizeof fixture->text);
    }
    fixture->text[used] = '\0';
    return n;
}

static void events_come_in_order_with_ids(void **state)
{
    struct fixture *fixture = *state;
    struct bh_source *source =
        open_stream(fixture, (struct bh_stream_options){.types = BH_EVENT_ALL,
                                                        .from = bh_hub_next(fixture->hub)});
    assert_int_equal(drain(fixture, source, 64), 0);
    publish(fixture, BH_EVENT_JOB, A, 9, "{}");
    publish(fixture, BH_EVENT_SAMPLE, A, 0, "{\"s\":1}");
    publish(fixture, BH_EVENT_HOST, NULL, 0, "{\"h\":1}");
    assert_int_equal(drain(fixture, source, 7), 0);
    assert_string_equal(fixture->text, "id: 0123abcd.1\nevent: job\ndata: {}\n\n"
                                       "event: sample\ndata: {\"s\":1}\n\n"
                                       "id: 0123abcd.3\nevent: host\ndata: {\"h\":1}\n\n");
    source->free(source);
    assert_int_equal(bh_hub_streams(fixture->hub), 0);
}

static void streams_of_a_job_use_journal_numbers(void **state)
{
    struct fixture *fixture = *state;
    struct bh_source *source = open_stream(
        fixture,
        (struct bh_stream_options){
            .types = BH_EVENT_ALL, .job_id = A, .of_job = true, .from = 1, .after_sequence = 10});
    publish(fixture, BH_EVENT_TRANSITION, A, 10, "{\"old\":1}");
    publish(fixture, BH_EVENT_TRANSITION, B, 12, "{\"other\":1}");
    publish(fixture, BH_EVENT_SIGNAL, A, 11, "{\"new\":1}");
    assert_int_equal(drain(fixture, source, 4096), 0);
    assert_string_equal(fixture->text, "id: 11\nevent: signal\ndata: {\"new\":1}\n\n");
    source->free(source);
}

static void types_are_filtered(void **state)
{
    struct fixture *fixture = *state;
    struct bh_source *source =
        open_stream(fixture, (struct bh_stream_options){.types = BH_EVENT_HOST,
                                                        .from = bh_hub_next(fixture->hub)});
    publish(fixture, BH_EVENT_JOB, A, 1, "{}");
    publish(fixture, BH_EVENT_HOST, NULL, 0, "{}");
    assert_int_equal(drain(fixture, source, 4096), 0);
    assert_null(strstr(fixture->text, "event: job"));
    assert_non_null(strstr(fixture->text, "event: host"));
    source->free(source);
}

static void old_samples_are_not_replayed(void **state)
{
    struct fixture *fixture = *state;
    uint64_t before = bh_hub_next(fixture->hub);
    publish(fixture, BH_EVENT_SAMPLE, A, 0, "{}");
    publish(fixture, BH_EVENT_JOB, A, 1, "{}");
    struct bh_source *source =
        open_stream(fixture, (struct bh_stream_options){.types = BH_EVENT_ALL, .from = before});
    assert_int_equal(drain(fixture, source, 4096), 0);
    assert_null(strstr(fixture->text, "event: sample"));
    assert_non_null(strstr(fixture->text, "event: job"));
    source->free(source);
}

static void a_slow_reader_gets_a_gap(void **state)
{
    struct fixture *fixture = *state;
    struct bh_source *source =
        open_stream(fixture, (struct bh_stream_options){.types = BH_EVENT_ALL,
                                                        .from = bh_hub_next(fixture->hub)});
    for (unsigned i = 0; i < BH_HUB_MAX_EVENTS + 100; i++)
        publish(fixture, BH_EVENT_HOST, NULL, 0, "{}");
    char piece[4096];
    int64_t n = source->read(source, piece, sizeof piece - 1);
    assert_true(n > 0);
    piece[n] = '\0';
    assert_non_null(strstr(piece, "event: gap\ndata: {\"reason\":\"overrun\",\"missed\":"));
    source->free(source);

    /* the byte bound too: entries of 64 KiB push each other out */
    source = open_stream(fixture, (struct bh_stream_options){.types = BH_EVENT_ALL,
                                                             .from = bh_hub_next(fixture->hub)});
    char *big = malloc(65537);
    memset(big, 'x', 65536);
    big[65536] = '\0';
    for (unsigned i = 0; i < 80; i++)
        publish(fixture, BH_EVENT_HOST, NULL, 0, big);
    free(big);
    n = source->read(source, piece, sizeof piece - 1);
    piece[n > 0 ? n : 0] = '\0';
    assert_non_null(strstr(piece, "event: gap"));
    source->free(source);
}

static int woken;

static void wake(void *data)
{
    (void)data;
    woken++;
}

static void a_burst_is_one_wake(void **state)
{
    struct fixture *fixture = *state;
    struct bh_source *source =
        open_stream(fixture, (struct bh_stream_options){.types = BH_EVENT_ALL,
                                                        .from = bh_hub_next(fixture->hub)});
    source->wake = wake;
    woken = 0;
    for (int i = 0; i < 50; i++)
        publish(fixture, BH_EVENT_HOST, NULL, 0, "{}");
    while (woken == 0)
        (void)uv_run(&fixture->loop, UV_RUN_ONCE);
    assert_int_equal(woken, 1);
    source->free(source);
}

static void the_end_says_bye(void **state)
{
    struct fixture *fixture = *state;
    struct bh_source *source =
        open_stream(fixture, (struct bh_stream_options){.types = BH_EVENT_ALL,
                                                        .from = bh_hub_next(fixture->hub)});
    bh_hub_end(fixture->hub);
    assert_int_equal(drain(fixture, source, 4096), BH_E_END);
    assert_non_null(strstr(fixture->text, "event: bye\ndata: {\"reason\":\"server_exit\"}\n\n"));
    source->free(source);
    source = open_stream(fixture, (struct bh_stream_options){.types = BH_EVENT_ALL});
    assert_int_equal(source->read(source, fixture->text, 10), BH_E_END);
    source->free(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_come_in_order_with_ids, setup, teardown),
        cmocka_unit_test_setup_teardown(streams_of_a_job_use_journal_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(types_are_filtered, setup, teardown),
        cmocka_unit_test_setup_teardown(old_samples_are_not_replayed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_reader_gets_a_gap, setup, teardown),
        cmocka_unit_test_setup_teardown(a_burst_is_one_wake, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_says_bye, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
