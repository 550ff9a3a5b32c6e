// A real headless Chromium. Every page collects what must not happen: console errors, exceptions,
// violations of the content security policy, requests that leave the server.

import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import puppeteer from "puppeteer-core";

const PATHS = [
  process.env.BULKHEAD_CHROMIUM,
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
];
export const CHROMIUM = PATHS.find((p) => p && existsSync(p)) ?? null;
const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--no-first-run",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
];

export const launch = () => puppeteer.launch({ executablePath: CHROMIUM, headless: true, args: ARGS });

/** A page of `base` that keeps its complaints in page.trouble. */
export async function openPage(browser, base, { width = 1280, height = 900, scheme = "light" } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  page.trouble = [];
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  page.on("console", (m) => {
    if ((m.type() === "error" || m.type() === "warn") && !/willReadFrequently/.test(m.text())) {
      page.trouble.push(`console: ${m.text()} ${m.location().url ?? ""}`);
    }
  });
  page.on("pageerror", (e) => page.trouble.push(`exception: ${e.message}`));
  page.on("request", (r) => {
    if (!r.url().startsWith(base) && !r.url().startsWith("data:")) {
      page.trouble.push(`request to ${r.url()}`);
    }
  });
  await page.evaluateOnNewDocument(() => {
    globalThis.violations = [];
    document.addEventListener("securitypolicyviolation", (e) =>
      globalThis.violations.push(`${e.violatedDirective} ${e.blockedURI}`),
    );
  });
  return page;
}

/** Everything that went wrong on the page so far. */
export async function troubles(page) {
  const violations = await page.evaluate(() => globalThis.violations);
  return [...page.trouble, ...violations.map((v) => `policy: ${v}`)];
}

const SHOTS = process.env.BULKHEAD_SHOTS ?? "";
/** Keeps a picture when BULKHEAD_SHOTS names a folder. */
export async function shot(page, name, fullPage = true) {
  if (SHOTS) {
    mkdirSync(SHOTS, { recursive: true });
    await page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage });
  }
}

export const textOf = (page, selector) => page.$eval(selector, (e) => e.textContent);

/** Clicks the element of `selector` whose text or label matches. */
export async function clickText(page, selector, pattern) {
  const clicked = await page.$$eval(
    selector,
    (list, source) => {
      const re = new RegExp(source);
      const el = list.find(
        (e) =>
          e.offsetParent !== null &&
          (re.test(e.textContent.trim()) || re.test(e.getAttribute("aria-label") ?? "")),
      );
      el?.click();
      return el !== undefined;
    },
    pattern.source,
  );
  if (!clicked) {
    throw new Error(`nothing to click: ${selector} ${pattern}`);
  }
}

/**
 * Where a colour stands on the plot: {count, top, columns} of the pixels within `tolerance` of the
 * token's colour, whole columns (the cursor) left out. Coordinates in CSS pixels of the canvas.
 */
export const colourOnPlot = (page, token, tolerance = 12) =>
  page.evaluate(
    (name, within) => {
      const canvas = document.querySelector(".plot canvas");
      const probe = document.createElement("canvas").getContext("2d");
      probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
      probe.fillRect(0, 0, 1, 1);
      const want = probe.getImageData(0, 0, 1, 1).data;
      const { width, height } = canvas;
      const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
      const ratio = devicePixelRatio;
      const x0 = Math.round(62 * ratio);
      const x1 = width - Math.round(118 * ratio);
      const y0 = Math.round(34 * ratio);
      const y1 = height - Math.round(28 * ratio);
      const columns = {};
      let count = 0;
      let top = height;
      for (let x = x0; x < x1; x++) {
        const ys = [];
        for (let y = y0; y < y1; y++) {
          const i = (y * width + x) * 4;
          if ([0, 1, 2].every((k) => Math.abs(data[i + k] - want[k]) <= within)) {
            ys.push(y / ratio);
          }
        }
        if (ys.length && ys.length < (y1 - y0) * 0.5) {
          columns[Math.round(x / ratio)] = [ys[0], ys.at(-1)];
          count += ys.length;
          top = Math.min(top, ys[0]);
        }
      }
      return { count, top, columns };
    },
    token,
    tolerance,
  );
