"""bulkhead-policy against a second implementation written from its rules, on random timelines."""
import json
import os
import random
import subprocess
import tempfile
import unittest

import bulkhead_fixture as fixture
from policy_model import Machine

MS = 1_000_000
RUNS = 4000 if os.environ.get("BULKHEAD_FULL") == "1" else 400


def random_config(r: random.Random) -> dict:
    maybe = lambda value, p=0.5: value if r.random() < p else None
    config = {"mode": "observe" if r.random() < 0.15 else "enforce", "limit": 100}
    if r.random() < 0.6:
        config.update(warning=90, recovery=80, emergency=150)
    extra = {
        "required_breaches": maybe(r.choice([1, 2, 3])), "max_unusable": maybe(r.choice([1, 2, 3])),
        "max_sample_age_ns": maybe(100 * MS), "max_sample_window_ns": maybe(10 * MS),
        "grace_ns": maybe(r.choice([1, 50 * MS, 100 * MS])), "checkpoint_timeout_ns": maybe(50 * MS),
        "wall_time_ns": maybe(r.choice([1, 120 * MS, 300 * MS])), "first_request_id": maybe(r.choice([1, 7, (1 << 62)])),
        "growth_kill": maybe(r.random() < 0.7), "emergency_action": maybe(r.choice(["kill", "term"])),
        "kill_retry_ns": maybe(r.choice([20 * MS, 100 * MS])), "kill_wait_ns": maybe(r.choice([60 * MS, 300 * MS])),
        "breach_hold_ns": maybe(r.choice([0, 5 * MS, 40 * MS])),
    }
    if extra["grace_ns"] is not None and r.random() < 0.6:
        extra["grace_per_gib_ns"] = r.choice([0, 1 << 30, 1 << 24, 1 << 35])
        extra["grace_max_ns"] = extra["grace_ns"] + r.choice([0, 30 * MS, 400 * MS])
    config.update({k: v for k, v in extra.items() if v is not None or r.random() < 0.2})
    return config


def random_event(r: random.Random, now: int, machine: Machine) -> dict:
    kind = r.choices(["sample", "tick", "ack", "failed", "request", "root", "owner", "exit", "fault", "signal",
                      "stop", "actuation"], [60, 18, 4, 2, 3, 1, 1, 0.6, 0.8, 1.5, 2.5, 2])[0]
    request = machine.request[0] if machine.request else 1
    if kind == "sample":
        data = r.choice([0, 79, 80, 81, 85, 89, 90, 95, 99, 100, 100, 101, 102, 120, 140, 149, 150, 151, 160, None,
                         r.randrange(0, 170)])
        captured = now - r.choice([0, 0, 0, MS, 100 * MS, 100 * MS + 1, -1])
        event = {"type": "sample", "captured_at": max(0, captured), "processed_at": now,
                 "window": r.choice([0, 1, 10 * MS, 10 * MS, 10 * MS + 1 if r.random() < 0.1 else 5])}
        if data is not None or r.random() < 0.5:
            event["bytes"] = data
        return event
    return {
        "tick": {"type": "tick", "at": now},
        "ack": {"type": "checkpoint_ack", "at": now, "id": r.choice([request, request, request + 1, 0]),
                "authenticated": r.random() < 0.7},
        "failed": {"type": "checkpoint_failed", "at": now, "id": r.choice([request, request + 1, None])},
        "request": {"type": "checkpoint_request", "at": now},
        "root": {"type": "root_exited", "at": now},
        "owner": {"type": "owner_exited", "at": now},
        "exit": {"type": "process_exited", "at": now, "final_bytes": r.choice([None, 0, 42])},
        "fault": {"type": "supervisor_fault", "at": now},
        "signal": {"type": "external_signal", "at": now, "signal": r.choice([1, 2, 15, 64])},
        "stop": {"type": "stop_request", "at": now, "kind": r.choice(["term", "checkpoint", "kill"])},
        "actuation": {"type": "actuation_failed", "at": now, "kind": r.choice(["term", "forward", "kill"])},
    }[kind]


def timeline(seed: int):
    r = random.Random(seed)
    config = random_config(r)
    machine = Machine(config)
    events, expected, now = [], [], 0
    for _ in range(r.choice([10, 60])):
        step = r.choice([0, 1, 5 * MS, 10 * MS, 10 * MS, 30 * MS])
        deadline = machine.next_deadline()
        if deadline is not None and r.random() < 0.25:
            now = max(now, deadline + r.choice([-1, 0, 0, 1]))
        else:
            now += step
        at = max(0, now - r.choice([1, 20 * MS])) if r.random() < 0.01 else now
        event = random_event(r, at, machine)
        events.append(event)
        expected.append(machine.step(event))
    return config, events, expected


class Differential(unittest.TestCase):
    def replay(self, config: dict, events: list) -> list:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(config, file)
            file.flush()
            done = subprocess.run([str(fixture.BIN / "bulkhead-policy"), "replay", file.name, "-"], text=True,
                                  input="".join(json.dumps(e) + "\n" for e in events), capture_output=True)
        self.assertEqual(done.returncode, 0, f"{done.stderr}\n{config}")
        return done.stdout.splitlines()

    def test_every_line_agrees(self):
        seen = set()
        for seed in range(RUNS):
            config, events, expected = timeline(seed)
            lines = self.replay(config, events)
            self.assertEqual(len(lines), len(events))
            for number, (line, want) in enumerate(zip(lines, expected)):
                context = f"seed {seed}, event {number}\n{json.dumps(config)}\n" + "\n".join(
                    json.dumps(e) + "   " + l for e, l in zip(events[:number + 1], lines))
                self.assertEqual(line, json.dumps(want, separators=(",", ":")), context)
                seen.update(a["type"] for a in want["actions"])
        self.assertEqual(len(seen), 10, f"the timelines reach only {sorted(seen)}")


if __name__ == "__main__":
    unittest.main()
