import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { load, OPENAPI } from "./support/paths.mjs";

const m = await load("plot/model.js");
const l = await load("plot/layout.js");
const example = (name) => JSON.parse(readFileSync(join(OPENAPI, "examples", name), "utf8"));

/** A model with one charge value a microsecond; null where f says so. */
function modelOf(n, f) {
  const t = Array.from({ length: n }, (_, i) => i);
  const v = t.map(f);
  const none = t.map(() => null);
  return m.fromAnswer({
    from_us: 0,
    to_us: n,
    t_us: t,
    active_min: none,
    active_max: none,
    reserved_min: none,
    reserved_max: none,
    charge_min: v,
    charge_max: v,
  });
}

test("dense reduction keeps the exact extremes of every pixel column", () => {
  const model = modelOf(10000, (i) => (i === 4321 ? 1e9 : i === 7777 ? 1 : 1000 + (i % 7)));
  const [run] = m.runs(model, "charge", 0, 10000, 500, false);
  assert.ok(run.length <= 500);
  assert.equal(Math.max(...run.map((p) => p[2])), 1e9);
  assert.equal(Math.min(...run.map((p) => p[1])), 1);
  assert.equal(run.find((p) => p[2] === 1e9)[0], Math.floor((4321 * 500) / 10000));
});

test("zoomed in, each bucket stands where its time is", () => {
  const model = modelOf(10000, (i) => i);
  const [run] = m.runs(model, "charge", 100, 110, 1000, false);
  assert.deepEqual(run.slice(0, 3), [
    [0, 100, 100],
    [100, 101, 101],
    [200, 102, 102],
  ]);
  const step = m.runs(
    { ...model, activeMin: model.chargeMin, activeMax: model.chargeMax },
    "active",
    100,
    110,
    1000,
    true,
  )[0];
  assert.deepEqual(step.slice(0, 4), [
    [0, 100, 100],
    [100, 100, 100],
    [100, 101, 101],
    [200, 101, 101],
  ]);
});

test("what is unknown splits the line and is never bridged", () => {
  const unknown = (i) => i >= 4000 && i < 6000;
  const model = modelOf(10000, (i) => (unknown(i) ? null : 5));
  for (const width of [200, 20000]) {
    const got = m.runs(model, "charge", 0, 10000, width, false);
    assert.equal(got.length, 2, `width ${width}`);
    assert.ok(got[0].at(-1)[0] <= (4000 / 10000) * width && got[1][0][0] >= (5999 / 10000) * width);
  }
  assert.deepEqual(m.nullSpans(model, "charge"), [{ from: 4000, to: 6000 }]);
  assert.equal(m.valueAt(model, "charge", 5000), null);
  assert.deepEqual(m.valueAt(model, "charge", 3999), { min: 5, max: 5 });
});

test("nothing before the first reading counts as a gap", () => {
  assert.deepEqual(
    m.nullSpans(
      modelOf(100, (i) => (i < 10 || i > 90 ? null : 1)),
      "charge",
    ),
    [],
  );
});

test("live samples are appended once, and raise the peak", () => {
  const model = m.fromAnswer(example("timeline.json"));
  const n = model.t.length;
  const sample = (from, to, max) => ({
    from_us: from,
    to_us: to,
    charge: { min: max, max, last: max },
    active: null,
    reserved: null,
  });
  assert.equal(m.appendSample(model, sample(model.to - 10, model.to, 1)), false);
  assert.equal(m.appendSample(model, sample(model.to, model.to + 250000, 5e12)), true);
  assert.equal(model.t.length, n + 1);
  assert.equal(model.peak.charge.charge_bytes, 5e12);
  assert.equal(model.activeMax.at(-1), null);
});

test("the y axis leaves room above the limit and above the peak", () => {
  const model = m.fromAnswer(example("timeline.json"));
  assert.equal(
    m.yTop(model),
    Math.max(model.limits[0].limit_bytes * 1.17, model.peak.charge.charge_bytes * 1.05),
  );
  assert.ok(m.yTop(m.fromAnswer(m.emptyAnswer(0))) > 0);
});

test("ticks are round and few", () => {
  for (const top of [3e5, 64e6, 1.2e9, 7 * 2 ** 30, 150 * 2 ** 30, 3 * 2 ** 40]) {
    const t = m.byteTicks(top, 8);
    assert.ok(top / t.step <= 8, String(top));
    assert.ok(top / t.step >= 2, String(top));
    assert.ok(Number.isInteger(Math.log2(t.step)), String(top));
  }
  assert.equal(m.byteTicks(1.17 * 2 ** 30, 8).name, "GiB");
});

test("marks nearer than 15 px merge", () => {
  const groups = m.groupMarks([{ x: 0 }, { x: 10 }, { x: 24 }, { x: 60 }], 15);
  assert.deepEqual(
    groups.map((g) => g.marks.length),
    [3, 1],
  );
});

test("a range stays inside the run, and zooming keeps the instant under the pointer", () => {
  assert.deepEqual(m.clampRange(-50, 50, 0, 1000, 10), { from: 0, to: 100 });
  assert.deepEqual(m.clampRange(950, 1100, 0, 1000, 10), { from: 850, to: 1000 });
  assert.deepEqual(m.clampRange(500, 501, 0, 1000, 10), { from: 496, to: 506 });
  const z = m.zoomRange({ from: 0, to: 100 }, 0.5, 25);
  assert.equal((25 - z.from) / (z.to - z.from), 0.25);
});

test("the limit in force is the last one set before", () => {
  const limits = [
    { at_us: 0, limit_bytes: 1 },
    { at_us: 10, limit_bytes: 2 },
  ];
  assert.equal(m.limitAt(limits, 9).limit_bytes, 1);
  assert.equal(m.limitAt(limits, 10).limit_bytes, 2);
  assert.equal(m.limitAt([], 10), null);
});

test("the stop lens appears only with room, a long run and an intervention", () => {
  const t = example("timeline.json");
  const stop = l.stopRange(t.markers, t.to_us);
  assert.ok(stop.from < t.markers.find((x) => x.kind === "limit_crossed").at_us && stop.to > t.to_us);
  assert.equal(l.stopRange([], t.to_us), null);
  assert.equal(l.wantsLens(900, 600e6, stop), true);
  assert.equal(l.wantsLens(700, 600e6, stop), false);
  assert.equal(l.wantsLens(900, 60e6, stop), false);
  assert.equal(l.wantsLens(900, 600e6, null), false);
});

test("labels at the right are pushed apart, the limit keeps its place", () => {
  const got = l.spread(
    [
      { y: 100, fixed: true, n: 1 },
      { y: 104, n: 2 },
      { y: 97, n: 3 },
    ],
    14,
  );
  assert.equal(got.find((x) => x.fixed).y, 100);
  const ys = got.map((x) => x.y).sort((a, b) => a - b);
  assert.ok(ys[1] - ys[0] >= 14 && ys[2] - ys[1] >= 14);
});

test("a pixel knows its panel and its instant", () => {
  const model = m.fromAnswer(example("timeline.json"));
  const lay = l.layout(
    { model, range: { from: model.from, to: model.to }, stop: null, lensModel: null },
    1000,
    400,
    14,
  );
  const p = lay.panels[0];
  assert.equal(l.hit(lay, p.x).us, model.from);
  assert.ok(Math.abs(l.hit(lay, p.x + p.w).us - model.to) < 1);
  assert.equal(l.hit(lay, 1), null);
  assert.equal(Math.round(lay.y(0)), Math.round(lay.top + lay.height));
});
