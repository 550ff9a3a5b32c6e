"""core/model/policy.md, section 3, sentence by sentence."""
from dsl import *

TERM_ACTION = dict(BASE, emergency_action="term")
WALL = dict(BASE, wall_time_ns=50 * MS)

CASES = {
    # 1. exited absorbs everything, a regression and a second exit too
    "exited_absorbs": (dict(CKPT, wall_time_ns=500 * MS, kill_retry_ns=MS, kill_wait_ns=MS), [
        (gone(100, 7), "exited: exit(7,0) -> -"),
        (S(101, 1000), "exited: -> -"),
        (S(5, 1000), "exited: -> -"),
        (tick(1000), "exited: -> -"),
        (gone(1001, 8), "exited: -> -"),
        (fault(1002), "exited: -> -"),
        (sig(1003), "exited: -> -"),
        (stop(1004, "kill"), "exited: -> -"),
        (root(1005), "exited: -> -"),
        (owner(1006), "exited: -> -"),
        (request(1007), "exited: -> -"),
        (ack(1008, 1), "exited: -> -"),
        (failed(1009), "exited: -> -"),
        (actfail(1010, "kill"), "exited: -> -"),
        (actfail(1011, "term"), "exited: -> -"),
    ]),
    # 2. process_exited from any state, and before the clock check
    "exit_from_normal": (WALL, [(gone(1), "exited: exit(-,0) -> -")]),
    "exit_from_observe": (OBSERVE, [(gone(1, 0), "exited: exit(0,0) -> -")]),
    "exit_from_warning": (WALL, [
        (S(1, 95), "warning: obs -> 50"),
        (gone(2, TOP), f"exited: exit({TOP},0) -> -"),
    ]),
    "exit_from_checkpoint_requested": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (gone(2, 5), "exited: exit(5,0) -> -"),
    ]),
    "exit_from_terminating": (BASE, [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (S(2, 50), "terminating: obs -> 101"),
        (S(3, None), "terminating: miss -> 101"),
        (S(4, 40), "terminating: obs -> 101"),
        (gone(5, 40), "exited: exit(40,2) -> -"),
    ]),
    "exit_from_emergency": (dict(BASE, kill_retry_ns=10 * MS, kill_wait_ns=50 * MS), [
        (S(1, 150), "emergency: obs kill over(50) -> 11"),
        (S(2, 150), "emergency: obs -> 11"),
        (gone(3), "exited: exit(-,1) -> -"),
    ]),
    "exit_from_supervisor_error": (BASE, [
        (fault(1), "supervisor_error: term(supervisor_fault) -> 101"),
        (gone(2), "exited: exit(-,0) -> -"),
    ]),
    "exit_before_clock_check": (BASE, [
        (S(100, 1), "normal: obs -> -"),
        (gone(50, 1), "exited: exit(1,0) -> -"),
    ]),
    # 3. the clock check: 0 at first, equal is fine
    "clock_zero_and_equal": (BASE, [
        (tick(0), "normal: -> -"),
        (S(0, 1), "normal: obs -> -"),
        (S(0, 1), "normal: obs -> -"),
        (tick(0), "normal: -> -"),
    ]),
    "clock_any_event_counts": (BASE, [
        (ack(10, 1), "normal: -> -"),
        (tick(9), "supervisor_error: miss term(observation_failed) -> 110"),
    ]),
    "clock_regression_of_stop": (BASE, [
        (tick(10), "normal: -> -"),
        (stop(9, "kill"), "supervisor_error: miss term(observation_failed) -> 110"),
    ]),
    "clock_regression_of_fault": (BASE, [
        (tick(10), "normal: -> -"),
        (fault("9999999n"), "supervisor_error: miss term(observation_failed) -> 110"),
    ]),
    "clock_unusable_sample_is_regression_too": (BASE, [
        (tick(10), "normal: -> -"),
        (S(9, None), "supervisor_error: miss term(observation_failed) -> 110"),
    ]),
    # a sample's event time is when it was processed; captured later is unusable, not a regression
    "clock_captured_before_last": (BASE, [
        (S(10, 1), "normal: obs -> -"),
        (S(11, 1, captured=0), "normal: obs -> -"),
        (S(12, 1, captured=13), "normal: miss -> -"),
        (S(12, 1), "normal: obs -> -"),
    ]),
    # the regressed time is not stored
    "clock_regressed_time_not_stored": (BASE, [
        (tick(100), "normal: -> -"),
        (tick(20), "supervisor_error: miss term(observation_failed) -> 200"),
        (tick(50), "supervisor_error: -> 200"),
        (S(99, 1), "supervisor_error: -> 200"),
        (S(100, 1), "supervisor_error: obs -> 200"),
        (gone(101), "exited: exit(-,1) -> -"),
    ]),
    # intervention already started: nothing, not even record_missing
    "clock_regression_after_term": (BASE, [
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S(9, 1), "terminating: -> 110"),
        (sig(9), "terminating: -> 110"),
        (fault(9), "terminating: -> 110"),
        (tick(9), "terminating: -> 110"),
        (tick(110), "emergency: kill -> -"),
    ]),
    "clock_regression_after_kill": (BASE, [
        (stop(10, "kill"), "emergency: kill -> -"),
        (S(9, 1), "emergency: -> -"),
        (sig(9), "emergency: -> -"),
        (sig(10), "emergency: kill -> -"),
    ]),
    "clock_regression_in_checkpoint_requested": (CKPT, [
        (stop(10, "checkpoint"), "checkpoint_requested: ckpt(1,0,60) -> 60"),
        (ack(9, 1), "supervisor_error: miss term(observation_failed) -> 110"),
        (ack(11, 1), "supervisor_error: -> 110"),
        (tick(60), "supervisor_error: -> 110"),
        (tick(110), "emergency: kill -> -"),
    ]),
    "clock_regression_in_observe": (OBSERVE, [
        (tick(10), "observe: -> -"),
        (S(9, 1), "supervisor_error: miss stopobs -> -"),
        (S(8, 1), "supervisor_error: -> -"),
        (S(10, 1), "supervisor_error: obs -> -"),
        (gone(11), "exited: exit(-,0) -> -"),
    ]),
    # 4. pairs that no rule names
    "unnamed_pairs": (CKPT, [
        (ack(1, 1), "normal: -> -"),
        (failed(2), "normal: -> -"),
        (failed(3, 1), "normal: -> -"),
        (actfail(4, "term"), "normal: -> -"),
        (actfail(5, "forward"), "normal: -> -"),
        (actfail(6, "kill"), "normal: -> -"),
        (tick(7), "normal: -> -"),
    ]),
    "unnamed_pairs_observe": (OBSERVE, [
        (root(1), "observe: -> -"),
        (owner(2), "observe: -> -"),
        (ack(3, 1), "observe: -> -"),
        (failed(4), "observe: -> -"),
        (actfail(5, "term"), "observe: -> -"),
        (actfail(6, "kill"), "observe: -> -"),
        (tick(7), "observe: -> -"),
    ]),
    # samples: usable iff bytes, processed >= captured, age and window inclusive, window 0 fine
    "sample_limits_inclusive": (dict(BASE, max_unusable=9), [
        (S(100, 95, captured=0, window=10), "warning: obs -> -"),
        (S("100000001n", 70, captured=0, window=10), "warning: miss -> -"),
        (S(101, 70, window="10000001n"), "warning: miss -> -"),
        (S(102, 70, captured="102000001n"), "warning: miss -> -"),
        (S(103, None), "warning: miss -> -"),
        (S(104, 70, window=0), "normal: obs -> -"),
        (S(104, 0, window=0), "normal: obs -> -"),
    ]),
    # the allowance starts anew with a usable sample
    "missing_streak_reset": (BASE, [
        (S(1, None), "normal: miss -> -"),
        (S(2, None), "normal: miss -> -"),
        (S(3, 1), "normal: obs -> -"),
        (S(4, None), "normal: miss -> -"),
        (S(5, None), "normal: miss -> -"),
        (S(6, None), "supervisor_error: miss term(observation_failed) -> 106"),
        (S(7, None), "supervisor_error: miss -> 106"),
        (S(8, None), "supervisor_error: miss -> 106"),
        (S(9, None), "supervisor_error: miss -> 106"),
    ]),
    "missing_allowance_of_one": (dict(BASE, max_unusable=1), [
        (S(1, None), "supervisor_error: miss term(observation_failed) -> 101"),
    ]),
    "missing_largest_allowance": (dict(BASE, max_unusable=2**32 - 1, required_breaches=2**32 - 1), [
        (S(1, None), "normal: miss -> -"),
        (S(2, None), "normal: miss -> -"),
        (S(3, None), "normal: miss -> -"),
        (S(4, 149), "warning: obs -> -"),
        (S(5, 149), "warning: obs -> -"),
        (S(6, 149), "warning: obs -> -"),
    ]),
    "missing_in_observe": (OBSERVE, [
        (S(1, None), "observe: miss -> -"),
        (S(2, None), "observe: miss -> -"),
        (S(3, None), "supervisor_error: miss stopobs -> -"),
        (S(4, None), "supervisor_error: miss -> -"),
        (S(5, 5), "supervisor_error: obs -> -"),
        (gone(6, 5), "exited: exit(5,0) -> -"),
    ]),
    "missing_after_start_never_escalates": (BASE, [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (S(2, None), "terminating: miss -> 101"),
        (S(3, None), "terminating: miss -> 101"),
        (S(4, None), "terminating: miss -> 101"),
        (S(5, None), "terminating: miss -> 101"),
    ]),
    "missing_in_emergency": (dict(BASE, max_unusable=1), [
        (stop(1, "kill"), "emergency: kill -> -"),
        (S(2, None), "emergency: miss -> -"),
    ]),
    "missing_in_warning": (BASE, [
        (S(1, 95), "warning: obs -> -"),
        (S(2, None), "warning: miss -> -"),
        (S(3, None), "warning: miss -> -"),
        (S(4, None), "supervisor_error: miss term(observation_failed) -> 104"),
    ]),
    "missing_in_checkpoint_requested": (dict(CKPT, max_unusable=2), [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (S(2, None), "checkpoint_requested: miss -> 51"),
        (S(3, None), "supervisor_error: miss term(observation_failed) -> 103"),
    ]),
    # an unusable sample does not reset the breach streak, nor does it count
    "breach_streak_over_unusable": (dict(BASE, required_breaches=3, max_unusable=9), [
        (S(1, 100), "warning: obs -> -"),
        (S(2, None), "warning: miss -> -"),
        (S(3, 100, window=11), "warning: miss -> -"),
        (S(4, 100), "warning: obs -> -"),
        (S(5, None), "warning: miss -> -"),
        (S(6, 100), "terminating: obs term(not_negotiated) over(0) -> 106"),
    ]),
    "breach_of_one": (dict(BASE, required_breaches=1), [
        (S(1, 100), "terminating: obs term(not_negotiated) over(0) -> 101"),
    ]),
    "breach_of_one_with_checkpoint": (dict(CKPT, required_breaches=1), [
        (S(1, 149), "checkpoint_requested: obs ckpt(1,49,51) -> 51"),
    ]),
    # any reading below the limit resets the streak, the state may stay
    "breach_streak_reset_between_bands": (BASE, [
        (S(1, 100), "warning: obs -> -"),
        (S(2, 89), "warning: obs -> -"),
        (S(3, 100), "warning: obs -> -"),
        (S(4, 80), "normal: obs -> -"),
        (S(5, 149), "warning: obs -> -"),
        (S(6, 100), "terminating: obs term(not_negotiated) over(0) -> 106"),
    ]),
    "bands_edges": (BASE, [
        (S(1, 81), "normal: obs -> -"),
        (S(2, 89), "normal: obs -> -"),
        (S(3, 90), "warning: obs -> -"),
        (S(4, 89), "warning: obs -> -"),
        (S(5, 81), "warning: obs -> -"),
        (S(6, 80), "normal: obs -> -"),
        (S(7, 0), "normal: obs -> -"),
    ]),
    # at or above emergency: at once, also at equality, without regard to streaks
    "emergency_at_equality": (BASE, [(S(1, 150), "emergency: obs kill over(50) -> -")]),
    "emergency_below": (BASE, [(S(1, 149), "warning: obs -> -")]),
    "emergency_from_checkpoint_requested": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (S(2, 149), "checkpoint_requested: obs -> 51"),
        (S(3, 150), "emergency: obs kill over(50) -> -"),
        (ack(4, 1), "emergency: -> -"),
        (tick(51), "emergency: -> -"),
    ]),
    "emergency_unusable_reading": (BASE, [(S(1, TOP, window=11), "normal: miss -> -")]),
    "emergency_action_term": (TERM_ACTION, [
        (S(1, 160), "terminating: obs term(emergency) over(60) -> 101"),
        (S(2, 500), "terminating: obs -> 101"),
        (tick(101), "emergency: kill -> -"),
    ]),
    "emergency_action_term_from_checkpoint": (dict(CKPT, emergency_action="term"), [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (S(3, 150), "terminating: obs term(emergency) over(50) -> 103"),
        (tick(51), "terminating: -> 103"),
    ]),
    "emergency_action_kill_named": (dict(BASE, emergency_action="kill"), [
        (S(1, 160), "emergency: obs kill over(60) -> -"),
    ]),
    # checkpoint_requested: record_observation only, whatever falls below
    "sample_in_checkpoint_requested": (CKPT, [
        (S(1, 100), "warning: obs -> -"),
        (S(2, 100), "checkpoint_requested: obs ckpt(1,0,52) -> 52"),
        (S(3, 100), "checkpoint_requested: obs -> 52"),
        (S(4, 0), "checkpoint_requested: obs -> 52"),
        (S(5, 120), "checkpoint_requested: obs -> 52"),
        (gone(6), "exited: exit(-,0) -> -"),
    ]),
    # after the start: recorded and counted, no band judges
    "sample_after_start": (BASE, [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (S(2, 100), "terminating: obs -> 101"),
        (S(3, 1000), "terminating: obs -> 101"),
        (S(4, 0), "terminating: obs -> 101"),
        (gone(5), "exited: exit(-,3) -> -"),
    ]),
    # ticks: deadlines inclusive, at most one phase each
    "tick_one_phase": (CKPT, [
        (stop(0, "checkpoint"), "checkpoint_requested: ckpt(1,0,50) -> 50"),
        (tick("49999999n"), "checkpoint_requested: -> 50"),
        (tick(9000), "terminating: term(checkpoint_timed_out) -> 9100"),
        (tick(9000), "terminating: -> 9100"),
        (tick("9099999999n"), "terminating: -> 9100"),
        (tick(20000), "emergency: kill -> -"),
    ]),
    "tick_in_supervisor_error": (BASE, [
        (fault(1), "supervisor_error: term(supervisor_fault) -> 101"),
        (tick(100), "supervisor_error: -> 101"),
        (tick(101), "emergency: kill -> -"),
    ]),
    "wall_time_without_checkpoint": (WALL, [
        (tick("49999999n"), "normal: -> 50"),
        (tick(50), "terminating: term(not_negotiated) -> 150"),
    ]),
    "wall_time_in_warning": (WALL, [
        (S(1, 120), "warning: obs -> 50"),
        (tick(50), "terminating: term(not_negotiated) -> 150"),
    ]),
    "wall_time_already_past": (WALL, [
        (S(60, 1), "normal: obs -> 50"),
        (S(61, 95), "warning: obs -> 50"),
        (stop(62), "terminating: term(stop_requested) -> 162"),
        (tick(63), "terminating: -> 162"),
    ]),
    "wall_time_in_checkpoint_requested": (dict(CKPT, wall_time_ns=20 * MS), [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (tick(20), "checkpoint_requested: -> 51"),
    ]),
    # only a tick does these: other events past a deadline are judged as if in time
    "late_ack": (CKPT, [
        (stop(0, "checkpoint"), "checkpoint_requested: ckpt(1,0,50) -> 50"),
        (S(60, 1), "checkpoint_requested: obs -> 50"),
        (ack(500, 1), "terminating: term(checkpoint_acknowledged) -> 600"),
    ]),
    "late_sample_in_terminating": (BASE, [
        (stop(0), "terminating: term(stop_requested) -> 100"),
        (S(500, 1), "terminating: obs -> 100"),
        (tick(500), "emergency: kill -> -"),
    ]),
    "late_sample_past_wall_time": (WALL, [
        (S(500, 100), "warning: obs -> 50"),
        (S(501, 100), "terminating: obs term(not_negotiated) over(0) -> 601"),
    ]),
    # ack and failure
    "ack_without_request": (CKPT, [(ack(1, 1), "normal: -> -")]),
    "ack_id_zero": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (ack(2, 0), "checkpoint_requested: -> 51"),
        (ack(3, TOP), "checkpoint_requested: -> 51"),
    ]),
    "ack_twice": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (ack(2, 1), "terminating: term(checkpoint_acknowledged) -> 102"),
        (ack(3, 1), "terminating: -> 102"),
    ]),
    "checkpoint_failed_active": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (failed(2, 2), "checkpoint_requested: -> 51"),
        (failed(3, 0), "checkpoint_requested: -> 51"),
        (failed(4, 1), "terminating: term(checkpoint_failed) -> 104"),
    ]),
    "checkpoint_failed_null": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (failed(4), "terminating: term(checkpoint_failed) -> 104"),
    ]),
    "checkpoint_failed_absent": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (event("checkpoint_failed", 4), "terminating: term(checkpoint_failed) -> 104"),
    ]),
    # external signal and stop request
    "signal_forwarded": (BASE, [
        (sig(1, 2), "terminating: fwd(2) -> 101"),
        (sig(2, 2), "emergency: kill -> -"),
        (sig(3, 2), "emergency: kill -> -"),
    ]),
    "signal_64": (BASE, [(sig(1, 64), "terminating: fwd(64) -> 101")]),
    "signal_1_in_warning": (BASE, [
        (S(1, 95), "warning: obs -> -"),
        (sig(2, 1), "terminating: fwd(1) -> 102"),
        (tick(102), "emergency: kill -> -"),
    ]),
    "signal_in_checkpoint_requested": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (sig(2, 15), "terminating: fwd(15) -> 102"),
        (tick(51), "terminating: -> 102"),
        (ack(52, 1), "terminating: -> 102"),
    ]),
    "signal_in_supervisor_error": (BASE, [
        (fault(1), "supervisor_error: term(supervisor_fault) -> 101"),
        (sig(2), "emergency: kill -> -"),
    ]),
    "signal_in_observe": (dict(OBSERVE, grace_ns=100 * MS), [
        (sig(1, 15), "terminating: fwd(15) -> 101"),
        (S(2, 5), "terminating: obs -> 101"),
        (tick(101), "emergency: kill -> -"),
    ]),
    "signal_in_observe_without_grace": (OBSERVE, [
        (sig(1, 15), "terminating: fwd(15) -> -"),
        (tick(99999), "terminating: -> -"),
        (sig(100000, 15), "emergency: kill -> -"),
    ]),
    # observe's own supervisor_error: no TERM was sent, so the first signal is forwarded
    "signal_in_observe_supervisor_error": (dict(OBSERVE, grace_ns=100 * MS), [
        (fault(1), "supervisor_error: stopobs -> -"),
        (sig(2, 15), "terminating: fwd(15) -> 102"),
        (S(3, 9), "terminating: obs -> 102"),
        (sig(4, 15), "emergency: kill -> -"),
        (gone(5), "exited: exit(-,1) -> -"),
    ]),
    "stop_in_observe_supervisor_error": (dict(OBSERVE, grace_ns=100 * MS), [
        (fault(1), "supervisor_error: stopobs -> -"),
        (stop(2), "terminating: term(stop_requested) -> 102"),
    ]),
    "stop_kill_in_observe_supervisor_error": (OBSERVE, [
        (fault(1), "supervisor_error: stopobs -> -"),
        (stop(2, "kill"), "emergency: kill -> -"),
    ]),
    "stop_checkpoint_in_observe_supervisor_error": (
        dict(OBSERVE, grace_ns=100 * MS, checkpoint_timeout_ns=50 * MS), [
            (fault(1), "supervisor_error: stopobs -> -"),
            (stop(2, "checkpoint"), "checkpoint_requested: ckpt(1,0,52) -> 52"),
            (tick(52), "terminating: term(checkpoint_timed_out) -> 152"),
        ]),
    "stop_term": (BASE, [
        (stop(1, "term"), "terminating: term(stop_requested) -> 101"),
        (stop(2, "term"), "emergency: kill -> -"),
    ]),
    "stop_term_then_checkpoint_kills": (CKPT, [
        (stop(1, "term"), "terminating: term(stop_requested) -> 101"),
        (stop(2, "checkpoint"), "emergency: kill -> -"),
    ]),
    "stop_kill": (CKPT, [
        (stop(1, "kill"), "emergency: kill -> -"),
        (stop(2, "term"), "emergency: kill -> -"),
        (stop(3, "checkpoint"), "emergency: kill -> -"),
        (stop(4, "kill"), "emergency: kill -> -"),
    ]),
    "stop_checkpoint_without_timeout": (BASE, [
        (stop(1, "checkpoint"), "terminating: term(not_negotiated) -> 101"),
    ]),
    "stop_checkpoint_twice": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (stop(2, "checkpoint"), "checkpoint_requested: -> 51"),
        (stop(3, "term"), "terminating: term(stop_requested) -> 103"),
        (tick(51), "terminating: -> 103"),
    ]),
    "stop_kill_in_checkpoint_requested": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (stop(2, "kill"), "emergency: kill -> -"),
    ]),
    # record_overshoot never follows wall or stop, even above the limit
    "stop_checkpoint_above_limit": (BASE, [
        (S(1, 120), "warning: obs -> -"),
        (stop(2, "checkpoint"), "terminating: term(not_negotiated) -> 102"),
    ]),
    "stop_in_observe": (dict(OBSERVE, grace_ns=MS), [
        (stop(1, "term"), "terminating: term(stop_requested) -> 2"),
        (tick(2), "emergency: kill -> -"),
    ]),
    "stop_checkpoint_in_observe": (
        dict(OBSERVE, checkpoint_timeout_ns=50 * MS, grace_ns=100 * MS), [
            (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
            (S(2, TOP), "checkpoint_requested: obs -> 51"),
            (ack(3, 1), "terminating: term(checkpoint_acknowledged) -> 103"),
        ]),
    # a machine in observe mode that has left the state follows the rules of enforce
    "observe_mode_unusable_in_checkpoint_requested": (
        dict(OBSERVE, checkpoint_timeout_ns=50 * MS), [
            (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
            (S(2, None), "checkpoint_requested: miss -> 51"),
            (S(3, None), "checkpoint_requested: miss -> 51"),
            (S(4, None), "supervisor_error: miss term(observation_failed) -> -"),
        ]),
    "observe_mode_regression_in_checkpoint_requested": (
        dict(OBSERVE, checkpoint_timeout_ns=50 * MS, grace_ns=100 * MS), [
            (stop(10, "checkpoint"), "checkpoint_requested: ckpt(1,0,60) -> 60"),
            (tick(5), "supervisor_error: miss term(observation_failed) -> 110"),
        ]),
    "observe_mode_fault_in_checkpoint_requested": (
        dict(OBSERVE, checkpoint_timeout_ns=50 * MS, grace_ns=100 * MS), [
            (stop(10, "checkpoint"), "checkpoint_requested: ckpt(1,0,60) -> 60"),
            (fault(11), "supervisor_error: term(supervisor_fault) -> 111"),
        ]),
    "observe_mode_root_exit_in_checkpoint_requested": (
        dict(OBSERVE, checkpoint_timeout_ns=50 * MS, grace_ns=100 * MS), [
            (stop(10, "checkpoint"), "checkpoint_requested: ckpt(1,0,60) -> 60"),
            (root(11), "terminating: term(root_exited) -> 111"),
        ]),
    # root exited, owner exited
    "root_exited_normal": (BASE, [
        (root(1), "terminating: term(root_exited) -> 101"),
        (root(2), "terminating: -> 101"),
        (tick(101), "emergency: kill -> -"),
        (root(102), "emergency: -> -"),
    ]),
    "root_exited_warning": (BASE, [
        (S(1, 95), "warning: obs -> -"),
        (root(2), "terminating: term(root_exited) -> 102"),
    ]),
    "root_exited_checkpoint_requested": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (root(2), "terminating: term(root_exited) -> 102"),
    ]),
    "root_exited_supervisor_error": (BASE, [
        (fault(1), "supervisor_error: term(supervisor_fault) -> 101"),
        (root(2), "supervisor_error: -> 101"),
        (owner(3), "supervisor_error: -> 101"),
    ]),
    "owner_exited_normal": (BASE, [
        (owner(1), "terminating: term(owner_exited) -> 101"),
        (owner(2), "terminating: -> 101"),
    ]),
    "owner_exited_warning": (BASE, [
        (S(1, 95), "warning: obs -> -"),
        (owner(2), "terminating: term(owner_exited) -> 102"),
    ]),
    "owner_exited_checkpoint_requested": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (owner(2), "checkpoint_requested: -> 51"),
    ]),
    # supervisor fault
    "fault_normal": (BASE, [
        (fault(1), "supervisor_error: term(supervisor_fault) -> 101"),
        (fault(2), "supervisor_error: -> 101"),
    ]),
    "fault_warning": (BASE, [
        (S(1, 95), "warning: obs -> -"),
        (fault(2), "supervisor_error: term(supervisor_fault) -> 102"),
    ]),
    "fault_checkpoint_requested": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (fault(2), "supervisor_error: term(supervisor_fault) -> 102"),
        (tick(51), "supervisor_error: -> 102"),
    ]),
    "fault_terminating_keeps_deadline": (BASE, [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (fault(50), "supervisor_error: -> 101"),
        (tick(101), "emergency: kill -> -"),
    ]),
    "fault_emergency": (BASE, [
        (stop(1, "kill"), "emergency: kill -> -"),
        (fault(2), "supervisor_error: -> -"),
        (sig(3), "emergency: kill -> -"),
    ]),
    "fault_observe": (dict(OBSERVE, grace_ns=100 * MS), [
        (fault(1), "supervisor_error: stopobs -> -"),
        (fault(2), "supervisor_error: -> -"),
        (root(3), "supervisor_error: -> -"),
        (tick(500), "supervisor_error: -> -"),
    ]),
    # actuation failed
    "term_failed": (BASE, [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (actfail(2, "term"), "emergency: kill -> -"),
    ]),
    "term_failed_in_supervisor_error": (BASE, [
        (fault(1), "supervisor_error: term(supervisor_fault) -> 101"),
        (actfail(2, "term"), "emergency: kill -> -"),
    ]),
    "term_failed_after_kill": (BASE, [
        (stop(1, "kill"), "emergency: kill -> -"),
        (actfail(2, "term"), "emergency: kill -> -"),
    ]),
    "forward_failed": (BASE, [
        (sig(1), "terminating: fwd(15) -> 101"),
        (actfail(2, "forward"), "emergency: kill -> -"),
    ]),
    "failure_not_started": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (actfail(2, "term"), "checkpoint_requested: -> 51"),
        (actfail(3, "forward"), "checkpoint_requested: -> 51"),
        (actfail(4, "kill"), "checkpoint_requested: -> 51"),
    ]),
    "kill_failed_without_kill": (BASE, [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (actfail(2, "kill"), "terminating: -> 101"),
    ]),
    # order of actions: observation, request
    "breach_with_checkpoint_has_no_overshoot_record": (CKPT, [
        (S(1, 149), "warning: obs -> -"),
        (S(2, 149), "checkpoint_requested: obs ckpt(1,49,52) -> 52"),
        (tick(52), "terminating: term(checkpoint_timed_out) -> 152"),
    ]),
}
