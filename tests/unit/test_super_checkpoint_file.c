/* Whether a checkpoint file is whole: headers and ends of safetensors and zip, at every cut. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/io.h"
#include "core/super/checkpoint_file.h"

static int place;

static void put(const char *name, const void *data, size_t length)
{
    assert_int_equal(bh_io_replace(place, name, data, length, false, NULL), BH_OK);
}

static size_t make_safetensors(unsigned char *out, size_t tensors, size_t bytes_each)
{
    char header[8192];
    size_t used = 0;
    used += (size_t)snprintf(header, sizeof header, "{\"__metadata__\":{\"a\":\"[1,2]\"}");
    for (size_t i = 0; i < tensors; i++)
        used += (size_t)snprintf(
            header + used, sizeof header - used,
            ",\"t%zu\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}", i,
            bytes_each, i * bytes_each, (i + 1) * bytes_each);
    used += (size_t)snprintf(header + used, sizeof header - used, "}");
    memset(out, 0, 8);
    out[0] = (unsigned char)(used & 0xff);
    out[1] = (unsigned char)(used >> 8);
    memcpy(out + 8, header, used);
    memset(out + 8 + used, 7, tensors * bytes_each);
    return 8 + used + tensors * bytes_each;
}

static void test_safetensors(void **state)
{
    (void)state;
    static unsigned char data[16384];
    size_t length = make_safetensors(data, 60, 64); /* a header larger than one piece of reading */
    assert_true(length > 6000);
    put("m.safetensors", data, length);
    assert_true(bh_checkpoint_file_whole(place, "m.safetensors"));
    for (size_t cut = 0; cut < length; cut += 97) {
        put("m.safetensors", data, cut);
        assert_false(bh_checkpoint_file_whole(place, "m.safetensors"));
    }
    put("m.safetensors", data, length - 1);
    assert_false(bh_checkpoint_file_whole(place, "m.safetensors"));
    put("m.safetensors", data, length + 1); /* something behind it */
    assert_false(bh_checkpoint_file_whole(place, "m.safetensors"));
    memset(data, 0xff, 8); /* a header of 2^64 bytes */
    put("m.safetensors", data, length);
    assert_false(bh_checkpoint_file_whole(place, "m.safetensors"));
}

static void test_zip(void **state)
{
    (void)state;
    static unsigned char data[80000];
    static const unsigned comments[] = {0, 1, 4073, 4074, 4075, 4095, 65535};
    for (size_t i = 0; i < sizeof comments / sizeof comments[0]; i++) {
        size_t length = 1000 + 22 + comments[i];
        memset(data, 'z', sizeof data);
        memcpy(data + 1000, "PK\5\6", 4);
        data[1000 + 20] = (unsigned char)(comments[i] & 0xff);
        data[1000 + 21] = (unsigned char)(comments[i] >> 8);
        put("a.npz", data, length);
        assert_true(bh_checkpoint_file_whole(place, "a.npz"));
        put("a.npz", data, length - 1);
        assert_false(bh_checkpoint_file_whole(place, "a.npz"));
    }
    put("a.zip", data, 0);
    assert_false(bh_checkpoint_file_whole(place, "a.zip"));
    put("a.zip", data, 10);
    assert_false(bh_checkpoint_file_whole(place, "a.zip"));
}

static void test_others_and_missing(void **state)
{
    (void)state;
    put("state.bin", "x", 1);
    assert_true(bh_checkpoint_file_whole(place, "state.bin"));
    put("state.bin", "", 0);
    assert_false(bh_checkpoint_file_whole(place, "state.bin"));
    assert_false(bh_checkpoint_file_whole(place, "absent"));
}

static void touch(const char *name)
{
    int fd = openat(place, name, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

/* Everything in it, at every depth but the links. */
static void test_directories(void **state)
{
    (void)state;
    struct bh_checkpoint_mark before, after;
    static unsigned char data[16384];
    size_t length = make_safetensors(data, 4, 64);
    assert_int_equal(mkdirat(place, "d", 0700), 0);
    assert_int_equal(mkdirat(place, "d/step", 0700), 0);
    assert_false(bh_checkpoint_file_whole(place, "d"));
    touch("d/step/empty");
    assert_false(bh_checkpoint_file_whole(place, "d"));
    put("d/step/m.safetensors", data, length - 1);
    assert_false(bh_checkpoint_file_whole(place, "d"));
    bh_checkpoint_file_mark(place, "d", &before);
    put("d/step/m.safetensors", data, length);
    bh_checkpoint_file_mark(place, "d", &after);
    assert_true(bh_checkpoint_file_whole(place, "d"));
    assert_true(after.directory);
    assert_int_equal(after.size_bytes, length);
    assert_false(bh_checkpoint_mark_equal(&before, &after));
    bh_checkpoint_file_mark(place, "d", &before);
    assert_true(bh_checkpoint_mark_equal(&before, &after));
    /* a rename inside, the same sizes and times */
    assert_int_equal(renameat(place, "d/step/m.safetensors", place, "d/step/n.safetensors"), 0);
    bh_checkpoint_file_mark(place, "d", &after);
    assert_false(bh_checkpoint_mark_equal(&before, &after));
    /* a link out of it is no part of it */
    assert_int_equal(symlinkat("/proc", place, "d/step/link"), 0);
    assert_true(bh_checkpoint_file_whole(place, "d"));
    /* the path itself may be one: "latest" */
    assert_int_equal(symlinkat("d/step", place, "latest"), 0);
    assert_true(bh_checkpoint_file_whole(place, "latest"));
    bh_checkpoint_file_mark(place, "latest", &after);
    assert_int_equal(after.size_bytes, length + 5);
}

static void test_directory_without_end(void **state)
{
    (void)state;
    char path[64] = "deep";
    for (int i = 0; i < 11; i++) {
        assert_int_equal(mkdirat(place, path, 0700), 0);
        (void)strcat(path, "/x");
    }
    put("deep/file", "x", 1);
    assert_false(bh_checkpoint_file_whole(place, "deep")); /* nobody looked at all of it */
}

static void test_marks(void **state)
{
    (void)state;
    struct bh_checkpoint_mark before, after;
    bh_checkpoint_file_mark(place, "mark", &before);
    assert_false(before.exists);
    put("mark", "x", 1);
    bh_checkpoint_file_mark(place, "mark", &after);
    assert_true(after.exists && !bh_checkpoint_mark_equal(&before, &after));
    bh_checkpoint_file_mark(place, "mark", &before);
    assert_true(bh_checkpoint_mark_equal(&before, &after));
    put("mark", "x", 1); /* the same bytes in a new file */
    bh_checkpoint_file_mark(place, "mark", &after);
    assert_false(bh_checkpoint_mark_equal(&before, &after));
    bh_checkpoint_file_mark(-1, "mark", &after);
    assert_false(after.exists);
}

static char base[] = "/tmp/bulkhead-ckpt-XXXXXX";

static int make_place(void **state)
{
    (void)state;
    if (!mkdtemp(base))
        return -1;
    place = open(base, O_RDONLY | O_DIRECTORY);
    return place < 0 ? -1 : 0;
}

static int remove_place(void **state)
{
    (void)state;
    (void)close(place);
    return bh_io_remove_tree(AT_FDCWD, base, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors),        cmocka_unit_test(test_zip),
        cmocka_unit_test(test_others_and_missing), cmocka_unit_test(test_marks),
        cmocka_unit_test(test_directories),        cmocka_unit_test(test_directory_without_end),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
