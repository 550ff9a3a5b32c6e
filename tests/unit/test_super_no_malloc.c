/* After launch the decider allocates nothing: every allocation of a whole run is counted, on the
 * scripted machine and on the real one. */
#include <signal.h>
#include <sys/wait.h>

#include "super_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0 /* sanitizers have their own allocator */
#else
#define COUNTING 1
#endif

/* volatile: the compiler believes that malloc looks at nobody's variables */
static volatile bool counting;
static volatile unsigned allocations;

#if COUNTING
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *area, size_t size);
#define OURS __attribute__((visibility("default"), noinline))
OURS void *malloc(size_t size);
OURS void *calloc(size_t count, size_t size);
OURS void *realloc(void *area, size_t size);

void *malloc(size_t size)
{
    allocations += counting;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    allocations += counting;
    return __libc_calloc(count, size);
}

void *realloc(void *area, size_t size)
{
    allocations += counting;
    return __libc_realloc(area, size);
}
#endif

static void test_the_count_works(void **state)
{
    (void)state;
    counting = true;
    void *volatile area = malloc(10);
    counting = false;
    free(area);
    assert_int_equal(allocations, COUNTING);
    allocations = 0;
}

static void fork_some(void *context)
{
    struct fixture *fixture = context;
    for (int i = 0; i < 20; i++)
        bh_fake_fork(&fixture->fake, 700 + i, ROOT_PID)->pss_bytes = 10 * MIB;
}

static void test_scripted_run(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->growth_bytes_s = 256 * (int64_t)MIB;
    fixture->root->pss_bytes = 900 * MIB;
    fixture->root->term_after_ns = UINT64_MAX;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + BH_NS_PER_S, fork_some, fixture);
    fixture_launch(fixture);
    counting = true;
    bool over = fixture_run(fixture, 60 * BH_NS_PER_S);
    counting = false;
    assert_true(over);
    assert_int_equal(allocations, 0);
    fixture_free(fixture);
}

static void test_real_run(void **state)
{
    (void)state;
    static const char *const argv[] = {
        "/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8; do /bin/true; done; exec sleep 100", NULL};
    static const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
    struct fixture *fixture = fixture_new();
    const struct bh_platform *os = bh_platform_host();
    bool subreaper = false;
    fixture->os = *os;
    fixture->spec.wall_time_ns = 300 * BH_NS_PER_MS;
    fixture->spec.interval_ns = 5 * BH_NS_PER_MS;
    assert_int_equal(os->become_reaper(os->self, &subreaper), BH_OK);
    assert_int_equal(os->collect_signals(os->self), BH_OK);
    fixture_init_loop(fixture);
    int pid = fixture_launch_real(fixture, argv, environment);
    assert_true(pid > 0);
    assert_int_equal(bh_loop_launched(fixture->loop, pid, NULL), BH_OK);
    counting = true;
    while (bh_loop_turn(fixture->loop))
        ;
    counting = false;
    assert_int_equal(allocations, 0);
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_WALL_TIME);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_count_works),
        cmocka_unit_test(test_scripted_run),
        cmocka_unit_test(test_real_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
