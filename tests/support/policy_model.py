"""The intervention policy once more, written from core/model/policy.md in plain Python and on purpose
not from the C: the differential test runs both on random timelines and compares every line.

Times and durations are ns, sizes bytes; sums saturate at 2^63 - 1. One call of step() is one event.
"""
MAX = (1 << 63) - 1
STARTED_STATES = ("terminating", "emergency")


def sat(value: int) -> int:
    return min(value, MAX)


def bands(limit: int) -> dict:
    step = max(1, limit // 10)
    return {"warning": limit - step, "recovery": max(0, limit - 2 * step), "emergency": limit + step}


class Machine:
    def __init__(self, config: dict):
        get = lambda key, default: default if config.get(key) is None else config[key]
        self.observe_mode = config["mode"] == "observe"
        self.limit = config.get("limit")
        if not self.observe_mode:
            own = bands(self.limit)
            self.warning = get("warning", own["warning"])
            self.recovery = get("recovery", own["recovery"])
            self.emergency = get("emergency", own["emergency"])
        self.required = get("required_breaches", 2)
        self.max_unusable = get("max_unusable", 3)
        self.max_age = get("max_sample_age_ns", 500_000_000)
        self.max_window = get("max_sample_window_ns", 250_000_000)
        self.grace = get("grace_ns", None if self.observe_mode else 1_000_000_000)
        self.per_gib = get("grace_per_gib_ns", 0)
        self.grace_max = get("grace_max_ns", self.grace)
        self.checkpoint_timeout = config.get("checkpoint_timeout_ns")
        self.wall = config.get("wall_time_ns")
        self.next_id = get("first_request_id", 1)
        self.growth_kill = get("growth_kill", False)
        self.emergency_term = get("emergency_action", "kill") == "term"
        self.kill_retry = config.get("kill_retry_ns")
        self.kill_wait = config.get("kill_wait_ns")
        self.hold = get("breach_hold_ns", 0)
        self.state = "observe" if self.observe_mode else "normal"
        self.time = 0
        self.missing = self.breaches = self.after_signal = 0
        self.first_breach = None
        self.started = False
        self.request = None        # (id, deadline)
        self.term_deadline = None
        self.term_at = self.c = self.r = 0
        self.last_usable = 0
        self.retry_at = self.wait_until = None
        self.kill_sent = self.kill_failed = self.gave_up = False

    # ---- the three things that hold wherever they happen
    def arm_term(self, now: int):
        self.started = True
        self.request = None
        self.term_at = now
        self.c = self.r = self.last_usable
        if self.grace is None:
            self.term_deadline = None
            return
        self.term_deadline = sat(now + min(self.grace_max, sat(self.grace + self.per_gib * self.c // (1 << 30))))

    def term(self, now: int, reason: str) -> dict:
        self.arm_term(now)
        return {"type": "send_term", "reason": reason}

    def kill(self, now: int) -> dict:
        self.state = "emergency"
        self.started = True
        self.request = None
        self.term_deadline = None
        if self.kill_retry is not None and not self.gave_up:
            self.retry_at = sat(now + self.kill_retry)
        if self.kill_wait is not None and not self.kill_sent and not self.gave_up:
            self.wait_until = sat(now + self.kill_wait)
        self.kill_sent = True
        self.kill_failed = False
        return {"type": "send_kill"}

    def graceful(self, now: int, overshoot: int) -> list:
        if self.checkpoint_timeout is not None:
            self.state = "checkpoint_requested"
            return [self.new_request(now, overshoot)]
        self.state = "terminating"
        return [self.term(now, "not_negotiated")]

    def new_request(self, now: int, overshoot: int) -> dict:
        deadline = sat(now + self.checkpoint_timeout)
        self.request = (self.next_id, deadline)
        action = {"type": "request_checkpoint", "id": self.next_id, "overshoot": overshoot, "deadline": deadline}
        self.next_id = sat(self.next_id + 1)
        return action

    def sample(self, e: dict) -> list:
        now, data = e["processed_at"], e.get("bytes")
        usable = (data is not None and now >= e["captured_at"] and now - e["captured_at"] <= self.max_age
                  and e["window"] <= self.max_window)
        if not usable:
            self.missing += 1
            out = [{"type": "record_missing"}]
            if self.missing < self.max_unusable or self.state == "supervisor_error" or self.started:
                return out
            observe = self.state == "observe"
            self.state = "supervisor_error"
            return out + [{"type": "stop_observing"} if observe else self.term(now, "observation_failed")]
        self.missing = 0
        self.last_usable = data
        if self.started:
            self.after_signal += 1
        record = {"type": "record_observation"}
        if self.observe_mode or self.started or self.state == "supervisor_error":
            return [record] + self.after_start(now, data)
        return self.judge(now, data, record)

    def after_start(self, now: int, data: int) -> list:
        if (self.growth_kill and self.state == "terminating" and not self.observe_mode and data >= self.emergency
                and data > self.c):
            return [self.kill(now), {"type": "record_overshoot", "bytes": max(0, data - self.limit)}]
        if (self.term_deadline is not None and now < self.term_deadline and data < self.r
                and 100 * (self.r - data) >= self.c):
            self.r = data
            self.term_deadline = max(self.term_deadline, min(sat(self.term_at + self.grace_max), sat(now + self.grace)))
        return []

    def judge(self, now: int, data: int, record: dict) -> list:
        over = {"type": "record_overshoot", "bytes": max(0, data - self.limit)}
        if data >= self.emergency:
            if self.emergency_term:
                self.state = "terminating"
                return [record, self.term(now, "emergency"), over]
            return [record, self.kill(now), over]
        if self.state == "checkpoint_requested":
            return [record]
        if data >= self.limit:
            if self.breaches == 0:
                self.first_breach = now
            self.breaches += 1
            self.state = "warning"
            if self.breaches >= self.required and now - self.first_breach >= self.hold:
                acts = self.graceful(now, data - self.limit)
                return [record] + acts + ([over] if acts[-1]["type"] == "send_term" else [])
            return [record]
        self.breaches = 0
        if data >= self.warning:
            self.state = "warning"
        elif data <= self.recovery:
            self.state = "normal"
        return [record]

    def tick(self, now: int) -> list:
        if self.state == "checkpoint_requested" and now >= self.request[1]:
            self.state = "terminating"
            return [self.term(now, "checkpoint_timed_out")]
        if self.term_deadline is not None and now >= self.term_deadline:
            return [self.kill(now)]
        if self.wait_until is not None and now >= self.wait_until:
            self.state = "supervisor_error"
            self.retry_at = self.wait_until = self.term_deadline = None
            self.gave_up = True
            return [{"type": "report_supervisor_error", "kind": "kill_failed" if self.kill_failed else "unkillable"}]
        if self.retry_at is not None and now >= self.retry_at:
            return [self.kill(now)]
        if self.state in ("normal", "warning") and self.wall is not None and now >= self.wall:
            return self.graceful(now, 0)
        return []

    def stop(self, now: int, kind: str) -> list:
        if self.started:
            return [self.kill(now)]
        if kind == "kill":
            return [self.kill(now)]
        if kind == "term":
            self.state = "terminating"
            return [self.term(now, "stop_requested")]
        if self.state == "checkpoint_requested":
            return []
        return self.graceful(now, 0)

    def external(self, now: int, number: int) -> list:
        if self.started:
            return [self.kill(now)]
        self.state = "terminating"
        self.arm_term(now)
        return [{"type": "forward_signal", "signal": number}]

    def fault(self, now: int) -> list:
        if self.state == "supervisor_error":
            return []
        observe, self.state = self.state == "observe", "supervisor_error"
        if observe:
            return [{"type": "stop_observing"}]
        return [] if self.started else [self.term(now, "supervisor_fault")]

    def actuation(self, now: int, kind: str) -> list:
        if kind in ("term", "forward"):
            return [self.kill(now)] if self.started else []
        if not self.kill_sent or self.gave_up:
            return []
        if self.kill_retry is not None:
            self.kill_failed = True
            return []
        self.state = "supervisor_error"
        self.retry_at = self.wait_until = self.term_deadline = None
        self.request = None
        self.gave_up = True
        return [{"type": "report_supervisor_error", "kind": "kill_failed"}]

    def dispatch(self, e: dict, now: int) -> list:
        kind = e["type"]
        if kind == "sample":
            return self.sample(e)
        if kind == "tick":
            return self.tick(now)
        if kind == "supervisor_fault":
            return self.fault(now)
        if kind == "external_signal":
            return self.external(now, e["signal"])
        if kind == "stop_request":
            return self.stop(now, e["kind"])
        if kind == "actuation_failed":
            return self.actuation(now, e["kind"])
        if kind == "checkpoint_request":
            if self.state in ("observe", "normal", "warning") and self.checkpoint_timeout is not None and not self.started:
                saved = self.request
                action = self.new_request(now, 0)
                self.request = saved
                return [action]
            return []
        if kind == "checkpoint_ack":
            if self.state == "checkpoint_requested" and e["id"] == self.request[0] and e["authenticated"]:
                self.state = "terminating"
                return [self.term(now, "checkpoint_acknowledged")]
            return []
        if kind == "checkpoint_failed":
            if self.state == "checkpoint_requested" and e.get("id") in (None, self.request[0]):
                self.state = "terminating"
                return [self.term(now, "checkpoint_failed")]
            return []
        if kind == "root_exited" and self.state in ("normal", "warning", "checkpoint_requested"):
            self.state = "terminating"
            return [self.term(now, "root_exited")]
        if kind == "owner_exited" and self.state in ("normal", "warning"):
            self.state = "terminating"
            return [self.term(now, "owner_exited")]
        return []

    def actions(self, e: dict) -> list:
        now = e["processed_at"] if e["type"] == "sample" else e["at"]
        if self.state == "exited":
            return []
        if e["type"] == "process_exited":
            self.state = "exited"
            return [{"type": "report_exit", "final_bytes": e.get("final_bytes"), "samples_after_signal": self.after_signal}]
        if now < self.time:
            if self.started or self.state == "supervisor_error":
                return []
            observe, self.state = self.state == "observe", "supervisor_error"
            out = [{"type": "record_missing"}]
            return out + [{"type": "stop_observing"} if observe else self.term(self.time, "observation_failed")]
        self.time = now
        return self.dispatch(e, now)

    def next_deadline(self):
        if self.state == "exited":
            return None
        due = [self.term_deadline, self.retry_at, self.wait_until]
        if self.state == "checkpoint_requested":
            due.append(self.request[1])
        if self.state in ("normal", "warning"):
            due.append(self.wall)
        known = [d for d in due if d is not None]
        return min(known) if known else None

    def step(self, e: dict) -> dict:
        actions = self.actions(e)
        return {"t": e["processed_at"] if e["type"] == "sample" else e["at"], "state": self.state,
                "actions": actions, "next_deadline": self.next_deadline()}
