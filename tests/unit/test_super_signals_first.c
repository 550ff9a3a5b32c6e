/* The signals of a stop leave before anything is said of it, and are told in the order of the
 * decision all the same. */
#include <signal.h>

#include "super_fixture.h"

#define S BH_NS_PER_S

static struct fixture *watched;
static int
    sent_when_told[65]; /* signals that had reached the root when its transition was stored */
static enum bh_record_kind told[8];
static size_t told_count;

static void look(void *context, const struct bh_record *record)
{
    (void)context;
    bool stop = record->kind == BH_RECORD_TRANSITION &&
                (record->transition.to == BH_POLICY_STATE_TERMINATING ||
                 record->transition.to == BH_POLICY_STATE_EMERGENCY);
    if (stop && told_count == 0)
        memcpy(sent_when_told, watched->root->signals, sizeof sent_when_told);
    if ((stop || record->kind == BH_RECORD_SIGNAL) && told_count < 8)
        told[told_count++] = record->kind;
}

/* Runs until the end; the first things told are the transition and its signal. */
static void run_watched(uint64_t anon_bytes, int64_t growth_bytes_s)
{
    watched = fixture_new();
    watched->root->anon_bytes = anon_bytes;
    watched->root->growth_bytes_s = growth_bytes_s;
    fixture_launch(watched);
    watched->loop->notes.tap = look;
    told_count = 0;
    assert_true(fixture_run(watched, 10 * S));
    assert_true(told_count >= 2);
    assert_int_equal(told[0], BH_RECORD_TRANSITION);
    assert_int_equal(told[1], BH_RECORD_SIGNAL);
    fixture_free(watched);
}

static void test_term_leaves_before_the_record(void **state)
{
    (void)state;
    run_watched(100 * MIB, 256 * (int64_t)MIB);
    assert_int_equal(sent_when_told[SIGTERM], 1);
}

static void test_kill_leaves_before_the_record(void **state)
{
    (void)state;
    run_watched(4 * GIB, 0);
    assert_int_equal(sent_when_told[SIGKILL], 1);
}

/* A tree that forks against its KILL leaves its dead to us by the thousand. */
static void test_the_dead_are_not_opened_while_killing(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = 4 * GIB;
    fixture->root->survives_kill = true;
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 100 * BH_NS_PER_MS));
    assert_true(fixture->root->signals[SIGKILL] > 0);
    unsigned opened = fixture->fake.opens;
    size_t records = fixture_count(fixture, BH_RECORD_MEMBER);
    for (int i = 0; i < 40; i++) {
        bh_fake_add(&fixture->fake, 700 + i, getpid());
        bh_fake_end(&fixture->fake, 700 + i, 0);
    }
    bh_fake_add(&fixture->fake, 800, getpid()); /* who lives is found and killed as before */
    assert_false(fixture_run(fixture, 400 * BH_NS_PER_MS));
    assert_int_equal(fixture->fake.opens, opened + 1);
    assert_true(bh_fake_find(&fixture->fake, 800) == NULL);
    assert_true(fixture_count(fixture, BH_RECORD_MEMBER) >= records + 2 * 41);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_term_leaves_before_the_record),
        cmocka_unit_test(test_kill_leaves_before_the_record),
        cmocka_unit_test(test_the_dead_are_not_opened_while_killing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
