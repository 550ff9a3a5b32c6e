"""core/model/policy.md, section 6, sentence by sentence."""
from dsl import *

GIB = 1 << 30
BIG = dict(mode="enforce", limit=1000 * GIB, max_sample_age_ns=100 * MS,
           max_sample_window_ns=10 * MS, grace_ns=1000 * MS, grace_per_gib_ns=250 * MS,
           grace_max_ns=60000 * MS)
PROGRESS = dict(BASE, grace_max_ns=500 * MS)
GROWTH = dict(BASE, growth_kill=True)
RETRY = dict(BASE, kill_retry_ns=10 * MS, kill_wait_ns=35 * MS)
RETRY_ONLY = dict(BASE, kill_retry_ns=10 * MS)
WAIT_ONLY = dict(BASE, kill_wait_ns=35 * MS)
HOLD = dict(BASE, breach_hold_ns=20 * MS)

CASES = {
    # 1. grace = min(max, base + floor(per_gib x C / 2^30))
    "grace_proportional": (BIG, [
        (S(0, 8 * GIB), "normal: obs -> -"),
        (stop(1), "terminating: term(stop_requested) -> 3001"),
    ]),
    "grace_without_sample": (BIG, [
        (stop(1), "terminating: term(stop_requested) -> 1001"),
    ]),
    "grace_capped": (BIG, [
        (S(0, 236 * GIB), "normal: obs -> -"),
        (stop(1), "terminating: term(stop_requested) -> 60001"),
    ]),
    "grace_just_below_cap": (BIG, [
        (S(0, 236 * GIB - 1), "normal: obs -> -"),
        (stop(1), "terminating: term(stop_requested) -> 60000999999n"),
    ]),
    "grace_floor": (dict(BIG, grace_per_gib_ns=1), [
        (S(0, 2 * GIB - 1), "normal: obs -> -"),
        (stop(1), "terminating: term(stop_requested) -> 1001000001n"),
    ]),
    # the product needs 128 bits, the sum saturates before the cap is taken
    "grace_huge": (dict(BIG, grace_per_gib_ns=TOP, grace_max_ns=TOP), [
        (S(0, 999 * GIB), "warning: obs -> -"),
        (stop(1), f"terminating: term(stop_requested) -> {TOP}n"),
    ]),
    "grace_of_forward": (BIG, [
        (S(0, 4 * GIB), "normal: obs -> -"),
        (sig(1, 2), "terminating: fwd(2) -> 2001"),
    ]),
    # the deciding sample counts
    "grace_deciding_sample": (dict(BIG, limit=4 * GIB, emergency=100 * GIB, required_breaches=1), [
        (S(0, GIB), "normal: obs -> -"),
        (S(1, 8 * GIB), f"terminating: obs term(not_negotiated) over({4 * GIB}) -> 3001"),
    ]),
    "grace_emergency_term": (dict(BIG, limit=4 * GIB, emergency=8 * GIB, emergency_action="term"), [
        (S(1, 8 * GIB), f"terminating: obs term(emergency) over({4 * GIB}) -> 3001"),
    ]),
    # an unusable sample is not the last usable one
    "grace_last_usable": (BIG, [
        (S(0, 8 * GIB), "normal: obs -> -"),
        (S(1, None), "normal: miss -> -"),
        (S(2, 80 * GIB, window=11), "normal: miss -> -"),
        (S(3, None), "supervisor_error: miss term(observation_failed) -> 3003"),
    ]),
    # a regression counts from the last accepted time, with the charge of the last usable sample
    "grace_regression": (BIG, [
        (S(5, 8 * GIB), "normal: obs -> -"),
        (tick(10), "normal: -> -"),
        (S(9, 80 * GIB), "supervisor_error: miss term(observation_failed) -> 3010"),
    ]),
    "grace_observe": (dict(OBSERVE, grace_ns=1000 * MS, grace_per_gib_ns=250 * MS,
                           grace_max_ns=60000 * MS), [
        (S(0, 8 * GIB), "observe: obs -> -"),
        (stop(1), "terminating: term(stop_requested) -> 3001"),
        (S(501, 4 * GIB), "terminating: obs -> 3001"),
        (S(2501, 2 * GIB), "terminating: obs -> 3501"),
    ]),
    "grace_per_gib_in_observe_without_base": (dict(OBSERVE, grace_per_gib_ns=250 * MS), [
        (S(0, 8 * GIB), "observe: obs -> -"),
        (stop(1), "terminating: term(stop_requested) -> -"),
    ]),
    # max absent = base: per_gib then adds nothing
    "grace_max_absent": (dict(BASE, grace_per_gib_ns=TOP), [
        (S(0, 85), "normal: obs -> -"),
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (S(50, 1), "terminating: obs -> 101"),
    ]),
    # progress: at least 1 % of C below R, deadline = max(deadline, min(T + max, sample + base))
    "progress_extends": (PROGRESS, [
        (S(0, 85), "normal: obs -> -"),
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S(50, 84), "terminating: obs -> 150"),
        (S(149, 83), "terminating: obs -> 249"),
        (S(240, 82), "terminating: obs -> 340"),
        (S(330, 81), "terminating: obs -> 430"),
        (S(420, 80), "terminating: obs -> 510"),
        (S(509, 70), "terminating: obs -> 510"),
        (tick(510), "emergency: kill -> -"),
    ]),
    "progress_needs_less_than_r": (PROGRESS, [
        (S(0, 85), "normal: obs -> -"),
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S(50, 85), "terminating: obs -> 110"),
        (S(60, 86), "terminating: obs -> 110"),
        (S(70, 50), "terminating: obs -> 170"),
        (S(80, 60), "terminating: obs -> 170"),
        (S(90, 50), "terminating: obs -> 170"),
        (S(100, 49), "terminating: obs -> 200"),
    ]),
    "progress_one_percent_exactly": (dict(PROGRESS, limit=2000, warning=1900, recovery=1800,
                                          emergency=3000), [
        (S(0, 1000), "normal: obs -> -"),
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S(50, 991), "terminating: obs -> 110"),
        (S(51, 990), "terminating: obs -> 151"),
        (S(52, 981), "terminating: obs -> 151"),
        (S(53, 980), "terminating: obs -> 153"),
    ]),
    # small steps add up against the same R
    "progress_accumulates": (dict(PROGRESS, limit=2000, warning=1900, recovery=1800,
                                  emergency=3000), [
        (S(0, 1000), "normal: obs -> -"),
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S(20, 996), "terminating: obs -> 110"),
        (S(30, 992), "terminating: obs -> 110"),
        (S(40, 988), "terminating: obs -> 140"),
    ]),
    # not yet reached: at the deadline it is too late, though no tick came
    "progress_at_deadline": (PROGRESS, [
        (S(0, 85), "normal: obs -> -"),
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S(110, 10), "terminating: obs -> 110"),
        (tick(110), "emergency: kill -> -"),
    ]),
    "progress_just_before_deadline": (PROGRESS, [
        (S(0, 85), "normal: obs -> -"),
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S("109999999n", 10), "terminating: obs -> 209999999n"),
    ]),
    "progress_never_shortens": (dict(PROGRESS, grace_per_gib_ns=0, grace_ns=100 * MS), [
        (S(0, 85), "normal: obs -> -"),
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S(10, 80), "terminating: obs -> 110"),
    ]),
    "progress_unusable_sample": (PROGRESS, [
        (S(0, 85), "normal: obs -> -"),
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S(50, 10, window=11), "terminating: miss -> 110"),
        (S(51, None), "terminating: miss -> 110"),
    ]),
    "progress_in_supervisor_error": (PROGRESS, [
        (S(0, 85), "normal: obs -> -"),
        (fault(10), "supervisor_error: term(supervisor_fault) -> 110"),
        (S(50, 40), "supervisor_error: obs -> 150"),
    ]),
    "progress_without_charge": (PROGRESS, [
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S(50, 0), "terminating: obs -> 110"),
        (S(60, 5), "terminating: obs -> 110"),
        (S(70, 0), "terminating: obs -> 110"),
    ]),
    "progress_128_bit": (dict(OBSERVE, grace_ns=100 * MS, grace_max_ns=500 * MS), [
        (S(0, TOP), "observe: obs -> -"),
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S(50, TOP - TOP // 100), "terminating: obs -> 110"),
        (S(51, TOP - TOP // 100 - 1), "terminating: obs -> 151"),
    ]),
    # base behaviour: per_gib 0, max = base
    "progress_off": (BASE, [
        (S(0, 85), "normal: obs -> -"),
        (stop(10), "terminating: term(stop_requested) -> 110"),
        (S(50, 1), "terminating: obs -> 110"),
    ]),
    # 2. growth during grace: >= emergency and > C, in terminating
    "growth_kills": (GROWTH, [
        (S(0, 100), "warning: obs -> -"),
        (S(1, 120), "terminating: obs term(not_negotiated) over(20) -> 101"),
        (S(2, 149), "terminating: obs -> 101"),
        (S(3, 150), "emergency: obs kill over(50) -> -"),
        (gone(4), "exited: exit(-,2) -> -"),
    ]),
    "growth_off": (BASE, [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (S(3, 1000), "terminating: obs -> 101"),
    ]),
    "growth_false": (dict(BASE, growth_kill=False), [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (S(3, 1000), "terminating: obs -> 101"),
    ]),
    "growth_not_above_charge": (dict(GROWTH, emergency_action="term"), [
        (S(1, 200), "terminating: obs term(emergency) over(100) -> 101"),
        (S(2, 200), "terminating: obs -> 101"),
        (S(3, 199), "terminating: obs -> 101"),
        (S(4, 201), "emergency: obs kill over(101) -> -"),
    ]),
    "growth_after_forward": (GROWTH, [
        (sig(1), "terminating: fwd(15) -> 101"),
        (S(2, 150), "emergency: obs kill over(50) -> -"),
    ]),
    "growth_past_deadline": (GROWTH, [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (S(200, 151), "emergency: obs kill over(51) -> -"),
    ]),
    "growth_not_in_supervisor_error": (GROWTH, [
        (fault(1), "supervisor_error: term(supervisor_fault) -> 101"),
        (S(2, 1000), "supervisor_error: obs -> 101"),
    ]),
    "growth_not_in_emergency": (GROWTH, [
        (stop(1, "kill"), "emergency: kill -> -"),
        (S(2, 1000), "emergency: obs -> -"),
    ]),
    "growth_not_without_bands": (dict(OBSERVE, growth_kill=True, grace_ns=100 * MS), [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (S(2, TOP), "terminating: obs -> 101"),
    ]),
    "growth_unusable": (GROWTH, [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (S(2, 1000, window=11), "terminating: miss -> 101"),
    ]),
    "growth_kill_is_retried": (dict(GROWTH, kill_retry_ns=10 * MS, kill_wait_ns=35 * MS), [
        (stop(1), "terminating: term(stop_requested) -> 101"),
        (S(2, 150), "emergency: obs kill over(50) -> 12"),
        (tick(12), "emergency: kill -> 22"),
    ]),
    # 3. KILL is retried until the end
    "kill_retried": (RETRY, [
        (stop(0, "kill"), "emergency: kill -> 10"),
        (tick("9999999n"), "emergency: -> 10"),
        (tick(10), "emergency: kill -> 20"),
        (tick(21), "emergency: kill -> 31"),
        (tick(31), "emergency: kill -> 35"),
        (tick("34999999n"), "emergency: -> 35"),
        (tick(35), "supervisor_error: err(unkillable) -> -"),
        (tick(1000), "supervisor_error: -> -"),
        (gone(1001), "exited: exit(-,0) -> -"),
    ]),
    "kill_end_goes_before_retry": (RETRY, [
        (stop(0, "kill"), "emergency: kill -> 10"),
        (tick(500), "supervisor_error: err(unkillable) -> -"),
    ]),
    # each KILL moves the retry, the first alone sets the end
    "kill_by_signal_moves_retry": (RETRY, [
        (stop(0, "kill"), "emergency: kill -> 10"),
        (sig(8), "emergency: kill -> 18"),
        (tick(10), "emergency: -> 18"),
        (stop(17), "emergency: kill -> 27"),
        (sig(26), "emergency: kill -> 35"),
        (sig(34), "emergency: kill -> 35"),
        (tick(35), "supervisor_error: err(unkillable) -> -"),
    ]),
    "kill_after_grace_is_retried": (RETRY, [
        (stop(0), "terminating: term(stop_requested) -> 100"),
        (tick(100), "emergency: kill -> 110"),
        (tick(110), "emergency: kill -> 120"),
        (gone(111), "exited: exit(-,0) -> -"),
    ]),
    "kill_emergency_is_retried": (RETRY, [
        (S(1, 150), "emergency: obs kill over(50) -> 11"),
        (S(2, 150), "emergency: obs -> 11"),
        (tick(11), "emergency: kill -> 21"),
    ]),
    "kill_retry_without_end": (RETRY_ONLY, [
        (stop(0, "kill"), "emergency: kill -> 10"),
        (tick(10), "emergency: kill -> 20"),
        (tick(100000), "emergency: kill -> 100010"),
    ]),
    "kill_end_without_retry": (WAIT_ONLY, [
        (stop(0, "kill"), "emergency: kill -> 35"),
        (tick(34), "emergency: -> 35"),
        (sig(34), "emergency: kill -> 35"),
        (tick(35), "supervisor_error: err(unkillable) -> -"),
    ]),
    # kill_failed if the last KILL was reported failed
    "kill_failed_noted": (RETRY, [
        (stop(0, "kill"), "emergency: kill -> 10"),
        (actfail(1, "kill"), "emergency: -> 10"),
        (actfail(2, "kill"), "emergency: -> 10"),
        (tick(35), "supervisor_error: err(kill_failed) -> -"),
    ]),
    "kill_failed_then_retried": (RETRY, [
        (stop(0, "kill"), "emergency: kill -> 10"),
        (actfail(1, "kill"), "emergency: -> 10"),
        (tick(10), "emergency: kill -> 20"),
        (tick(35), "supervisor_error: err(unkillable) -> -"),
    ]),
    "kill_failed_last_of_many": (RETRY, [
        (stop(0, "kill"), "emergency: kill -> 10"),
        (tick(10), "emergency: kill -> 20"),
        (tick(20), "emergency: kill -> 30"),
        (actfail(21, "kill"), "emergency: -> 30"),
        (tick(40), "supervisor_error: err(kill_failed) -> -"),
    ]),
    # the state does not matter: a fault in emergency keeps both times
    "kill_retry_in_supervisor_error": (RETRY, [
        (stop(0, "kill"), "emergency: kill -> 10"),
        (fault(1), "supervisor_error: -> 10"),
        (tick(10), "emergency: kill -> 20"),
        (fault(11), "supervisor_error: -> 20"),
        (tick(40), "supervisor_error: err(unkillable) -> -"),
    ]),
    "kill_failed_in_supervisor_error": (RETRY, [
        (stop(0, "kill"), "emergency: kill -> 10"),
        (fault(1), "supervisor_error: -> 10"),
        (actfail(2, "kill"), "supervisor_error: -> 10"),
        (tick(35), "supervisor_error: err(kill_failed) -> -"),
    ]),
    # wall time and checkpoint do not act beside the KILL times
    "kill_times_and_wall_time": (dict(RETRY, wall_time_ns=5 * MS), [
        (stop(0, "kill"), "emergency: kill -> 10"),
        (tick(5), "emergency: -> 10"),
    ]),
    # 4. a late checkpoint failure changes nothing
    "late_checkpoint_failure": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (ack(2, 1), "terminating: term(checkpoint_acknowledged) -> 102"),
        (failed(3, 1), "terminating: -> 102"),
        (failed(4), "terminating: -> 102"),
    ]),
    # kill failure without a retry
    "kill_failed_without_retry": (BASE, [
        (stop(1, "kill"), "emergency: kill -> -"),
        (actfail(2, "kill"), "supervisor_error: err(kill_failed) -> -"),
        (actfail(3, "kill"), "supervisor_error: -> -"),
        (S(4, 5), "supervisor_error: obs -> -"),
        (S(5, None), "supervisor_error: miss -> -"),
        (tick(6), "supervisor_error: -> -"),
        (fault(7), "supervisor_error: -> -"),
        (gone(8), "exited: exit(-,1) -> -"),
    ]),
    "kill_failed_without_retry_drops_end": (WAIT_ONLY, [
        (stop(0, "kill"), "emergency: kill -> 35"),
        (actfail(2, "kill"), "supervisor_error: err(kill_failed) -> -"),
        (tick(35), "supervisor_error: -> -"),
    ]),
    # after any report a KILL arms nothing and a kill failure changes nothing
    "after_report": (RETRY, [
        (stop(0, "kill"), "emergency: kill -> 10"),
        (tick(35), "supervisor_error: err(unkillable) -> -"),
        (actfail(36, "kill"), "supervisor_error: -> -"),
        (sig(37), "emergency: kill -> -"),
        (actfail(38, "kill"), "emergency: -> -"),
        (tick(1000), "emergency: -> -"),
        (fault(1001), "supervisor_error: -> -"),
        (stop(1002, "checkpoint"), "emergency: kill -> -"),
        (actfail(1003, "term"), "emergency: kill -> -"),
        (tick(5000), "emergency: -> -"),
        (gone(5001, 3), "exited: exit(3,0) -> -"),
    ]),
    "after_report_without_retry": (BASE, [
        (stop(0, "kill"), "emergency: kill -> -"),
        (actfail(1, "kill"), "supervisor_error: err(kill_failed) -> -"),
        (sig(2), "emergency: kill -> -"),
        (actfail(3, "kill"), "emergency: -> -"),
    ]),
    # 5. checkpoint while the job runs: state and deadlines stay, its answer changes nothing
    "request_in_normal": (dict(CKPT, wall_time_ns=500 * MS), [
        (request(1), "normal: ckpt(1,0,51) -> 500"),
        (ack(2, 1), "normal: -> 500"),
        (failed(3, 1), "normal: -> 500"),
        (failed(4), "normal: -> 500"),
        (tick(51), "normal: -> 500"),
        (request(60), "normal: ckpt(2,0,110) -> 500"),
    ]),
    "request_in_warning": (CKPT, [
        (S(1, 120), "warning: obs -> -"),
        (request(2), "warning: ckpt(1,0,52) -> -"),
        (S(3, 120), "checkpoint_requested: obs ckpt(2,20,53) -> 53"),
        (ack(4, 1), "checkpoint_requested: -> 53"),
        (ack(5, 2), "terminating: term(checkpoint_acknowledged) -> 105"),
    ]),
    "request_in_observe": (dict(OBSERVE, checkpoint_timeout_ns=50 * MS), [
        (request(1), "observe: ckpt(1,0,51) -> -"),
        (ack(2, 1), "observe: -> -"),
    ]),
    "request_without_timeout": (BASE, [(request(1), "normal: -> -")]),
    "request_in_other_states": (CKPT, [
        (stop(1, "checkpoint"), "checkpoint_requested: ckpt(1,0,51) -> 51"),
        (request(2), "checkpoint_requested: -> 51"),
        (ack(3, 1), "terminating: term(checkpoint_acknowledged) -> 103"),
        (request(4), "terminating: -> 103"),
        (fault(5), "supervisor_error: -> 103"),
        (request(6), "supervisor_error: -> 103"),
        (tick(103), "emergency: kill -> -"),
        (request(104), "emergency: -> -"),
    ]),
    # 6. breach hold: the graceful path waits until time - first breach >= hold
    "hold_waits": (HOLD, [
        (S(0, 100), "warning: obs -> -"),
        (S(10, 110), "warning: obs -> -"),
        (S("19999999n", 110), "warning: obs -> -"),
        (tick(25), "warning: -> -"),
        (S(26, 105), "terminating: obs term(not_negotiated) over(5) -> 126"),
    ]),
    "hold_at_equality": (HOLD, [
        (S(5, 100), "warning: obs -> -"),
        (S(25, 100), "terminating: obs term(not_negotiated) over(0) -> 125"),
    ]),
    "hold_still_needs_the_count": (dict(HOLD, required_breaches=3), [
        (S(5, 100), "warning: obs -> -"),
        (S(50, 100), "warning: obs -> -"),
        (S(51, 100), "terminating: obs term(not_negotiated) over(0) -> 151"),
    ]),
    "hold_starts_anew": (HOLD, [
        (S(0, 100), "warning: obs -> -"),
        (S(15, 99), "warning: obs -> -"),
        (S(16, 100), "warning: obs -> -"),
        (S(30, 100), "warning: obs -> -"),
        (S(36, 100), "terminating: obs term(not_negotiated) over(0) -> 136"),
    ]),
    "hold_not_for_emergency": (HOLD, [
        (S(0, 100), "warning: obs -> -"),
        (S(1, 150), "emergency: obs kill over(50) -> -"),
    ]),
    "hold_with_one_breach": (dict(HOLD, required_breaches=1), [
        (S(0, 100), "warning: obs -> -"),
        (S(20, 100), "terminating: obs term(not_negotiated) over(0) -> 120"),
    ]),
    "hold_over_unusable": (HOLD, [
        (S(0, 100), "warning: obs -> -"),
        (S(10, None), "warning: miss -> -"),
        (S(20, 100), "terminating: obs term(not_negotiated) over(0) -> 120"),
    ]),
    "hold_zero": (dict(BASE, breach_hold_ns=0), [
        (S(0, 100), "warning: obs -> -"),
        (S(0, 100), "terminating: obs term(not_negotiated) over(0) -> 100"),
    ]),
    "hold_with_checkpoint": (dict(CKPT, breach_hold_ns=20 * MS), [
        (S(0, 100), "warning: obs -> -"),
        (S(1, 149), "warning: obs -> -"),
        (S(21, 149), "checkpoint_requested: obs ckpt(1,49,71) -> 71"),
    ]),
}
