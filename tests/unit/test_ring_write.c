/* The recorder's writing side against the product's reader, in two threads: every slot arrives
 * whole and in order, a full ring loses with an exact count, and the arena never shows half a
 * record. The recorder is not a library that tests could link, so its sources are compiled in here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>
#include <sys/mount.h>

#include "core/record/map.c"
#include "core/record/mirror.c"
#include "core/record/lock.c"
#include "core/record/clock.c"
#include "core/record/arena.c"
#include "core/record/emit.c"
#include "core/record/life.c"
#include "core/wire/ring_read.h"

#define SLOTS  1024u
#define EVENTS 300000u
#define BATCH  256u

struct bh_mlx bh_mlx;
pthread_mutex_t bh_desc_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t bh_names_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t bh_bind_lock = PTHREAD_MUTEX_INITIALIZER;

/* A recorder that cannot go on in a forked child; here no ring of a child is opened. */
void bh_attach_leave(void)
{
    abort();
}

struct fixture {
    char folder[64];
    char name[BH_RING_NAME_SIZE];
    int dirfd;
    uint64_t done; /* events written in total, once all are; atomic */
};

static void find_ring(struct fixture *fixture)
{
    DIR *folder = opendir(fixture->folder);
    struct dirent *entry;
    struct bh_ring_name name;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            assert_true(bh_ring_name_parse(entry->d_name, &name));
            (void)snprintf(fixture->name, sizeof(fixture->name), "%.60s", entry->d_name);
        } else {
            assert_null(strstr(entry->d_name, ".tmp"));
        }
    }
    (void)closedir(folder);
}

static int setup(void **state)
{
    static struct fixture only;
    struct fixture *fixture = &only;
    struct bh_options options = {
        .depth = 32, .slots = SLOTS, .arena_bytes = BH_RING_ARENA_BYTES_MIN};

    memset(fixture, 0, sizeof(*fixture));
    (void)snprintf(fixture->folder, sizeof(fixture->folder), "/dev/shm/bh-write-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    fixture->dirfd = open(fixture->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(options.dir, sizeof(options.dir), "%s", fixture->folder);
    memset(&bh_emit, 0, sizeof(bh_emit));
    assert_int_equal(bh_emit_open(&options, 0), 0);
    find_ring(fixture);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    bh_emit_unmap();
    assert_int_equal(unlinkat(fixture->dirfd, fixture->name, 0), 0);
    (void)close(fixture->dirfd);
    assert_int_equal(rmdir(fixture->folder), 0);
    return 0;
}

static struct bh_ring_slot numbered(uint64_t number)
{
    return (struct bh_ring_slot){.kind = BH_RING_ALLOC_NEW,
                                 .address = number,
                                 .size_bytes = number * 3,
                                 .requested_bytes = ~number,
                                 .stack = (uint32_t)number,
                                 .primitive = (uint32_t)(number * 7),
                                 .stream = (int32_t)(number & 0xffff)};
}

static void assert_numbered(const struct bh_ring_slot *slot)
{
    uint64_t number = slot->address;

    assert_int_equal(slot->size_bytes, number * 3);
    assert_int_equal(slot->requested_bytes, ~number);
    assert_int_equal(slot->stack, (uint32_t)number);
    assert_int_equal(slot->primitive, (uint32_t)(number * 7));
    assert_int_equal(slot->stream, (int32_t)(number & 0xffff));
}

static void *produce(void *argument)
{
    struct fixture *fixture = argument;
    uint64_t number;

    /* until enough was written and the reader has seen laps of it */
    for (number = 1; number <= EVENTS || bh_emit.tail < 4 * SLOTS; number++) {
        struct bh_ring_slot slot = numbered(number);

        if (bh_emit.gap != 0) {
            (void)bh_emit_close_gap(0);
        }
        (void)bh_emit_slot(&slot);
    }
    __atomic_store_n(&fixture->done, number - 1, __ATOMIC_RELEASE);
    return NULL;
}

static void slots_arrive_whole_and_losses_are_exact(void **state)
{
    struct fixture *fixture = *state;
    struct bh_ring_reader reader;
    struct bh_ring_header header;
    struct bh_ring_slot slots[BATCH];
    pthread_t producer;
    uint64_t seen = 0, lost = 0, last = 0;
    size_t count, at;
    uint64_t done;

    assert_int_equal(bh_ring_open(fixture->dirfd, fixture->name, &reader, NULL), BH_OK);
    assert_int_equal(pthread_create(&producer, NULL, produce, fixture), 0);
    do {
        done = __atomic_load_n(&fixture->done, __ATOMIC_ACQUIRE);
        assert_int_equal(bh_ring_header(&reader, &header), BH_OK);
        do {
            assert_int_equal(bh_ring_slots(&reader, header.head, slots, BATCH, &count), BH_OK);
            for (at = 0; at < count; at++) {
                if (slots[at].kind == BH_RING_LOST) {
                    lost += slots[at].requested_bytes;
                    last += slots[at].requested_bytes;
                    continue;
                }
                assert_numbered(&slots[at]);
                assert_int_equal(slots[at].address, ++last);
                seen++;
            }
        } while (count > 0);
        assert_int_equal(bh_ring_release(&reader, reader.next), BH_OK);
    } while (done == 0 || reader.next != header.head);
    assert_int_equal(pthread_join(producer, NULL), 0);
    assert_int_equal(bh_ring_header(&reader, &header), BH_OK);
    assert_int_equal(seen + header.lost, done);
    assert_true(lost <= header.lost); /* a gap at the very end is told by the header alone */
    assert_true(seen > SLOTS);
    bh_ring_close(&reader);
}

/* A tail of which only half arrived, or one from a reader that lies, frees nothing. */
static void a_torn_tail_is_not_believed(void **state)
{
    struct bh_ring_slot slot = numbered(1);
    uint64_t at;

    (void)state;
    for (at = 0; at < SLOTS; at++) {
        assert_int_equal(bh_emit_slot(&slot), at);
    }
    bh_emit.header->tail = 100;
    assert_int_equal(bh_emit_slot(&slot), BH_NO_TICKET);
    bh_emit.header->tail = SLOTS + 1; /* beyond the head */
    bh_emit.header->tail_check = ~(uint64_t)(SLOTS + 1);
    assert_false(bh_emit_close_gap(0));
    bh_emit.header->tail = SLOTS / 2;
    bh_emit.header->tail_check = ~(uint64_t)(SLOTS / 2);
    assert_true(bh_emit_close_gap(0));
    assert_int_equal(bh_emit_slot(&slot), SLOTS + 1);
    assert_int_equal(bh_emit.header->lost, 1);
}

static void the_arena_fills_up_and_says_no(void **state)
{
    uint32_t frame, frames[32], id, last = 0;
    uint32_t strings = 0;

    (void)state;
    frame = bh_emit_frame(bh_emit_string("a", 1), bh_emit_string("b", 1), 3);
    assert_int_equal(frame, 1);
    for (id = 0; id < 32; id++) {
        frames[id] = frame;
    }
    while ((id = bh_emit_stack(frames, 32)) != 0) {
        assert_int_equal(id, ++last);
    }
    while (bh_emit_string("x", 1) != 0) {
        strings++;
    }
    assert_true(last > 300);
    assert_true(strings <= 6);
    assert_true(bh_emit.arena_used <= BH_RING_ARENA_BYTES_MIN);
    assert_true(bh_emit.header->flags & BH_RING_FLAG_LOSSY);
}

/* A folder with room for a small ring only (tmpfs of 1 MiB; needs the right to mount). */
static void a_small_folder_gets_a_small_ring(void **state)
{
    struct bh_options options = {.slots = BH_RING_SLOTS_DEFAULT,
                                 .arena_bytes = BH_RING_ARENA_BYTES_DEFAULT};
    struct bh_emit before = bh_emit;
    char folder[] = "/tmp/bh-small-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(folder));
    if (mount("none", folder, "tmpfs", 0, "size=4m") != 0) {
        assert_int_equal(rmdir(folder), 0);
        skip();
    }
    (void)snprintf(options.dir, sizeof(options.dir), "%s", folder);
    assert_int_equal(bh_emit_open(&options, 0), 0);
    assert_int_equal(bh_emit.header->slot_count, BH_RING_SLOTS_DEFAULT / 16);
    assert_true(bh_emit.header->file_bytes < 4u << 20);
    assert_int_equal(bh_emit_open(&options, 0), 0); /* and beside it an even smaller one */
    assert_int_equal(umount2(folder, MNT_DETACH), 0);
    assert_int_equal(rmdir(folder), 0);
    bh_emit = before;
}

static void names_count_images(void **state)
{
    struct fixture *fixture = *state;
    struct bh_options options = {.slots = 64, .arena_bytes = BH_RING_ARENA_BYTES_MIN};
    struct bh_ring_reader reader;
    struct bh_ring_name name;
    char second[BH_RING_NAME_SIZE];

    (void)snprintf(options.dir, sizeof(options.dir), "%s", fixture->folder);
    bh_emit_refuse(&options, "because\nof\x01this");
    assert_true(bh_ring_name_parse(fixture->name, &name));
    assert_int_equal(name.pid, getpid());
    assert_int_equal(name.image, 0);
    (void)snprintf(second, sizeof(second), "%u-%llu-1.ring", name.pid,
                   (unsigned long long)name.start_token);
    assert_int_equal(bh_ring_open(fixture->dirfd, second, &reader, NULL), BH_OK);
    assert_int_equal(reader.facts.state, BH_RING_STATE_REFUSED);
    assert_string_equal(reader.facts.reason, "because?of?this");
    bh_ring_close(&reader);
    assert_int_equal(unlinkat(fixture->dirfd, second, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(slots_arrive_whole_and_losses_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(a_torn_tail_is_not_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_arena_fills_up_and_says_no, setup, teardown),
        cmocka_unit_test_setup_teardown(a_small_folder_gets_a_small_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(names_count_images, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
