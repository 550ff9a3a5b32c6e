// The main job as a person does it: log in by the link, launch a leaking MLX program from the form,
// see the three lines move, see it stopped at its limit, read why, download report and trace.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import test, { after, before, describe } from "node:test";
import { fileURLToPath } from "node:url";
import {
  clickText,
  CHROMIUM,
  colourOnPlot,
  launch,
  openPage,
  shot,
  textOf,
  troubles,
} from "./support/browser.mjs";
import { load } from "./support/paths.mjs";
import { missing, pickleEntries, PYTHON, Server } from "./support/server.mjs";
import { until } from "./support/until.mjs";

const LEAK = join(dirname(fileURLToPath(import.meta.url)), "support/leak.py");
const LIMIT_MIB = 512;
const why = missing() || (CHROMIUM ? "" : "no chromium");

describe("the main job on the page", { skip: why || false }, () => {
  let server;
  let browser;
  let page;
  let downloads;
  let job;

  before(async () => {
    server = await new Server().start();
    browser = await launch();
    downloads = mkdtempSync(join(tmpdir(), "bulkhead-downloads-"));
    page = await openPage(browser, server.base);
    const cdp = await page.createCDPSession();
    await cdp.send("Browser.setDownloadBehavior", {
      behavior: "allow",
      downloadPath: downloads,
      browserContextId: page.browserContext().id,
    });
  });

  after(async () => {
    await browser?.close();
    await server?.stop();
    rmSync(downloads, { recursive: true, force: true });
  });

  test("without a session it says what to do", async () => {
    const stranger = await openPage(browser, server.base);
    await stranger.goto(server.base);
    await stranger.waitForSelector(".gate h1");
    assert.equal(await textOf(stranger, ".gate h1"), "This page needs a login link.");
    assert.match(await textOf(stranger, ".gate"), /bulkhead open/);
    await shot(stranger, "gate");
    await stranger.browserContext().close();
  });

  test("the link logs in, once, and leaves the address", async () => {
    await page.goto(server.link);
    await page.waitForSelector(".v-jobs");
    assert.equal(await page.evaluate(() => location.hash), "#/jobs");
    await until(
      () => page.evaluate(() => document.querySelector("#conn").textContent.startsWith("Live")),
      "the event stream",
    );
    assert.match(await textOf(page, ".empty"), /No jobs yet/);
    const second = await openPage(browser, server.base);
    await second.goto(server.link);
    await second.waitForSelector(".gate .c-bad");
    assert.match(await textOf(second, ".gate"), /used already/);
    await second.browserContext().close();
  });

  test("the form refuses what cannot be, at the field", async () => {
    await clickText(page, ".launch > summary", /Launch a job/);
    await page.type("#f-argv", "no-such-program-anywhere");
    await page.keyboard.press("Enter");
    await page.type("#f-lim", "six");
    await clickText(page, ".form .btn.primary", /Launch/);
    assert.match(await textOf(page, "#e-limit"), /“six” is not a number/);
    await page.$eval("#f-lim", (e) => {
      e.value = "";
    });
    await page.type("#f-lim", String(LIMIT_MIB));
    await page.select("select[aria-label=Unit]", "MiB");
    await clickText(page, ".form .btn.primary", /Launch/);
    await until(
      async () => (await textOf(page, "#e-command")).includes("no-such-program-anywhere"),
      "the refusal at the command",
    );
    page.trouble = page.trouble.filter((t) => !/422/.test(t)); // Chromium logs the refused request itself
    await page.click(".chip button");
  });

  test("a real MLX job is launched from the form", async () => {
    await page.focus("#f-argv");
    for (const arg of [PYTHON, LEAK, "--step", "4", "--pause", "0.08"]) {
      await page.type("#f-argv", arg);
      await page.keyboard.press("Enter");
    }
    await page.type("#f-name", "web-leak");
    assert.match(await textOf(page, "#f-lim-h"), /536,870,912 bytes/);
    assert.equal(await textOf(page, ".form .btn.primary"), "Launch with a 512 MiB limit");
    await shot(page, "form");
    await clickText(page, ".form .btn.primary", /Launch/);
    await page.waitForSelector(".v-timeline");
    job = await until(
      async () => (await server.api("GET", "/v1/jobs?name=web-leak")).json.jobs[0],
      "the job",
    );
    assert.match(await page.evaluate(() => location.hash), new RegExp(`^#/jobs/${job.id}/timeline`));
  });

  test("active, reserved and charge are drawn and move", async () => {
    const tops = async () => {
      const [charge, reserved, active] = await Promise.all(
        ["charge", "reserved", "active"].map((k) => colourOnPlot(page, k)),
      );
      return { charge, reserved, active };
    };
    const first = await until(async () => {
      const t = await tops();
      return Object.values(t).every((c) => c.count > 30) && t;
    }, "the three lines");
    await shot(page, "live-early");
    const later = await until(async () => {
      const t = await tops();
      return ["charge", "reserved", "active"].every((k) => t[k].top < first[k].top - 6) && t;
    }, "the three lines to rise");
    // samples are 50 ms apart: the charge may lag behind the allocator by one of them
    assert.ok(later.charge.top <= later.active.top + 12, "charge stands above active");
    assert.ok((await colourOnPlot(page, "limit")).count > 300, "the wall");
    await shot(page, "live-later");
  });

  test("the jobs table shows it live", async () => {
    const second = await openPage(browser, server.base, { width: 1280 });
    await second.goto(await server.freshLink());
    await second.waitForSelector("tr.j");
    await until(
      async () => /\d+ MiB of 512 MiB|\d+ of 512 MiB/.test(await textOf(second, "tr.j .lim .v")),
      "the charge in the row",
    );
    await shot(second, "jobs-live");
    assert.deepEqual(await troubles(second), []);
    await second.browserContext().close();
  });

  test("at the limit it is stopped, and the headline says why", async () => {
    await until(
      async () => (await server.api("GET", `/v1/jobs/${job.id}`)).json.state === "finished",
      "the end of the job",
      120000,
    );
    await until(
      async () =>
        /limit/.test(await textOf(page, ".headline")) &&
        !/^Running|^Stopping|^In warning/.test(await textOf(page, ".headline")),
      "the outcome sentence",
    );
    job = (await server.api("GET", `/v1/jobs/${job.id}`)).json;
    assert.equal(job.outcome.cause, "limit_exceeded");
    assert.equal(await textOf(page, ".headline"), job.outcome.sentence);
    await until(
      async () => /Limit/.test(await textOf(page, ".seq")) && /TERM/.test(await textOf(page, ".seq")),
      "what happened",
    );
    await until(
      async () => /at the limit|reached the limit/i.test(await textOf(page, ".inst h2")),
      "what was live at the limit",
    );
    assert.match(await textOf(page, ".live tbody"), /leak\.py:14/);
    assert.match(await textOf(page, ".live tfoot"), /100 %/);
    await shot(page, "ended");
  });

  test("a line stands where the number says", async () => {
    const model = await load("plot/model.js");
    const layout = await load("plot/layout.js");
    const answer = (await server.api("GET", `/v1/jobs/${job.id}/timeline?points=200`)).json;
    const m = model.fromAnswer(answer);
    const box = await page.$eval(".plot canvas", (c) => [c.clientWidth, c.clientHeight]);
    const lay = layout.layout(
      {
        model: m,
        range: { from: Date.parse(job.started_at) * 1000, to: Math.max(job.outcome.at_us, m.to) },
        stop: null,
        lensModel: null,
      },
      box[0],
      box[1],
      14,
    );
    const panel = lay.panels[0];
    const { columns } = await colourOnPlot(page, "charge");
    let checked = 0;
    for (let i = 5; i < m.t.length - 5; i++) {
      const x = Math.round(panel.x + ((m.t[i] - panel.from) / (panel.to - panel.from)) * panel.w);
      const around = m.chargeMax.slice(i - 2, i + 3);
      const steady =
        around.every((v) => v !== null) && Math.max(...around) - Math.min(...around) < lay.yMax / 60;
      const y = lay.y(m.chargeMax[i]);
      const nearPeak =
        Math.abs(x - (panel.x + ((m.peak.charge.at_us - panel.from) / (panel.to - panel.from)) * panel.w)) <
        150;
      const nearWall = Math.abs(y - lay.y(job.limit_bytes)) < 8; // the wall is painted over the line
      if (!steady || !columns[x] || nearPeak || nearWall) {
        continue;
      }
      assert.ok(
        columns[x][0] <= y + 8 && columns[x][1] >= y - 8,
        `column ${x}: drawn at ${columns[x]}, the number says ${y.toFixed(1)}`,
      );
      checked++;
    }
    assert.ok(checked > 20, `only ${checked} columns could be checked`);
  });

  test("the report in words, and both downloads", async () => {
    await page.click(".tabs a[href$=report]");
    await page.waitForSelector(".rep .sec");
    assert.match(await textOf(page, ".prose"), /How it ended/);
    assert.match(await textOf(page, ".prose"), /Overshoot/);
    await shot(page, "report");
    const download = async (button, end) => {
      await clickText(page, ".dl a", button);
      return join(
        downloads,
        await until(() => readdirSync(downloads).find((f) => f.endsWith(end)), `a file ${end}`),
      );
    };
    const reportFile = await download(/^report\.json$/, "report.json");
    const pickleFile = await download(/^memory\.pickle$/, ".pickle");
    const report = JSON.parse(readFileSync(reportFile, "utf8"));
    assert.equal(report.schema, "bulkhead.report");
    assert.equal(report.run.run_id, job.id);
    assert.ok(pickleEntries(pickleFile) > 100);
  });

  test("what the job printed stays text", async () => {
    await page.click(".tabs a[href$=logs]");
    await until(async () => (await textOf(page, ".log .lines")).includes("MiB kept"), "the log");
    assert.match(
      await textOf(page, ".log .lines"),
      /<script>document\.title = 'owned'<\/script><img src=x onerror=alert\(1\)>/,
    );
    assert.equal(await page.$$eval(".log script, .log img", (l) => l.length), 0);
    assert.equal(await page.title(), "web-leak, Bulkhead");
    await page.type(".find input", "step 3:");
    assert.match(await textOf(page, ".find .muted"), /^1 of 1$/);
    await shot(page, "logs");
  });

  test("nothing went wrong on the way", async () => {
    assert.deepEqual(await troubles(page), []);
  });
});
