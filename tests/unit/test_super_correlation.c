/* The report's correlation_hash: the same for the same command, another for any other, nothing
 * without a key, and a key that is made once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "core/super/correlation.h"
#include "scratch.h"

struct place {
    struct scratch scratch;
    char state[160];
    int state_fd;
    struct bh_job_spec spec;
    struct bh_run run;
    char text[BH_CORRELATION_SIZE];
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    scratch_open(&place->scratch);
    (void)snprintf(place->state, sizeof place->state, "%s/bulkhead", place->scratch.path);
    assert_int_equal(setenv("XDG_STATE_HOME", place->scratch.path, 1), 0);
    bh_job_spec_init(&place->spec);
    bh_run_init(&place->run);
    place->run.spec = &place->spec;
    place->run.foreground = true;
    (void)strcpy(place->run.id, "0123456789abcdefghij");
    place->state_fd = -1;
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    if (place->state_fd >= 0)
        (void)close(place->state_fd);
    bh_run_done(&place->run);
    scratch_close(&place->scratch);
    free(place);
    return 0;
}

static void make_state(struct place *place)
{
    assert_int_equal(bh_io_make_dir(AT_FDCWD, place->state, true, &place->state_fd, NULL), BH_OK);
}

static const char *hash_of(struct place *place, const char *cwd, const char *first,
                           const char *second)
{
    const char *argv[] = {first, second, NULL};
    place->spec.argv = argv;
    place->spec.argc = second ? 2 : 1;
    place->spec.cwd = cwd;
    bh_correlation_hash(&place->run, place->text);
    place->spec.argv = NULL;
    return place->text;
}

static void test_no_state_no_hash(void **state)
{
    struct place *place = *state;
    assert_string_equal(hash_of(place, "/", "true", NULL), "");
    struct stat st;
    assert_true(stat(place->state, &st) < 0); /* and none is made for it */
}

static void test_same_and_other(void **state)
{
    struct place *place = *state;
    char first[BH_CORRELATION_SIZE];
    make_state(place);
    (void)strcpy(first, hash_of(place, "/", "ab", "c"));
    assert_int_equal(strlen(first), 32);
    assert_int_equal(strspn(first, "0123456789abcdef"), 32);
    assert_string_equal(hash_of(place, "/", "ab", "c"), first);
    assert_string_not_equal(hash_of(place, "/", "a", "bc"), first);
    assert_string_not_equal(hash_of(place, "/", "ab c", NULL), first);
    assert_string_not_equal(hash_of(place, "/tmp", "ab", "c"), first);
    /* the caller's own directory is one like any other */
    assert_int_equal(chdir("/"), 0);
    assert_string_equal(hash_of(place, NULL, "ab", "c"), first);
    struct stat st;
    assert_int_equal(fstatat(place->state_fd, BH_CORRELATION_KEY_NAME, &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 16);
    assert_int_equal(st.st_nlink, 1);
    /* another user's key: the hashes have nothing in common */
    assert_int_equal(unlinkat(place->state_fd, BH_CORRELATION_KEY_NAME, 0), 0);
    assert_string_not_equal(hash_of(place, "/", "ab", "c"), first);
}

static void test_key_that_is_none(void **state)
{
    struct place *place = *state;
    make_state(place);
    assert_int_equal(
        bh_io_replace(place->state_fd, BH_CORRELATION_KEY_NAME, "short", 5, false, NULL), BH_OK);
    assert_string_equal(hash_of(place, "/", "true", NULL), "");
    assert_int_equal(unlinkat(place->state_fd, BH_CORRELATION_KEY_NAME, 0), 0);
    assert_int_equal(symlinkat("elsewhere", place->state_fd, BH_CORRELATION_KEY_NAME), 0);
    assert_string_equal(hash_of(place, "/", "true", NULL), "");
}

/* A server's job: the state around its run directory, whatever the environment says. */
static void test_state_around_the_run(void **state)
{
    struct place *place = *state;
    char path[200];
    make_state(place);
    (void)snprintf(path, sizeof path, "%s/other/jobs/x", place->scratch.path);
    assert_int_equal(bh_io_make_dir(AT_FDCWD, path, true, &place->run.run_fd, NULL), BH_OK);
    place->run.foreground = false;
    /* a folder that is no state directory stays as it is */
    assert_int_equal(strlen(hash_of(place, "/", "true", NULL)), 32);
    assert_true(faccessat(place->run.run_fd, "../../" BH_CORRELATION_KEY_NAME, F_OK, 0) < 0);
    assert_int_equal(unlinkat(place->state_fd, BH_CORRELATION_KEY_NAME, 0), 0);
    int fd = openat(place->run.run_fd, "../../server.lock", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(strlen(hash_of(place, "/", "true", NULL)), 32);
    assert_int_equal(faccessat(place->run.run_fd, "../../" BH_CORRELATION_KEY_NAME, F_OK, 0), 0);
    assert_true(faccessat(place->state_fd, BH_CORRELATION_KEY_NAME, F_OK, 0) < 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_no_state_no_hash),
        TEST(test_same_and_other),
        TEST(test_key_that_is_none),
        TEST(test_state_around_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
