/* Files by directory descriptor: no links, own files only, modes, the one replace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "scratch.h"

static int setup(void **state)
{
    struct scratch *scratch = calloc(1, sizeof *scratch);
    scratch_open(scratch);
    *state = scratch;
    return 0;
}

static int teardown(void **state)
{
    scratch_close(*state);
    free(*state);
    return 0;
}

static void test_links_are_refused(void **state)
{
    struct scratch *scratch = *state;
    struct bh_diag diag;
    struct bh_bytes bytes = {0};
    int fd = -1;
    assert_int_equal(bh_io_replace(scratch->fd, "file", "x", 1, true, NULL), BH_OK);
    assert_int_equal(symlinkat("file", scratch->fd, "link"), 0);
    assert_int_equal(bh_io_open(scratch->fd, "link", O_RDONLY, &fd, &diag), BH_E_UNSAFE_PATH);
    assert_string_equal(diag.detail, "link is a symbolic link");
    assert_int_equal(bh_io_read_file(scratch->fd, "link", 10, &bytes, &diag), BH_E_UNSAFE_PATH);
    assert_int_equal(bh_io_create(scratch->fd, "link", O_WRONLY, &fd, &diag), BH_E_EXISTS);
    assert_int_equal(mkdirat(scratch->fd, "dir", 0700), 0);
    assert_int_equal(symlinkat("dir", scratch->fd, "dirlink"), 0);
    assert_int_equal(bh_io_open_dir(scratch->fd, "dirlink", &fd, &diag), BH_E_UNSAFE_PATH);
    assert_int_equal(bh_io_open(scratch->fd, "dir", O_RDONLY, &fd, &diag), BH_E_UNSAFE_PATH);
    assert_int_equal(bh_io_open(scratch->fd, "none", O_RDONLY, &fd, &diag), BH_E_NOT_FOUND);
    assert_int_equal(fd, -1);
    /* a link in the replaced name's place is replaced, what it led to is not */
    assert_int_equal(bh_io_replace(scratch->fd, "link", "new", 3, true, NULL), BH_OK);
    assert_int_equal(bh_io_read_file(scratch->fd, "file", 10, &bytes, NULL), BH_OK);
    assert_string_equal((char *)bytes.data, "x");
    bh_bytes_done(&bytes);
}

static void test_foreign_owner(void **state)
{
    struct scratch *scratch = *state;
    struct bh_diag diag;
    int fd = -1;
    if (geteuid() != 0)
        skip(); /* only root can make another's file */
    assert_int_equal(bh_io_replace(scratch->fd, "file", "x", 1, false, NULL), BH_OK);
    assert_int_equal(fchownat(scratch->fd, "file", 12345, 12345, 0), 0);
    assert_int_equal(bh_io_open(scratch->fd, "file", O_RDONLY, &fd, &diag), BH_E_UNSAFE_PATH);
    assert_non_null(strstr(diag.detail, "uid 12345"));
}

static void test_modes(void **state)
{
    struct scratch *scratch = *state;
    struct stat st;
    int fd = -1;
    mode_t before = umask(0);
    assert_int_equal(bh_io_make_dir(scratch->fd, "a/b/c", true, &fd, NULL), BH_OK);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    (void)close(fd);
    assert_int_equal(bh_io_make_dir(scratch->fd, "a/b/c", true, &fd, NULL), BH_OK);
    (void)close(fd);
    assert_int_equal(bh_io_create(scratch->fd, "f", O_WRONLY, &fd, NULL), BH_OK);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(bh_io_set_cloexec(fd, false), BH_OK);
    assert_false(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    (void)close(fd);
    (void)umask(before);
}

static void test_read_and_write(void **state)
{
    struct scratch *scratch = *state;
    struct bh_bytes bytes = {0};
    struct bh_diag diag;
    char buffer[8];
    size_t length = 0;
    int fd = -1;
    assert_int_equal(bh_io_create(scratch->fd, "f", O_RDWR, &fd, NULL), BH_OK);
    assert_int_equal(bh_io_write_full(fd, "0123456789", 10), BH_OK);
    assert_int_equal(bh_io_pwrite_full(fd, "AB", 2, 4), BH_OK);
    assert_int_equal(bh_io_pread(fd, buffer, 8, 4, &length), BH_OK);
    assert_int_equal(length, 6);
    assert_memory_equal(buffer, "AB6789", 6);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(bh_io_read_full(fd, buffer, 8), BH_OK);
    assert_int_equal(bh_io_read_full(fd, buffer, 8), BH_E_TRUNCATED);
    assert_int_equal(bh_io_read_full(fd, buffer, 8), BH_E_END);
    (void)close(fd);
    assert_int_equal(bh_io_read_full(fd, buffer, 1), BH_E_IO);
    assert_int_equal(bh_io_read_file(scratch->fd, "f", 10, &bytes, &diag), BH_OK);
    assert_string_equal((char *)bytes.data, "0123AB6789");
    assert_int_equal(bh_io_read_file(scratch->fd, "f", 9, &bytes, &diag), BH_E_TOO_LONG);
    bh_bytes_done(&bytes);
}

/* A replace that fails leaves the old content and no temporary. */
static void test_failed_replace(void **state)
{
    struct scratch *scratch = *state;
    struct bh_diag diag;
    assert_int_equal(mkdirat(scratch->fd, "target", 0700), 0);
    assert_true(bh_io_replace(scratch->fd, "target", "x", 1, true, &diag) < 0);
    assert_true(faccessat(scratch->fd, "target.tmp", F_OK, 0) < 0);
    assert_true(faccessat(scratch->fd, "target", F_OK, 0) == 0);
    assert_int_equal(bh_io_replace(scratch->fd, "f.tmp", "leftover", 8, false, NULL), BH_OK);
    assert_int_equal(bh_io_replace(scratch->fd, "f", "x", 1, false, NULL), BH_OK);
    assert_true(faccessat(scratch->fd, "f.tmp", F_OK, 0) < 0);
}

/* Trees are removed without following links out of them. */
static void test_remove_tree(void **state)
{
    struct scratch *scratch = *state;
    int fd = -1;
    assert_int_equal(bh_io_make_dir(scratch->fd, "keep", false, &fd, NULL), BH_OK);
    assert_int_equal(bh_io_replace(fd, "precious", "x", 1, false, NULL), BH_OK);
    (void)close(fd);
    assert_int_equal(bh_io_make_dir(scratch->fd, "gone/deeper", true, &fd, NULL), BH_OK);
    assert_int_equal(symlinkat("../../keep", fd, "out"), 0);
    (void)close(fd);
    assert_int_equal(bh_io_remove_tree(scratch->fd, "gone", NULL), BH_OK);
    assert_true(faccessat(scratch->fd, "gone", F_OK, 0) < 0);
    assert_true(faccessat(scratch->fd, "keep/precious", F_OK, 0) == 0);
    assert_int_equal(bh_io_remove_tree(scratch->fd, "gone", NULL), BH_OK);
}

static void test_errors(void **state)
{
    (void)state;
    struct bh_diag diag;
    assert_string_equal(bh_err_code(BH_E_LAUNCH_NOT_FOUND), "launch_not_found");
    assert_int_equal(bh_err_exit(BH_E_LAUNCH_NOT_FOUND), 127);
    assert_int_equal(bh_err_http(BH_E_NOSPACE), 503);
    assert_int_equal(bh_err_from_code("no_space"), BH_E_NOSPACE);
    assert_int_equal(bh_err_from_code("nonsense"), BH_OK);
    assert_string_equal(bh_err_code(-9999), "unknown");
    assert_int_equal(bh_err_http(-9999), 500);
    assert_int_equal(bh_err_from_errno(ENOSPC), BH_E_NOSPACE);
    assert_int_equal(bh_err_from_errno(0), BH_E_IO); /* never good */
    assert_int_equal(bh_err_set(NULL, BH_E_RANGE, "x", "%d", 1), BH_E_RANGE);
    assert_int_equal(bh_err_sys(&diag, EACCES, "cannot open %s", "it"), BH_E_PERMISSION);
    assert_string_equal(diag.detail, "cannot open it: Permission denied");
    char text[400];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)bh_err_set(&diag, BH_E_IO, text, "%s", text); /* cut, terminated */
    assert_int_equal(strlen(diag.detail), sizeof diag.detail - 1);
    assert_int_equal(strlen(diag.field), sizeof diag.field - 1);
}

static void test_clock_and_ids(void **state)
{
    (void)state;
    char text[BH_CLOCK_RFC3339_SIZE], first[BH_JOB_ID_SIZE], second[BH_JOB_ID_SIZE];
    bh_clock_rfc3339((struct bh_wall){1796002200120000}, text);
    assert_string_equal(text, "2026-11-30T01:30:00.120Z");
    bh_clock_rfc3339((struct bh_wall){-1}, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999Z");
    struct bh_anchor anchor = {{5000}, {100}};
    assert_int_equal(bh_clock_epoch_us(anchor, (struct bh_mono){6999}), 101);
    assert_int_equal(bh_clock_epoch_us(anchor, (struct bh_mono){4999}), 99); /* down, also before */
    assert_true(bh_clock_mono().ns > 0);
    assert_int_equal(bh_random_job_id((struct bh_wall){1000000}, first), BH_OK);
    assert_int_equal(bh_random_job_id((struct bh_wall){2000000}, second), BH_OK);
    assert_true(bh_text_is_job_id(first));
    assert_true(strcmp(first, second) < 0); /* in order of time */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_links_are_refused),
        TEST(test_foreign_owner),
        TEST(test_modes),
        TEST(test_read_and_write),
        TEST(test_failed_replace),
        TEST(test_remove_tree),
        TEST(test_errors),
        TEST(test_clock_and_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
