// A real bulkheadd of the build under test, on a state directory of its own.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT } from "./paths.mjs";
import { until } from "./until.mjs";

export const BIN = process.env.BULKHEAD_BIN_DIR ?? join(ROOT, "build/release/bin");
export const PYTHON = process.env.BULKHEAD_PYTHON ?? "python3";
const WEB_DIR = process.env.BULKHEAD_WEB_DIR ?? join(BIN, "../web");

/** Why the browser tests cannot run here; "" when they can. */
export function missing() {
  if (!existsSync(join(BIN, "bulkheadd"))) {
    return `no bulkheadd in ${BIN}`;
  }
  if (!existsSync(join(WEB_DIR, "index.html"))) {
    return `no built page in ${WEB_DIR}`;
  }
  return "";
}

export class Server {
  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), "bulkhead-web-"));
    this.state = join(this.dir, "state");
    mkdirSync(this.state, { mode: 0o700 });
    this.log = "";
  }

  /** Starts it; again on the same port after kill9(). */
  async start() {
    const listen = `127.0.0.1:${this.port ?? 0}`;
    this.out = "";
    this.process = spawn(
      join(BIN, "bulkheadd"),
      ["--state", this.state, "--listen", listen, "--web", WEB_DIR],
      {
        stdio: ["ignore", "pipe", "pipe"],
        env: { ...process.env, XDG_RUNTIME_DIR: process.env.XDG_RUNTIME_DIR ?? "" },
      },
    );
    this.process.stdout.on("data", (d) => {
      this.out += d;
    });
    this.process.stderr.on("data", (d) => {
      this.log += d;
    });
    const ended = new Promise((r) => {
      this.process.on("exit", r);
    });
    this.ended = ended;
    const match = await until(() => {
      if (this.process.exitCode !== null) {
        throw new Error(`bulkheadd ended with ${this.process.exitCode}: ${this.log}`);
      }
      return /http:\/\/127\.0\.0\.1:(\d+)\/#code=\S+/.exec(this.out);
    }, "the link of bulkheadd");
    this.link = match[0];
    this.port = Number(match[1]);
    this.base = `http://127.0.0.1:${this.port}`;
    this.token = readFileSync(join(this.state, "token"), "utf8").trim();
    return this;
  }

  async api(method, path, body) {
    const response = await fetch(this.base + path, {
      method,
      headers: {
        Authorization: `Bearer ${this.token}`,
        ...(body ? { "Content-Type": "application/json" } : {}),
      },
      body: body ? JSON.stringify(body) : undefined,
    });
    const text = await response.text();
    return {
      status: response.status,
      json: text && /json/.test(response.headers.get("content-type")) ? JSON.parse(text) : null,
      text,
    };
  }

  async freshLink() {
    return (await this.api("POST", "/v1/login-link", {})).json.url;
  }

  async kill9() {
    this.process.kill("SIGKILL");
    await this.ended;
  }

  /** Ends its jobs, then the server, and removes the state. */
  async stop() {
    try {
      const { json } = await this.api("GET", "/v1/jobs?limit=1000");
      for (const job of json.jobs.filter((j) => !["finished", "failed_to_start"].includes(j.state))) {
        const { status } = await this.api("POST", `/v1/jobs/${job.id}/kill`, {});
        if (status >= 400) {
          continue; // it has no process here
        }
        await until(
          async () => (await this.api("GET", `/v1/jobs/${job.id}`)).json.state === "finished",
          `the end of ${job.id}`,
          20000,
        );
      }
    } finally {
      if (this.process.exitCode === null && this.process.signalCode === null) {
        this.process.kill("SIGTERM");
        await Promise.race([
          this.ended,
          new Promise((r) => {
            setTimeout(r, 10000).unref();
          }),
        ]);
        this.process.kill("SIGKILL");
      }
      rmSync(this.dir, { recursive: true, force: true });
    }
  }
}

/** Loads a pickle in a fresh Python and says how many trace entries it holds. */
export function pickleEntries(file) {
  const code =
    "import pickle,sys; d=pickle.load(open(sys.argv[1],'rb')); print(sum(len(t) for t in d['device_traces']))";
  const got = spawnSync(PYTHON, ["-c", code, file], { encoding: "utf8" });
  if (got.status !== 0) {
    throw new Error(got.stderr);
  }
  return Number(got.stdout);
}
