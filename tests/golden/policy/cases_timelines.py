"""Whole timelines at a limit of 100 bytes; then core/model/policy.md, section 1, and section 2."""
from dsl import *

CASES = {
    "timeline_observe": (OBSERVE, [
        (S(0, TOP), "observe: obs -> -"),
        (S(10, TOP), "observe: obs -> -"),
    ]),
    "timeline_recovery": (BASE, [
        (S(0, 95), "warning: obs -> -"),
        (S(10, 85), "warning: obs -> -"),
        (S(20, 80), "normal: obs -> -"),
    ]),
    "timeline_acknowledged": (CKPT, [
        (S(0, 100), "warning: obs -> -"),
        (S(10, 101), "checkpoint_requested: obs ckpt(1,1,60) -> 60"),
        (ack(20, 2), "checkpoint_requested: -> 60"),
        (ack(30, 1, False), "checkpoint_requested: -> 60"),
        (ack(40, 1), "terminating: term(checkpoint_acknowledged) -> 140"),
    ]),
    "timeline_timed_out": (CKPT, [
        (S(0, 100), "warning: obs -> -"),
        (S(10, 100), "checkpoint_requested: obs ckpt(1,0,60) -> 60"),
        (tick(60), "terminating: term(checkpoint_timed_out) -> 160"),
        (tick(160), "emergency: kill -> -"),
    ]),
    "timeline_emergency": (CKPT, [
        (S(0, 151), "emergency: obs kill over(51) -> -"),
    ]),
    "timeline_unusable_between_breaches": (BASE, [
        (S(0, 100), "warning: obs -> -"),
        (S(10, None), "warning: miss -> -"),
        (S(20, 100), "terminating: obs term(not_negotiated) over(0) -> 120"),
    ]),
    "timeline_streak_reset": (BASE, [
        (S(0, 100), "warning: obs -> -"),
        (S(10, 99), "warning: obs -> -"),
        (S(20, 100), "warning: obs -> -"),
        (S(30, 149), "terminating: obs term(not_negotiated) over(49) -> 130"),
    ]),
    "timeline_three_unusable": (BASE, [
        (S(0, None), "normal: miss -> -"),
        (S(10, None), "normal: miss -> -"),
        (S(20, None), "supervisor_error: miss term(observation_failed) -> 120"),
        (tick(119), "supervisor_error: -> 120"),
        (tick(120), "emergency: kill -> -"),
    ]),
    "timeline_clock_regression": (BASE, [
        (S(10, 1), "normal: obs -> -"),
        (S(9, 1), "supervisor_error: miss term(observation_failed) -> 110"),
    ]),
    "timeline_wall_time": (dict(CKPT, wall_time_ns=50 * MS), [
        (tick(49), "normal: -> 50"),
        (tick(500), "checkpoint_requested: ckpt(1,0,550) -> 550"),
        (tick(1000), "terminating: term(checkpoint_timed_out) -> 1100"),
        (tick(1100), "emergency: kill -> -"),
    ]),
    # one event, with everything by default
    "example": (dict(mode="enforce", limit=100, emergency=150), [
        (S(0, 151), "emergency: obs kill over(51) -> -"),
    ]),
    # section 1: bands derived from the limit
    "bands_of_2": (dict(mode="enforce", limit=2, required_breaches=1), [
        (S(0, 0), "normal: obs -> -"),
        (S(1, 1), "warning: obs -> -"),
        (S(2, 0), "normal: obs -> -"),
        (S(3, 2), "terminating: obs term(not_negotiated) over(0) -> 1003"),
    ]),
    "bands_of_2_emergency": (dict(mode="enforce", limit=2), [
        (S(0, 3), "emergency: obs kill over(1) -> -"),
    ]),
    "bands_of_9": (dict(mode="enforce", limit=9), [
        (S(0, 8), "warning: obs -> -"),
        (S(1, 7), "normal: obs -> -"),
        (S(2, 9), "warning: obs -> -"),
        (S(3, 10), "emergency: obs kill over(1) -> -"),
    ]),
    "bands_of_29": (dict(mode="enforce", limit=29), [
        (S(0, 27), "warning: obs -> -"),
        (S(1, 26), "warning: obs -> -"),
        (S(2, 25), "normal: obs -> -"),
        (S(3, 26), "normal: obs -> -"),
        (S(4, 30), "warning: obs -> -"),
        (S(5, 31), "emergency: obs kill over(2) -> -"),
    ]),
    "bands_of_200_mib": (dict(mode="enforce", limit=209715200), [
        (S(0, 188743679), "normal: obs -> -"),
        (S(1, 188743680), "warning: obs -> -"),
        (S(2, 167772161), "warning: obs -> -"),
        (S(3, 167772160), "normal: obs -> -"),
        (S(4, 230686719), "warning: obs -> -"),
        (S(5, 230686720), "emergency: obs kill over(20971520) -> -"),
    ]),
    "bands_of_26_gib": (dict(mode="enforce", limit=27917287424), [
        (S(0, 25125558681), "normal: obs -> -"),
        (S(1, 25125558682), "warning: obs -> -"),
        (S(2, 22333829941), "warning: obs -> -"),
        (S(3, 22333829940), "normal: obs -> -"),
        (S(4, 30709016165), "warning: obs -> -"),
        (S(5, 30709016166), "emergency: obs kill over(2791728742) -> -"),
    ]),
    # the largest limit whose emergency band is at most 2^63 - 1, and that band
    "bands_of_largest": (dict(mode="enforce", limit=8384883669867978007), [
        (S(0, TOP - 1), "warning: obs -> -"),
        (S(1, TOP), "emergency: obs kill over(838488366986797800) -> -"),
    ]),
    # each band on its own, the others from the limit
    "bands_only_emergency": (dict(mode="enforce", limit=100, emergency=101), [
        (S(0, 90), "warning: obs -> -"),
        (S(1, 101), "emergency: obs kill over(1) -> -"),
    ]),
    "bands_only_warning": (dict(mode="enforce", limit=100, warning=81), [
        (S(0, 81), "warning: obs -> -"),
        (S(1, 80), "normal: obs -> -"),
    ]),
    "bands_only_recovery": (dict(mode="enforce", limit=100, recovery=0), [
        (S(0, 90), "warning: obs -> -"),
        (S(1, 1), "warning: obs -> -"),
        (S(2, 0), "normal: obs -> -"),
    ]),
    # defaults: 2 breaches, 3 unusable, age 500 ms, window 250 ms, grace 1 s, id 1
    "defaults": (dict(mode="enforce", limit=100), [
        (S(500, 1, captured=0, window=250), "normal: obs -> -"),
        (S("500000001n", 1, captured=0), "normal: miss -> -"),
        (S(501, 1, window="250000001n"), "normal: miss -> -"),
        (S(502, 100), "warning: obs -> -"),
        (S(503, 100), "terminating: obs term(not_negotiated) over(0) -> 1503"),
        (tick("1502999999n"), "terminating: -> 1503"),
        (tick(1503), "emergency: kill -> -"),
        (tick(99999), "emergency: -> -"),
    ]),
    # null = absent, in a config
    "null_is_absent": (dict(mode="enforce", limit=100, warning=None, recovery=None, emergency=None,
                            required_breaches=None, max_unusable=None, max_sample_age_ns=None,
                            max_sample_window_ns=None, grace_ns=None, checkpoint_timeout_ns=None,
                            wall_time_ns=None, first_request_id=None, grace_per_gib_ns=None,
                            grace_max_ns=None, growth_kill=None, emergency_action=None,
                            kill_retry_ns=None, kill_wait_ns=None, breach_hold_ns=None), [
        (S(0, 100), "warning: obs -> -"),
        (S(1, 109), "terminating: obs term(not_negotiated) over(9) -> 1001"),
    ]),
    # observe: bands are ignored, even out of order
    "observe_ignores_bands": (dict(OBSERVE, limit=100, warning=400, recovery=500, emergency=1), [
        (S(0, 99), "observe: obs -> -"),
        (S(1, TOP), "observe: obs -> -"),
    ]),
    # mode observe has no wall time: it holds while normal or warning only
    "observe_without_wall_time": (dict(OBSERVE, wall_time_ns=5 * MS), [
        (tick(5), "observe: -> -"),
        (tick(500), "observe: -> -"),
    ]),
    # section 2: ids count up from first_request_id, and saturate
    "request_ids": (dict(CKPT, first_request_id=41), [
        (request(1), "normal: ckpt(41,0,51) -> -"),
        (request(2), "normal: ckpt(42,0,52) -> -"),
        (stop(3, "checkpoint"), "checkpoint_requested: ckpt(43,0,53) -> 53"),
        (ack(4, 41), "checkpoint_requested: -> 53"),
        (failed(5, 42), "checkpoint_requested: -> 53"),
        (ack(6, 43), "terminating: term(checkpoint_acknowledged) -> 106"),
    ]),
    "request_ids_saturate": (dict(CKPT, first_request_id=TOP), [
        (request(1), f"normal: ckpt({TOP},0,51) -> -"),
        (stop(3, "checkpoint"), f"checkpoint_requested: ckpt({TOP},0,53) -> 53"),
        (ack(6, TOP), "terminating: term(checkpoint_acknowledged) -> 106"),
    ]),
    # sums saturate at 2^63 - 1
    "deadline_saturates": (dict(BASE, grace_ns=TOP), [
        (stop(5), f"terminating: term(stop_requested) -> {TOP}n"),
        (tick(f"{TOP - 1}n"), f"terminating: -> {TOP}n"),
        (tick(f"{TOP}n"), "emergency: kill -> -"),
    ]),
    "checkpoint_deadline_saturates": (dict(CKPT, checkpoint_timeout_ns=TOP), [
        (stop("1n", "checkpoint"), f"checkpoint_requested: ckpt(1,0,{TOP}n) -> {TOP}n"),
        (tick(f"{TOP}n"), f"terminating: term(checkpoint_timed_out) -> {TOP}n"),
        (tick(f"{TOP}n"), "emergency: kill -> -"),
    ]),
    "kill_times_saturate": (dict(BASE, kill_retry_ns=TOP, kill_wait_ns=TOP), [
        (stop(1, "kill"), f"emergency: kill -> {TOP}n"),
        (tick(f"{TOP}n"), "supervisor_error: err(unkillable) -> -"),
    ]),
}
