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
    bh_mirror.active_bytes += size_bytes;
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
    assert_int_equal(bh_mirror.cache_bytes, 15);
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
    assert_int_equal(bh_mirror.cache_bytes, 0);
    assert_int_equal(bh_mirror.active_bytes, 8);
    bh_mirror_drop(bh_mirror_find(48));
    bh_mirror_drop(bh_mirror_find(80));
    assert_int_equal(bh_mirror.active_bytes, 0);
    assert_int_equal(bh_mirror.buffers, 0);
}

static void entries_are_used_again_and_stay_where_they_are(void **state)
{
    struct bh_buffer *first = add(0x1000, 1);
    uint32_t before = bh_mirror_end();
    uint64_t at;

    (void)state;
    for (at = 0; at < 100000; at++) {
        bh_mirror_drop(add(0x2000 + at * 16, 1));
    }
    assert_true(bh_mirror_end() <= before + 1);
    for (at = 0; at < 20000; at++) {
        (void)add(0x100000 + at * 16, 1);
    }
    assert_ptr_equal(bh_mirror_find(0x1000), first);
    assert_int_equal(bh_mirror.buffers, 20001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_behaves_like_an_array),
        cmocka_unit_test(the_oldest_cached_buffer_goes_first),
        cmocka_unit_test(entries_are_used_again_and_stay_where_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
