/* The reader's side of a ring: what a recorder writes comes back, what breaks the layout is
 * refused, and no byte of the file can make the reader fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "core/wire/ring_read.h"
#include "ring_maker.h"

#define SLOTS 64u
#define ARENA 65536u

static int setup(void **state)
{
    struct ring_maker *maker = calloc(1, sizeof(*maker));

    ring_maker_folder(maker);
    ring_maker_file(maker, 41, 7, 0, SLOTS, ARENA);
    *state = maker;
    return 0;
}

static int teardown(void **state)
{
    struct ring_maker *maker = *state;

    if (maker->header != NULL) {
        ring_maker_unmap(maker);
    }
    ring_maker_remove_folder(maker);
    free(maker);
    return 0;
}

static int try_open(struct ring_maker *maker)
{
    struct bh_ring_reader reader;
    struct bh_diag diag = {"", ""};
    int rc = bh_ring_open(maker->dirfd, maker->name, &reader, &diag);

    if (rc == BH_OK) {
        bh_ring_close(&reader);
    }
    return rc;
}

static struct bh_ring_reader must_open(struct ring_maker *maker)
{
    struct bh_ring_reader reader;

    assert_int_equal(bh_ring_open(maker->dirfd, maker->name, &reader, NULL), BH_OK);
    return reader;
}

static void names_are_strict(void **state)
{
    static const char *const bad[] = {"",
                                      "1-2-3",
                                      "1-2-3.rin",
                                      "1-2-3.ring ",
                                      "01-2-3.ring",
                                      "1-02-3.ring",
                                      "1--3.ring",
                                      "-1-2-3.ring",
                                      "0-2-3.ring",
                                      "1-2-99999.ring",
                                      ".1-2-3.tmp",
                                      "1-2.ring",
                                      "1-2-3.ring.",
                                      "4294967296-2-3.ring",
                                      "1-99999999999999999999-3.ring"};
    struct bh_ring_name name;
    size_t at;

    (void)state;
    assert_true(bh_ring_name_parse("12-34567890123-4.ring", &name));
    assert_int_equal(name.pid, 12);
    assert_int_equal(name.start_token, 34567890123);
    assert_int_equal(name.image, 4);
    for (at = 0; at < sizeof(bad) / sizeof(bad[0]); at++) {
        assert_false(bh_ring_name_parse(bad[at], &name));
    }
}

static void slots_come_back_in_order(void **state)
{
    struct ring_maker *maker = *state;
    struct bh_ring_reader reader = must_open(maker);
    struct bh_ring_slot slots[SLOTS];
    struct bh_ring_header header;
    size_t count;
    uint64_t at, next = 0;

    /* three laps, released as they are read */
    for (at = 0; at < 3 * SLOTS; at++) {
        ring_maker_event(maker, BH_RING_ALLOC_NEW, at, 100 + at);
        if (at % 5 != 4) {
            continue;
        }
        assert_int_equal(bh_ring_header(&reader, &header), BH_OK);
        do {
            assert_int_equal(bh_ring_slots(&reader, header.head, slots, SLOTS, &count), BH_OK);
            for (size_t one = 0; one < count; one++) {
                assert_int_equal(slots[one].address, next++);
            }
        } while (count > 0);
        assert_int_equal(bh_ring_release(&reader, reader.next), BH_OK);
        assert_int_equal(maker->header->tail, next);
        assert_int_equal(maker->header->tail_check, ~next);
    }
    assert_int_equal(next, at - at % 5);
    bh_ring_close(&reader);
}

static void an_unready_slot_stops_the_reader(void **state)
{
    struct ring_maker *maker = *state;
    struct bh_ring_reader reader = must_open(maker);
    struct bh_ring_slot slots[SLOTS];
    size_t count;

    ring_maker_event(maker, BH_RING_ALLOC_NEW, 1, 1);
    ring_maker_hole(maker);
    ring_maker_event(maker, BH_RING_ALLOC_NEW, 3, 1);
    assert_int_equal(bh_ring_slots(&reader, 3, slots, SLOTS, &count), BH_OK);
    assert_int_equal(count, 1);
    assert_int_equal(bh_ring_slots(&reader, 3, slots, SLOTS, &count), BH_OK);
    assert_int_equal(count, 0);
    bh_ring_skip(&reader);
    assert_int_equal(bh_ring_slots(&reader, 3, slots, SLOTS, &count), BH_OK);
    assert_int_equal(count, 1);
    assert_int_equal(slots[0].address, 3);
    bh_ring_close(&reader);
}

static void impossible_headers_are_refused(void **state)
{
    struct ring_maker *maker = *state;
    struct bh_ring_header good = *maker->header;
    struct bh_ring_header *now = maker->header;

#define REFUSED(change, error)                                                                     \
    do {                                                                                           \
        *now = good;                                                                               \
        change;                                                                                    \
        assert_int_equal(try_open(maker), error);                                                  \
    } while (0)
    assert_int_equal(try_open(maker), BH_OK);
    REFUSED(now->magic ^= 1, BH_E_MALFORMED);
    REFUSED(now->version = 2, BH_E_VERSION);
    REFUSED(now->required_flags = 1, BH_E_VERSION);
    REFUSED(now->header_bytes = 0, BH_E_MALFORMED);
    REFUSED(now->slot_count = 63, BH_E_MALFORMED);
    REFUSED(now->slot_count = 1u << 31, BH_E_MALFORMED);
    REFUSED(now->slot_count = 0, BH_E_MALFORMED);
    REFUSED(now->arena_offset += 8, BH_E_MALFORMED);
    REFUSED(now->arena_bytes = UINT64_MAX, BH_E_MALFORMED);
    REFUSED(now->file_bytes += 1, BH_E_MALFORMED);
    REFUSED(now->pid = 42, BH_E_MALFORMED);
    REFUSED(now->start_token = 8, BH_E_MALFORMED);
    REFUSED(now->image = 1, BH_E_MALFORMED);
    REFUSED(now->head = SLOTS + 1, BH_E_MALFORMED);
    REFUSED(now->head = UINT64_MAX, BH_E_MALFORMED);
    REFUSED(now->tail = 5, BH_E_MALFORMED);
    REFUSED(
        {
            now->arena_bytes *= 2;
            now->file_bytes += ARENA;
        },
        BH_E_TRUNCATED);
#undef REFUSED
    *now = good;
}

static void strange_files_are_refused(void **state)
{
    struct ring_maker *maker = *state;
    struct bh_ring_reader reader;

    assert_int_equal(symlinkat(maker->name, maker->dirfd, "5-5-5.ring"), 0);
    assert_true(bh_ring_open(maker->dirfd, "5-5-5.ring", &reader, NULL) < 0);
    assert_int_equal(mkfifoat(maker->dirfd, "6-6-6.ring", 0600), 0);
    assert_int_equal(bh_ring_open(maker->dirfd, "6-6-6.ring", &reader, NULL), BH_E_UNSAFE_PATH);
    assert_int_equal(mkdirat(maker->dirfd, "7-7-7.ring", 0700), 0);
    assert_true(bh_ring_open(maker->dirfd, "7-7-7.ring", &reader, NULL) < 0);
    assert_int_equal(bh_ring_open(maker->dirfd, "8-8-8.ring", &reader, NULL), BH_E_NOT_FOUND);
}

/* The job may cut its ring at any moment: an error, never a SIGBUS. */
static void a_ring_cut_short_is_an_error(void **state)
{
    struct ring_maker *maker = *state;
    struct bh_ring_reader reader = must_open(maker);
    struct bh_ring_header header;
    struct bh_ring_slot slots[SLOTS];
    size_t count;
    char path[160];

    ring_maker_event(maker, BH_RING_ALLOC_NEW, 1, 1);
    assert_int_equal(bh_ring_header(&reader, &header), BH_OK);
    (void)snprintf(path, sizeof(path), "%s/%s", maker->folder, maker->name);
    assert_int_equal(truncate(path, BH_RING_HEADER_BYTES), 0);
    assert_int_equal(bh_ring_slots(&reader, header.head, slots, SLOTS, &count), BH_E_TRUNCATED);
    assert_int_equal(truncate(path, 10), 0);
    assert_int_equal(bh_ring_header(&reader, &header), BH_E_TRUNCATED);
    bh_ring_close(&reader);
}

static void a_running_header_is_checked(void **state)
{
    struct ring_maker *maker = *state;
    struct bh_ring_reader reader = must_open(maker);
    struct bh_ring_header header;

    memset(maker->header->reason, 'x', sizeof(maker->header->reason));
    maker->header->slot_count = 1u << 20; /* constants are taken from the opening */
    assert_int_equal(bh_ring_header(&reader, &header), BH_OK);
    assert_int_equal(header.slot_count, SLOTS);
    assert_int_equal(strlen(header.reason), BH_RING_REASON_BYTES - 1);
    maker->header->slot_count = SLOTS;
    maker->header->head = SLOTS + 1;
    assert_int_equal(bh_ring_header(&reader, &header), BH_E_MALFORMED);
    maker->header->head = UINT64_MAX;
    assert_int_equal(bh_ring_header(&reader, &header), BH_E_MALFORMED);
    maker->header->head = 0;
    maker->header->arena_used = ARENA + 8;
    assert_int_equal(bh_ring_header(&reader, &header), BH_E_MALFORMED);
    bh_ring_close(&reader);
}

static void the_arena_comes_back(void **state)
{
    struct ring_maker *maker = *state;
    struct bh_ring_reader reader = must_open(maker);
    struct bh_ring_record record;
    unsigned char bytes[4096];
    uint32_t frame, file = ring_maker_string(maker, "/home/me/leaky.py");
    size_t length, at = 0;
    int taken;

    frame = ring_maker_frame(maker, file, ring_maker_string(maker, "forgotten"), 17);
    (void)ring_maker_stack(maker, &frame, 1);
    assert_int_equal(
        bh_ring_arena(&reader, maker->header->arena_used, bytes, sizeof(bytes), &length), BH_OK);
    assert_int_equal(length, maker->header->arena_used);
    taken = bh_ring_record(bytes, length, &record);
    assert_int_equal(record.kind, BH_RING_ARENA_STRING);
    assert_memory_equal(record.bytes, "/home/me/leaky.py", record.count);
    /* whole or not at all */
    assert_int_equal(bh_ring_record(bytes, (size_t)taken - 1, &record), 0);
    at = (size_t)taken;
    at += (size_t)bh_ring_record(bytes + at, length - at, &record);
    at += (size_t)bh_ring_record(bytes + at, length - at, &record);
    assert_int_equal(record.kind, BH_RING_ARENA_FRAME);
    assert_int_equal(record.file, 1);
    assert_int_equal(record.function, 2);
    assert_int_equal(record.line, 17);
    at += (size_t)bh_ring_record(bytes + at, length - at, &record);
    assert_int_equal(record.kind, BH_RING_ARENA_STACK);
    assert_int_equal(record.count, 1);
    assert_int_equal(at, length);
    bh_ring_close(&reader);
}

static void damaged_records_are_refused(void **state)
{
    struct ring_maker *maker = *state;
    struct bh_ring_record record;
    unsigned char *at = maker->arena;
    uint32_t value;

    (void)ring_maker_string(maker, "abc");
    value = 17; /* not a multiple of 8 */
    memcpy(at + 4, &value, 4);
    assert_int_equal(bh_ring_record(at, 64, &record), BH_E_MALFORMED);
    value = 8;
    memcpy(at + 4, &value, 4);
    assert_int_equal(bh_ring_record(at, 64, &record), BH_E_MALFORMED);
    value = UINT32_MAX - 7;
    memcpy(at + 4, &value, 4);
    assert_int_equal(bh_ring_record(at, 64, &record), BH_E_MALFORMED);
    value = 24;
    memcpy(at + 4, &value, 4);
    assert_int_equal(bh_ring_record(at, 64, &record), 24);
    value = 9; /* length beyond the record */
    memcpy(at + 12, &value, 4);
    assert_int_equal(bh_ring_record(at, 64, &record), BH_E_MALFORMED);
    value = UINT32_MAX;
    memcpy(at + 12, &value, 4);
    assert_int_equal(bh_ring_record(at, 64, &record), BH_E_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_strict),
        cmocka_unit_test_setup_teardown(slots_come_back_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unready_slot_stops_the_reader, setup, teardown),
        cmocka_unit_test_setup_teardown(impossible_headers_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(strange_files_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_ring_cut_short_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_running_header_is_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(the_arena_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_records_are_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
