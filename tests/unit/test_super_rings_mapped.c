/* Which ring files count as the job's mapped memory: those of live members, from their making on.
 */
#include "super_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "core/base/io.h"
#include "core/super/rings_mapped.h"

struct folder {
    char path[64];
    int fd;
    struct fixture *job; /* its root, pid 500, becomes a member with the launch */
    struct bh_rings_mapped rings;
};

static void put_file(const struct folder *f, const char *name, off_t bytes)
{
    int fd = openat(f->fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    (void)close(fd);
}

static uint64_t mapped(struct folder *f)
{
    return bh_rings_mapped_bytes(&f->rings, &f->job->loop->members);
}

static int setup(void **state)
{
    struct folder *f = calloc(1, sizeof *f);
    assert_non_null(f);
    (void)snprintf(f->path, sizeof f->path, "/tmp/bulkhead-rings-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    f->job = fixture_new();
    f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bh_rings_mapped_open(&f->rings, f->fd);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct folder *f = *state;
    bh_rings_mapped_done(&f->rings);
    (void)close(f->fd);
    (void)bh_io_remove_tree(AT_FDCWD, f->path, NULL);
    fixture_free(f->job);
    free(f);
    return 0;
}

static void members_rings_count(void **state)
{
    struct folder *f = *state;
    fixture_launch(f->job);
    assert_int_equal(mapped(f), 0);
    put_file(f, "500-5-0.ring", 4096);
    put_file(f, "500-5-1.ring", 8192);
    put_file(f, "200-5-0.ring", 65536);
    put_file(f, "notes", 1000);
    assert_int_equal(mapped(f), 12288);
}

static void a_ring_in_the_making_is_looked_at_again(void **state)
{
    struct folder *f = *state;
    fixture_launch(f->job);
    put_file(f, ".500-5-7.tmp", 0);
    assert_int_equal(mapped(f), 0);
    put_file(f, ".500-5-7.tmp", 4096); /* grows without a change of the folder */
    assert_int_equal(mapped(f), 4096);
}

static void a_process_that_becomes_a_member_counts_from_then_on(void **state)
{
    struct folder *f = *state;
    put_file(f, "500-5-0.ring", 4096);
    assert_int_equal(mapped(f), 0);
    fixture_launch(f->job);
    assert_int_equal(mapped(f), 4096);
}

static void an_unlinked_ring_is_gone(void **state)
{
    struct folder *f = *state;
    fixture_launch(f->job);
    put_file(f, "500-5-0.ring", 4096);
    put_file(f, "500-5-1.ring", 4096);
    assert_int_equal(mapped(f), 8192);
    struct timespec pause = {.tv_nsec = 20000000}; /* beyond the tick that folder times count in */
    (void)nanosleep(&pause, NULL);
    assert_int_equal(unlinkat(f->fd, "500-5-1.ring", 0), 0);
    assert_int_equal(mapped(f), 4096);
}

static void rings_on_a_disk_are_in_no_charge(void **state)
{
    struct folder *f = *state;
    fixture_launch(f->job);
    f->job->loop->rings = f->rings;
    put_file(f, "500-5-0.ring", 4096);
    assert_int_equal(bh_account_ring_bytes(f->job->loop), 4096);
    f->job->run.runtime_on_disk = true;
    assert_int_equal(bh_account_ring_bytes(f->job->loop), 0);
}

static void nothing_recorded_is_nothing(void **state)
{
    struct folder *f = *state;
    struct bh_rings_mapped none;
    fixture_launch(f->job);
    bh_rings_mapped_open(&none, -1);
    assert_int_equal(bh_rings_mapped_bytes(&none, &f->job->loop->members), 0);
    bh_rings_mapped_done(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(members_rings_count, setup, teardown),
        cmocka_unit_test_setup_teardown(a_ring_in_the_making_is_looked_at_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_process_that_becomes_a_member_counts_from_then_on, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_unlinked_ring_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(rings_on_a_disk_are_in_no_charge, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_recorded_is_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
