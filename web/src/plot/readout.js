// The readout above the plot is its legend: time, charge, reserved, active, MLX cache, outside MLX,
// each with its exact bytes below.

import { h, swatch, text } from "../lib/dom.js";
import { bytes, clock, dateClockZone, duration, exact, percent } from "../lib/format.js";
import { lossView } from "../lib/words.js";
import { limitAt, lossKeys, valueAt } from "./model.js";

const CELLS = [
  ["at", "At", null],
  ["charge", "Charge", "charge"],
  ["reserved", "Reserved", "reserved"],
  ["active", "Active", "active"],
  ["cache", "MLX cache", null],
  ["outside", "Outside MLX", null],
];

export function createReadout() {
  const cells = {};
  const el = h(
    "div",
    { class: "readout" },
    CELLS.map(([id, label, key]) => {
      const name = h("span", null, label);
      const val = h("div", { class: "val" });
      const ex = h("div", { class: "ex" });
      cells[id] = { name, val, ex };
      return h("div", { class: `c-${id}` }, h("div", { class: "label" }, key && swatch(key), name), val, ex);
    }),
  );
  const set = (id, val, ex, name, title) => {
    const cell = cells[id];
    text(cell.val, val);
    text(cell.ex, ex);
    if (name) {
      text(cell.name, name);
    }
    cell.val.title = title ?? "";
  };
  return { el, show: (model, us, startUs) => show(set, model, us, startUs) };
}

function show(set, model, us, startUs) {
  if (us === null) {
    CELLS.forEach(([id]) => set(id, "–", " "));
    return null;
  }
  set(
    "at",
    clock(us, 3),
    startUs === null ? " " : `${duration((us - startUs) / 1000)} in`,
    "At",
    dateClockZone(us),
  );
  const now = {};
  for (const key of ["charge", "reserved", "active"]) {
    now[key] = valueAt(model, key, us);
  }
  const band = limitAt(model.limits, us);
  const share = now.charge && band ? `, ${percent(now.charge.max, band.limit_bytes, 1)} %` : "";
  one(set, "charge", now.charge, reason(model, "charge", us), `Charge${share}`);
  one(set, "reserved", now.reserved, reason(model, "reserved", us));
  one(set, "active", now.active, reason(model, "active", us));
  difference(set, "cache", now.reserved, now.active, "reserved − active");
  difference(set, "outside", now.charge, now.reserved, "charge − reserved");
  return now;
}

function one(set, id, v, why, name) {
  if (!v) {
    set(id, "unknown", why, name);
    return;
  }
  const spread = v.min === v.max ? exact(v.max) : `${exact(v.max)} at most`;
  set(
    id,
    bytes(v.max),
    spread,
    name,
    v.min === v.max
      ? `${exact(v.max)} bytes`
      : `${exact(v.min)} to ${exact(v.max)} bytes here; zoom in for one value`,
  );
}

function difference(set, id, a, b, formula) {
  if (!a || !b) {
    set(id, "unknown", formula);
    return;
  }
  const n = a.max - b.max;
  set(id, bytes(n), formula, null, `${exact(n)} bytes`);
}

function reason(model, key, us) {
  const loss = model.losses.find((l) => l.from_us <= us && us <= l.to_us && lossKeys(l.reason).includes(key));
  if (loss) {
    return lossView(loss).title.toLowerCase();
  }
  return key === "charge" ? "no sample here" : "not recorded here";
}
