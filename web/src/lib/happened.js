// "What happened": every marker and loss of a run in order, with its time and its delay. Pure.

import { duration } from "./format.js";
import { lossView, markerView } from "./words.js";

const US_PER_MS = 1000;

/**
 * input: {startUs, endUs, command, model, outcome}. Returns [{at_us, glyph, tone, title, text, delay}].
 * delay is told for what answers something: TERM to exit, checkpoint asked to saved.
 */
export function happened({ startUs, endUs, command, markers, losses, outcome }) {
  const items = [];
  if (startUs !== null) {
    items.push({ at_us: startUs, glyph: "start", tone: "", title: "Started", text: command });
  }
  for (const m of markers) {
    const view = markerView(m);
    if (!view.minor) {
      items.push({ at_us: m.at_us, kind: m.kind, signal: m.signal ?? null, ...view });
    }
  }
  for (const l of losses) {
    items.push({ at_us: l.from_us, ...lossView(l) });
  }
  if (endUs !== null && !markers.some((m) => m.kind === "exit")) {
    items.push({
      at_us: endUs,
      kind: "exit",
      glyph: "end",
      tone: "",
      title: "Ended",
      text: outcome?.signal ? `by ${outcome.signal}` : "",
    });
  }
  items.sort((a, b) => a.at_us - b.at_us);
  return addDelays(items);
}

function addDelays(items) {
  let last = null;
  for (const item of items) {
    const answers =
      (item.kind === "exit" || item.kind === "signal" || item.title === "Checkpoint saved") && last;
    item.delay = answers ? `after ${duration((item.at_us - last) / US_PER_MS)}` : "";
    if (item.kind === "signal" || item.kind === "limit_crossed" || item.kind === "checkpoint") {
      last = item.at_us;
    }
  }
  return items;
}
