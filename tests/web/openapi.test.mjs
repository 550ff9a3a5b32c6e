// The API text: the JSON is the YAML, every example exists, is named once at least, and is valid.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import Ajv2020 from "ajv/dist/2020.js";
import { parse } from "yaml";
import { render } from "./openapi-json.mjs";
import { OPENAPI } from "./support/paths.mjs";

const spec = parse(readFileSync(join(OPENAPI, "openapi.yaml"), "utf8"));

/** All {schema, file} pairs of the text. */
function examples(node, found = []) {
  if (node && typeof node === "object") {
    for (const ex of Object.values(node.schema && node.examples ? node.examples : {})) {
      if (ex.externalValue) {
        found.push({ schema: node.schema, file: ex.externalValue });
      }
    }
    Object.values(node).forEach((v) => examples(v, found));
  }
  return found;
}

const pairs = examples(spec);

test("openapi.json is openapi.yaml", () => {
  const same = readFileSync(join(OPENAPI, "openapi.json"), "utf8") === render();
  assert.ok(same, "they differ: run node tests/web/openapi-json.mjs");
});

test("every example file is named by the text, and the other way round", () => {
  const named = new Set(pairs.map((p) => p.file));
  const there = new Set(readdirSync(join(OPENAPI, "examples")).map((f) => `examples/${f}`));
  assert.deepEqual([...named].sort(), [...there].sort());
});

test("every JSON example is valid against its schema", () => {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  for (const { schema, file } of pairs.filter((p) => p.file.endsWith(".json"))) {
    const validate = ajv.compile({ ...schema, components: spec.components });
    const ok = validate(JSON.parse(readFileSync(join(OPENAPI, file), "utf8")));
    assert.ok(ok, `${file}: ${ajv.errorsText(validate.errors)}`);
  }
});

test("every operation has an id, a summary, and an answer for a refusal", () => {
  const ids = new Set();
  for (const [path, item] of Object.entries(spec.paths)) {
    for (const [method, op] of Object.entries(item)) {
      if (method === "parameters") {
        continue;
      }
      assert.ok(op.operationId && !ids.has(op.operationId), `${method} ${path}: operationId`);
      ids.add(op.operationId);
      assert.ok(op.summary, `${method} ${path}: summary`);
      assert.ok(op.responses.default, `${method} ${path}: default response`);
    }
  }
});

test("the timeline example: arrays of one length, and the peak is the largest charge", () => {
  const t = JSON.parse(readFileSync(join(OPENAPI, "examples/timeline.json"), "utf8"));
  for (const key of [
    "active_min",
    "active_max",
    "reserved_min",
    "reserved_max",
    "charge_min",
    "charge_max",
  ]) {
    assert.equal(t[key].length, t.t_us.length, key);
  }
  assert.equal(Math.max(...t.charge_max), t.peak.charge.charge_bytes);
});

test("the live examples add up to the byte", () => {
  for (const file of ["live_stack.json", "live_primitive.json"]) {
    const live = JSON.parse(readFileSync(join(OPENAPI, "examples", file), "utf8"));
    assert.equal(
      live.groups.reduce((n, g) => n + g.bytes, live.other.bytes),
      live.total_bytes,
      file,
    );
  }
});
