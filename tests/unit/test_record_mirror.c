/* The recorder's table of buffers and the map under it, against plain models. The recorder is not a
 * library that tests could link, so its sources are compiled in here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/record/map.c"
#include "core/record/mirror.c"

struct bh_live bh_live;

#define KEYS 3000u

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Keys that collide a lot, added and removed in random order. */
static void the_map_behaves_like_an_array(void **state)
{
    static uint64_t model[KEYS];
    struct bh_map table = {0};
    uint32_t random = 7, round, at;

    (void)state;
    for (round = 0; round < 200000; round++) {
        uint32_t key = next_random(&random) % KEYS;

        if (next_random(&random) % 2 == 0) {
            model[key] = round + 1;
            assert_int_equal(bh_map_put(&table, ((uint64_t)key + 1) << 12, round + 1), 0);
        } else {
            model[key] = 0;
            bh_map_remove(&table, ((uint64_t)key + 1) << 12);
        }
    }
    for (at = 0; at < KEYS; at++) {
        assert_int_equal(bh_map_get(&table, ((uint64_t)at + 1) << 12), model[at]);
    }
    munmap(table.entries, (table.mask + 1) * sizeof(*table.entries));
}

static struct bh_buffer *add(uint64_t address, uint64_t size_bytes)
{
    struct bh_buffer *buffer = bh_mirror_add(address);

    assert_non_null(buffer);
    buffer->size_bytes = size_bytes;
    bh_live.active_bytes += size_bytes;
    return buffer;
}

static uint64_t oldest_address(void)
{
    const struct bh_buffer *oldest = bh_mirror_oldest();

    return oldest == NULL ? 0 : oldest->address;
}

static void the_oldest_cached_buffer_goes_first(void **state)
{
    uint64_t at;

    (void)state;
    for (at = 1; at <= 5; at++) {
        bh_mirror_to_cache(add(at * 16, at));
    }
    assert_int_equal(bh_live.cache_bytes, 15);
    assert_int_equal(oldest_address(), 16);
    bh_mirror_to_active(bh_mirror_find(16)); /* the oldest is used again */
    bh_mirror_to_active(bh_mirror_find(48)); /* one from the middle */
    bh_mirror_to_active(bh_mirror_find(80)); /* the newest */
    assert_int_equal(oldest_address(), 32);
    bh_mirror_to_cache(bh_mirror_find(16)); /* and now it is the newest */
    for (at = 32; bh_mirror_oldest() != NULL; at = at == 32 ? 64 : 16) {
        assert_int_equal(oldest_address(), at);
        bh_mirror_drop(bh_mirror_oldest());
    }
    assert_int_equal(bh_live.cache_bytes, 0);
    assert_int_equal(bh_live.active_bytes, 8);
    bh_mirror_drop(bh_mirror_find(48));
    bh_mirror_drop(bh_mirror_find(80));
    assert_int_equal(bh_live.active_bytes, 0);
    assert_int_equal(bh_live.buffers, 0);
}

#define BUFFERS 5000u

/* What the mirror is compared with: an array, searched. */
struct model {
    enum bh_buffer_state state;
    uint64_t size_bytes;
    uint64_t cached_at;
};

static uint64_t address_of(uint32_t index)
{
    return 0x7f0000001000u + (uint64_t)index * 4096;
}

static void assert_oldest(const struct model *model)
{
    const struct bh_buffer *oldest = bh_mirror_oldest();
    uint64_t least = UINT64_MAX, found = 0;
    uint32_t at;

    for (at = 0; at < BUFFERS; at++) {
        if (model[at].state == BH_BUFFER_CACHED && model[at].cached_at < least) {
            least = model[at].cached_at;
            found = address_of(at);
        }
    }
    assert_int_equal(oldest == NULL ? 0 : oldest->address, found);
}

/* Entries move with every drop and every growth: none may get lost, and neither may its place in
 * the order of age. */
static void the_mirror_behaves_like_an_array(void **state)
{
    static struct model model[BUFFERS];
    uint64_t active = 0, cached = 0, buffers = 0;
    uint32_t random = 11, round, at;

    (void)state;
    assert_int_equal(bh_live.buffers, 0);
    for (round = 1; round <= 200000; round++) {
        uint32_t index = next_random(&random) % (round < 20000 ? 600 : BUFFERS);
        struct model *one = &model[index];
        struct bh_buffer *buffer = bh_mirror_find(address_of(index));
        bool drop = next_random(&random) % 3 == 0;

        assert_int_equal(buffer == NULL, one->state == BH_BUFFER_FREE);
        if (buffer == NULL) {
            *one = (struct model){BH_BUFFER_ACTIVE, round, 0};
            buffer = add(address_of(index), round);
            active += round;
            buffers++;
        } else if (drop) {
            *(one->state == BH_BUFFER_CACHED ? &cached : &active) -= one->size_bytes;
            buffers--;
            bh_mirror_drop(buffer);
            one->state = BH_BUFFER_FREE;
        } else if (one->state == BH_BUFFER_ACTIVE) {
            active -= one->size_bytes;
            cached += one->size_bytes;
            bh_mirror_to_cache(buffer);
            *one = (struct model){BH_BUFFER_CACHED, one->size_bytes, round};
        } else {
            cached -= one->size_bytes;
            active += one->size_bytes;
            bh_mirror_to_active(buffer);
            one->state = BH_BUFFER_ACTIVE;
        }
        assert_int_equal(bh_live.active_bytes, active);
        assert_int_equal(bh_live.cache_bytes, cached);
        assert_int_equal(bh_live.buffers, buffers);
        if (round % 64 == 0) {
            assert_oldest(model);
        }
    }
    for (at = 0; at < BUFFERS; at++) {
        const struct bh_buffer *buffer = bh_mirror_find(address_of(at));

        assert_int_equal(buffer == NULL ? BH_BUFFER_FREE : (int)buffer->state, model[at].state);
        assert_true(buffer == NULL || buffer->size_bytes == model[at].size_bytes);
    }
    while (bh_mirror_oldest() != NULL) { /* the whole order, to its end */
        for (at = 0; address_of(at) != oldest_address(); at++) {
        }
        assert_oldest(model);
        model[at].state = BH_BUFFER_FREE;
        bh_mirror_drop(bh_mirror_oldest());
    }
}

/* What cannot be mapped is said by the answer alone: the caller runs inside somebody's malloc. */
static void errno_is_kept(void **state)
{
    (void)state;
    errno = 77;
    assert_null(bh_map_pages(SIZE_MAX / 2));
    assert_int_equal(errno, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_behaves_like_an_array),
        cmocka_unit_test(the_oldest_cached_buffer_goes_first),
        cmocka_unit_test(the_mirror_behaves_like_an_array),
        cmocka_unit_test(errno_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
