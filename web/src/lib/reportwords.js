// The report in words: sections of [head, paragraphs]. A paragraph is a string, or {strong, text}.
// Pure, and tolerant: what a report does not say is left out, never made up.

import { bytes, duration, exact, limit, plural } from "./format.js";
import { CHECKPOINT_WORDS, reasonText, value } from "./words.js";

/** [{head, paras: [[text, strong]...], sum: rows|null}] */
export function reportSections(report, job) {
  return [
    ending(report),
    overshoot(report, job),
    boundary(report),
    latencies(report),
    checkpoint(report),
    escapes(report),
    reclamation(report),
    recorder(report),
    calibration(report),
    privacy(report),
  ].filter((s) => s && (s.paras.length > 0 || s.sum));
}

const section = (head, ...paras) => ({ head, paras: paras.filter(Boolean), sum: null });
const get = (o, ...path) =>
  path.reduce((at, key) => (at === null || at === undefined ? undefined : at[key]), o);
const first = (...list) => list.find((v) => v !== null && v !== undefined);
/** A tagged value or a bare number. */
const num = (v) => (typeof v === "number" ? v : value(v));

function ending(report) {
  const o = report.outcome ?? {};
  const survivors = o.survivors ?? [];
  return section(
    "How it ended",
    o.sentence,
    signalsText(report),
    survivors.length
      ? `Still there when the report was written: ${survivors.map((s) => s.executable_basename ?? s.basename ?? s).join(", ")}.`
      : "",
  );
}

function signalsText(report) {
  const sent = report.signals ?? [];
  if (sent.length === 0) {
    return "Bulkhead sent no signal.";
  }
  const kills = sent.filter((s) => s.signal === "SIGKILL").length;
  const names = sent
    .map((s) => s.signal)
    .filter((s, i, all) => all.indexOf(s) === i)
    .join(", ");
  return `Signals sent: ${names}.${kills ? "" : " KILL was not needed."}`;
}

function overshoot(report, job) {
  const c = report.configuration ?? {};
  const p = report.peaks ?? {};
  const limitBytes = num(first(c.limit_bytes, c.limit)) ?? job.limit_bytes;
  const peak =
    num(first(get(p, "sampled", "aggregate"), get(p, "sampled", "bytes"), p.sampled)) ??
    value(job.peak_charge);
  if (peak === null || peak === undefined) {
    return section("Memory", "Its peak charge is unknown.");
  }
  const s = section(limitBytes ? "How far past the limit" : "Memory");
  s.sum = [["Peak charge", exact(peak), "bytes, sampled"]];
  if (limitBytes) {
    const over = peak - limitBytes;
    const decision = num(first(p.decision_overshoot_bytes, p.decision_overshoot));
    s.paras.push(
      over <= 0
        ? `It stayed ${bytes(-over)} below its ${limit(limitBytes)} limit.`
        : [
            decision === null || decision === undefined ? "" : `${bytes(decision)} at the decision, `,
            `${bytes(over)} at most.`,
          ].join(""),
    );
    s.sum.push(
      ["Limit", exact(limitBytes), "bytes"],
      ["Overshoot", exact(Math.max(0, over)), `bytes = ${bytes(Math.max(0, over))}`],
    );
  }
  return s;
}

function boundary(report) {
  const b = first(get(report, "host", "boundary"), report.boundary);
  const metric = first(get(report, "host", "footprint_metric"), get(report, "host", "footprint"));
  const kernel = b === "kernel_enforced" || b?.kind === "kernel_enforced";
  return section(
    "Boundary",
    kernel
      ? "The kernel enforced the limit as well."
      : "Sampled from outside; the kernel did not enforce the limit.",
    metric ? `Charge is ${String(metric).replaceAll("_", " ")}.` : "",
  );
}

function latencies(report) {
  const l = report.latencies ?? {};
  const tell = (key, words) => {
    const v = num(l[key]);
    return v === null || v === undefined ? "" : `${words}: ${duration(v)}.`;
  };
  const lines = [
    tell("decision_to_signal_ms", "From the decision to the signal"),
    tell("signal_to_lower_sample_ms", "From the signal to the first lower sample"),
    tell("to_empty_ms", "Until no process was left"),
  ];
  return section("How fast", lines.filter(Boolean).join(" "));
}

function checkpoint(report) {
  const c = report.checkpoint;
  if (!c) {
    return null;
  }
  const status = first(c.status, c.result, c.word);
  const size = num(first(c.size_bytes, get(c, "artifact", "size_bytes")));
  return section(
    "Checkpoint",
    (CHECKPOINT_WORDS[status] ?? reasonText(status ?? "unknown")) + (size ? ` ${bytes(size)}.` : ""),
  );
}

function escapes(report) {
  const e = report.escape;
  if (!e) {
    return null;
  }
  if (!e.detected) {
    return section("Escapes", "None. No process left the group or outlived the job.");
  }
  const names = (e.identities ?? []).map((i) => i.executable_basename ?? i.basename ?? i).join(", ");
  return section(
    "Escapes",
    `${plural(e.escaped_count, "process left", "processes left")} the group${names ? `: ${names}` : ""}. They were counted and stopped like the rest.`,
  );
}

const VERDICTS = {
  reclaimed: "Reclaimed.",
  partly: "Partly reclaimed.",
  stranded: "Stranded: memory did not come back after the end.",
  unknown: "Unknown.",
  pending: "The readings 2 s and 10 s after the end are not in yet.",
};

function reclamation(report) {
  const r = report.reclamation;
  if (!r) {
    return null;
  }
  const share = num(first(r.returned_share, r.share));
  const back =
    share === null || share === undefined
      ? ""
      : ` ${Math.round(share * 100)} % of its peak was available again.`;
  return section("Memory given back", (VERDICTS[r.verdict] ?? VERDICTS.pending) + back);
}

function recorder(report) {
  const r = first(report.recorder, get(report, "capabilities", "recorder"));
  if (!r || typeof r !== "object") {
    return null;
  }
  if (r.state === "absent" || r.state === "off") {
    return section(
      "Recorder",
      `Allocations were not recorded: ${reasonText(r.reason ?? "no reason was given")}.`,
    );
  }
  const lost = num(r.lost) ?? 0;
  const holes = num(r.holes) ?? 0;
  return section(
    "Recorder",
    `${plural(num(r.events) ?? 0, "event")} recorded, ${lost === 0 ? "none lost" : `${exact(lost)} lost`}.`,
    holes > 0 ? `${plural(holes, "hole")} where a thread was killed while it wrote.` : "",
    lost > 0 ? "Active and reserved are unknown there and exact everywhere else." : "",
  );
}

function calibration(report) {
  const c = report.calibration;
  if (!c) {
    return null;
  }
  const peak = num(first(c.peak_aggregate, c.peak_aggregate_bytes));
  return section(
    "For choosing a limit",
    peak ? `Highest charge seen: ${bytes(peak)} (${exact(peak)} bytes).` : "",
    first(c.guidance, c.guidance_text, ""),
    "This is observation, not a certified limit: Bulkhead does not choose one.",
  );
}

function privacy(report) {
  return report.privacy
    ? section(
        "Privacy",
        "The report holds no arguments, paths, prompts or environment. Nothing was uploaded.",
      )
    : null;
}

/** {past: bytes|null, returned: share|null} for the facts beside the headline. */
export function reportFacts(report) {
  const p = report?.peaks ?? {};
  return {
    past:
      num(first(p.overshoot_bytes, p.maximum_overshoot_bytes, p.peak_overshoot_bytes, p.maximum_overshoot)) ??
      null,
    returned:
      num(first(get(report, "reclamation", "returned_share"), get(report, "reclamation", "share"))) ?? null,
  };
}
