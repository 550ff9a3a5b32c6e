// Requests to the server: problems become errors with their sentence, writes carry the CSRF token
// that /v1/login gave (kept in sessionStorage; the cookie alone only reads).

const CSRF = "bulkhead.csrf";

class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The server answered ${status}.`);
    this.status = status;
    this.code = body.code ?? "";
    this.title = body.title ?? "";
    this.errors = body.errors ?? [];
    this.jobId = body.job_id ?? null;
    this.jobUrl = body.job_url ?? null;
  }
}

/** No answer at all: the server is gone or the network is. */
export class NoAnswer extends Error {}

export const canWrite = () => sessionStorage.getItem(CSRF) !== null;

async function send(method, path, body, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  const token = sessionStorage.getItem(CSRF);
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
  }
  if (method !== "GET" && token) {
    headers["X-Bulkhead-CSRF"] = token;
  }
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      signal: options.signal,
      credentials: "same-origin",
      cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (e) {
    if (e.name === "AbortError") {
      throw e;
    }
    throw new NoAnswer("The server does not answer.");
  }
  if (!response.ok) {
    throw await problemOf(response);
  }
  return response;
}

async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // not a problem document: the status alone has to do
  }
  return new Problem(response.status, body);
}

const query = (params) => {
  const q = new URLSearchParams(
    Object.entries(params ?? {}).filter(([, v]) => v !== null && v !== undefined),
  );
  const text = q.toString();
  return text ? `?${text}` : "";
};

const jobPath = (id) => `/v1/jobs/${encodeURIComponent(id)}`;
const getJson = async (path, signal) => (await send("GET", path, undefined, { signal })).json();
const post = async (path, body = {}) => (await send("POST", path, body)).json();

export const api = {
  async login(code) {
    const answer = await post("/v1/login", { code });
    sessionStorage.setItem(CSRF, answer.csrf);
    return answer;
  },
  async allJobs() {
    const jobs = [];
    let cursor = null;
    do {
      const page = await getJson(`/v1/jobs${query({ limit: 1000, cursor })}`);
      jobs.push(...page.jobs);
      cursor = page.next_cursor;
    } while (cursor !== null);
    return jobs;
  },
  job: (id) => getJson(jobPath(id)),
  spec: (id) => getJson(`${jobPath(id)}/spec`),
  host: () => getJson("/v1/host"),
  info: () => getJson("/v1/info"),
  launch: (body) => post("/v1/jobs", body),
  relaunch: (id, body) => post(`${jobPath(id)}/relaunch`, body),
  stop: (id, body) => post(`${jobPath(id)}/stop`, body),
  kill: (id) => post(`${jobPath(id)}/kill`),
  checkpoint: (id) => post(`${jobPath(id)}/checkpoint`),
  remove: (id) => send("DELETE", jobPath(id)),
  timeline: (id, params, signal) => getJson(`${jobPath(id)}/timeline${query(params)}`, signal),
  live: (id, params, signal) => getJson(`${jobPath(id)}/live${query(params)}`, signal),
  events: (id, from, limit, signal) =>
    getJson(`${jobPath(id)}/memory-events${query({ from, limit })}`, signal),
  report: (id) => getJson(`${jobPath(id)}/report?merged=1`),
  /** Bytes of a stream from an offset on, or up to `to` (exclusive): {bytes, size}. */
  async log(id, stream, from, signal, to = null) {
    const path = `${jobPath(id)}/logs${query({ stream, from: to === null ? from : null })}`;
    const headers = to === null ? {} : { Range: `bytes=${from}-${to - 1}` };
    const response = await send("GET", path, undefined, { signal, headers });
    const size = response.headers.get("X-Bulkhead-Log-Size");
    return {
      bytes: new Uint8Array(await response.arrayBuffer()),
      size: size === null ? null : Number(size),
    };
  },
  /** Size of a stream: asked for from beyond its end, so that no byte is sent. */
  async logSize(id, stream, signal) {
    return (await api.log(id, stream, Number.MAX_SAFE_INTEGER, signal)).size ?? 0;
  },
  links: (id) => ({
    report: `${jobPath(id)}/report`,
    pickle: `${jobPath(id)}/memory.pickle`,
    trace: `${jobPath(id)}/trace.json`,
    stdout: `${jobPath(id)}/logs?stream=stdout`,
    stderr: `${jobPath(id)}/logs?stream=stderr`,
    events: `${jobPath(id)}/memory-events?format=ndjson`,
  }),
};
