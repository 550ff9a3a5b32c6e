/* What the kernel ring reads out of a control group's files. The group is a folder of files made
 * here: no control group is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/platform/linux_read.h"
#include "scratch.h"

#define MIB (1ull << 20)

static const char stat_text[] =
    "anon 104857600\nfile 62914560\nkernel 9437184\npagetables 1048576\n"
    "shmem 20971520\ninactive_file 31457280\nactive_file 10485760\n"
    "slab_reclaimable 2097152\n";

struct group {
    struct scratch scratch;
    struct bh_cgroup cgroup;
};

static void put(struct group *group, const char *name, const char *text)
{
    int fd = openat(group->scratch.fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
}

static void begin(struct group *group)
{
    scratch_open(&group->scratch);
    put(group, "memory.max", "max\n");
    put(group, "memory.high", "max\n");
    put(group, "memory.stat", stat_text);
    put(group, "memory.current", "188743680\n");
    put(group, "memory.events", "low 0\nhigh 7\nmax 0\noom 1\noom_kill 2\n");
}

static void detect(struct group *group)
{
    group->cgroup = (struct bh_cgroup){.made = true,
                                       .stat_fd = -1,
                                       .swap_fd = -1,
                                       .current_fd = -1,
                                       .events_fd = -1,
                                       .procs_fd = -1};
    group->cgroup.dir_fd = dup(group->scratch.fd);
    assert_true(group->cgroup.dir_fd >= 0);
    bh_linux_cgroup_detect(&group->cgroup);
}

static struct bh_cgroup_charge charge_of(const struct group *group, bool held)
{
    struct bh_cgroup_charge charge = {0};
    assert_int_equal(bh_linux_cgroup_charge(NULL, &group->cgroup, held, &charge), BH_OK);
    return charge;
}

static void end(struct group *group)
{
    bh_linux_cgroup_remove(NULL, &group->cgroup);
    scratch_close(&group->scratch);
}

static void test_the_charge_leaves_page_cache_out(void **state)
{
    (void)state;
    struct group group;
    begin(&group);
    detect(&group);
    assert_true(group.cgroup.memory && group.cgroup.high);
    assert_false(group.cgroup.kill || group.cgroup.freeze || group.cgroup.huge);
    struct bh_cgroup_charge charge = charge_of(&group, false);
    assert_int_equal(charge.bytes, 121 * MIB);
    assert_int_equal(charge.shmem_bytes, 20 * MIB);
    assert_int_equal(charge.held_bytes, 0);
    end(&group);
}

static void test_swap_is_charged_and_held(void **state)
{
    (void)state;
    struct group group;
    begin(&group);
    put(&group, "memory.swap.current", "5242880\n");
    detect(&group);
    struct bh_cgroup_charge charge = charge_of(&group, true);
    assert_int_equal(charge.bytes, 126 * MIB);
    /* 180 MiB in all, less 42 MiB that can be taken back: kernel memory is in it */
    assert_int_equal(charge.held_bytes, 143 * MIB);
    end(&group);
}

/* The controller has each size of its own; what was only promised (rsvd) is not there yet. */
static void test_huge_pages_of_all_sizes_are_charged(void **state)
{
    (void)state;
    struct group group;
    begin(&group);
    put(&group, "hugetlb.2MB.current", "67108864\n");
    put(&group, "hugetlb.1GB.current", "1073741824\n");
    put(&group, "hugetlb.2MB.rsvd.current", "536870912\n");
    put(&group, "hugetlb.2MB.max", "max\n");
    detect(&group);
    assert_true(group.cgroup.huge);
    assert_int_equal(charge_of(&group, false).bytes, (121 + 64 + 1024) * MIB);
    /* they are no part of memory.current */
    assert_int_equal(charge_of(&group, true).held_bytes, 138 * MIB);
    end(&group);
}

static void test_huge_pages_in_memory_stat_are_charged(void **state)
{
    (void)state;
    struct group group;
    char text[512];
    begin(&group);
    (void)snprintf(text, sizeof text, "%shugetlb 33554432\n", stat_text);
    put(&group, "memory.stat", text);
    detect(&group);
    assert_true(group.cgroup.huge);
    assert_int_equal(charge_of(&group, false).bytes, (121 + 32) * MIB);
    end(&group);
}

/* A host can have both: the pages are the same. */
static void test_huge_pages_are_charged_once(void **state)
{
    (void)state;
    struct group group;
    char text[512];
    begin(&group);
    (void)snprintf(text, sizeof text, "%shugetlb 33554432\n", stat_text);
    put(&group, "memory.stat", text);
    put(&group, "hugetlb.2MB.current", "33554432\n");
    detect(&group);
    assert_int_equal(charge_of(&group, false).bytes, (121 + 32) * MIB);
    end(&group);
}

/* More sizes than there is room for: a part of them would be no charge. */
static void test_too_many_sizes_are_left_to_the_members(void **state)
{
    (void)state;
    struct group group;
    begin(&group);
    for (int i = 0; i <= BH_CGROUP_HUGE_SIZES; i++) {
        char name[40];
        (void)snprintf(name, sizeof name, "hugetlb.%dMB.current", 1 << i);
        put(&group, name, "67108864\n");
    }
    detect(&group);
    assert_false(group.cgroup.huge);
    assert_int_equal(charge_of(&group, false).bytes, 121 * MIB);
    end(&group);
}

static void test_a_brake_needs_all_that_judges_it(void **state)
{
    (void)state;
    static const char *const needed[] = {"memory.high", "memory.current", "memory.events"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        struct group group;
        begin(&group);
        assert_int_equal(unlinkat(group.scratch.fd, needed[i], 0), 0);
        detect(&group);
        assert_true(group.cgroup.memory);
        assert_false(group.cgroup.high);
        end(&group);
    }
}

static void test_limits_are_written(void **state)
{
    (void)state;
    struct group group;
    char text[64];
    begin(&group);
    detect(&group);
    assert_int_equal(bh_linux_cgroup_limit(NULL, &group.cgroup, 110 * MIB, 100 * MIB), BH_OK);
    assert_true(bh_linux_read_at(group.scratch.fd, "memory.max", text, sizeof text) > 0);
    assert_string_equal(text, "115343360");
    assert_true(bh_linux_read_at(group.scratch.fd, "memory.high", text, sizeof text) > 0);
    assert_string_equal(text, "104857600");
    put(&group, "memory.high", "");
    assert_int_equal(bh_linux_cgroup_limit(NULL, &group.cgroup, 110 * MIB, 0), BH_OK);
    assert_true(bh_linux_read_at(group.scratch.fd, "memory.high", text, sizeof text) > 0);
    assert_memory_equal(text, "max", 3);
    end(&group);
}

static void test_events_and_a_group_without_the_controller(void **state)
{
    (void)state;
    struct group group;
    struct bh_cgroup_events events;
    struct bh_cgroup_charge charge;
    begin(&group);
    detect(&group);
    assert_int_equal(bh_linux_cgroup_events(NULL, &group.cgroup, &events), BH_OK);
    assert_int_equal(events.highs, 7);
    assert_int_equal(events.oom_kills, 2);
    put(&group, "memory.stat", "nr_dirty 5\n");
    assert_int_equal(bh_linux_cgroup_charge(NULL, &group.cgroup, false, &charge), BH_E_MALFORMED);
    end(&group);
    begin(&group);
    assert_int_equal(unlinkat(group.scratch.fd, "memory.stat", 0), 0);
    put(&group, "cgroup.kill", "");
    detect(&group);
    assert_true(group.cgroup.kill);
    assert_false(group.cgroup.memory || group.cgroup.high);
    assert_int_equal(bh_linux_cgroup_limit(NULL, &group.cgroup, MIB, 0), BH_E_UNSUPPORTED);
    end(&group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_charge_leaves_page_cache_out),
        cmocka_unit_test(test_swap_is_charged_and_held),
        cmocka_unit_test(test_huge_pages_of_all_sizes_are_charged),
        cmocka_unit_test(test_huge_pages_in_memory_stat_are_charged),
        cmocka_unit_test(test_huge_pages_are_charged_once),
        cmocka_unit_test(test_too_many_sizes_are_left_to_the_members),
        cmocka_unit_test(test_a_brake_needs_all_that_judges_it),
        cmocka_unit_test(test_limits_are_written),
        cmocka_unit_test(test_events_and_a_group_without_the_controller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
