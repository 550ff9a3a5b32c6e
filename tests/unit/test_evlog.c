/* events.bhe: every record kind comes back as written, over segment borders, after a torn end, and
 * nothing that is damaged is accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/wire/evlog.h"
#include "scratch.h"

static const char RUN_ID[] = "0mhq2v9k3dx7c1p5n8tb";
static const struct bh_anchor ANCHOR = {{5000000000ull}, {1796002200000000ll}};

static int temporary_file(void)
{
    char path[] = "/tmp/bh-evlog-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
    return fd;
}

static struct bh_evlog_writer *open_writer(int fd)
{
    struct bh_evlog_writer *writer = NULL;
    struct bh_diag diag = {"", ""};
    assert_int_equal(bh_evlog_writer_new(fd, RUN_ID, ANCHOR, &writer, &diag), 0);
    return writer;
}

static struct bh_bytes read_all(int fd)
{
    struct bh_bytes bytes = {0};
    off_t size = lseek(fd, 0, SEEK_END);
    assert_true(size >= 0);
    unsigned char *room = bh_bytes_reserve(&bytes, (size_t)size);
    size_t got;
    assert_non_null(room);
    assert_int_equal(bh_io_pread(fd, room, (size_t)size, 0, &got), 0);
    assert_int_equal(got, size);
    bytes.length = got;
    return bytes;
}

static void assert_same(const struct bh_evlog_record *left, const struct bh_evlog_record *right)
{
    assert_int_equal(left->kind, right->kind);
    assert_int_equal(left->sequence, right->sequence);
    assert_int_equal(left->at.ns, right->at.ns);
    assert_int_equal(left->image, right->image);
    assert_int_equal(left->address, right->address);
    assert_int_equal(left->size_bytes, right->size_bytes);
    assert_int_equal(left->requested_bytes, right->requested_bytes);
    assert_int_equal(left->thread, right->thread);
    assert_int_equal(left->stream, right->stream);
    assert_int_equal(left->primitive, right->primitive);
    assert_int_equal(left->stack, right->stack);
    assert_int_equal(left->cached, right->cached);
    assert_int_equal(left->doubtful, right->doubtful);
    assert_int_equal(left->count, right->count);
    assert_int_equal(left->id, right->id);
    assert_int_equal(left->text, right->text);
    assert_int_equal(left->file, right->file);
    assert_int_equal(left->function, right->function);
    assert_int_equal(left->line, right->line);
    assert_int_equal(left->pid, right->pid);
    assert_int_equal(left->start_token, right->start_token);
    assert_int_equal(left->image_number, right->image_number);
    assert_int_equal(left->string_length, right->string_length);
    if (left->string_length)
        assert_memory_equal(left->string, right->string, left->string_length);
    assert_int_equal(left->frame_count, right->frame_count);
    if (left->frame_count)
        assert_memory_equal(left->frames, right->frames, left->frame_count * 4);
}

static const uint32_t FRAMES[] = {7, 3, UINT32_MAX, 1};

/* One of every kind, values at the edges of their types. */
static const struct bh_evlog_record EVERY_KIND[] = {
    {.kind = BH_EVLOG_STRING, .id = 1, .string = "caf\xc3\xa9", .string_length = 5},
    {.kind = BH_EVLOG_STRING, .id = 2, .string = "", .string_length = 0},
    {.kind = BH_EVLOG_FRAME, .id = 1, .file = 1, .function = 2, .line = UINT32_MAX},
    {.kind = BH_EVLOG_STACK, .stack = 1, .frames = FRAMES, .frame_count = 4},
    {.kind = BH_EVLOG_STACK, .stack = 2},
    {.kind = BH_EVLOG_IMAGE,
     .image = 1,
     .at.ns = 6000,
     .pid = 4121,
     .start_token = UINT64_MAX,
     .image_number = 2,
     .text = 1,
     .stream = -1},
    {.kind = BH_EVLOG_BASELINE_BEGIN,
     .image = 1,
     .at.ns = 6001,
     .count = 1,
     .address = 4096,
     .size_bytes = 5,
     .stream = -1},
    {.kind = BH_EVLOG_BASELINE,
     .sequence = 1,
     .image = 1,
     .at.ns = 6002,
     .address = UINT64_MAX,
     .size_bytes = 9,
     .requested_bytes = 9,
     .cached = true,
     .stream = -1,
     .thread = 9},
    {.kind = BH_EVLOG_ALLOC_NEW,
     .sequence = 2,
     .image = 1,
     .at.ns = 5999,
     .address = 8,
     .size_bytes = UINT64_MAX,
     .requested_bytes = 0,
     .thread = UINT32_MAX,
     .stream = INT32_MIN},
    {.kind = BH_EVLOG_ALLOC_REUSE,
     .sequence = 3,
     .image = 2,
     .at.ns = UINT64_MAX,
     .address = 8,
     .size_bytes = 100,
     .requested_bytes = UINT64_MAX,
     .stream = INT32_MAX,
     .stack = UINT32_MAX,
     .primitive = UINT32_MAX},
    {.kind = BH_EVLOG_ALLOC_MAKE_BUFFER,
     .sequence = 10,
     .image = 2,
     .at.ns = 0,
     .address = 0,
     .size_bytes = 100,
     .requested_bytes = 90,
     .stream = 0,
     .stack = 1,
     .primitive = 2},
    {.kind = BH_EVLOG_LINK, .sequence = 3, .image = 2, .stream = 2, .stack = 1, .primitive = 1},
    {.kind = BH_EVLOG_FREE_TO_CACHE,
     .sequence = 11,
     .image = 2,
     .at.ns = 7,
     .address = 8,
     .size_bytes = 1,
     .requested_bytes = 1,
     .stream = -1,
     .doubtful = true},
    {.kind = BH_EVLOG_FREE_TO_OS, .sequence = 4, .image = 2, .at.ns = 7, .stream = -1},
    {.kind = BH_EVLOG_RELEASE, .sequence = UINT64_MAX, .image = 2, .at.ns = 7, .stream = -1},
    {.kind = BH_EVLOG_CACHE_TO_OS, .sequence = 12, .image = 2, .at.ns = 7, .stream = -1},
    {.kind = BH_EVLOG_LOST,
     .sequence = 13,
     .image = 2,
     .at.ns = 8,
     .count = UINT64_MAX,
     .address = 1,
     .size_bytes = 2,
     .stream = -1},
    {.kind = BH_EVLOG_MARK, .sequence = 14, .image = 0, .at.ns = 8, .text = 2, .stream = -1},
    {.kind = BH_EVLOG_OFF, .image = 2, .at.ns = 9, .stream = -1},
    {.kind = BH_EVLOG_HOLE, .image = 2, .count = 3, .stream = -1},
    {.kind = BH_EVLOG_TAKEN, .image = 2, .count = 77000, .stream = -1},
    {.kind = BH_EVLOG_IMAGE_END, .image = 1, .at.ns = 10, .stream = -1},
    {.kind = BH_EVLOG_FULL, .image = 1, .at.ns = 11, .count = 4, .stream = -1},
};
#define KINDS (sizeof EVERY_KIND / sizeof EVERY_KIND[0])

static size_t check_segment(const struct bh_evlog_segment *segment, size_t from)
{
    struct bh_evlog_cursor cursor;
    struct bh_evlog_record record;
    bh_evlog_cursor_open(&cursor, segment);
    int more;
    while ((more = bh_evlog_cursor_next(&cursor, &record)) == 1)
        assert_same(&record, &EVERY_KIND[from++ % KINDS]);
    assert_int_equal(more, 0);
    return from;
}

static void every_kind_comes_back(void **state)
{
    (void)state;
    int fd = temporary_file();
    struct bh_evlog_writer *writer = open_writer(fd);
    const size_t total = 400 * KINDS; /* several segments */
    bh_evlog_writer_set_lost(writer, 7);
    for (size_t i = 0; i < total; i++)
        assert_int_equal(bh_evlog_writer_add(writer, &EVERY_KIND[i % KINDS]), 0);
    assert_int_equal(bh_evlog_writer_flush(writer), 0);
    assert_int_equal(bh_evlog_writer_flush(writer), 0);
    struct bh_bytes bytes = read_all(fd);
    assert_int_equal(bytes.length, bh_evlog_writer_bytes(writer));
    bh_evlog_writer_free(writer);

    struct bh_evlog_header header;
    assert_int_equal(bh_evlog_header_decode(bytes.data, bytes.length, &header), 0);
    assert_string_equal(header.run_id, RUN_ID);
    assert_int_equal(header.anchor.mono.ns, ANCHOR.mono.ns);
    assert_int_equal(header.anchor.wall.us, ANCHOR.wall.us);
    size_t at = BH_EVLOG_HEADER_BYTES, seen = 0;
    uint64_t number = 0;
    while (at < bytes.length) {
        struct bh_evlog_segment segment;
        int length = bh_evlog_segment_decode(bytes.data + at, bytes.length - at, &segment);
        assert_true(length > 0);
        assert_true(length <= (int)BH_EVLOG_SEGMENT_BYTES);
        assert_int_equal(segment.number, number++);
        assert_int_equal(segment.lost_before, 7);
        uint32_t definitions = 0;
        for (size_t i = 0; i < segment.records; i++)
            definitions += (seen + i) % KINDS < 6; /* EVERY_KIND begins with them */
        assert_int_equal(segment.definitions, definitions);
        seen = check_segment(&segment, seen);
        at += (size_t)length;
    }
    assert_int_equal(seen, total);
    assert_true(number > 1);
    bh_bytes_done(&bytes);
    close(fd);
}

/* The bytes of every kind, pinned: a changed byte is a changed format. */
static void golden_file(void **state)
{
    (void)state;
    int fd = temporary_file();
    struct bh_evlog_writer *writer = open_writer(fd);
    for (size_t i = 0; i < KINDS; i++) {
        assert_int_equal(bh_evlog_writer_add(writer, &EVERY_KIND[i]), 0);
        if (i == KINDS / 2)
            assert_int_equal(bh_evlog_writer_flush(writer), 0);
    }
    assert_int_equal(bh_evlog_writer_flush(writer), 0);
    bh_evlog_writer_free(writer);
    struct bh_bytes bytes = read_all(fd);
    assert_true(golden_equal("wire/evlog.bin", bytes.data, bytes.length));
    bh_bytes_done(&bytes);
    close(fd);
}

static void add_alloc(struct bh_evlog_writer *writer, uint64_t sequence)
{
    struct bh_evlog_record record = {.kind = BH_EVLOG_ALLOC_NEW,
                                     .sequence = sequence,
                                     .image = 1,
                                     .at.ns = 100 + sequence,
                                     .address = sequence * 64,
                                     .size_bytes = 64,
                                     .requested_bytes = 64,
                                     .stream = -1};
    assert_int_equal(bh_evlog_writer_add(writer, &record), 0);
}

/* A writer that takes over goes on behind the last whole segment, wherever the file was cut. */
static void resumes_at_every_cut(void **state)
{
    (void)state;
    int fd = temporary_file();
    struct bh_evlog_writer *writer = open_writer(fd);
    for (uint64_t i = 1; i <= 6; i++) {
        add_alloc(writer, i);
        if (i % 2 == 0)
            assert_int_equal(bh_evlog_writer_flush(writer), 0);
    }
    bh_evlog_writer_free(writer);
    struct bh_bytes whole = read_all(fd);
    for (size_t cut = 0; cut <= whole.length; cut++) {
        int part = temporary_file();
        assert_int_equal(bh_io_write_full(part, whole.data, cut), 0);
        struct bh_evlog_resume resume;
        assert_int_equal(bh_evlog_resume(part, &resume, NULL), 0);
        assert_int_equal(resume.next_sequence, resume.segments * 2 + 1);
        assert_true(resume.bytes <= cut);
        writer = open_writer(part);
        add_alloc(writer, resume.next_sequence);
        assert_int_equal(bh_evlog_writer_flush(writer), 0);
        bh_evlog_writer_free(writer);
        struct bh_evlog_resume again;
        assert_int_equal(bh_evlog_resume(part, &again, NULL), 0);
        assert_int_equal(again.segments, resume.segments + 1);
        assert_int_equal(again.next_sequence, resume.next_sequence + 1);
        close(part);
    }
    bh_bytes_done(&whole);
    close(fd);
}

/* A segment's header says the greatest time so far, also over a change of writers. */
static void times_are_carried_on(void **state)
{
    (void)state;
    static const struct {
        uint64_t written, carried;
    } steps[] = {{50, 50}, {20, 50}, {70, 70}, {60, 70}};
    int fd = temporary_file();
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct bh_evlog_writer *writer = open_writer(fd);
        struct bh_evlog_record record = {
            .kind = BH_EVLOG_OFF, .image = 1, .at.ns = steps[i].written, .stream = -1};
        assert_int_equal(bh_evlog_writer_add(writer, &record), 0);
        assert_int_equal(bh_evlog_writer_flush(writer), 0);
        bh_evlog_writer_free(writer);
    }
    struct bh_bytes bytes = read_all(fd);
    size_t at = BH_EVLOG_HEADER_BYTES;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct bh_evlog_segment segment;
        struct bh_evlog_cursor cursor;
        struct bh_evlog_record record;
        int length = bh_evlog_segment_decode(bytes.data + at, bytes.length - at, &segment);
        assert_true(length > 0);
        assert_int_equal(segment.first_at.ns, steps[i].carried);
        bh_evlog_cursor_open(&cursor, &segment);
        assert_int_equal(bh_evlog_cursor_next(&cursor, &record), 1);
        assert_int_equal(record.at.ns, steps[i].written);
        at += (size_t)length;
    }
    bh_bytes_done(&bytes);
    close(fd);
}

static void reports_next_ids(void **state)
{
    (void)state;
    int fd = temporary_file();
    struct bh_evlog_writer *writer = open_writer(fd);
    const struct bh_evlog_record records[] = {
        {.kind = BH_EVLOG_STRING, .id = 5, .string = "x", .string_length = 1},
        {.kind = BH_EVLOG_FRAME, .id = 6, .file = 5, .function = 5},
        {.kind = BH_EVLOG_STACK, .stack = 7},
        {.kind = BH_EVLOG_IMAGE, .image = 8},
        {.kind = BH_EVLOG_LOST, .sequence = 9, .image = 8, .count = 11, .stream = -1},
    };
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++)
        assert_int_equal(bh_evlog_writer_add(writer, &records[i]), 0);
    assert_int_equal(bh_evlog_writer_flush(writer), 0);
    bh_evlog_writer_free(writer);
    struct bh_evlog_resume resume;
    assert_int_equal(bh_evlog_resume(fd, &resume, NULL), 0);
    assert_int_equal(resume.next_string, 6);
    assert_int_equal(resume.next_frame, 7);
    assert_int_equal(resume.next_stack, 8);
    assert_int_equal(resume.next_image, 9);
    assert_int_equal(resume.next_sequence, 10);
    assert_int_equal(resume.lost, 11);
    close(fd);
}

/* Any single flipped bit in a segment is refused. */
static void damage_is_seen(void **state)
{
    (void)state;
    int fd = temporary_file();
    struct bh_evlog_writer *writer = open_writer(fd);
    for (uint64_t i = 1; i <= 4; i++)
        add_alloc(writer, i);
    assert_int_equal(bh_evlog_writer_flush(writer), 0);
    bh_evlog_writer_free(writer);
    struct bh_bytes bytes = read_all(fd);
    struct bh_evlog_segment segment;
    struct bh_evlog_header header;
    for (size_t i = 0; i < bytes.length * 8; i++) {
        bytes.data[i / 8] ^= (unsigned char)(1u << i % 8);
        if (i / 8 < BH_EVLOG_HEADER_BYTES)
            assert_true(bh_evlog_header_decode(bytes.data, bytes.length, &header) < 0);
        else
            assert_true(bh_evlog_segment_decode(bytes.data + BH_EVLOG_HEADER_BYTES,
                                                bytes.length - BH_EVLOG_HEADER_BYTES,
                                                &segment) <= 0);
        bytes.data[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    bh_bytes_done(&bytes);
    close(fd);
}

/* A body with a right checksum can still be nonsense: no byte string makes the cursor misbehave. */
static void cursor_refuses_nonsense(void **state)
{
    (void)state;
    static const struct {
        unsigned char bytes[16];
        uint32_t length, records;
    } cases[] = {
        {{0x00}, 1, 1},                        /* kind 0 */
        {{0x3f}, 1, 1},                        /* unknown kind */
        {{BH_EVLOG_ALLOC_NEW}, 1, 1},          /* no shape */
        {{BH_EVLOG_ALLOC_NEW, 0x80, 0}, 3, 1}, /* reserved shape bit */
        {{BH_EVLOG_STRING, 1, 5, 'a'}, 4, 1},  /* longer than the body */
        {{BH_EVLOG_STRING, 1, 0xff, 0xff, 0x7f}, 5, 1},
        {{BH_EVLOG_STACK, 1, 0x81, 0x02}, 4, 1},                /* 257 frames */
        {{BH_EVLOG_STACK, 1, 1, 1}, 4, 1},                      /* frame -1 */
        {{BH_EVLOG_FRAME, 0xff, 0xff, 0xff, 0xff, 0x7f}, 6, 1}, /* id over 32 bits */
        {{BH_EVLOG_FRAME, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02}, 11, 1},
        {{BH_EVLOG_STRING, 1, 0}, 3, 2},    /* fewer records than said */
        {{BH_EVLOG_STRING, 1, 0, 0}, 4, 1}, /* bytes left over */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bh_evlog_segment segment = {
            .records = cases[i].records, .body_bytes = cases[i].length, .body = cases[i].bytes};
        struct bh_evlog_cursor cursor;
        struct bh_evlog_record record;
        bh_evlog_cursor_open(&cursor, &segment);
        int more;
        while ((more = bh_evlog_cursor_next(&cursor, &record)) > 0)
            continue;
        assert_int_equal(more, BH_E_MALFORMED);
    }
}

static void long_string_is_cut_between_characters(void **state)
{
    (void)state;
    int fd = temporary_file();
    struct bh_evlog_writer *writer = open_writer(fd);
    char text[BH_EVLOG_STRING_BYTES + 10];
    memset(text, 'a', sizeof text);
    memcpy(text + BH_EVLOG_STRING_BYTES - 1, "\xc3\xa9", 2); /* straddles the cut */
    struct bh_evlog_record record = {
        .kind = BH_EVLOG_STRING, .id = 1, .string = text, .string_length = sizeof text};
    assert_int_equal(bh_evlog_writer_add(writer, &record), 0);
    assert_int_equal(bh_evlog_writer_flush(writer), 0);
    bh_evlog_writer_free(writer);
    struct bh_bytes bytes = read_all(fd);
    struct bh_evlog_segment segment;
    struct bh_evlog_cursor cursor;
    assert_true(bh_evlog_segment_decode(bytes.data + BH_EVLOG_HEADER_BYTES,
                                        bytes.length - BH_EVLOG_HEADER_BYTES, &segment) > 0);
    bh_evlog_cursor_open(&cursor, &segment);
    assert_int_equal(bh_evlog_cursor_next(&cursor, &record), 1);
    assert_int_equal(record.string_length, BH_EVLOG_STRING_BYTES - 1);
    bh_bytes_done(&bytes);
    close(fd);
}

static void write_failure_is_sticky(void **state)
{
    (void)state;
    int fd = open("/dev/full", O_RDWR | O_APPEND);
    assert_true(fd >= 0);
    struct bh_evlog_writer *writer = NULL;
    assert_int_equal(bh_evlog_writer_new(fd, RUN_ID, ANCHOR, &writer, NULL), BH_E_NOSPACE);
    assert_null(writer);
    close(fd);

    fd = temporary_file();
    writer = open_writer(fd);
    add_alloc(writer, 1);
    int full = open("/dev/full", O_RDWR | O_APPEND);
    assert_true(dup2(full, fd) == fd);
    assert_int_equal(bh_evlog_writer_flush(writer), BH_E_NOSPACE);
    struct bh_evlog_record record = {.kind = BH_EVLOG_HOLE, .count = 1};
    assert_int_equal(bh_evlog_writer_add(writer, &record), BH_E_NOSPACE);
    assert_int_equal(bh_evlog_writer_flush(writer), BH_E_NOSPACE);
    bh_evlog_writer_free(writer);
    close(full);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back),
        cmocka_unit_test(golden_file),
        cmocka_unit_test(resumes_at_every_cut),
        cmocka_unit_test(times_are_carried_on),
        cmocka_unit_test(reports_next_ids),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(cursor_refuses_nonsense),
        cmocka_unit_test(long_string_is_cut_between_characters),
        cmocka_unit_test(write_failure_is_sticky),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
