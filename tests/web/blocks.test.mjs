import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./support/paths.mjs";

const b = await load("lib/blocks.js");

let seq = 0;
const event = (action, addr, size, us, primitive = "P") => ({
  seq: ++seq,
  pid: 1,
  image: 0,
  addr,
  size,
  timestamp_us: us,
  action,
  primitive_name: primitive,
  traceback: null,
});

test("a block reaches from its allocation to its free; an address may come back", () => {
  const blocks = b.blocksOf([
    event("AllocNew", 1, 10, 100),
    event("FreeActiveToCache", 1, 10, 200),
    event("AllocReuse", 1, 10, 300),
    event("FreeCacheToOS", 9, 5, 310),
    event("Release", 2, 7, 320),
  ]);
  assert.deepEqual(
    blocks.map((x) => [x.t0, x.t1, x.size]),
    [
      [100, 200, 10],
      [300, null, 10],
      [null, 320, 7],
    ],
  );
});

test("the top edge is active at every instant, however many blocks are drawn", () => {
  const events = [];
  const live = new Map();
  const sums = [];
  let state = 7;
  const random = () => (state = (state * 1664525 + 1013904223) >>> 0) / 2 ** 32;
  for (let us = 1; us < 400; us++) {
    const addr = Math.floor(random() * 30);
    if (live.has(addr)) {
      events.push(event("FreeActiveToOS", addr, live.get(addr), us));
      live.delete(addr);
    } else {
      const size = 1 + Math.floor(random() * 1000);
      events.push(event("AllocNew", addr, size, us));
      live.set(addr, size);
    }
    sums.push([us, [...live.values()].reduce((n, s) => n + s, 0)]);
  }
  for (const most of [1000, 20, 1]) {
    const { top } = b.stackBlocks(b.blocksOf(events), 0, 400, most);
    for (const [us, want] of sums) {
      const [, shown, rest] = top.filter(([t]) => t <= us).at(-1);
      assert.equal(shown + rest, want, `at ${us}, ${most} drawn`);
    }
  }
});

test("drawn blocks never overlap", () => {
  const events = [
    event("AllocNew", 1, 10, 0),
    event("AllocNew", 2, 20, 1),
    event("AllocNew", 3, 30, 2),
    event("FreeActiveToCache", 1, 10, 3),
    event("AllocNew", 4, 5, 4),
    event("FreeActiveToCache", 3, 30, 6),
  ];
  const { shown } = b.stackBlocks(b.blocksOf(events), 0, 10, 100);
  for (let us = 0; us < 10; us += 0.5) {
    const at = shown
      .map((x) => [b.edgeAt(x, us), x])
      .filter(([y, x]) => y !== null && (x.t1 === null || us < x.t1))
      .sort((p, q) => p[0] - q[0]);
    at.forEach(([y], i) => assert.equal(y, i ? at[i - 1][0] + at[i - 1][1].size : 0, `at ${us}`));
  }
  assert.equal(b.blockAt(shown, 5, 1).size, 20);
  assert.equal(b.blockAt(shown, 5, 54).size, 5);
  assert.equal(b.blockAt(shown, 5, 56), null);
});

test("what lives throughout is what was live at the start less what went", () => {
  const blocks = b.blocksOf([event("FreeActiveToCache", 5, 40, 10, "A"), event("AllocNew", 6, 1, 11, "B")]);
  const groups = [
    { primitive_name: "A", bytes: 100 },
    { primitive_name: "C", bytes: 7 },
  ];
  assert.deepEqual(b.throughout(groups, blocks), [
    { primitive: "A", bytes: 60 },
    { primitive: "C", bytes: 7 },
  ]);
});

test("a time is found among the events by asking for few of them", async () => {
  const all = Array.from({ length: 1000 }, (_, i) => ({ seq: i + 1, timestamp_us: Math.floor(i / 3) * 10 }));
  for (const us of [0, 1, 10, 1555, 3330, 99999]) {
    let asked = 0;
    const got = await b.seqAt(us, all.length, async (seq) => {
      asked++;
      return all.find((e) => e.seq >= seq) ?? null;
    });
    const want = all.find((e) => e.timestamp_us >= us)?.seq ?? all.length + 1;
    assert.equal(got, want, String(us));
    assert.ok(asked <= 11, `${asked} asked`);
  }
});
