// What lies over the timeline's lines: their names, the bands' names at the right, the peak, the frame
// of the stop lens, the cursor and the selection. Called by draw.js.

import { bytes, clock, limit as limitText } from "../lib/format.js";
import { spread } from "./layout.js";
import { extremes, limitAt, valueAt } from "./model.js";
import { font, token } from "./theme.js";

/** Front to back: [series, width, dash]. */
export const LINES = [
  ["charge", 2.25, []],
  ["reserved", 1.75, [6, 3]],
  ["active", 1.6, []],
];

export function hline(g, x0, x1, y) {
  g.beginPath();
  g.moveTo(x0, y);
  g.lineTo(x1, y);
  g.stroke();
}

export function ring(g, px, py, r, color, width) {
  g.beginPath();
  g.arc(px, py, r, 0, 7);
  g.fillStyle = token("surface");
  g.fill();
  g.strokeStyle = color;
  g.lineWidth = width;
  g.stroke();
}

export function bandNames(g, scene, lay) {
  const band = limitAt(scene.model.limits, scene.range.to);
  if (!band) {
    return;
  }
  const x = lay.left + lay.plotWidth + 8 * lay.u;
  const whole = limitText(band.limit_bytes);
  const unit = band.limit_bytes / Number(whole.split(" ")[0]);
  const short = (n) => {
    const v = n / unit;
    return v
      .toFixed(v < 10 ? 2 : v < 100 ? 1 : 0)
      .replace(/(\.\d*?)0+$/, "$1")
      .replace(/\.$/, "");
  };
  const name = (long, brief) => (lay.small ? brief : long);
  const labels = [
    {
      text: `${name("emergency", "kill")} ${short(band.emergency_bytes)}`,
      n: band.emergency_bytes,
      color: "limit",
    },
    {
      text: `limit ${lay.small ? whole.split(" ")[0] : whole}`,
      n: band.limit_bytes,
      color: "limit",
      fixed: true,
    },
    { text: `${name("warning", "warn")} ${short(band.warning_bytes)}`, n: band.warning_bytes, color: "warn" },
    {
      text: `${name("recovery", "calm")} ${short(band.recovery_bytes)}`,
      n: band.recovery_bytes,
      color: "muted",
    },
  ].map((l) => ({ ...l, y: lay.y(l.n) }));
  g.textAlign = "left";
  for (const l of spread(labels, 14 * lay.u)) {
    g.font = font(0.857, l.fixed ? 650 : 400);
    g.fillStyle = token(l.color);
    g.fillText(l.text, x, l.y);
  }
}

/** Names on the lines: charge above all, reserved between it and the next, active below; only where
 * there is room for all three and none touches the limit. */
export function lineNames({ g, lay, panel, y }, band) {
  if (panel.w < 300 * lay.u || panel.kind === "main") {
    return;
  }
  const text = 14 * lay.u;
  const wall = band ? y(band.limit_bytes) : -1e4;
  const span = panel.to - panel.from;
  for (let f = 0.06; f < 0.86; f += 0.03) {
    const from = panel.from + f * span;
    const until = from + (62 * lay.u * span) / panel.w;
    const [charge, reserved, active] = ["charge", "reserved", "active"].map((key) =>
      extremes(panel.model, key, from, until),
    );
    if (!charge || !reserved || !active) {
      continue;
    }
    const names = [
      ["charge", y(charge.max) - 10 * lay.u],
      ["reserved", (y(charge.min) + y(reserved.max)) / 2],
      ["active", y(active.min) + 12 * lay.u],
    ];
    const room = y(reserved.max) - y(charge.min) > text;
    const clear = names.every(
      ([, py]) => Math.abs(py - wall) > text && py > lay.top + text && py < lay.top + lay.height - 8,
    );
    if (room && clear) {
      names.forEach(([key, py]) => haloText(g, key, panel.x + f * panel.w, py, token(key)));
      return;
    }
  }
}

function haloText(g, label, px, py, color) {
  g.font = font(0.9, 600);
  g.textAlign = "left";
  g.lineWidth = 4;
  g.strokeStyle = token("surface");
  g.strokeText(label, px, py);
  g.fillStyle = color;
  g.fillText(label, px, py);
}

/** The charge's peak; where no charge is known (a job that runs elsewhere) that of active. */
function peakOf({ charge, active }) {
  if (charge) {
    return { at_us: charge.at_us, bytes: charge.charge_bytes, color: token("charge") };
  }
  return active ? { at_us: active.at_us, bytes: active.active_bytes, color: token("active") } : null;
}

export function peak({ g, scene, lay, panel, x, y }) {
  const p = peakOf(scene.model.peak);
  if (!p || panel.kind === "main" || p.at_us < panel.from || p.at_us > panel.to) {
    return;
  }
  const px = x(p.at_us);
  const py = y(p.bytes);
  ring(g, px, py, 4.5, p.color, 2);
  g.font = font(0.857, 650);
  const label = `peak ${bytes(p.bytes)}`;
  const w = g.measureText(label).width + 12 * lay.u;
  const h = 19 * lay.u;
  // above the ring; without room there beside it, so that the wall stays in sight
  const above = py - h - 9 >= lay.top + 2;
  const beside = px - w - 9 > panel.x ? px - w - 9 : px + 9;
  const bx = above ? Math.max(panel.x + 3, Math.min(px - w / 2, panel.x + panel.w - w - 3)) : beside;
  const by = above ? py - h - 9 : Math.max(lay.top + 2, py - h / 2);
  g.fillStyle = token("surface");
  g.fillRect(bx, by, w, h);
  g.strokeStyle = token("line-strong");
  g.lineWidth = 1;
  g.strokeRect(bx + 0.5, by + 0.5, w - 1, h - 1);
  g.fillStyle = p.color;
  g.textAlign = "left";
  g.fillText(label, bx + 6 * lay.u, by + h / 2 + 0.5);
}

export function lensFrame({ g, scene, lay, panel }) {
  const main = lay.panels[0];
  const mx = main.x + ((panel.from - main.from) / (main.to - main.from)) * main.w;
  const y = lay.top + lay.height;
  g.strokeStyle = token("line-strong");
  g.lineWidth = 1;
  g.beginPath();
  g.moveTo(mx, y);
  g.lineTo(mx, y + 9);
  g.lineTo(panel.x - 6, y + 9);
  g.stroke();
  g.strokeRect(panel.x - 0.5, lay.top - 0.5, panel.w + 1, lay.height + 1);
  g.font = font(0.857);
  g.fillStyle = token("muted");
  g.textAlign = "left";
  g.fillText(
    `the stop, ${((scene.stop.to - scene.stop.from) / 1e6).toFixed(0)} s`,
    panel.x + 7,
    y - 11 * lay.u,
  );
}

export function cursor({ g, scene, lay, panel, x, y }) {
  const us = scene.cursor;
  const inLens = lay.panels.length > 1 && us >= scene.stop.from && us <= scene.stop.to;
  if (us === null || us < panel.from || us > panel.to || (panel.kind === "main" && inLens)) {
    return;
  }
  const px = x(us);
  g.strokeStyle = token("ink");
  g.lineWidth = 1;
  g.beginPath();
  g.moveTo(px, lay.top);
  g.lineTo(px, lay.top + lay.height + 5);
  g.stroke();
  for (const [key] of LINES) {
    const v = valueAt(panel.model, key, us);
    if (v) {
      g.beginPath();
      g.arc(px, y(v.max), 3.5, 0, 7);
      g.fillStyle = token(key);
      g.fill();
      g.strokeStyle = token("surface");
      g.lineWidth = 1.5;
      g.stroke();
    }
  }
  const label = clock(us, panel.to - panel.from < 10e6 ? 3 : 1);
  g.font = font(0.857, 600);
  const w = g.measureText(label).width + 12 * lay.u;
  const h = 18 * lay.u;
  const bx = Math.min(lay.w - w - 2, Math.max(2, px - w / 2));
  g.fillStyle = token("ink");
  g.fillRect(bx, lay.top + lay.height + 5, w, h);
  g.fillStyle = token("surface");
  g.textAlign = "center";
  g.fillText(label, bx + w / 2, lay.top + lay.height + 5.5 + h / 2);
}

export function selection({ g, scene, lay, panel, x }) {
  const s = scene.selection;
  if (!s || s.kind !== panel.kind) {
    return;
  }
  const x0 = x(Math.min(s.from, s.to));
  const x1 = x(Math.max(s.from, s.to));
  g.fillStyle = token("ink");
  g.globalAlpha = 0.12;
  g.fillRect(x0, lay.top, x1 - x0, lay.height);
  g.globalAlpha = 1;
  g.strokeStyle = token("ink");
  g.lineWidth = 1;
  g.strokeRect(x0 + 0.5, lay.top + 0.5, Math.max(1, x1 - x0 - 1), lay.height - 1);
}
