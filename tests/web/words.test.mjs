import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { load, OPENAPI } from "./support/paths.mjs";

const w = await load("lib/words.js");
const { happened } = await load("lib/happened.js");
const { reportFacts, reportSections } = await load("lib/reportwords.js");
const { trendToLimit } = await load("lib/trend.js");
const { flameTree, frameKind, growthTrees, keyFrame, primitiveColors, viaFrame } =
  await load("lib/stacks.js");
const example = (name) => JSON.parse(readFileSync(join(OPENAPI, "examples", name), "utf8"));

test("every state has a glyph and a word", () => {
  const seen = {
    "job_starting.json": "Starting",
    "job_running.json": "Running",
    "job_observe.json": "Observing",
    "job_stopping.json": "Stopping",
    "job_finished.json": "At limit",
    "job_failed_to_start.json": "Not started",
  };
  for (const [file, word] of Object.entries(seen)) {
    const view = w.stateView(example(file));
    assert.equal(view.word, word, file);
    assert.ok(view.glyph, file);
  }
});

test("every cause and policy state of the API text is known", () => {
  const text = JSON.parse(readFileSync(join(OPENAPI, "openapi.json"), "utf8"));
  const job = example("job_finished.json");
  for (const cause of text.components.schemas.Cause.enum) {
    const view = w.stateView({ ...job, outcome: { ...job.outcome, cause } });
    assert.ok(cause === "unknown" || view.word !== "Unknown", cause);
  }
  for (const policy_state of text.components.schemas.PolicyState.enum.filter((s) => s !== "exited")) {
    const view = w.stateView({ ...example("job_running.json"), policy_state });
    assert.ok(policy_state === "normal" || view.word !== "Running", policy_state);
  }
});

test("a live job says what it is doing", () => {
  assert.match(w.liveSentence(example("job_running.json"), null), /^Running at \d+ MiB of 1 GiB\.$/);
  assert.match(
    w.liveSentence(example("job_observe.json"), null),
    /^Observed only, no limit\. Highest so far 3\.42 GiB\.$/,
  );
  assert.match(
    w.liveSentence(example("job_stopping.json"), null),
    /Waiting for python3 \(4121\), tokenizer \(4140\)\./,
  );
  const trend = { bytesPerMinute: 38 * 2 ** 20, msToLimit: 21 * 60000 };
  assert.match(
    w.liveSentence(example("job_running.json"), trend),
    /Growing 38 MiB a minute; at this rate it reaches the limit in 21 min\.$/,
  );
});

test("unknown is a word, never 0", () => {
  const job = { ...example("job_running.json"), charge: { status: "unknown" } };
  assert.match(w.liveSentence(job, null), /Its charge is unknown\./);
  assert.equal(w.value({ status: "unknown" }), null);
  assert.equal(w.whyUnknown({ status: "unavailable", reason: "no_mlx" }), "this job has not loaded MLX");
});

test("strong pieces of a sentence put together are the sentence", () => {
  const s =
    "It reached its 6 GiB limit at 14:23:07, saved a checkpoint that is verified on disk, and exited 3.8 s later.";
  const got = w.emphasize(s);
  assert.equal(got.map(([t]) => t).join(""), s);
  assert.deepEqual(
    got.filter(([, b]) => b).map(([t]) => t),
    ["6 GiB limit", "verified on disk", "3.8 s"],
  );
});

test("filter segments", () => {
  assert.equal(w.bucketOf(example("job_running.json")), "live");
  assert.equal(w.bucketOf(example("job_finished.json")), "limit");
  assert.equal(w.bucketOf(example("job_failed_to_start.json")), "failed");
});

test("what happened is in order, with delays, and says each thing once", () => {
  const t = example("timeline.json");
  const job = example("job_finished.json");
  const items = happened({
    startUs: t.from_us,
    endUs: job.outcome.at_us,
    command: "python3 leaky.py",
    markers: t.markers,
    losses: t.losses,
    outcome: job.outcome,
  });
  assert.deepEqual(
    items.map((x) => x.title),
    ["Started", "epoch 2", "12,288 events lost", "Warning", "Limit", "TERM", "Exited"],
  );
  assert.deepEqual(
    items.map((x) => x.at_us),
    [...items.map((x) => x.at_us)].sort((a, b) => a - b),
  );
  assert.equal(items.at(-1).delay, "after 0.64 s");
});

test("the report in words", () => {
  const sections = reportSections(example("report.json"), example("job_finished.json"));
  const text = sections.map((s) => [s.head, ...s.paras, JSON.stringify(s.sum)].join(" ")).join("\n");
  assert.match(text, /How it ended It reached its 1 GiB limit/);
  assert.match(text, /KILL was not needed/);
  assert.match(text, /22 MiB at the decision, 46 MiB at most/);
  assert.match(text, /Reclaimed\. 99 %/);
  assert.match(text, /112 events recorded, none lost/);
  assert.deepEqual(reportFacts(example("report.json")), { past: 48271360, returned: 0.99 });
});

test("a report that says little is not made to say more", () => {
  const sections = reportSections(
    { outcome: { sentence: "The cause is unknown." } },
    { limit_bytes: null, peak_charge: { status: "unknown" } },
  );
  assert.deepEqual(
    sections.map((s) => s.head),
    ["How it ended", "Memory", "Boundary"].filter((h) => sections.some((s) => s.head === h)),
  );
  assert.match(sections.find((s) => s.head === "Memory").paras[0], /unknown/);
});

test("the trend is told only above the noise and within two hours", () => {
  const line = (slope, noise) =>
    Array.from({ length: 120 }, (_, k) => [k * 1e6, 100e6 + slope * k + noise * (k % 2 ? 1 : -1)]);
  const up = trendToLimit(line(1e6, 0), 1000e6);
  assert.ok(Math.abs(up.bytesPerMinute - 60e6) < 1e3);
  assert.ok(Math.abs(up.msToLimit - ((900e6 - 119e6) / 1e6) * 1000) < 50);
  assert.equal(trendToLimit(line(1e4, 50e6), 1000e6), null, "noise");
  assert.equal(trendToLimit(line(-1e6, 0), 1000e6), null, "falling");
  assert.equal(trendToLimit(line(2e4, 0), 1000e9), null, "too far away");
  assert.equal(trendToLimit(line(1e6, 0).slice(0, 4), 1000e6), null, "too few");
});

test("the frame a person should see is their own innermost one", () => {
  const tb = [
    ["/home/a/train.py", "<module>", 9],
    ["/home/a/train.py", "step", 4],
    ["/v/lib/python3.11/site-packages/mlx_lm/x.py", "f", 7],
    ["/v/lib/python3.11/site-packages/mlx/nn/l.py", "g", 8],
  ];
  assert.deepEqual(keyFrame(tb), tb[1]);
  assert.deepEqual(viaFrame(tb), tb[3]);
  assert.deepEqual(
    tb.map(([file]) => frameKind(file)),
    ["own", "own", "lib", "mlx"],
  );
  assert.equal(keyFrame(null), null);
});

test("the flame tree keeps every byte", () => {
  const live = example("live_stack.json");
  const root = flameTree(live.groups);
  assert.equal(root.bytes, live.total_bytes);
  const check = (n) => {
    if (n.kids.length) {
      assert.equal(
        n.kids.reduce((s, k) => s + k.bytes, 0),
        n.bytes,
        n.name,
      );
      n.kids.forEach(check);
    }
  };
  check(root);
  assert.equal(primitiveColors(live.groups)("Full"), 0);
  assert.equal(primitiveColors(live.groups)(null), 8);
});

test("comparing: what grew and what shrank, each to the byte, groups keep their number", () => {
  const group = (name, growth) => ({
    traceback: [["a.py", name, 1]],
    primitive_name: name,
    bytes: 100,
    growth_bytes: growth,
  });
  const { grew, shrank } = growthTrees([group("A", 30), group("B", -20), group("C", 0), group("D", 5)]);
  assert.equal(grew.bytes, 35);
  assert.equal(shrank.bytes, 20);
  const numbers = (n) => (n.kids.length ? n.kids.flatMap(numbers) : [n.group]);
  assert.deepEqual(numbers(grew), [0, 3]);
  assert.deepEqual(numbers(shrank), [1]);
});

test("what a stop will do is said with the spec's own times", async () => {
  const { stopWords } = await load("views/actions.js");
  const job = { ...example("job_running.json"), charge: { status: "available", value: 6 * 2 ** 30 } };
  assert.equal(
    stopWords(job, example("spec.json")),
    "It gets TERM and 2.5 s to leave, longer while memory falls, then KILL.",
  );
  const saving = { ...job, checkpoint: { ...job.checkpoint, method: "signal" } };
  const spec = { ...example("spec.json"), checkpoint: { timeout_ms: 30000 } };
  assert.match(stopWords(saving, spec), /^It is asked for a checkpoint first \(up to 30 s\), then gets TERM/);
  assert.equal(stopWords(job, null), "It gets its stop signal and its grace period, then KILL.");
});

test("a relaunch must not bring back what was emptied in the form", async () => {
  const { fieldOf, keepsAll } = await load("views/launch.js");
  const spec = { ...example("spec.json"), labels: {}, wall_time_ms: 7200000 };
  assert.equal(keepsAll(spec, { command: ["x"], wall_time: "2h" }), true);
  assert.equal(keepsAll(spec, { command: ["x"] }), false);
  assert.equal(keepsAll({ ...spec, wall_time_ms: null }, { command: ["x"] }), true);
  assert.equal(fieldOf("/command/0"), "command");
  assert.equal(fieldOf("/mode"), "limit");
  assert.equal(fieldOf("", "launch_not_found"), "command");
  assert.equal(fieldOf(""), "form");
});
