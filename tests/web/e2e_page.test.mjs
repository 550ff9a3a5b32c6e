// The page around the main job: keyboard only, both schemes and every width, accessibility, a server
// that dies and comes back, stop and kill with their dialogs.

import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import test, { after, before, describe } from "node:test";
import { fileURLToPath } from "node:url";
import { clickText, CHROMIUM, launch, openPage, shot, textOf, troubles } from "./support/browser.mjs";
import { missing, PYTHON, Server } from "./support/server.mjs";
import { until } from "./support/until.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const LEAK = join(dirname(fileURLToPath(import.meta.url)), "support/leak.py");
const why = missing() || (CHROMIUM ? "" : "no chromium");
const WIDTHS = [320, 360, 768, 1024, 1280, 2560];

describe("the page", { skip: why || false }, () => {
  let server;
  let browser;
  let page;
  let ended;
  let steady;
  let leak; // in a folder whose name gives a narrow page no place to break

  const launchJob = async (name, most, limit) =>
    (
      await server.api("POST", "/v1/jobs", {
        name,
        command: [PYTHON, leak, "--step", "8", "--pause", "0.02", "--most", String(most)],
        limit,
      })
    ).json;
  const stateOf = async (id) => (await server.api("GET", `/v1/jobs/${id}`)).json.state;

  before(async () => {
    server = await new Server().start();
    const folder = join(server.dir, "somebodysfolderwithaverylongnameindeed");
    mkdirSync(folder);
    leak = join(folder, "leak.py");
    copyFileSync(LEAK, leak);
    browser = await launch();
    ended = await launchJob("short-leak", 1 << 20, "256MiB");
    steady = await launchJob("steady", 64, "1GiB");
    await until(async () => (await stateOf(ended.id)) === "finished", "the end of the first job", 120000);
    page = await openPage(browser, server.base);
    await page.goto(server.link);
    await page.waitForSelector("tr.j");
  });

  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  const go = async (hash, ready) => {
    await page.evaluate((h) => {
      location.hash = h;
    }, hash);
    await page.waitForSelector(ready);
  };

  test("keyboard alone opens a job, moves in the plot, and sets the instant", async () => {
    await go("#/jobs", "tr.j");
    for (let i = 0; i < 40 && !(await page.evaluate(() => document.activeElement.matches("tr.j"))); i++) {
      await page.keyboard.press("Tab");
    }
    assert.ok(await page.evaluate(() => document.activeElement.matches("tr.j")), "a row is reached by Tab");
    await page.keyboard.press("End");
    await until(
      () => page.evaluate(() => document.activeElement.textContent.includes("short-leak")),
      "the last row",
    );
    await page.keyboard.press("Enter");
    await page.waitForSelector(".plot.ready");
    await page.focus(".plot");
    await page.keyboard.press("p");
    await until(async () => /peak/.test(await textOf(page, ".inst h2")), "what was live at the peak");
    const before = await textOf(page, ".c-at .val");
    await page.keyboard.down("Shift");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.up("Shift");
    await until(async () => (await textOf(page, ".c-at .val")) !== before, "the cursor to move");
    await page.keyboard.press("Enter");
    await until(() => page.evaluate(() => /at=\d+/.test(location.hash)), "the instant in the address");
    await page.keyboard.press("+");
    await until(() => page.evaluate(() => /from=\d+/.test(location.hash)), "the zoomed range in the address");
    await page.keyboard.press("0");
    await until(() => page.evaluate(() => !/from=/.test(location.hash)), "the whole run again");
  });

  test("what was live adds up to active, by stack and by primitive", async () => {
    await clickText(page, ".tl-tools button", /^At peak$/);
    const sum = async () => (await page.$eval(".live .total", (e) => e.title)).replace(/\D/g, "");
    await until(async () => await page.$(".live .total"), "the table");
    const byStack = await sum();
    await clickText(page, ".inst button", /^By primitive$/);
    await until(
      async () =>
        (await textOf(page, ".live tbody")).includes("Random") ||
        !(await textOf(page, ".live tbody")).includes("leak.py"),
      "groups by primitive",
    );
    assert.equal(await sum(), byStack);
    const active = async () => (await textOf(page, ".c-active .ex")).replace(/\D/g, "");
    await until(async () => (await active()) === byStack, "active at the cursor to be the same, to the byte");
    await clickText(page, ".inst button", /^By Python stack$/);
  });

  test("allocations: a block tells its size, its primitive and its stack", async () => {
    await go(`#/jobs/${ended.id}/allocations`, ".blk .legend span");
    await page.focus(".blk canvas");
    await page.keyboard.press("Home");
    await until(async () => {
      await page.keyboard.press("ArrowRight"); // past the few bytes of the random key
      return /8\.0 MiB, 8,388,6\d\d bytes, RandomBits/.test(await textOf(page, ".blk .ft"));
    }, "a block of 8 MiB");
    await page.keyboard.press("Enter");
    assert.match(await textOf(page, ".stacklist"), /leak\.py:14 keep/);
    const drawn = await page.$eval(".blk canvas", (c) => {
      const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
      return new Set(
        Array.from({ length: d.length / 4 }, (_, i) => (d[i * 4] << 16) | (d[i * 4 + 1] << 8) | d[i * 4 + 2]),
      ).size;
    });
    assert.ok(drawn > 4, "blocks are painted");
  });

  for (const scheme of ["light", "dark"]) {
    test(`nothing overflows at any width, ${scheme}`, async () => {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      for (const width of WIDTHS) {
        await page.setViewport({ width, height: 900 });
        for (const [name, hash, ready] of views()) {
          await go(hash, ready);
          const wide = await page.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
          );
          assert.ok(wide <= 0, `${name} at ${width}: ${wide} px too wide`);
          await shot(page, `${name}-${width}-${scheme}`);
        }
      }
      await page.setViewport({ width: 1280, height: 900 });
    });

    test(`axe finds nothing serious, ${scheme}`, async () => {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      for (const [name, hash, ready] of views()) {
        await go(hash, ready);
        await page.evaluate(AXE);
        const found = await page.evaluate(async () =>
          (await globalThis.axe.run(document, { resultTypes: ["violations"] })).violations
            .filter((v) => ["serious", "critical"].includes(v.impact))
            .map(
              (v) =>
                `${v.id}: ${v.nodes
                  .map((n) => n.html)
                  .slice(0, 3)
                  .join(" ")}`,
            ),
        );
        assert.deepEqual(found, [], name);
      }
    });
  }

  function views() {
    return [
      ["jobs", "#/jobs", "tr.j"],
      ["launch", "#/launch", ".launch[open]"],
      ["timeline", `#/jobs/${ended.id}/timeline`, ".plot.ready"],
      ["live", `#/jobs/${steady.id}/timeline`, ".plot.ready"],
      ["allocations", `#/jobs/${ended.id}/allocations`, ".blk .legend span"],
      ["report", `#/jobs/${ended.id}/report`, ".rep .sec"],
      ["logs", `#/jobs/${ended.id}/logs`, ".log .lines div"],
    ];
  }

  test("a report is offered once it is there", async () => {
    const offered = () =>
      page.$$eval(".dl a", (links) =>
        links.filter((a) => a.offsetParent && a.textContent === "report.json").length);
    await go(`#/jobs/${steady.id}/report`, ".rep .dl a");
    assert.match(await textOf(page, ".prose"), /appears when the job has ended/);
    assert.equal(await offered(), 0);
    await go(`#/jobs/${ended.id}/report`, ".rep .sec");
    assert.equal(await offered(), 1);
  });

  test("refused requests are told", async () => {
    await fetch(`${server.base}/v1/jobs`);
    await go(`#/jobs/${ended.id}/report`, ".rep .sec");
    await go("#/jobs", ".refusals:not([hidden]) summary");
    assert.match(await textOf(page, ".refusals summary"), /requests? refused since the server started/);
    assert.match(await textOf(page, ".refusals"), /requests? without a valid token or login, last just now/);
  });

  test("a notice of the server stands until it is dismissed", async () => {
    await server.kill9();
    writeFileSync(join(server.state, "bulkhead.db.damaged-1796000800"), "x");
    await server.start();
    await page.reload();
    await page.waitForSelector("tr.j");
    const said = () => textOf(page, "#notices");
    await until(async () => (await said()).includes("found its database damaged"), "the notice");
    assert.match(await said(), /bulkhead\.db\.damaged-1796000800 in the state folder/);
    await clickText(page, "#notices .note.warn button", /^Dismiss$/);
    await page.reload();
    await page.waitForSelector("tr.j");
    assert.doesNotMatch(await said(), /damaged/);
    page.trouble.length = 0; // the requests that the dead server did not answer
  });

  test("a server that is killed and comes back: said, and nothing is missing", async () => {
    await go("#/jobs", "tr.j");
    await server.kill9();
    await until(
      async () => (await textOf(page, "#notices")).includes("No answer from the server"),
      "the notice",
    );
    assert.match(await textOf(page, "#notices"), /Jobs|jobs and their limits go on without it/);
    await shot(page, "lost");
    await server.start();
    await until(
      async () => (await textOf(page, "#notices")).includes("The server restarted"),
      "the notice of the restart",
    );
    assert.equal(await stateOf(steady.id), "running");
    const later = await launchJob("after-restart", 32, "1GiB");
    await until(
      async () => (await textOf(page, ".jobs tbody")).includes("after-restart"),
      "the new job in the table",
    );
    await server.api("POST", `/v1/jobs/${later.id}/kill`, {});
    page.trouble = page.trouble.filter(
      (t) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/.test(t),
    );
  });

  test("stop asks, names the job, and stops it", async () => {
    await go(`#/jobs/${steady.id}/timeline`, ".acts button");
    await clickText(page, ".acts button", /Stop/);
    await page.waitForSelector("dialog[open]");
    assert.match(await textOf(page, "dialog"), /Stop steady\?.*work since its own last save is lost/s);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Keep it running");
    await shot(page, "stop-dialog", false);
    await page.keyboard.press("Escape");
    assert.equal(await stateOf(steady.id), "running");
    await clickText(page, ".acts button", /Stop/);
    await page.waitForSelector("dialog[open]");
    await clickText(page, "dialog button", /^Stop steady$/);
    await until(
      async () => (await textOf(page, ".headline")).startsWith("You stopped it"),
      "the outcome sentence",
    );
    assert.equal((await server.api("GET", `/v1/jobs/${steady.id}`)).json.outcome.cause, "user_stop");
  });

  test("kill asks, and removing takes it out of the list", async () => {
    const victim = await launchJob("victim", 32, "1GiB");
    await go(`#/jobs/${victim.id}/timeline`, ".acts button");
    await clickText(page, ".acts button", /Kill/);
    await page.waitForSelector("dialog[open]");
    assert.match(await textOf(page, "dialog"), /Kill victim now\?.*No checkpoint is taken/s);
    await clickText(page, "dialog button", /^Kill victim$/);
    await until(async () => (await stateOf(victim.id)) === "finished", "the end of the victim");
    await until(
      () => page.$$eval(".acts button", (l) => l.some((b) => /Remove/.test(b.textContent))),
      "the button to remove it",
    );
    await clickText(page, ".acts button", /Remove/);
    await page.waitForSelector("dialog[open]");
    await clickText(page, "dialog button", /^Remove victim$/);
    await until(() => page.evaluate(() => location.hash === "#/jobs"), "the list");
    assert.equal((await server.api("GET", `/v1/jobs/${victim.id}`)).status, 404);
  });

  test("nothing went wrong on the way", async () => {
    assert.deepEqual(await troubles(page), []);
  });
});
