/* Where the database lies: damaged, of a later version, on a network file system. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/store_place.h"
#include "store_fixture.h"

static void overwrite(const char *file, off_t at, const char *text)
{
    int fd = open(file, O_WRONLY);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
    close(fd);
}

static void test_damaged_database_is_moved_aside(void **state)
{
    struct fixture *f = *state;
    struct bh_store_job job;
    struct bh_diag diag = {0};
    char file[128], aside[192];

    insert(f, 0, NULL);
    bh_store_close(f->store);
    f->store = NULL;
    snprintf(file, sizeof file, "%s/" BH_STORE_FILE_NAME, f->path);
    overwrite(file, 0, "this is no database at all, not even nearly");
    reopen(f, false);
    assert_true(f->start.moved_aside);
    assert_true(f->start.created);
    assert_true(f->start.needs_reindex);
    assert_true(f->start.reason[0] != '\0');
    snprintf(aside, sizeof aside, "%s/%s", f->path, f->start.aside);
    assert_int_equal(access(aside, F_OK), 0);
    assert_int_equal(bh_store_job_get(f->store, id_of[0], &job, &diag), BH_E_NOT_FOUND);
    insert(f, 0, NULL);
}

static void test_damaged_page_is_found(void **state)
{
    struct fixture *f = *state;
    struct stat info;
    char file[128];

    for (int i = 0; i < 3; i++)
        insert(f, i, "name");
    bh_store_close(f->store);
    f->store = NULL;
    snprintf(file, sizeof file, "%s/" BH_STORE_FILE_NAME, f->path);
    assert_int_equal(stat(file, &info), 0);
    for (off_t page = 1; page * 8192 < info.st_size; page++)
        overwrite(file, page * 8192, "\xff\xff\xff\xff\xff\xff\xff\xff");
    reopen(f, false);
    assert_true(f->start.moved_aside);
}

static void test_damage_met_in_use_is_looked_for_at_the_next_start(void **state)
{
    struct fixture *f = *state;
    struct bh_diag diag = {0};
    struct stat info;
    char file[128], suspect[160];

    for (int i = 0; i < 3; i++)
        insert(f, i, "name");
    reopen(f, false); /* all of it is in the file now, none in the log */
    snprintf(file, sizeof file, "%s/" BH_STORE_FILE_NAME, f->path);
    snprintf(suspect, sizeof suspect, "%s-suspect", file);
    assert_int_equal(stat(file, &info), 0);
    for (off_t page = 1; page * 8192 < info.st_size; page++)
        overwrite(file, page * 8192, "\xff\xff\xff\xff\xff\xff\xff\xff");
    assert_int_equal(
        bh_store_job_fail(f->store, id_of[0], BH_E_IO, "x", (struct bh_wall){1}, &diag),
        BH_E_MALFORMED);
    assert_int_equal(access(suspect, F_OK), 0);
    reopen(f, false);
    assert_true(f->start.moved_aside);
    assert_int_equal(access(suspect, F_OK), -1);
}

static void test_a_large_database_is_checked_by_its_small_tables(void **state)
{
    struct fixture *f = *state;
    struct bh_diag diag = {0};
    struct stat info;
    char file[128];

    for (int i = 0; i < 3; i++)
        insert(f, i, "name");
    bh_store_close(f->store);
    f->store = NULL;
    snprintf(file, sizeof file, "%s/" BH_STORE_FILE_NAME, f->path);
    assert_int_equal(bh_store_quick_check(file, 0, &diag), 0);
    assert_int_equal(stat(file, &info), 0);
    for (off_t page = 2; page * 8192 < info.st_size; page++)
        overwrite(file, page * 8192, "\xff\xff\xff\xff\xff\xff\xff\xff");
    assert_int_equal(bh_store_quick_check(file, 0, &diag), BH_E_MALFORMED);
}

static void test_later_schema_is_refused(void **state)
{
    struct fixture *f = *state;
    struct bh_diag diag = {0};
    char command[256], file[128];

    bh_store_close(f->store);
    f->store = NULL;
    snprintf(file, sizeof file, "%s/" BH_STORE_FILE_NAME, f->path);
    /* user_version is the big-endian word at offset 60 of the file */
    overwrite(file, 60, "\x01\x01\x01\x01");
    (void)command;
    assert_int_equal(bh_store_open(f->path, false, &f->store, &f->start, &diag), BH_E_VERSION);
    assert_null(f->store);
}

static void test_network_file_systems_are_refused(void **state)
{
    struct bh_diag diag = {0};

    (void)state;
    assert_string_equal(bh_store_place_refused(0x6969), "nfs");
    assert_string_equal(bh_store_place_refused(0xff534d42), "cifs");
    assert_null(bh_store_place_refused(0xef53));
    assert_int_equal(bh_store_place_check("/tmp", &diag), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_damaged_database_is_moved_aside),
        T(test_damaged_page_is_found),
        T(test_damage_met_in_use_is_looked_for_at_the_next_start),
        T(test_a_large_database_is_checked_by_its_small_tables),
        T(test_later_schema_is_refused),
        T(test_network_file_systems_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
