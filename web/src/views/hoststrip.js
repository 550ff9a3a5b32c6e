// The host strip: what this machine has, what jobs and everything else use, and what fits now. The
// figures come from /v1/host; the page adds nothing up.

import { h, text } from "../lib/dom.js";
import { bytes, bytesShort, exact, plural } from "../lib/format.js";
import { on, store } from "../lib/store.js";
import { drawHostBar } from "../plot/bars.js";

const CELLS = [
  ["memory_total_bytes", "Memory", null],
  ["charged_bytes", "Jobs are charged", "jobs"],
  ["other_bytes", "Everything else", "other"],
  ["memory_available_bytes", "Available", null],
  ["committed_bytes", "Committed by limits", "com"],
];

export function hostStrip() {
  const cells = {};
  const cell = (id, label, key, cls) => {
    const val = h("span");
    const note = h("small");
    cells[id] = { val, note };
    return h(
      "div",
      { class: cls },
      h("dt", null, key && h("i", { class: `key ${key}` }), label),
      h("dd", null, val, " ", note),
    );
  };
  const canvas = h("canvas", { class: "hostbar", role: "img" });
  const el = h(
    "section",
    { class: "panel host", "aria-label": "This machine" },
    h(
      "dl",
      null,
      CELLS.map(([id, label, key]) => cell(id, label, key, "")),
      cell("fits_now_bytes", "Fits now", null, "grow"),
    ),
    canvas,
  );
  const draw = () => store.host && drawHostBar(canvas, store.host);
  const show = () => {
    if (store.host) {
      fillCells(cells, store.host);
      canvas.setAttribute("aria-label", sentence(store.host));
      draw();
    }
  };
  const off = on("host", show);
  const resize = new ResizeObserver(draw);
  resize.observe(canvas);
  show();
  return {
    el,
    draw,
    destroy: () => {
      off();
      resize.disconnect();
    },
  };
}

function fillCells(cells, host) {
  for (const [id] of [...CELLS, ["fits_now_bytes"]]) {
    const n = host[id];
    text(cells[id].val, n === null || n === undefined ? "unknown" : bytesShort(n));
    cells[id].val.title = n === null || n === undefined ? "" : `${exact(n)} bytes`;
  }
  text(cells.committed_bytes.note, `of ${plural(host.committed_jobs, "job")}`);
  const short = host.fits_now_bytes < 0;
  if (short) {
    text(cells.fits_now_bytes.val, "nothing");
  }
  text(
    cells.fits_now_bytes.note,
    short ? `more: limits go ${bytes(-host.fits_now_bytes)} past memory` : "more, by limits",
  );
}

function sentence(host) {
  const b = (n) => (n === null || n === undefined ? "an unknown amount" : bytes(n));
  return (
    `Of ${b(host.memory_total_bytes)}, jobs are charged ${b(host.charged_bytes)}, everything else uses ${b(host.other_bytes)}, ` +
    `${b(host.memory_available_bytes)} are available. Limits commit ${b(host.committed_bytes)}.`
  );
}
