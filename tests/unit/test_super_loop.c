/* The whole loop on a scripted machine: limits, stops, trees, clocks, failures. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>

#include "super_fixture.h"

#define S  BH_NS_PER_S
#define MS BH_NS_PER_MS

static void test_quiet_job_ends_by_itself(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->ends_at_ns = fixture->fake.clock.ns + 2 * S;
    fixture->root->ends_with = 3 << 8;
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 10 * S));
    const struct bh_record_outcome *outcome = fixture_outcome(fixture);
    assert_int_equal(outcome->kind, BH_OUTCOME_CHILD_EXITED);
    assert_int_equal(outcome->exit_code, 3);
    assert_int_equal(outcome->reported_exit_code, 3);
    assert_int_equal(outcome->peak_bytes.value, 100 * MIB);
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    assert_true(fixture_get(fixture, BH_RECORD_EMPTY, 0)->empty.proven);
    fixture_free(fixture);
}

static void test_limit_sends_term_and_proves_empty(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->growth_bytes_s = 512 * (int64_t)MIB;
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 10 * S));
    fixture_expect_signal(fixture, 0, SIGTERM, "not_negotiated");
    const struct bh_record_outcome *outcome = fixture_outcome(fixture);
    assert_int_equal(outcome->kind, BH_OUTCOME_POLICY_INTERVENTION);
    assert_int_equal(outcome->cause, BH_CAUSE_LIMIT_EXCEEDED);
    assert_int_equal(outcome->reported_exit_code, 75);
    assert_non_null(fixture_find(fixture, BH_RECORD_LIMIT_CROSSED, 0));
    /* two readings at least 250 us apart at 512 MiB/s: less than 2 MiB over */
    assert_true(outcome->decision_overshoot_bytes < 2 * MIB);
    fixture_free(fixture);
}

static void test_term_ignored_is_killed_after_grace(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = GIB + MIB;
    fixture->root->term_after_ns = UINT64_MAX;
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 10 * S));
    fixture_expect_signal(fixture, 0, SIGTERM, "not_negotiated");
    fixture_expect_signal(fixture, 1, SIGKILL, "grace_expired");
    uint64_t term = fixture_get(fixture, BH_RECORD_SIGNAL, 0)->at.ns;
    uint64_t kill = fixture_get(fixture, BH_RECORD_SIGNAL, 1)->at.ns;
    /* 1 s and 250 ms for the one GiB */
    assert_true(kill - term >= 1250 * MS && kill - term < 1300 * MS);
    fixture_free(fixture);
}

static void test_emergency_is_killed_at_once(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = 2 * GIB;
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, S));
    fixture_expect_signal(fixture, 0, SIGKILL, "emergency");
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_EMERGENCY);
    fixture_free(fixture);
}

static void add_escapee(void *context)
{
    struct fixture *fixture = context;
    struct bh_fake_process *escapee = bh_fake_add(&fixture->fake, 600, getpid());
    escapee->group = escapee->session = 600;
    escapee->anon_bytes = 950 * MIB;
    escapee->term_after_ns = 5 * MS;
}

static void test_escapee_is_counted_and_stopped(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + S, add_escapee, fixture);
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(bh_fake_find(&fixture->fake, 600) == NULL, 1);
    const struct bh_record *escape = fixture_get(fixture, BH_RECORD_ESCAPE, 0);
    assert_int_equal(escape->member.pid, 600);
    assert_int_equal(fixture->loop->members.escaped_count, 1);
    assert_int_equal(fixture_get(fixture, BH_RECORD_SIGNAL, 0)->signal.reached, 2);
    fixture_free(fixture);
}

static void test_root_exit_with_descendants(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    struct bh_fake_process *child = bh_fake_add(&fixture->fake, 600, ROOT_PID);
    child->term_after_ns = UINT64_MAX;
    fixture->root->ends_at_ns = fixture->fake.clock.ns + S;
    fixture->root->ends_with = 0;
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 10 * S));
    fixture_expect_signal(fixture, 0, SIGTERM, "root_exited");
    fixture_expect_signal(fixture, 1, SIGKILL, "grace_expired");
    assert_int_equal(fixture_outcome(fixture)->kind, BH_OUTCOME_CHILD_EXITED);
    assert_int_equal(fixture_outcome(fixture)->reported_exit_code, 0);
    fixture_free(fixture);
}

static void test_unkillable_is_named_not_waited_for(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->anon_bytes = 2 * GIB;
    fixture->root->survives_kill = true;
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 60 * S));
    const struct bh_record_outcome *outcome = fixture_outcome(fixture);
    assert_int_equal(outcome->kind, BH_OUTCOME_UNKILLABLE);
    assert_int_equal(outcome->reported_exit_code, 70);
    assert_int_equal(outcome->survivors, 1);
    assert_null(fixture_find(fixture, BH_RECORD_EMPTY, 0));
    fixture_expect_signal(fixture, 1, SIGKILL, "retry");
    uint64_t waited = fixture_get(fixture, BH_RECORD_OUTCOME, 0)->at.ns -
                      fixture_get(fixture, BH_RECORD_SIGNAL, 0)->at.ns;
    assert_true(waited >= 30 * S && waited < 31 * S);
    fixture_free(fixture);
}

static void test_unusable_readings_fail_closed(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, S));
    fixture->root->zero_reading = true;
    assert_true(fixture_run(fixture, S));
    fixture_expect_signal(fixture, 0, SIGTERM, "observation_failed");
    assert_int_equal(fixture_outcome(fixture)->reported_exit_code, 70);
    fixture_free(fixture);
}

/* Somebody else ran in the middle of a reading: that is no fault of the job, unless it never ends.
 */
static void test_readings_on_a_busy_machine(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->spec.max_unusable = 2;
    fixture->fake.stall_ns = 400 * MS;
    fixture->fake.calm_every = 3;
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 20 * S));
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    fixture->fake.calm_every = 0;
    assert_true(fixture_run(fixture, 10 * S));
    fixture_expect_signal(fixture, 0, SIGTERM, "observation_failed");
    fixture_free(fixture);
}

/* A turn that took long is no gap: what it left out of the policy's time made the next event one of
 * the past, and that fails closed. */
static void test_long_turns(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->fake.call_ns = 80 * MS; /* each reading is whole, a turn lasts longer than a second */
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 600 * S));
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    assert_int_equal(fixture_count(fixture, BH_RECORD_CLOCK_GAP), 0);
    fixture_free(fixture);
}

/* Asleep in the middle of a reading, not between two: no time of the job's either. */
static void test_closed_lid_while_it_is_read(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->spec.wall_time_ns = 10 * S;
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 2 * S));
    fixture->fake.stall_ns = 3600 * S;
    assert_false(fixture_run(fixture, 3600 * S));
    fixture->fake.stall_ns = 0;
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    assert_false(fixture_run(fixture, 5 * S));
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_WALL_TIME);
    fixture_free(fixture);
}

/* A clock that goes back is said to be that, whatever brought the event. */
static void test_clock_that_goes_back(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 2 * S));
    fixture->loop->policy.last_accepted_ns += 3600 * S;
    assert_true(fixture_run(fixture, 5 * S));
    fixture_expect_signal(fixture, 0, SIGTERM, "observation_failed");
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_OBSERVATION_FAILED);
    assert_int_equal(fixture_outcome(fixture)->reported_exit_code, 70);
    fixture_free(fixture);
}

static void test_missing_descriptors_fail_closed(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, S));
    fixture->fake.open_error = BH_E_NOSPACE;
    bh_fake_add(&fixture->fake, 600, ROOT_PID);
    assert_true(fixture_run(fixture, 2 * S) || fixture_count(fixture, BH_RECORD_SIGNAL) > 0);
    fixture_expect_signal(fixture, 0, SIGTERM, "observation_failed");
    fixture_free(fixture);
}

static void test_wall_time(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->spec.wall_time_ns = 3 * S;
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_WALL_TIME);
    assert_int_equal(fixture_outcome(fixture)->reported_exit_code, 75);
    assert_true(fixture_time(fixture) >= 3 * S && fixture_time(fixture) < 4 * S);
    fixture_free(fixture);
}

static void test_closed_lid_moves_deadlines(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->spec.wall_time_ns = 10 * S;
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 2 * S));
    fixture->fake.jump_ns = 3600 * S;
    assert_false(fixture_run(fixture, 3605 * S));
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    const struct bh_record *gap = fixture_get(fixture, BH_RECORD_CLOCK_GAP, 0);
    assert_true(gap->clock_gap.gap_ns > 3598 * S && gap->clock_gap.gap_ns <= 3600 * S);
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_WALL_TIME);
    fixture_free(fixture);
}

static void test_second_signal_kills(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->term_after_ns = UINT64_MAX;
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, S));
    fixture->fake.pending_signals = (uint64_t)1 << (SIGINT - 1);
    assert_false(fixture_run(fixture, 100 * MS));
    fixture_expect_signal(fixture, 0, SIGINT, "external_signal");
    fixture->fake.pending_signals = (uint64_t)1 << (SIGINT - 1);
    assert_true(fixture_run(fixture, 100 * MS));
    fixture_expect_signal(fixture, 1, SIGKILL, "external_signal");
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_USER_STOP);
    assert_int_equal(fixture_outcome(fixture)->reported_exit_code, 128 + SIGINT);
    fixture_free(fixture);
}

static void test_owner_exit_stops_the_job(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    struct bh_fake_process *owner = bh_fake_add(&fixture->fake, 77, 1);
    fixture->spec.owner_pid = 77;
    fixture->spec.owner_start_token = owner->start_token;
    fixture->spec.stop_with_owner = true;
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, S));
    bh_fake_end(&fixture->fake, 77, 0);
    assert_true(fixture_run(fixture, S));
    fixture_expect_signal(fixture, 0, SIGTERM, "owner_exited");
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_OWNER_EXIT);
    fixture_free(fixture);
}

static void test_owner_that_was_gone_before(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    struct bh_fake_process *other = bh_fake_add(&fixture->fake, 77, 1);
    fixture->spec.owner_pid = 77;
    fixture->spec.owner_start_token = other->start_token + 1;
    fixture->spec.stop_with_owner = true;
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, S));
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_OWNER_EXIT);
    fixture_free(fixture);
}

static void let_go(void *context)
{
    assert_int_equal(flock(*(int *)context, LOCK_UN), 0);
}

static void take_again(void *context)
{
    assert_int_equal(flock(*(int *)context, LOCK_EX | LOCK_NB), 0);
}

/* on_server_exit: terminate. A server that comes back in time keeps its job; the second absence is
 * counted from its own beginning. */
static void server_that_is_gone(enum bh_mode mode)
{
    struct fixture *fixture = fixture_new();
    fixture->spec.mode = mode;
    if (mode == BH_MODE_OBSERVE)
        fixture->spec.limit_bytes = 0;
    fixture->fake.call_ns = 100; /* as a real one: what comes later in a turn is later */
    char folder[] = "/tmp/server-watch-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/server.lock", folder);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(lock >= 0);
    take_again(&lock);
    fixture_launch(fixture);
    fixture->loop->server.fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t zero = fixture->fake.clock.ns;
    bh_fake_at(&fixture->fake, zero + 10 * S, let_go, &lock);
    assert_false(fixture_run(fixture, 14 * S));
    bh_fake_at(&fixture->fake, zero + 14 * S + MS, take_again, &lock);
    assert_false(fixture_run(fixture, 6 * S));
    bh_fake_at(&fixture->fake, zero + 20 * S + MS, let_go, &lock);
    assert_false(fixture_run(fixture, 5 * S));
    assert_true(fixture_run(fixture, 3 * S));
    fixture_expect_signal(fixture, 0, SIGTERM, "stop_requested");
    assert_int_equal(fixture_outcome(fixture)->cause, BH_CAUSE_USER_STOP);
    assert_int_equal(fixture->loop->server.fd, -1);
    (void)close(lock);
    (void)unlink(path);
    (void)rmdir(folder);
    fixture_free(fixture);
}

static void test_server_that_is_gone(void **state)
{
    (void)state;
    server_that_is_gone(BH_MODE_ENFORCE);
    server_that_is_gone(BH_MODE_OBSERVE);
}

static void test_observe_never_stops(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->spec.mode = BH_MODE_OBSERVE;
    fixture->spec.limit_bytes = 0;
    fixture->root->growth_bytes_s = 4 * (int64_t)GIB;
    fixture->root->ends_at_ns = fixture->fake.clock.ns + 5 * S;
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 10 * S));
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    assert_true(fixture_outcome(fixture)->peak_bytes.value > 19 * GIB);
    fixture_free(fixture);
}

static void test_stranger_with_a_used_number_is_not_signalled(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    bh_fake_add(&fixture->fake, 600, ROOT_PID);
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, S));
    bh_fake_end(&fixture->fake, 600, 0);
    /* its number goes to somebody who is not ours */
    struct bh_fake_process *stranger = bh_fake_add(&fixture->fake, 600, 1);
    fixture->root->anon_bytes = 2 * GIB;
    assert_true(fixture_run(fixture, S));
    assert_int_equal(stranger->signals[SIGKILL] + stranger->signals[SIGTERM], 0);
    fixture_free(fixture);
}

static void test_foreign_child_is_left_alone(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    struct bh_fake_process *foreign = bh_fake_add(&fixture->fake, 300, getpid());
    foreign->anon_bytes = 8 * GIB;
    fixture_init_loop(fixture);
    fixture->root->life = BH_FAKE_GONE; /* not born yet */
    bh_members_note_foreign(&fixture->loop->members);
    fixture->root->life = BH_FAKE_LIVES;
    fixture->root->ends_at_ns = fixture->fake.clock.ns + S;
    assert_int_equal(bh_loop_launched(fixture->loop, ROOT_PID, NULL), BH_OK);
    assert_true(fixture_run(fixture, 3 * S));
    assert_int_equal(fixture_outcome(fixture)->peak_bytes.value, 100 * MIB);
    assert_int_equal(foreign->life, BH_FAKE_LIVES);
    assert_int_equal(fixture_count(fixture, BH_RECORD_SIGNAL), 0);
    fixture_free(fixture);
}

static void fork_storm(void *context)
{
    struct fixture *fixture = context;
    for (int i = 0; i < 200; i++) {
        bh_fake_add(&fixture->fake, 1000 + i, ROOT_PID);
        bh_fake_end(&fixture->fake, 1000 + i, 0);
    }
}

static void test_orphan_is_said_to_be_reparented(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + S, add_escapee, fixture);
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + S, fork_storm, fixture);
    fixture->spec.limit_bytes = 100 * GIB;
    fixture_launch(fixture);
    assert_false(fixture_run(fixture, 2 * S));
    bool found = false;
    for (size_t i = 0; fixture_find(fixture, BH_RECORD_MEMBER, i); i++) {
        const struct bh_record *record = fixture_get(fixture, BH_RECORD_MEMBER, i);
        found =
            found || (record->member.pid == 600 && record->member.event == BH_MEMBER_REPARENTED);
    }
    assert_true(found);
    fixture_free(fixture);
}

/* More members than there is room for records: the totals of the outcome know them all. */
static void storm_without_room(void *context)
{
    struct fixture *fixture = context;
    fixture->loop->notes.member_records_left = 50;
    for (int i = 0; i < 200; i++) {
        bh_fake_add(&fixture->fake, 1000 + i, getpid());
        bh_fake_end(&fixture->fake, 1000 + i, 0);
    }
}

static void test_totals_of_a_fork_storm(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture->root->ends_at_ns = fixture->fake.clock.ns + 2 * S;
    bh_fake_at(&fixture->fake, fixture->fake.clock.ns + S, storm_without_room, fixture);
    fixture_launch(fixture);
    assert_true(fixture_run(fixture, 10 * S));
    const struct bh_record_outcome *outcome = fixture_outcome(fixture);
    assert_int_equal(outcome->members_seen, 1 + 200);
    uint64_t told = fixture_count(fixture, BH_RECORD_MEMBER);
    assert_true(outcome->member_records_omitted > 0);
    assert_true(told + outcome->member_records_omitted >= 2 * 201);
    fixture_free(fixture);
}

static void test_launch_failure_is_an_outcome(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new();
    fixture_init_loop(fixture);
    bh_loop_failed(fixture->loop, BH_E_LAUNCH_NOT_FOUND);
    assert_int_equal(fixture_outcome(fixture)->kind, BH_OUTCOME_LAUNCH_NOT_FOUND);
    assert_int_equal(fixture_outcome(fixture)->reported_exit_code, 127);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quiet_job_ends_by_itself),
        cmocka_unit_test(test_limit_sends_term_and_proves_empty),
        cmocka_unit_test(test_term_ignored_is_killed_after_grace),
        cmocka_unit_test(test_emergency_is_killed_at_once),
        cmocka_unit_test(test_escapee_is_counted_and_stopped),
        cmocka_unit_test(test_root_exit_with_descendants),
        cmocka_unit_test(test_unkillable_is_named_not_waited_for),
        cmocka_unit_test(test_unusable_readings_fail_closed),
        cmocka_unit_test(test_readings_on_a_busy_machine),
        cmocka_unit_test(test_long_turns),
        cmocka_unit_test(test_closed_lid_while_it_is_read),
        cmocka_unit_test(test_clock_that_goes_back),
        cmocka_unit_test(test_missing_descriptors_fail_closed),
        cmocka_unit_test(test_wall_time),
        cmocka_unit_test(test_closed_lid_moves_deadlines),
        cmocka_unit_test(test_second_signal_kills),
        cmocka_unit_test(test_owner_exit_stops_the_job),
        cmocka_unit_test(test_owner_that_was_gone_before),
        cmocka_unit_test(test_server_that_is_gone),
        cmocka_unit_test(test_observe_never_stops),
        cmocka_unit_test(test_stranger_with_a_used_number_is_not_signalled),
        cmocka_unit_test(test_foreign_child_is_left_alone),
        cmocka_unit_test(test_orphan_is_said_to_be_reparented),
        cmocka_unit_test(test_totals_of_a_fork_storm),
        cmocka_unit_test(test_launch_failure_is_an_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
