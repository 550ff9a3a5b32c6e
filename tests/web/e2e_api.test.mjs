// What the server really answers is valid against the API text, member by member.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test, { after, before, describe } from "node:test";
import { fileURLToPath } from "node:url";
import Ajv2020 from "ajv/dist/2020.js";
import { OPENAPI } from "./support/paths.mjs";
import { missing, PYTHON, Server } from "./support/server.mjs";
import { until } from "./support/until.mjs";

const LEAK = join(dirname(fileURLToPath(import.meta.url)), "support/leak.py");
const spec = JSON.parse(readFileSync(join(OPENAPI, "openapi.json"), "utf8"));
const ajv = new Ajv2020({ strict: false, allErrors: true });

/** The schema of an answer; problems for what is not 2xx. */
function schemaOf(method, path, status) {
  const op = spec.paths[path][method.toLowerCase()];
  let response = op.responses[String(status)] ?? op.responses.default;
  if (response.$ref) {
    response = spec.components.responses[response.$ref.split("/").at(-1)];
  }
  return (response.content["application/json"] ?? response.content["application/problem+json"]).schema;
}

function check(method, path, { status, json }) {
  const validate = ajv.compile({ ...schemaOf(method, path, status), components: spec.components });
  assert.ok(validate(json), `${method} ${path} ${status}: ${ajv.errorsText(validate.errors)}`);
}

describe("the server's answers and the API text", { skip: missing() || false }, () => {
  let server;
  let job;

  before(async () => {
    server = await new Server().start();
  });
  after(() => server?.stop());

  const ask = async (method, path, query = "", body = undefined) => {
    const answer = await server.api(method, path.replace("{id}", job?.id ?? "") + query, body);
    check(method, path, answer);
    return answer;
  };

  test("while a job runs", async () => {
    const made = await server.api("POST", "/v1/jobs", {
      name: "valid",
      command: [PYTHON, LEAK, "--step", "8", "--pause", "0.02"],
      limit: "256MiB",
      labels: { team: "vision" },
      env: { SECRET: "x" },
    });
    assert.equal(made.status, 201);
    check("POST", "/v1/jobs", made);
    job = made.json;
    for (const path of [
      "/v1/jobs",
      "/v1/host",
      "/v1/info",
      "/v1/jobs/{id}",
      "/v1/jobs/{id}/spec",
      "/v1/jobs/{id}/timeline",
    ]) {
      assert.equal((await ask("GET", path)).status, 200, path);
    }
    for (const part of ["transitions", "signals", "members"]) {
      assert.equal((await ask("GET", `/v1/jobs/{id}/${part}`)).status, 200, part);
    }
    assert.equal((await ask("GET", "/v1/jobs/{id}/report")).json.code, "report_not_ready");
  });

  test("when it has ended", async () => {
    await until(async () => (await ask("GET", "/v1/jobs/{id}")).json.state === "finished", "the end", 120000);
    for (const path of [
      "/v1/jobs",
      "/v1/jobs/{id}/timeline",
      "/v1/jobs/{id}/report",
      "/v1/jobs/{id}/memory-events",
      "/v1/jobs/{id}/transitions",
      "/v1/jobs/{id}/signals",
    ]) {
      assert.equal((await ask("GET", path)).status, 200, path);
    }
    for (const query of ["?at=limit", "?at=peak&group=primitive", "?at=end&top=1"]) {
      assert.equal((await ask("GET", "/v1/jobs/{id}/live", query)).status, 200, query);
    }
  });

  test("refusals", async () => {
    const post = async (body, status, code) => {
      const answer = await server.api("POST", "/v1/jobs", body);
      check("POST", "/v1/jobs", answer);
      assert.deepEqual([answer.status, answer.json.code], [status, code]);
    };
    await post({ command: ["x"] }, 422, "limit_or_mode_required");
    await post({ command: ["no-such-program"], limit: "1GiB" }, 422, "launch_not_found");
    await post({ command: ["true"], limit: "3g" }, 422, "invalid_value");
    assert.equal((await ask("POST", "/v1/jobs/{id}/stop", "", {})).json.code, "wrong_state");
  });
});
