import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./support/paths.mjs";

const f = await load("lib/format.js");
const i = await load("lib/input.js");
const MiB = 2 ** 20;
const GiB = 2 ** 30;

test("bytes in binary units, never 1024 of one", () => {
  const cases = [
    [0, "0 B"],
    [999, "999 B"],
    [1000, "1 KiB"],
    [1024, "1 KiB"],
    [1023 * 1024, "1023 KiB"],
    [MiB - 1, "1.0 MiB"],
    [4.3 * MiB, "4.3 MiB"],
    [9.95 * MiB, "10 MiB"],
    [41 * MiB, "41 MiB"],
    [1023.4 * MiB, "1023 MiB"],
    [1023.6 * MiB, "1.00 GiB"],
    [6485442560, "6.04 GiB"],
    [1023.999 * GiB, "1.00 TiB"],
    [-41 * MiB, "−41 MiB"],
  ];
  for (const [n, want] of cases) {
    assert.equal(f.bytes(n), want, String(n));
  }
});

test("short bytes leave trailing zeros out, and only those", () => {
  assert.equal(f.bytesShort(36 * GiB), "36 GiB");
  assert.equal(f.bytesShort(17.5 * GiB), "17.5 GiB");
  assert.equal(f.bytesShort(100 * MiB), "100 MiB");
});

test("a limit reads as it was given", () => {
  assert.equal(f.limit(6 * GiB), "6 GiB");
  assert.equal(f.limit(1.5 * GiB), "1.5 GiB");
  assert.equal(f.limit(6e9), "6 GB");
  assert.equal(f.limit(512 * MiB), "512 MiB");
  assert.equal(f.limit(100), "100 B");
});

test("a percentage is never rounded onto the limit or across it", () => {
  assert.equal(f.percent(999, 1000), "99");
  assert.equal(f.percent(1000, 1000), "100");
  assert.equal(f.percent(1001, 1000), "101");
  assert.equal(f.percent(99999, 100000, 1), "99.9");
  assert.equal(f.percent(100001, 100000, 1), "100.1");
  assert.equal(f.percent(402, 1000, 1), "40.2");
});

test("durations", () => {
  const cases = [
    [0.06, "60 µs"],
    [3.2, "3.2 ms"],
    [64, "64 ms"],
    [640, "0.64 s"],
    [3800, "3.8 s"],
    [51000, "51 s"],
    [59999, "1 min 00 s"],
    [2519000, "41 min 59 s"],
    [11520000, "3 h 12 min"],
    [183600000, "2 d 3 h"],
  ];
  for (const [ms, want] of cases) {
    assert.equal(f.duration(ms), want, String(ms));
  }
});

test("the clock cuts, it does not round up into the next second", () => {
  const us = 1796002209999999;
  assert.match(f.clock(us, 3), /:\d\d:09\.999$/);
  assert.match(f.clock(us), /:\d\d:09$/);
});

test("how long ago", () => {
  const now = 1796002200000;
  const at = (s) => f.ago((now - s * 1000) * 1000, now);
  assert.equal(at(3), "just now");
  assert.equal(at(16 * 60), "16 min ago");
  assert.equal(at(3 * 3600), "3 h ago");
  assert.equal(at(86400), "yesterday");
  assert.equal(at(5 * 86400), "5 days ago");
});

test("sizes are read as the server reads them", () => {
  assert.equal(i.parseSize("6GiB"), 6 * GiB);
  assert.equal(i.parseSize("1.5GB"), 1.5e9);
  assert.equal(i.parseSize("123"), 123);
  for (const wrong of ["3g", "6 GiB", "1.2345GiB", "-1GiB", "", "GiB"]) {
    assert.equal(i.parseSize(wrong), null, wrong);
  }
  assert.match(i.sizeProblem("six", "GiB"), /“six” is not a number/);
  assert.equal(i.sizeProblem("6.5", "GiB"), null);
});

test("bands are a tenth of the limit apart, as the policy has them", () => {
  assert.deepEqual(i.bandsFor(209715200), { recovery: 167772160, warning: 188743680, emergency: 230686720 });
  assert.deepEqual(i.bandsFor(29), { recovery: 25, warning: 27, emergency: 31 });
  assert.deepEqual(i.bandsFor(27917287424), {
    recovery: 22333829940,
    warning: 25125558682,
    emergency: 30709016166,
  });
});

test("a pasted line splits into words, quotes group, nothing expands", () => {
  assert.deepEqual(i.splitLine(`python3  train.py --note "two words" 'a b' c\\ d $HOME *`), [
    "python3",
    "train.py",
    "--note",
    "two words",
    "a b",
    "c d",
    "$HOME",
    "*",
  ]);
  assert.deepEqual(i.splitLine(`x "" y`), ["x", "", "y"]);
  const odd = ["a b", "it's", "", "$(x)", "plain", 'say "hi"'];
  assert.deepEqual(i.splitLine(i.joinLine(odd)), odd);
});

test("pairs, one a line", () => {
  assert.deepEqual(i.parsePairs("A=1\n\nB=x=y"), { A: "1", B: "x=y" });
  assert.throws(() => i.parsePairs("A=1\nnonsense"), /“nonsense”/);
});
