// Rules of the page's sources that the content security policy and the design depend on.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { WEB } from "./support/paths.mjs";

function files(dir, end) {
  return readdirSync(dir, { withFileTypes: true }).flatMap((e) =>
    e.isDirectory() ? files(join(dir, e.name), end) : e.name.endsWith(end) ? [join(dir, e.name)] : [],
  );
}

const scripts = files(join(WEB, "src"), ".js").map((f) => [f, readFileSync(f, "utf8")]);
const html = readFileSync(join(WEB, "index.html"), "utf8");

test("no HTML is made from strings, nothing is evaluated", () => {
  for (const [file, text] of scripts) {
    assert.doesNotMatch(
      text,
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|\beval\(|new Function/,
      file,
    );
  }
});

test("no inline script, style attribute or event attribute", () => {
  assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)/);
  assert.doesNotMatch(html, /\sstyle=|<style|\son[a-z]+=/);
  for (const [file, text] of scripts) {
    assert.doesNotMatch(text, /setAttribute\("style"|["']?style["']?:\s*["'`]/, file);
  }
});

test("nothing is fetched from elsewhere", () => {
  assert.doesNotMatch(html.replace(/http:\/\/www\.w3\.org\/2000\/svg/g, ""), /(src|href)="https?:/);
  for (const [file, text] of scripts) {
    const rest = text
      .replace("http://www.w3.org/2000/svg", "")
      .replace("https://docs.pytorch.org/memory_viz", "");
    assert.doesNotMatch(rest, /https?:\/\/(?!")/, file);
  }
});

test("colours are tokens: none is written elsewhere", () => {
  for (const file of files(join(WEB, "src"), ".css").filter((f) => !f.endsWith("tokens.css"))) {
    assert.doesNotMatch(readFileSync(file, "utf8"), /#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(/i, file);
  }
  for (const [file, text] of scripts) {
    assert.doesNotMatch(text, /["'`]#[0-9a-f]{3,8}["'`]/i, file);
  }
});

test("every token that is used is defined, light and dark alike", () => {
  const tokens = readFileSync(join(WEB, "src/css/tokens.css"), "utf8");
  const defined = new Set([...tokens.matchAll(/--([a-z0-9-]+):/g)].map((x) => x[1]));
  const used = new Set();
  for (const file of files(join(WEB, "src"), ".css")) {
    [...readFileSync(file, "utf8").matchAll(/var\(--([a-z0-9-]+)/g)].forEach((x) => used.add(x[1]));
  }
  for (const [, text] of scripts) {
    [...text.matchAll(/token\("([a-z0-9-]+)"\)/g)].forEach((x) => used.add(x[1]));
  }
  assert.deepEqual(
    [...used].filter((n) => !defined.has(n)),
    [],
  );
});

test("every glyph that is used exists", () => {
  const there = new Set([...html.matchAll(/id="g-([a-z]+)"/g)].map((x) => x[1]));
  for (const [file, text] of scripts) {
    for (const [, name] of text.matchAll(/icon\("([a-z]+)"/g)) {
      assert.ok(there.has(name), `${file}: ${name}`);
    }
  }
});

test("a file has at most 450 lines", () => {
  for (const [file, text] of scripts) {
    assert.ok(text.split("\n").length <= 451, file);
  }
});
