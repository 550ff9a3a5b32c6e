/* The pickle writer, opcode by opcode, against bytes written out by hand from the format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/viz/pickle.h"

static struct bh_pickle *begin(struct bh_bytes *out)
{
    struct bh_pickle *pickle = malloc(sizeof *pickle);
    assert_non_null(pickle);
    *out = (struct bh_bytes){0};
    bh_pickle_begin(pickle, bh_sink_bytes(out));
    return pickle;
}

static void end(struct bh_pickle *pickle, struct bh_bytes *out, const char *bytes, size_t length)
{
    assert_int_equal(bh_pickle_finish(pickle), 0);
    assert_int_equal(out->length, length + 3);
    assert_memory_equal(out->data, "\x80\x04", 2);
    assert_memory_equal(out->data + 2, bytes, length);
    assert_int_equal(out->data[out->length - 1], '.');
    assert_int_equal(pickle->written, out->length);
    free(pickle);
    bh_bytes_done(out);
}
#define END(pickle, out, bytes) end(pickle, out, bytes, sizeof(bytes) - 1)

static void integers(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        const char *bytes;
        size_t length;
    } cases[] = {
        {0, "K\x00", 2},
        {255, "K\xff", 2},
        {256, "M\x00\x01", 3},
        {65535, "M\xff\xff", 3},
        {65536, "J\x00\x00\x01\x00", 5},
        {INT32_MAX, "J\xff\xff\xff\x7f", 5},
        {2147483648, "\x8a\x05\x00\x00\x00\x80\x00", 7},
        {4294967295, "\x8a\x05\xff\xff\xff\xff\x00", 7},
        {549755813887, "\x8a\x05\xff\xff\xff\xff\x7f", 7},
        {549755813888, "\x8a\x06\x00\x00\x00\x00\x80\x00", 8},
        {9007199254740991, "\x8a\x07\xff\xff\xff\xff\xff\xff\x1f", 9},
        {INT64_MAX, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", 10},
        {-1, "J\xff\xff\xff\xff", 5},
        {INT32_MIN, "J\x00\x00\x00\x80", 5},
        {-2147483649, "\x8a\x05\xff\xff\xff\x7f\xff", 7},
        {-549755813888, "\x8a\x05\x00\x00\x00\x00\x80", 7},
        {INT64_MIN, "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", 10},
    };
    struct bh_bytes out;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bh_pickle *pickle = begin(&out);
        bh_pickle_i64(pickle, cases[i].value);
        end(pickle, &out, cases[i].bytes, cases[i].length);
    }
    struct bh_pickle *pickle = begin(&out);
    bh_pickle_u64(pickle, UINT64_MAX);
    END(pickle, &out, "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00");
}

static void other_scalars(void **state)
{
    (void)state;
    struct bh_bytes out;
    char text[256];
    struct bh_pickle *pickle = begin(&out);
    bh_pickle_none(pickle);
    END(pickle, &out, "N");
    pickle = begin(&out);
    bh_pickle_bool(pickle, true);
    END(pickle, &out, "\x88");
    pickle = begin(&out);
    bh_pickle_bool(pickle, false);
    END(pickle, &out, "\x89");
    pickle = begin(&out);
    bh_pickle_double(pickle, -1.5);
    END(pickle, &out, "G\xbf\xf8\x00\x00\x00\x00\x00\x00");
    pickle = begin(&out);
    bh_pickle_pair(pickle, 0, 7);
    END(pickle, &out, "K\x00K\x07\x86");
    pickle = begin(&out);
    bh_pickle_text(pickle, "caf\xc3\xa9", 5);
    END(pickle, &out,
        "\x8c\x05"
        "caf\xc3\xa9");
    memset(text, 'x', sizeof text);
    pickle = begin(&out);
    bh_pickle_text(pickle, text, 256);
    assert_int_equal(bh_pickle_finish(pickle), 0);
    assert_memory_equal(out.data + 2, "X\x00\x01\x00\x00xx", 7);
    free(pickle);
    bh_bytes_done(&out);
}

static void containers_and_memo(void **state)
{
    (void)state;
    struct bh_bytes out;
    struct bh_pickle *pickle = begin(&out);
    bh_pickle_dict(pickle);
    bh_pickle_end(pickle);
    END(pickle, &out, "}");

    pickle = begin(&out);
    bh_pickle_dict(pickle);
    bh_pickle_text(pickle, "a", 1);
    assert_int_equal(bh_pickle_memoize(pickle), 0);
    bh_pickle_list(pickle);
    bh_pickle_u64(pickle, 1);
    bh_pickle_list(pickle);
    bh_pickle_end(pickle);
    assert_int_equal(bh_pickle_memoize(pickle), 1);
    bh_pickle_get(pickle, 1);
    bh_pickle_end(pickle);
    bh_pickle_text(pickle, "b", 1);
    bh_pickle_get(pickle, 0);
    bh_pickle_end(pickle);
    END(pickle, &out,
        "}(\x8c\x01"
        "a\x94](K\x01]\x94h\x01"
        "e\x8c\x01"
        "bh\x00u");

    pickle = begin(&out);
    pickle->memo_count = 256;
    bh_pickle_get(pickle, 256);
    END(pickle, &out, "j\x00\x01\x00\x00");
}

/* 999, 1,000 and 1,001 entries: one batch, one full batch, two. And MEMOIZE after the thousandth
 * entry must find that entry on top, not the list. */
static void batches(void **state)
{
    (void)state;
    for (size_t count = 999; count <= 1001; count++) {
        struct bh_bytes out;
        struct bh_pickle *pickle = begin(&out);
        bh_pickle_list(pickle);
        for (size_t i = 0; i < count; i++)
            bh_pickle_none(pickle);
        bh_pickle_memoize(pickle);
        bh_pickle_end(pickle);
        assert_int_equal(bh_pickle_finish(pickle), 0);
        size_t at = 2;
        assert_memory_equal(out.data + at, "](", 2);
        at += 2;
        size_t first = count < 1000 ? count : 1000;
        for (size_t i = 0; i < first; i++)
            assert_int_equal(out.data[at++], 'N');
        if (count == 1001) {
            assert_memory_equal(out.data + at, "e(N", 3);
            at += 3;
        }
        assert_memory_equal(out.data + at,
                            "\x94"
                            "e.",
                            3);
        assert_int_equal(out.length, at + 3);
        free(pickle);
        bh_bytes_done(&out);
    }
}

static int count_pieces(void *context, const void *data, size_t length)
{
    size_t *pieces = context;
    (void)data;
    assert_true(length <= BH_PICKLE_BUFFER);
    return ++*pieces == 3 ? BH_E_CLOSED : 0;
}

/* The sink gets pieces of bounded size; after its error nothing more reaches it. */
static void sink_errors_stick(void **state)
{
    (void)state;
    static char text[BH_PICKLE_BUFFER * 6];
    size_t pieces = 0;
    struct bh_pickle *pickle = malloc(sizeof *pickle);
    assert_non_null(pickle);
    memset(text, 'x', sizeof text);
    bh_pickle_begin(pickle, (struct bh_sink){count_pieces, &pieces});
    bh_pickle_text(pickle, text, sizeof text);
    assert_int_equal(pieces, 3);
    assert_int_equal(bh_pickle_finish(pickle), BH_E_CLOSED);
    assert_int_equal(pieces, 3);
    free(pickle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(other_scalars),
        cmocka_unit_test(containers_and_memo),
        cmocka_unit_test(batches),
        cmocka_unit_test(sink_errors_stick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
