// States, outcomes and markers in words and glyphs. Pure. A glyph's name is the id of a symbol in
// index.html; tone is "", "warn" or "bad".

import { bytes, duration, limit, percent, plural, roughly } from "./format.js";

const LIVE_STATES = new Set(["starting", "running", "checkpointing", "stopping"]);

/** Nothing runs here: events and report come over the API. */
export const isExternal = (job) => (job.command ?? []).length === 0;

export const isLive = (job) => LIVE_STATES.has(job.state);

/** The value of an observed number, or null. */
export function value(observed) {
  return observed && observed.status === "available" ? observed.value : null;
}

/** Why an observed number is not known, in words; "" when it is. */
export function whyUnknown(observed) {
  if (!observed || observed.status === "unknown") {
    return "unknown";
  }
  if (observed.status === "available") {
    return "";
  }
  if (observed.status === "unavailable") {
    return reasonText(observed.reason ?? "unavailable");
  }
  return observed.status === "stale" ? "not read lately" : `could not be read (${observed.code ?? "error"})`;
}

const REASONS = {
  no_mlx: "this job has not loaded MLX",
  hooks_not_reached: "MLX was loaded, but its allocator could not be reached",
  static_binary: "the program is statically linked",
  setuid: "the program is setuid",
  off: "recording was switched off in the spec",
  not_requested: "recording was not asked for",
};

export function reasonText(reason) {
  return REASONS[reason] ?? String(reason).replaceAll("_", " ");
}

const ENDED = {
  completed: ["ok", "end", "Finished"],
  child_error: ["kill", "bad", "Failed"],
  limit_exceeded: ["limit", "bad", "At limit"],
  emergency: ["limit", "bad", "Emergency"],
  wall_time: ["end", "end", "Time over"],
  user_stop: ["end", "end", "Stopped"],
  owner_exit: ["end", "end", "Owner ended"],
  kernel_oom: ["kill", "bad", "Kernel OOM"],
  killed_by_other: ["kill", "bad", "Killed"],
  crash_signal: ["kill", "bad", "Crashed"],
  observation_failed: ["kill", "bad", "Unreadable"],
  host_reboot: ["none", "end", "Restarted"],
  supervisor_lost: ["none", "bad", "Lost"],
  unknown: ["none", "end", "Unknown"],
};

const POLICY = {
  observe: ["eye", "", "Observing"],
  normal: ["run", "", "Running"],
  warning: ["warn", "warn", "In warning"],
  checkpoint_requested: ["ckpt", "", "Checkpointing"],
  terminating: ["term", "", "Stopping"],
  emergency: ["kill", "", "Being killed"],
  supervisor_error: ["kill", "bad", "Unreadable"],
};

/** {glyph, tone, word} of a job's present state. */
export function stateView(job) {
  const [glyph, tone, word] = stateTuple(job);
  return { glyph, tone, word };
}

function stateTuple(job) {
  switch (job.state) {
    case "failed_to_start":
      return ["none", "bad", "Not started"];
    case "finished":
      return ENDED[job.outcome?.cause] ?? ENDED.unknown;
    case "starting":
      return ["start", "", "Starting"];
    case "checkpointing":
      return POLICY.checkpoint_requested;
    case "stopping":
      return job.policy_state === "emergency" ? POLICY.emergency : POLICY.terminating;
    default:
      return POLICY[job.policy_state] ?? POLICY.normal;
  }
}

/** Which segment of the filter a job belongs to. */
export function bucketOf(job) {
  if (isLive(job)) {
    return "live";
  }
  const cause = job.outcome?.cause;
  if (cause === "limit_exceeded" || cause === "emergency") {
    return "limit";
  }
  const calm = ["completed", "user_stop", "wall_time", "owner_exit"].includes(cause);
  return job.state === "finished" && calm ? "finished" : "failed";
}

/** What a live job is doing, in one or two sentences. trend comes from trend.js, or is null. */
export function liveSentence(job, trend) {
  const charge = value(job.charge);
  const [, , word] = stateTuple(job);
  if (isExternal(job)) {
    return `Runs elsewhere; ${plural(job.recorder?.events ?? 0, "event")} came over the API so far.`;
  }
  if (job.state === "starting") {
    return "Starting.";
  }
  if (job.state === "stopping" || job.policy_state === "terminating") {
    return `Stopping.${waiting(job)}`;
  }
  if (charge === null) {
    return `${word}. Its charge is ${whyUnknown(job.charge)}.`;
  }
  if (job.mode === "observe" || job.limit_bytes === null) {
    const peak = value(job.peak_charge);
    return `Observed only, no limit. Highest so far ${bytes(peak ?? charge)}.`;
  }
  const head = `${word === "In warning" ? "In warning" : word} at ${bytesOf(charge, job.limit_bytes)}.`;
  return trend ? `${head} ${growthSentence(trend)}` : head;
}

function waiting(job) {
  const names = (job.waiting_for ?? []).map((w) => `${w.executable_basename} (${w.pid})`);
  if (names.length === 0) {
    return "";
  }
  const shown = names.slice(0, 3).join(", ");
  return ` Waiting for ${shown}${names.length > 3 ? ` and ${names.length - 3} more` : ""}.`;
}

/** "Growing 38 MiB a minute; at this rate it reaches the limit in 21 min." */
function growthSentence(trend) {
  const rate = `Growing ${bytes(trend.bytesPerMinute)} a minute`;
  return `${rate}; at this rate it reaches the limit in ${roughly(trend.msToLimit)}.`;
}

/** How an ended job ended: the server's sentence, or what its kind and cause allow to say. */
export function endedSentence(job) {
  const o = job.outcome;
  if (o?.sentence) {
    return o.sentence;
  }
  const program = job.command?.[0] ?? "The program";
  if (o?.kind === "launch_not_found") {
    return `“${program}” was not found. Correct the command and launch it again.`;
  }
  if (o?.kind === "launch_not_executable") {
    return `“${program}” cannot be executed. Check its permissions and launch it again.`;
  }
  return job.state === "failed_to_start" ? "It was not started." : "It has ended. The cause is unknown.";
}

/** "5.21 of 6 GiB", the unit once where both share it. */
export function bytesOf(n, whole) {
  const left = bytes(n);
  const right = limit(whole);
  const unit = right.split(" ")[1];
  return left.endsWith(` ${unit}`) ? `${left.split(" ")[0]} of ${right}` : `${left} of ${right}`;
}

const STRONG = [
  /[\d.]+(?= of \d)/,
  /\d[\d.,]* [KMGT]i?B(?: limit)?/,
  /verified on disk/,
  /\d[\d.]*(?: µs| ms| s| min)(?= later)/,
  /killed at once/,
  /SIG[A-Z]+/,
  /exit code \d+/,
];

/** A sentence as [text, strong] pieces: what the eye should find first is strong. */
export function emphasize(sentence) {
  const re = new RegExp(STRONG.map((r) => r.source).join("|"), "g");
  const out = [];
  let last = 0;
  for (const match of sentence.matchAll(re)) {
    if (match.index > last) {
      out.push([sentence.slice(last, match.index), false]);
    }
    out.push([match[0], true]);
    last = match.index + match[0].length;
  }
  if (last < sentence.length) {
    out.push([sentence.slice(last), false]);
  }
  return out;
}

export const CHECKPOINT_WORDS = {
  not_negotiated: "No checkpoint channel was agreed on.",
  requested_unverified: "Asked for; no answer is known.",
  acknowledged_unverified_durability: "The job says it saved one; Bulkhead has not verified it on disk.",
  verified_file: "Verified on disk.",
  timed_out: "Asked for; it was not ready in time.",
  failed: "The job says it failed.",
  cancelled: "The job cancelled it.",
};

/** The checkpoint line of the stop and kill dialogs. */
export function checkpointLine(job, agoText) {
  const c = job.checkpoint;
  if (!c || c.method === "none") {
    return "It has no checkpoint: work since its own last save is lost.";
  }
  if (c.at_us === null || c.at_us === undefined) {
    return "No checkpoint was taken yet.";
  }
  const word = c.status === "verified_file" ? "verified on disk" : "not verified on disk";
  return `Last checkpoint ${agoText}, ${word}.`;
}

/** One marker or fact of a run: {at_us, glyph, tone, title, text, delayFrom}. */
export function markerView(marker) {
  switch (marker.kind) {
    case "transition":
      return transitionView(marker);
    case "signal":
      return signalView(marker);
    case "limit_crossed":
      return {
        glyph: "limit",
        tone: "bad",
        word: "limit",
        title: "Limit",
        text: reached(marker.charge_bytes),
      };
    case "checkpoint":
      return checkpointView(marker);
    case "mark":
      return {
        glyph: "flag",
        tone: "",
        word: marker.label ?? marker.text,
        title: marker.label ?? marker.text,
        text: "set by the job",
      };
    case "exit":
      return { glyph: "end", tone: "", word: "exit", title: "Exited", text: exitText(marker) };
    default:
      return { glyph: "flag", tone: "", word: marker.kind, title: marker.text, text: "" };
  }
}

const reached = (n) =>
  n === null || n === undefined ? "the charge reached the limit" : `charge ${bytes(n)}`;

function exitText(marker) {
  if (marker.signal) {
    return `by ${marker.signal}`;
  }
  return marker.exit_code === null || marker.exit_code === undefined ? "" : `exit code ${marker.exit_code}`;
}

const TERM_REASONS = {
  checkpoint_acknowledged: "the checkpoint was acknowledged",
  checkpoint_timed_out: "the checkpoint was not ready in time",
  checkpoint_failed: "the checkpoint failed",
  not_negotiated: "no checkpoint to wait for",
  observation_failed: "its memory could not be read",
  supervisor_fault: "the supervisor had a fault",
  root_exited: "the root process had ended",
  owner_exited: "the process that asked for it ended",
  stop_requested: "you asked for it",
  emergency: "emergency band",
  grace_expired: "the grace period was over",
  external_signal: "a signal from outside",
  actuation_failed: "the signal before could not be sent",
  retry: "tried again",
  requested: "asked for over the API",
};

function signalView(marker) {
  const kill = marker.signal === "SIGKILL";
  const short = (marker.signal ?? "signal").replace(/^SIG/, "");
  const why = TERM_REASONS[marker.reason] ?? (marker.reason ? reasonText(marker.reason) : "");
  const failed =
    marker.result && marker.result !== "delivered" ? `not delivered: ${reasonText(marker.result)}` : "";
  return {
    glyph: kill ? "kill" : "term",
    tone: kill ? "bad" : "",
    word: short,
    title: short,
    text: failed || why,
  };
}

function checkpointView(marker) {
  const saved = ["verified_file", "acknowledged_unverified_durability"].includes(marker.status);
  const asked = !marker.status || marker.status === "requested_unverified";
  const size = marker.size_bytes ? `${bytes(marker.size_bytes)}, ` : "";
  const title = saved ? "Checkpoint saved" : asked ? "Checkpoint asked" : "No checkpoint";
  const text = asked
    ? ""
    : size + (CHECKPOINT_WORDS[marker.status] ?? "").replace(/\.$/, "").replace(/^./, (c) => c.toLowerCase());
  return { glyph: "ckpt", tone: "", word: "checkpoint", title, text };
}

function transitionView(marker) {
  const at = marker.charge_bytes ? `charge ${bytes(marker.charge_bytes)}` : "";
  switch (marker.to) {
    case "warning":
      return { glyph: "warn", tone: "warn", word: "warning", title: "Warning", text: at };
    case "normal":
      return { glyph: "run", tone: "", word: "calm", title: "Back to normal", text: at };
    case "checkpoint_requested":
      return {
        glyph: "ckpt",
        tone: "",
        word: "checkpoint",
        title: "Checkpoint asked",
        text: at,
        minor: true,
      };
    case "emergency":
      return { glyph: "limit", tone: "bad", word: "emergency", title: "Emergency", text: at };
    case "supervisor_error":
      return {
        glyph: "kill",
        tone: "bad",
        word: "unreadable",
        title: "Not readable",
        text: "three readings in a row failed",
      };
    default:
      return {
        glyph: "term",
        tone: "",
        word: marker.to ?? "",
        title: marker.to ?? marker.text,
        text: at,
        minor: true,
      };
  }
}

/** A loss as a marker: what is unknown, and why. */
export function lossView(loss) {
  const span = duration((loss.to_us - loss.from_us) / 1000);
  switch (loss.reason) {
    case "clock_gap":
      return {
        glyph: "gap",
        tone: "",
        word: `slept ${span}`,
        title: "Machine slept",
        text: `for ${span}; no samples, nothing judged`,
      };
    case "samples_unusable":
      return {
        glyph: "gap",
        tone: "",
        word: "not read",
        title: "Charge not read",
        text: `unknown for ${span}`,
      };
    default:
      return {
        glyph: "gap",
        tone: "",
        word: "events lost",
        title: `${plural(loss.count, "event")} lost`,
        text: `active and reserved unknown for ${span}`,
      };
  }
}

/** "94 %" of the limit, or "no limit". */
export function shareText(n, limitBytes) {
  if (limitBytes === null || limitBytes === undefined) {
    return "no limit";
  }
  return n === null ? "" : `${percent(n, limitBytes)} %`;
}
