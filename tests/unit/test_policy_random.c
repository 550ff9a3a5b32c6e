/* Properties of the policy machine that hold on any sequence of events: seeded random runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/model/policy.h"

#define MS   BH_NS_PER_MS
#define RUNS 20000

static struct bh_policy_config enforce_100(void)
{
    struct bh_policy_config config;
    bh_policy_config_base(BH_POLICY_MODE_ENFORCE, &config);
    config.bands = (struct bh_policy_bands){80, 90, 100, 150};
    config.grace_base_ns = config.grace_max_ns = 100 * MS;
    return config;
}

static uint64_t seed;

static uint64_t next_random(void)
{
    seed ^= seed << 13; /* xorshift64: the same sequence everywhere */
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static uint64_t below(uint64_t bound)
{
    return next_random() % bound;
}

static uint64_t maybe(uint64_t value)
{
    return below(2) ? value : 0;
}

static struct bh_policy_config random_config(void)
{
    struct bh_policy_config config = enforce_100();
    if (below(4) == 0)
        config.mode = BH_POLICY_MODE_OBSERVE;
    config.emergency_action = (enum bh_policy_emergency)below(2);
    config.required_breaches = 1 + (uint32_t)below(3);
    config.max_unusable = 1 + (uint32_t)below(3);
    config.max_sample_age_ns = 100 * MS;
    config.max_sample_window_ns = 10 * MS;
    config.grace_max_ns += maybe(200 * MS);
    config.grace_per_gib_ns = maybe(below(2) ? BH_POLICY_MAX : 1ull << 40);
    config.checkpoint_timeout_ns = maybe(below(8) ? 50 * MS : BH_POLICY_MAX);
    config.wall_time_ns = maybe(300 * MS);
    config.kill_retry_ns = maybe(20 * MS);
    config.kill_wait_ns = maybe(70 * MS);
    config.breach_hold_ns = maybe(15 * MS);
    config.first_request_id = below(8) ? 1 : BH_POLICY_MAX - 1;
    config.growth_kill = below(2);
    assert_int_equal(bh_policy_validate(&config, NULL), BH_OK);
    return config;
}

static void fill_sample(struct bh_policy_event *event)
{
    static const uint64_t sizes[] = {0,   79,  80,  85,  89,  90,  95,  99,
                                     100, 101, 120, 149, 150, 151, 200, BH_POLICY_MAX};
    event->sample.captured_at_ns = event->at_ns;
    if (below(10) == 0)
        event->sample.captured_at_ns = below(2) ? 0 : event->at_ns + 1;
    event->sample.window_ns = below(10) ? below(10 * MS + 1) : 10 * MS + 1;
    event->sample.has_bytes = below(6) != 0;
    event->sample.bytes = sizes[below(sizeof sizes / sizeof sizes[0])];
}

static struct bh_policy_event random_event(const struct bh_policy_state *machine, uint64_t at_ns)
{
    struct bh_policy_event event = {.at_ns = at_ns};
    event.kind = below(3) ? (enum bh_policy_event_kind)below(2) /* mostly samples and ticks */
                          : (enum bh_policy_event_kind)below(12);
    if (event.kind == BH_POLICY_EVENT_PROCESS_EXITED && below(4))
        event.kind = BH_POLICY_EVENT_TICK;
    if (event.kind == BH_POLICY_EVENT_SAMPLE)
        fill_sample(&event);
    else if (event.kind == BH_POLICY_EVENT_PROCESS_EXITED)
        event.exited.has_final_bytes = below(2);
    else if (event.kind == BH_POLICY_EVENT_CHECKPOINT_ACK ||
             event.kind == BH_POLICY_EVENT_CHECKPOINT_FAILED) {
        event.checkpoint.id = machine->checkpoint_id + (below(4) == 0);
        event.checkpoint.has_id = below(3);
        event.checkpoint.authenticated = below(4);
    } else if (event.kind == BH_POLICY_EVENT_EXTERNAL_SIGNAL)
        event.signal = 1 + (int)below(64);
    else if (event.kind == BH_POLICY_EVENT_STOP_REQUEST)
        event.stop = (enum bh_policy_stop)below(3);
    else if (event.kind == BH_POLICY_EVENT_ACTUATION_FAILED)
        event.act = (enum bh_policy_act)below(3);
    return event;
}

static unsigned count_of(const struct bh_policy_actions *actions, enum bh_policy_action_kind kind)
{
    unsigned n = 0;
    for (unsigned i = 0; i < actions->count; i++)
        n += actions->items[i].kind == kind;
    return n;
}

static void assert_same_actions(const struct bh_policy_actions *left,
                                const struct bh_policy_actions *right)
{
    assert_int_equal(left->count, right->count);
    for (unsigned i = 0; i < left->count; i++)
        assert_int_equal(left->items[i].kind, right->items[i].kind);
}

/* What one run has done so far. */
struct history {
    unsigned terms; /* TERM or forward */
    unsigned reports;
    unsigned exits;
    uint64_t usable_after_start;
    uint64_t last_id;
};

static void check_deadline(const struct bh_policy_config *config,
                           const struct bh_policy_state *machine)
{
    uint64_t deadline_ns = 0;
    bool armed = bh_policy_next_deadline(config, machine, &deadline_ns);
    if (machine->current == BH_POLICY_STATE_EXITED ||
        (machine->given_up && machine->current != BH_POLICY_STATE_EXITED))
        assert_false(armed);
    if (!armed)
        return;
    assert_true(deadline_ns <= BH_POLICY_MAX);
    /* a tick there does something, one before it nothing (unless the deadline has passed) */
    struct bh_policy_state copy = *machine;
    struct bh_policy_actions actions;
    struct bh_policy_event tick = {.kind = BH_POLICY_EVENT_TICK, .at_ns = deadline_ns};
    if (tick.at_ns < machine->last_accepted_ns)
        tick.at_ns = machine->last_accepted_ns;
    bh_policy_step(config, &copy, &tick, &actions);
    assert_true(actions.count > 0);
    if (deadline_ns <= machine->last_accepted_ns)
        return;
    copy = *machine;
    tick.at_ns = deadline_ns - 1;
    bh_policy_step(config, &copy, &tick, &actions);
    assert_int_equal(actions.count, 0);
}

static void check_actions(const struct bh_policy_config *config,
                          const struct bh_policy_state *before, const struct bh_policy_state *after,
                          const struct bh_policy_event *event,
                          const struct bh_policy_actions *actions, struct history *history)
{
    unsigned terms = count_of(actions, BH_POLICY_ACTION_SEND_TERM) +
                     count_of(actions, BH_POLICY_ACTION_FORWARD_SIGNAL);
    unsigned kills = count_of(actions, BH_POLICY_ACTION_SEND_KILL);
    if (before->current == BH_POLICY_STATE_EXITED)
        assert_true(actions->count == 0 && memcmp(before, after, sizeof *after) == 0);
    assert_true(!before->started || after->started);
    assert_true(terms == 0 || !before->started); /* TERM is never sent twice, nor after KILL */
    assert_true(terms + kills <= 1);
    assert_true(after->started == (before->started || terms + kills > 0));
    history->terms += terms;
    assert_true(history->terms <= 1);
    history->reports += count_of(actions, BH_POLICY_ACTION_REPORT_SUPERVISOR_ERROR);
    assert_true(history->reports <= 1);
    history->exits += count_of(actions, BH_POLICY_ACTION_REPORT_EXIT);
    assert_true(history->exits <= 1);
    if (event->kind == BH_POLICY_EVENT_SAMPLE && before->current != BH_POLICY_STATE_EXITED &&
        event->at_ns >= before->last_accepted_ns) {
        bool usable = bh_policy_sample_usable(config, event);
        assert_int_equal(count_of(actions, BH_POLICY_ACTION_RECORD_OBSERVATION), usable);
        assert_int_equal(count_of(actions, BH_POLICY_ACTION_RECORD_MISSING), !usable);
        history->usable_after_start += usable && before->started;
        if (!usable)
            assert_int_equal(after->breach_streak, before->breach_streak);
    }
    for (unsigned i = 0; i < actions->count; i++) {
        const struct bh_policy_action *action = &actions->items[i];
        if (action->kind == BH_POLICY_ACTION_REQUEST_CHECKPOINT) {
            assert_true(action->checkpoint.id > history->last_id ||
                        action->checkpoint.id == BH_POLICY_MAX);
            assert_true(config->checkpoint_timeout_ns > 0);
            history->last_id = action->checkpoint.id;
        } else if (action->kind == BH_POLICY_ACTION_REPORT_EXIT) {
            assert_int_equal(action->exit.samples_after_signal, history->usable_after_start);
        } else if (action->kind == BH_POLICY_ACTION_RECORD_OVERSHOOT) {
            assert_true(config->mode == BH_POLICY_MODE_ENFORCE && i == actions->count - 1);
            assert_true(i > 0 && (terms == 1 || kills == 1));
        }
    }
}

/* Modes and states that cannot meet. */
static void check_state(const struct bh_policy_config *config, const struct bh_policy_state *before,
                        const struct bh_policy_state *after)
{
    bool running =
        after->current == BH_POLICY_STATE_NORMAL || after->current == BH_POLICY_STATE_WARNING;
    assert_true(!running || (!after->started && config->mode == BH_POLICY_MODE_ENFORCE));
    assert_true(after->current != BH_POLICY_STATE_OBSERVE ||
                (!after->started && config->mode == BH_POLICY_MODE_OBSERVE));
    assert_int_equal(after->checkpoint_armed,
                     after->current == BH_POLICY_STATE_CHECKPOINT_REQUESTED);
    assert_true(after->current != BH_POLICY_STATE_CHECKPOINT_REQUESTED || !after->started);
    assert_true(after->current != BH_POLICY_STATE_EMERGENCY || after->kill_sent);
    assert_true(!after->term_armed || !after->kill_sent);
    assert_true(after->last_accepted_ns >= before->last_accepted_ns);
    assert_true(!after->given_up || after->kill_sent);
}

static void random_runs_keep_the_rules(void **state)
{
    (void)state;
    unsigned reached = 0;
    for (uint64_t run = 1; run <= RUNS; run++) {
        seed = run * 0x9e3779b97f4a7c15ull;
        const struct bh_policy_config config = random_config();
        struct bh_policy_state machine;
        struct history history = {0};
        uint64_t now = 0;
        bh_policy_start(&config, &machine);
        for (int i = 0; i < 40; i++) {
            uint64_t deadline_ns = 0;
            bool armed = bh_policy_next_deadline(&config, &machine, &deadline_ns);
            now += below(4) ? below(12 * MS) : 0;
            if (armed && below(3) == 0 && deadline_ns > now)
                now = deadline_ns;
            uint64_t at = below(60) == 0 && now > 0 ? now - 1 - below(now) : now;
            struct bh_policy_event event = random_event(&machine, at);
            struct bh_policy_state before;
            struct bh_policy_state twin;
            struct bh_policy_actions actions;
            struct bh_policy_actions twin_actions;
            memcpy(&before, &machine, sizeof before); /* with its padding: compared as bytes */
            memcpy(&twin, &machine, sizeof twin);
            bh_policy_step(&config, &machine, &event, &actions);
            bh_policy_step(&config, &twin, &event, &twin_actions);
            assert_memory_equal(&machine, &twin, sizeof machine);
            assert_same_actions(&actions, &twin_actions);
            check_actions(&config, &before, &machine, &event, &actions, &history);
            check_state(&config, &before, &machine);
            check_deadline(&config, &machine);
            reached |= 1u << machine.current;
        }
    }
    assert_int_equal(reached, 0xff); /* every state was visited */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_runs_keep_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
