// What the page knows: jobs, host, connection. Filled by fetches and by the event stream; views
// subscribe to topics: "jobs", "job:ID", "sample", "sample:ID", "notice:ID", "host", "connection".

import { api } from "./api.js";
import { Events } from "./events.js";
import { toUs } from "./format.js";
import { isLive, value } from "./words.js";

const topics = new Map();

export const store = {
  jobs: new Map(),
  host: null,
  info: null,
  loaded: false,
  connection: { state: "connecting", since: Date.now(), retryAt: 0, lastAt: 0 },
  restartedAt: null,
};

export function on(topic, fn) {
  if (!topics.has(topic)) {
    topics.set(topic, new Set());
  }
  topics.get(topic).add(fn);
  return () => topics.get(topic).delete(fn);
}

function emit(topic, data) {
  for (const fn of topics.get(topic) ?? []) {
    fn(data);
  }
}

export function putJob(job) {
  const known = store.jobs.get(job.id);
  const older = known && known.event_sequence > job.event_sequence;
  if (older && !(isLive(known) && !isLive(job))) {
    return; // an end is final, whatever its number
  }
  store.jobs.set(job.id, job);
  emit(`job:${job.id}`, job);
  emit("jobs");
}

export function dropJob(id) {
  store.jobs.delete(id);
  emit("jobs");
}

const available = (n) => ({ status: "available", value: n });

/** A sample changes the figures of its job in place. */
function takeSample(sample) {
  const job = store.jobs.get(sample.job_id);
  if (!job) {
    return;
  }
  for (const key of ["charge", "active", "reserved"]) {
    if (sample[key]) {
      job[key] = available(sample[key].last);
    }
  }
  if (sample.charge && sample.charge.max > (value(job.peak_charge) ?? -1)) {
    job.peak_charge = { ...available(sample.charge.max), at_us: sample.to_us };
  }
  if (sample.policy_state) {
    job.policy_state = sample.policy_state;
  }
  job.members = sample.members ?? job.members;
  if (sample.active && job.recorder?.state === "absent") {
    job.recorder = { ...job.recorder, state: "attached", reason: null }; // the job event says so later
  }
  emit("sample", sample);
  emit(`sample:${sample.job_id}`, sample);
  emit(`job:${sample.job_id}`, job);
  emit("jobs");
}

function takeRecorder({ job_id: id, state, reason, events, lost }) {
  const job = store.jobs.get(id);
  if (job) {
    job.recorder = { state, reason, events, lost };
    emit(`job:${id}`, job);
  }
}

function takeEvent(type, data) {
  touch();
  switch (type) {
    case "job":
      putJob(data);
      break;
    case "sample":
      takeSample(data);
      break;
    case "host":
      store.host = data;
      emit("host");
      break;
    case "recorder":
      takeRecorder(data);
      break;
    case "gap":
      refetch();
      break;
    default:
      emit(`notice:${data.job_id}`, { type, data });
  }
}

function touch() {
  store.connection.lastAt = Date.now();
}

function setConnection(state, retryAt = 0) {
  const since = state === store.connection.state ? store.connection.since : Date.now();
  store.connection = { ...store.connection, state, since, retryAt };
  emit("connection");
}

/** Everything again; a changed epoch means that the server was restarted. */
async function refetch() {
  const [info, jobs, host] = await Promise.all([api.info(), api.allJobs(), api.host()]);
  if (store.info && store.info.server_epoch !== info.server_epoch) {
    store.restartedAt = toUs(info.started_at);
  }
  store.info = info;
  store.host = host;
  store.jobs = new Map(jobs.map((j) => [j.id, j]));
  store.loaded = true;
  touch();
  emit("host");
  emit("jobs");
  for (const job of jobs) {
    emit(`job:${job.id}`, job);
    emit(`notice:${job.id}`, { type: "refetched", data: job });
  }
}

let events = null;

/** Fetches, then follows. Throws what the first fetch throws. */
export async function connect(onDenied) {
  await refetch();
  events?.stop();
  let first = true;
  events = new Events(
    "/v1/events",
    {
      event: takeEvent,
      open: () => {
        setConnection("live");
        touch();
        if (!first) {
          refetch().catch(() => {});
        }
        first = false;
      },
      lost: (retryAt) => setConnection("lost", retryAt),
      denied: onDenied,
    },
    () => api.info(),
  );
  events.start();
}

export const retryNow = () => events?.again();

/** How old is what we see? The host is asked every 10 s, which also notices silent changes. */
export function keepHost() {
  setInterval(() => {
    if (store.connection.state === "live" && document.visibilityState === "visible") {
      api.host().then(
        (h) => {
          store.host = h;
          touch();
          emit("host");
        },
        () => {},
      );
    }
  }, 5000);
}
