// Exports as their readers see them: trace.json in Perfetto's own page and trace processor, collapsed
// stacks in speedscope. Both are other people's programs and run from this machine, without a network.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import test, { after, before, describe } from "node:test";
import { fileURLToPath } from "node:url";
import { CHROMIUM, clickText, launch } from "./support/browser.mjs";
import { ROOT } from "./support/paths.mjs";
import { serveReaders } from "./support/readers.mjs";
import { BIN, missing, Server } from "./support/server.mjs";
import { until } from "./support/until.mjs";

const T0 = Date.now() * 1000 - 2000000;
const BUFFERS = 300;
const SPEEDSCOPE = join(dirname(fileURLToPath(import.meta.url)), "node_modules/speedscope/dist/release/");
const why = missing() || (CHROMIUM ? "" : "no chromium");

/** Every third buffer goes back to the system at once; sizes differ, so that no two sums agree. */
function someEvents() {
  const events = [];
  let live = 0;
  let peak = 0;
  const add = (action, addr, size, line) => {
    live += action === "AllocNew" ? size : -size;
    peak = Math.max(peak, live);
    events.push({
      seq: events.length + 1,
      addr,
      size,
      timestamp_us: T0 + events.length * 250,
      elapsed_us: events.length * 250,
      action,
      primitive_name: "Matmul",
      stream: 0,
      traceback: [
        ["/home/ada/my work/train.py", "<module>", 9],
        ["/home/ada/my work/a;b.py", "größe", line],
      ],
    });
  };
  for (let i = 0; i < BUFFERS; i++) {
    add("AllocNew", 65536 * (i + 1), 4096 + i * 8, 20 + (i % 7));
    if (i % 3 === 0) {
      add("FreeActiveToOS", 65536 * (i + 1), 4096 + i * 8, 40);
    }
  }
  return { events, live, peak };
}

describe("exports in other people's viewers", { skip: why || false }, () => {
  let server;
  let browser;
  let readers;
  let downloads;
  let wanted;

  const get = async (path) => {
    const response = await fetch(server.base + path, {
      headers: { Authorization: `Bearer ${server.token}` },
    });
    assert.equal(response.status, 200, path);
    return response.text();
  };

  before(async () => {
    wanted = someEvents();
    server = await new Server().start();
    const job = (await server.api("POST", "/v1/jobs", { external: true, name: "elsewhere" })).json;
    const posted = await server.api("POST", `/v1/jobs/${job.id}/memory-events`, wanted.events);
    assert.ok(posted.status < 300, posted.text);
    const perfetto = execFileSync(join(ROOT, "tests/real/fetch_perfetto.sh"), { encoding: "utf8" }).trim();
    const live = `/v1/jobs/${job.id}/live?at=end&format=collapsed`;
    await until(async () => (await server.api("GET", live)).status === 200, "the events in the store");
    readers = await serveReaders(
      { "/perfetto/": `${perfetto}/`, "/speedscope/": SPEEDSCOPE },
      {
        "/trace.json": await get(`/v1/jobs/${job.id}/trace.json`),
        "/offline.json": execFileSync(join(BIN, "bulkhead-tool"), ["trace", join(server.state, "jobs", job.id)]),
        "/stacks.txt": await get(live),
      },
    );
    wanted.job = job.id;
    downloads = mkdtempSync(join(tmpdir(), "bulkhead-exports-"));
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await readers?.close();
    await server?.stop();
    rmSync(downloads, { recursive: true, force: true });
  });

  /** Opens a trace in Perfetto and compares what its trace processor knows. */
  async function readInPerfetto(path, process) {
    const page = await browser.newPage();
    const url = encodeURIComponent(readers.base + path);
    await page.goto(`${readers.base}/perfetto/#!/?url=${url}`);
    await page.waitForFunction(() => globalThis.app?.trace?.engine, { timeout: 60000 });
    const rows = (sql) =>
      page.evaluate(async (text) => {
        const result = await globalThis.app.trace.engine.query(text);
        const found = [];
        for (const row = result.iter({}); row.valid(); row.next()) {
          found.push(result.columns().map((c) => String(row.get(c) ?? "")));
        }
        return found;
      }, sql);
    const series = await rows(
      "select t.name, min(c.ts) / 1000, max(c.value) from counter c join counter_track t on c.track_id = t.id group by t.name",
    );
    assert.deepEqual(
      series.map(([name, first]) => [name, first]),
      [
        ["active bytes", String(T0)],
        ["reserved bytes", String(T0)],
      ],
    );
    assert.deepEqual(
      series.map((s) => Number(s[2])),
      [wanted.peak, wanted.peak],
    );
    const last = await rows(
      "select c.value from counter c join counter_track t on c.track_id = t.id where t.name = 'active bytes' order by c.ts desc limit 1",
    );
    assert.equal(Number(last[0][0]), wanted.live);
    const names = await rows("select p.name, t.name from thread t join process p using (upid) where p.pid = 1");
    assert.deepEqual(names, [[process, "markers"]]);
    const complaints = await rows("select name, value from stats where severity != 'info' and value > 0");
    assert.deepEqual(complaints, []);
    await page.close();
  }

  test("Perfetto reads the counters to the byte and the microsecond", () =>
    readInPerfetto("/trace.json", wanted.job));

  test("Perfetto reads what the tool writes offline", () => readInPerfetto("/offline.json", "bulkhead"));

  test("speedscope reads collapsed stacks that sum to what is active", async () => {
    const page = await browser.newPage();
    await page.setViewport({ width: 1280, height: 800 });
    const cdp = await page.createCDPSession();
    await cdp.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: downloads });
    const url = encodeURIComponent(`${readers.base}/stacks.txt`);
    await page.goto(`${readers.base}/speedscope/#profileURL=${url}`);
    await until(
      () => page.evaluate(() => document.body.innerText.includes("Left Heavy")),
      "speedscope shows the profile",
    );
    await clickText(page, "div", /^.{0,4}Export$/u);
    const file = await until(
      () => readdirSync(downloads).find((name) => name.endsWith(".json")),
      "the profile as speedscope understood it",
    );
    const { shared, profiles } = JSON.parse(readFileSync(join(downloads, file), "utf8"));
    assert.equal(profiles.length, 1);
    assert.equal(profiles[0].endValue - profiles[0].startValue, wanted.live);
    const names = shared.frames.map((f) => f.name);
    assert.equal(names.length, 8); // one caller and seven lines that are still live
    assert.ok(names.includes("<module> (train.py:9)"), names.join("\n"));
    assert.ok(names.includes("größe (a_b.py:20)"), names.join("\n"));
    await page.close();
  });
});
