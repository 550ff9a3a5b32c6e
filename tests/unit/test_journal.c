/* journal.bhj: the valid prefix and how it ends, after any cut and any flipped bit; a reader of a
 * growing file; taking a journal over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/wire/journal.h"
#include "core/wire/le.h"
#include "records.h"
#include "scratch.h"

struct fixture {
    struct scratch scratch;
    struct bh_bytes bytes; /* a whole journal of every kind, OUTCOME last */
    size_t border[64];     /* record borders, header's end first */
    size_t borders;
};

static void append(struct fixture *fixture, struct bh_record *record)
{
    unsigned char bytes[BH_JOURNAL_MAX_RECORD];
    int length = bh_record_encode(record, RECORDS_RUN_ID, bytes, sizeof bytes);
    assert_true(length > 0);
    bh_bytes_append(&fixture->bytes, bytes, (size_t)length);
    fixture->border[fixture->borders++] = fixture->bytes.length;
}

static void append_kind(struct fixture *fixture, int kind, bool by_scribe, uint64_t sequence)
{
    struct bh_record record = record_of_kind(kind, sequence);
    record.by_scribe = by_scribe;
    append(fixture, &record);
}

static void begin(struct fixture *fixture)
{
    struct bh_journal_header header = {RECORDS_RUN_ID, {{86400500000000}, {1796002200120000}}};
    unsigned char bytes[BH_JOURNAL_HEADER_BYTES];
    bh_journal_header_encode(&header, bytes);
    bh_bytes_clear(&fixture->bytes);
    bh_bytes_append(&fixture->bytes, bytes, sizeof bytes);
    fixture->border[0] = sizeof bytes;
    fixture->borders = 1;
}

static int setup(void **state)
{
    static const int kinds[] = {1, 2, 3, 12, 5, 8, 9, 10, 11, 6, 7, 19, 17, 20, 16};
    struct fixture *fixture = calloc(1, sizeof *fixture);
    scratch_open(&fixture->scratch);
    begin(fixture);
    uint64_t sequence = 0, scribe = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (i == 3 || i == 7)
            append_kind(fixture, BH_RECORD_SAMPLES, true, ++scribe);
        append_kind(fixture, kinds[i], false, ++sequence);
    }
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    bh_bytes_done(&fixture->bytes);
    scratch_close(&fixture->scratch);
    free(fixture);
    return 0;
}

/* A file with these bytes, open for reading and writing. */
static int file_of(const struct fixture *fixture, const void *data, size_t length)
{
    int fd = openat(fixture->scratch.fd, "j", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    assert_true(fd >= 0);
    assert_int_equal(bh_io_write_full(fd, data, length), BH_OK);
    return fd;
}

static size_t read_all(int fd, enum bh_journal_end *ret_end, uint64_t *ret_offset)
{
    struct bh_journal_reader *reader = NULL;
    struct bh_record record;
    size_t count = 0;
    assert_int_equal(bh_journal_reader_new(fd, &reader, NULL), BH_OK);
    while (bh_journal_reader_next(reader, &record) == 1)
        count++;
    *ret_end = bh_journal_reader_end(reader);
    *ret_offset = bh_journal_reader_offset(reader);
    bh_journal_reader_free(reader);
    return count;
}

static void test_whole(void **state)
{
    struct fixture *fixture = *state;
    enum bh_journal_end end;
    uint64_t offset;
    int fd = file_of(fixture, fixture->bytes.data, fixture->bytes.length);
    assert_int_equal(read_all(fd, &end, &offset), fixture->borders - 1);
    assert_int_equal(end, BH_JOURNAL_COMPLETE);
    assert_int_equal(offset, fixture->bytes.length);
    assert_true(golden_equal("wire/journal.bin", fixture->bytes.data, fixture->bytes.length));
    (void)close(fd);
}

/* Cut anywhere: every whole record before the cut, `truncated`, and the writer goes on there. */
static void test_every_cut(void **state)
{
    struct fixture *fixture = *state;
    for (size_t cut = BH_JOURNAL_HEADER_BYTES; cut < fixture->bytes.length; cut++) {
        size_t whole = 0;
        while (whole + 1 < fixture->borders && fixture->border[whole + 1] <= cut)
            whole++;
        enum bh_journal_end end;
        uint64_t offset;
        int fd = file_of(fixture, fixture->bytes.data, cut);
        assert_int_equal(read_all(fd, &end, &offset), whole);
        assert_int_equal(end, BH_JOURNAL_TRUNCATED);
        assert_int_equal(offset, fixture->border[whole]);
        struct bh_journal_resume resume;
        assert_int_equal(bh_journal_resume(fd, RECORDS_RUN_ID, &resume, NULL), BH_OK);
        assert_int_equal(resume.bytes, fixture->border[whole]);
        assert_int_equal(lseek(fd, 0, SEEK_END), (off_t)fixture->border[whole]);
        (void)close(fd);
    }
}

static void test_cut_in_header(void **state)
{
    struct fixture *fixture = *state;
    struct bh_journal_resume resume;
    for (size_t cut = 0; cut < BH_JOURNAL_HEADER_BYTES; cut++) {
        int fd = file_of(fixture, fixture->bytes.data, cut);
        assert_int_equal(bh_journal_resume(fd, RECORDS_RUN_ID, &resume, NULL), BH_OK);
        assert_int_equal(resume.bytes, 0);
        assert_int_equal(lseek(fd, 0, SEEK_END), 0);
        (void)close(fd);
    }
}

/* A flipped bit anywhere ends the prefix before it; no record behind it is believed. */
static void test_every_flip(void **state)
{
    struct fixture *fixture = *state;
    for (size_t at = BH_JOURNAL_HEADER_BYTES; at < fixture->bytes.length; at++) {
        size_t whole = 0;
        while (whole + 1 < fixture->borders && fixture->border[whole + 1] <= at)
            whole++;
        enum bh_journal_end end;
        uint64_t offset;
        fixture->bytes.data[at] ^= (unsigned char)(1u << (at % 8));
        int fd = file_of(fixture, fixture->bytes.data, fixture->bytes.length);
        assert_int_equal(read_all(fd, &end, &offset), whole);
        assert_int_not_equal(end, BH_JOURNAL_COMPLETE);
        assert_int_equal(offset, fixture->border[whole]);
        fixture->bytes.data[at] ^= (unsigned char)(1u << (at % 8));
        (void)close(fd);
    }
}

static void test_damaged_header(void **state)
{
    struct fixture *fixture = *state;
    struct bh_journal_reader *reader = NULL;
    for (size_t at = 0; at < BH_JOURNAL_HEADER_BYTES; at++) {
        fixture->bytes.data[at] ^= 4;
        int fd = file_of(fixture, fixture->bytes.data, fixture->bytes.length);
        assert_true(bh_journal_reader_new(fd, &reader, NULL) < 0);
        fixture->bytes.data[at] ^= 4;
        (void)close(fd);
    }
}

/* A missing record is noticed; one that LOSSES counts is accounted for. */
static void test_sequences(void **state)
{
    struct fixture *fixture = *state;
    enum bh_journal_end end;
    uint64_t offset;
    begin(fixture);
    append_kind(fixture, BH_RECORD_CONFIG, false, 1);
    append_kind(fixture, BH_RECORD_MARK, false, 3);
    int fd = file_of(fixture, fixture->bytes.data, fixture->bytes.length);
    assert_int_equal(read_all(fd, &end, &offset), 1);
    assert_int_equal(end, BH_JOURNAL_CORRUPT);
    (void)close(fd);

    begin(fixture);
    append_kind(fixture, BH_RECORD_CONFIG, false, 1);
    struct bh_record losses = record_of_kind(BH_RECORD_LOSSES, 5);
    losses.losses.records = 3;
    append(fixture, &losses);
    append_kind(fixture, BH_RECORD_MARK, false, 6);
    append_kind(fixture, BH_RECORD_RECORDER, true, 1);
    append_kind(fixture, BH_RECORD_RECORDER, true, 2);
    fd = file_of(fixture, fixture->bytes.data, fixture->bytes.length);
    assert_int_equal(read_all(fd, &end, &offset), 5);
    assert_int_equal(end, BH_JOURNAL_TRUNCATED);
    (void)close(fd);

    losses.losses.records = UINT64_MAX; /* would wrap to the number it has */
    losses.sequence = 1;
    begin(fixture);
    append_kind(fixture, BH_RECORD_CONFIG, false, 1);
    append(fixture, &losses);
    fd = file_of(fixture, fixture->bytes.data, fixture->bytes.length);
    assert_int_equal(read_all(fd, &end, &offset), 1);
    assert_int_equal(end, BH_JOURNAL_CORRUPT);
    (void)close(fd);
}

/* Samples files begin anywhere and may have gaps, but never go back. */
static void test_samples_file(void **state)
{
    struct fixture *fixture = *state;
    enum bh_journal_end end;
    uint64_t offset;
    begin(fixture);
    append_kind(fixture, BH_RECORD_SAMPLE, false, 900);
    append_kind(fixture, BH_RECORD_SAMPLE, false, 901);
    append_kind(fixture, BH_RECORD_SAMPLE, false, 950);
    append_kind(fixture, BH_RECORD_SAMPLE, false, 949);
    int fd = file_of(fixture, fixture->bytes.data, fixture->bytes.length);
    assert_int_equal(read_all(fd, &end, &offset), 3);
    (void)close(fd);
}

/* Byte by byte: each record comes as soon as it is whole, never earlier, never twice. */
static void test_growing(void **state)
{
    struct fixture *fixture = *state;
    struct bh_journal_reader *reader = NULL;
    struct bh_record record;
    int fd = file_of(fixture, fixture->bytes.data, BH_JOURNAL_HEADER_BYTES);
    assert_int_equal(bh_journal_reader_new(fd, &reader, NULL), BH_OK);
    size_t seen = 0;
    for (size_t at = BH_JOURNAL_HEADER_BYTES; at < fixture->bytes.length; at++) {
        assert_int_equal(bh_io_write_full(fd, fixture->bytes.data + at, 1), BH_OK);
        int result = bh_journal_reader_next(reader, &record);
        bool border = at + 1 == fixture->border[seen + 1];
        assert_int_equal(result, border);
        seen += border;
    }
    assert_int_equal(seen, fixture->borders - 1);
    assert_int_equal(bh_journal_reader_next(reader, &record), 0);
    assert_int_equal(bh_journal_reader_end(reader), BH_JOURNAL_COMPLETE);
    bh_journal_reader_free(reader);
    (void)close(fd);
}

/* More than the reader's buffer holds. */
static void test_many(void **state)
{
    struct fixture *fixture = *state;
    enum bh_journal_end end;
    uint64_t offset;
    begin(fixture);
    for (uint64_t i = 1; i <= 3000; i++) {
        fixture->borders = 1;
        append_kind(fixture, BH_RECORD_HOST, false, i);
    }
    int fd = file_of(fixture, fixture->bytes.data, fixture->bytes.length);
    assert_int_equal(read_all(fd, &end, &offset), 3000);
    assert_int_equal(offset, fixture->bytes.length);
    (void)close(fd);
}

static void test_resume(void **state)
{
    struct fixture *fixture = *state;
    struct bh_journal_resume resume;
    int fd = file_of(fixture, fixture->bytes.data, fixture->bytes.length);
    assert_int_equal(bh_journal_resume(fd, RECORDS_RUN_ID, &resume, NULL), BH_OK);
    assert_int_equal(resume.bytes, fixture->bytes.length);
    assert_int_equal(resume.sequence, 15);
    assert_int_equal(resume.scribe_sequence, 2);
    assert_int_equal(resume.samples_to.ns, 2000);
    assert_true(resume.has_outcome);
    assert_true(resume.has_empty);
    assert_false(resume.was_cut);
    struct bh_diag diag;
    assert_int_equal(bh_journal_resume(fd, "1mhq2v9k3dx7c1p5n8tb", &resume, &diag), BH_E_MALFORMED);
    (void)close(fd);
    assert_string_equal(bh_journal_end_text(BH_JOURNAL_CORRUPT), "corrupt");
    assert_string_equal(bh_journal_end_text(0), "unknown");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_whole),        TEST(test_every_cut), TEST(test_cut_in_header),
        TEST(test_every_flip),   TEST(test_sequences), TEST(test_damaged_header),
        TEST(test_samples_file), TEST(test_growing),   TEST(test_many),
        TEST(test_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
