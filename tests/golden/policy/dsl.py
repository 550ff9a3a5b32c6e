"""Shorthand for policy goldens: events and the results expected of them, in milliseconds.

A case is a list of (event, expectation). An expectation is written by hand from core/model/policy.md:
    "state: action action -> deadline"
with actions obs miss kill stopobs ckpt(id,overshoot,deadline) term(reason) fwd(signal) over(bytes)
exit(final,count) err(kind), "-" for no deadline and for a null. Times are milliseconds; a number
that ends in n is nanoseconds.
"""
import json
import re

MS = 1_000_000
TOP = 2**63 - 1

BASE = dict(mode="enforce", limit=100, warning=90, recovery=80, emergency=150,
            required_breaches=2, max_unusable=3, max_sample_age_ns=100 * MS,
            max_sample_window_ns=10 * MS, grace_ns=100 * MS)
CKPT = dict(BASE, checkpoint_timeout_ns=50 * MS)
OBSERVE = dict(mode="observe", max_unusable=3, max_sample_age_ns=100 * MS,
               max_sample_window_ns=10 * MS)


def ns(value):
    """150 -> 150 ms, "7n" -> 7 ns."""
    if isinstance(value, str):
        return int(value[:-1]) if value.endswith("n") else int(value) * MS
    return value * MS


def S(at, size, captured=None, window="1n"):
    return dict(type="sample", captured_at=ns(at if captured is None else captured),
                processed_at=ns(at), window=ns(window), bytes=size)


def event(type_, at, **members):
    return dict(type=type_, at=ns(at), **members)


def tick(at):
    return event("tick", at)


def fault(at):
    return event("supervisor_fault", at)


def request(at):
    return event("checkpoint_request", at)


def root(at):
    return event("root_exited", at)


def owner(at):
    return event("owner_exited", at)


def gone(at, final=None):
    return event("process_exited", at, final_bytes=final)


def ack(at, number, authenticated=True):
    return event("checkpoint_ack", at, id=number, authenticated=authenticated)


def failed(at, number=None):
    return event("checkpoint_failed", at, id=number)


def sig(at, number=15):
    return event("external_signal", at, signal=number)


def stop(at, kind="term"):
    return event("stop_request", at, kind=kind)


def actfail(at, kind):
    return event("actuation_failed", at, kind=kind)


SIMPLE = dict(obs="record_observation", miss="record_missing", kill="send_kill",
              stopobs="stop_observing")


def action(text):
    if text in SIMPLE:
        return dict(type=SIMPLE[text])
    name, inside = re.fullmatch(r"(\w+)\((.*)\)", text).groups()
    args = inside.split(",")
    if name == "ckpt":
        return dict(type="request_checkpoint", id=int(args[0]), overshoot=int(args[1]),
                    deadline=ns(args[2]))
    if name == "term":
        return dict(type="send_term", reason=args[0])
    if name == "fwd":
        return dict(type="forward_signal", signal=int(args[0]))
    if name == "over":
        return dict(type="record_overshoot", bytes=int(args[0]))
    if name == "exit":
        final = None if args[0] == "-" else int(args[0])
        return dict(type="report_exit", final_bytes=final, samples_after_signal=int(args[1]))
    if name == "err":
        return dict(type="report_supervisor_error", kind=args[0])
    raise ValueError(text)


def result(happened, expectation):
    state, actions, deadline = re.fullmatch(r"(\w+):(.*) -> (\S+)", expectation).groups()
    at = happened["processed_at"] if happened["type"] == "sample" else happened["at"]
    return dict(t=at, state=state, actions=[action(word) for word in actions.split()],
                next_deadline=None if deadline == "-" else ns(deadline))


def line(value):
    return json.dumps(value, separators=(",", ":")) + "\n"
