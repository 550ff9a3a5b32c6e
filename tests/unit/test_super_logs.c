/* The cap on out.log and err.log: the oldest blocks go, offsets and the newest bytes stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "run_dir.h"

#define CAP   (256u << 10)
#define BLOCK 4096u

static unsigned char letter(uint64_t offset)
{
    return (unsigned char)('a' + offset / 7 % 26);
}

static void append(int dirfd, const char *name, uint64_t bytes)
{
    static unsigned char piece[BLOCK];
    int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct stat st;
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    for (uint64_t at = (uint64_t)st.st_size, end = at + bytes; at < end;) {
        size_t length = end - at < sizeof piece ? (size_t)(end - at) : sizeof piece;
        for (size_t i = 0; i < length; i++)
            piece[i] = letter(at + i);
        assert_int_equal(bh_io_write_full(fd, piece, length), BH_OK);
        at += length;
    }
    (void)close(fd);
}

static uint64_t held(int dirfd, const char *name, uint64_t *ret_size)
{
    struct stat st;
    assert_int_equal(fstatat(dirfd, name, &st, 0), 0);
    *ret_size = (uint64_t)st.st_size;
    return (uint64_t)st.st_blocks * 512;
}

/* From `from` on every byte is as it was written; before it lies a hole. */
static void expect_tail(int dirfd, const char *name, uint64_t size, uint64_t from)
{
    static unsigned char piece[BLOCK];
    int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(lseek(fd, 0, SEEK_DATA), (off_t)from);
    for (uint64_t at = from; at < size;) {
        size_t got = 0;
        assert_int_equal(bh_io_pread(fd, piece, sizeof piece, at, &got), BH_OK);
        assert_true(got > 0);
        for (size_t i = 0; i < got; i++)
            assert_int_equal(piece[i], letter(at + i));
        at += got;
    }
    (void)close(fd);
}

static int setup(void **state)
{
    struct run_dir *dir = calloc(1, sizeof *dir);
    run_dir_open(dir);
    dir->spec.log_max_bytes = CAP;
    *state = dir;
    return 0;
}

static int teardown(void **state)
{
    run_dir_close(*state);
    free(*state);
    return 0;
}

static void test_cap(void **state)
{
    struct run_dir *dir = *state;
    static const char *const names[] = {BH_RUN_OUT_NAME, BH_RUN_ERR_NAME};
    for (size_t i = 0; i < 2; i++) {
        uint64_t size = 0;
        append(dir->run.fd, names[i], CAP + CAP / 16 + 5); /* within the slack: nothing is cut */
        bh_logs_trim(&dir->state);
        assert_true(held(dir->run.fd, names[i], &size) > CAP);
        append(dir->run.fd, names[i], 3 * CAP);
        bh_logs_trim(&dir->state);
        uint64_t kept = held(dir->run.fd, names[i], &size);
        assert_int_equal(size, 4 * CAP + CAP / 16 + 5);
        assert_true(kept <= CAP + 2 * BLOCK);
        expect_tail(dir->run.fd, names[i], size, (size - CAP) / BLOCK * BLOCK);
        append(dir->run.fd, names[i], CAP / 2); /* and on, at the old offsets */
        bh_logs_trim(&dir->state);
        assert_true(held(dir->run.fd, names[i], &size) <= CAP + 2 * BLOCK);
        expect_tail(dir->run.fd, names[i], size, (size - CAP) / BLOCK * BLOCK);
    }
}

static void test_what_is_left_alone(void **state)
{
    struct run_dir *dir = *state;
    uint64_t size = 0;
    append(dir->run.fd, "other", 3 * CAP);
    bh_logs_trim(&dir->state); /* no log at all */
    /* a link in its place leads nowhere */
    assert_int_equal(symlinkat("other", dir->run.fd, BH_RUN_OUT_NAME), 0);
    bh_logs_trim(&dir->state);
    assert_true(held(dir->run.fd, "other", &size) >= 3 * CAP);
    assert_int_equal(unlinkat(dir->run.fd, BH_RUN_OUT_NAME, 0), 0);
    append(dir->run.fd, BH_RUN_OUT_NAME, 3 * CAP);
    dir->spec.log_max_bytes = 0; /* no cap */
    bh_logs_trim(&dir->state);
    dir->spec.log_max_bytes = CAP;
    dir->state.foreground = true; /* the caller's own files */
    bh_logs_trim(&dir->state);
    assert_true(held(dir->run.fd, BH_RUN_OUT_NAME, &size) >= 3 * CAP);
}

/* The scribe does it while the job writes, and once more at the end. */
static void test_while_it_runs(void **state)
{
    struct run_dir *dir = *state;
    uint64_t size = 0;
    assert_int_equal(bh_helpers_start_scribe(&dir->state, NULL), BH_OK);
    run_dir_begin(dir, (int)getpid());
    append(dir->run.fd, BH_RUN_OUT_NAME, 3 * CAP);
    assert_true(WAIT_FOR(held(dir->run.fd, BH_RUN_OUT_NAME, &size) <= CAP + 2 * BLOCK));
    append(dir->run.fd, BH_RUN_OUT_NAME, 2 * CAP);
    run_dir_end(dir);
    assert_true(WAIT_FOR(held(dir->run.fd, BH_RUN_OUT_NAME, &size) <= CAP + 2 * BLOCK));
    (void)close(dir->state.decider_token_fd);
    dir->state.decider_token_fd = -1;
    (void)close(dir->state.lock_fd);
    dir->state.lock_fd = -1;
    assert_true(WAIT_FOR(run_dir_unlocked(dir)));
    assert_int_equal(size, 5 * CAP);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_cap),
        TEST(test_what_is_left_alone),
        TEST(test_while_it_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
