// Paints the timeline, back to front: bands, grid, gaps, active envelope, active, reserved, charge,
// band lines, markers, peak, cursor. Everything it paints was decided in model.js and layout.js.

import { bytes, clock, limit as limitText } from "../lib/format.js";
import { byteTicks, limitAt, lossKeys, nullSpans, runs, timeStep, valueAt } from "./model.js";
import { spread } from "./layout.js";
import { font, hatch, token } from "./theme.js";
import { drawRail } from "./rail.js";

const LINES = [["charge", 2.25, []], ["reserved", 1.75, [6, 3]], ["active", 1.6, []]];

/** Paints one frame. scene: see timeline.js. */
export function paint(g, scene, lay) {
  g.textBaseline = "middle";
  g.lineJoin = "round";
  const ticks = byteTicks(lay.yMax, Math.max(3, Math.floor(lay.height / (34 * lay.u))));
  yLabels(g, lay, ticks);
  g.strokeStyle = token("line");
  g.lineWidth = 1;
  hline(g, 0, lay.w, Math.round(lay.top - 7 * lay.u) + 0.5);
  for (const panel of lay.panels) {
    paintPanel(g, scene, lay, panel, ticks);
  }
  bandNames(g, scene, lay);
}

function paintPanel(g, scene, lay, panel, ticks) {
  const x = (us) => panel.x + ((us - panel.from) / (panel.to - panel.from)) * panel.w;
  const ctx = { g, scene, lay, panel, x, y: lay.y };
  const band = limitAt(scene.model.limits, panel.to);
  bands(ctx, band);
  grid(ctx, ticks, band);
  gaps(ctx);
  lines(ctx);
  bandLines(ctx, band);
  projection(ctx);
  lineNames(ctx, band);
  drawRail(ctx);
  peak(ctx);
  if (panel.kind === "lens") {
    lensFrame(ctx);
  }
  cursor(ctx);
  selection(ctx);
}

function hline(g, x0, x1, y) {
  g.beginPath();
  g.moveTo(x0, y);
  g.lineTo(x1, y);
  g.stroke();
}

function yLabels(g, lay, ticks) {
  g.font = font(0.857);
  g.textAlign = "right";
  g.fillStyle = token("muted");
  const count = Math.floor(lay.yMax / ticks.step + 1e-9);
  for (let i = 0; i <= count; i++) {
    const n = (i * ticks.step) / ticks.unit;
    const label = i === count && !lay.small ? `${n} ${ticks.name}` : String(n);
    g.fillText(label, lay.left - 7 * lay.u, lay.y(i * ticks.step));
  }
  if (lay.small) {
    g.fillText(ticks.name, lay.left - 7 * lay.u, lay.top + 7 * lay.u);
  }
}

function bands({ g, lay, panel, y }, band) {
  if (!band) {
    return;
  }
  const wall = y(band.limit_bytes);
  const emergency = Math.max(lay.top, y(band.emergency_bytes));
  g.fillStyle = token("warn-wash");
  g.fillRect(panel.x, wall, panel.w, y(band.warning_bytes) - wall);
  g.fillStyle = token("limit-wash");
  g.fillRect(panel.x, lay.top, panel.w, wall - lay.top);
  hatch(g, panel.x, emergency, panel.w, wall - emergency, token("limit-hatch"), 9);
  hatch(g, panel.x, lay.top, panel.w, emergency - lay.top, token("limit-hatch"), 4.5);
}

function grid({ g, scene, lay, panel, x, y }, ticks) {
  g.lineWidth = 1;
  g.strokeStyle = token("line");
  for (let n = 0; n <= lay.yMax; n += ticks.step) {
    hline(g, panel.x, panel.x + panel.w, Math.round(y(n)) + 0.5);
  }
  const span = panel.to - panel.from;
  const fine = span < 4e6;
  const step = timeStep(span, panel.w, (fine ? 96 : 74) * lay.u);
  const decimals = step >= 1e6 ? 0 : step >= 1e5 ? 1 : step >= 1e4 ? 2 : 3;
  const offset = new Date(panel.from / 1000).getTimezoneOffset() * 60e6;
  const first = Math.ceil((panel.from - offset) / step) * step + offset;
  const cursorX = scene.cursor === null ? -1e4 : x(scene.cursor);
  g.textAlign = "center";
  g.font = font(0.857);
  g.fillStyle = token("muted");
  for (let us = first; us <= panel.to; us += step) {
    const px = x(us);
    g.beginPath();
    g.moveTo(Math.round(px) + 0.5, lay.top);
    g.lineTo(Math.round(px) + 0.5, lay.top + lay.height + 4);
    g.stroke();
    const inside = px > panel.x + 16 && px < panel.x + panel.w - 8;
    if (inside && Math.abs(px - cursorX) > 76 * lay.u) {
      const label = step >= 60e6 ? clock(us).slice(0, 5) : clock(us, decimals);
      g.fillText(label, px, lay.top + lay.height + 14 * lay.u);
    }
  }
}

/** Gaps of this panel: losses with their reason, and spans where the charge alone is unknown. */
function gapList({ scene, panel }) {
  const named = scene.model.losses.map((l) => ({ ...l, keys: lossKeys(l.reason) }));
  const bare = nullSpans(panel.model, "charge")
    .filter((s) => !named.some((l) => l.keys.includes("charge") && l.from_us <= s.to && l.to_us >= s.from))
    .map((s) => ({ from_us: s.from, to_us: s.to, keys: ["charge"], reason: null }));
  return [...named, ...bare].filter((l) => l.to_us >= panel.from && l.from_us <= panel.to);
}

function gaps(ctx) {
  const { g, lay, panel, x, y } = ctx;
  for (const gap of gapList(ctx)) {
    const x0 = Math.max(panel.x, x(gap.from_us));
    const x1 = Math.min(panel.x + panel.w, x(gap.to_us));
    if (x1 - x0 < 1) {
      continue;
    }
    const edge = Math.max(...gap.keys.map((k) => Math.max(
      valueAt(panel.model, k, gap.from_us - 1)?.max ?? 0, valueAt(panel.model, k, gap.to_us + 1)?.max ?? 0)));
    const y0 = edge > 0 ? Math.max(lay.top, y(edge) - 8) : lay.top;
    const y1 = lay.top + lay.height;
    g.fillStyle = token("surface");
    g.fillRect(x0, y0, x1 - x0, y1 - y0);
    g.fillStyle = token("gap-wash");
    g.fillRect(x0, y0, x1 - x0, y1 - y0);
    g.strokeStyle = token("gap");
    g.lineWidth = 1;
    g.setLineDash([2, 3]);
    for (const px of [x0, x1]) {
      g.beginPath();
      g.moveTo(Math.round(px) + 0.5, y0);
      g.lineTo(Math.round(px) + 0.5, y1);
      g.stroke();
    }
    g.setLineDash([]);
    gapReason(ctx, gap, x0, x1, y1 - y0);
  }
}

function gapReason({ g, lay, scene }, gap, x0, x1, height) {
  const label = gap.reason ? scene.lossText(gap) : "not read";
  g.font = font(0.82);
  if (x1 - x0 < 15 * lay.u || g.measureText(label).width > height - 16) {
    return;
  }
  g.save();
  g.translate((x0 + x1) / 2, lay.top + lay.height - 9);
  g.rotate(-Math.PI / 2);
  g.textAlign = "left";
  g.fillStyle = token("muted");
  g.fillText(label, 0, 0.5);
  g.restore();
}

function lines(ctx) {
  const { g, lay, panel, y } = ctx;
  const all = {};
  for (const [key] of LINES) {
    all[key] = runs(panel.model, key, panel.from, panel.to, panel.w, key !== "charge");
  }
  g.save();
  g.beginPath();
  g.rect(panel.x, lay.top - 2, panel.w, lay.height + 3);
  g.clip();
  g.translate(panel.x, 0);
  for (const run of all.active) {
    envelope(g, run, y);
  }
  const dense = all.active.reduce((n, r) => n + r.length, 0) > panel.w * 0.6;
  stroke(g, all.active, y, token("active"), dense ? 1.1 : 1.6, []);
  stroke(g, all.reserved, y, token("reserved"), 1.75, [6, 3]);
  stroke(g, all.charge, y, token("charge"), 2.25, []);
  g.restore();
  openEnds(ctx);
}

function envelope(g, run, y) {
  g.fillStyle = token("active-wash");
  g.beginPath();
  g.moveTo(run[0][0], y(0));
  for (const [x, , high] of run) {
    g.lineTo(x, y(high));
  }
  g.lineTo(run.at(-1)[0], y(0));
  g.fill();
  g.beginPath();
  run.forEach(([x, , high], i) => (i ? g.lineTo(x, y(high)) : g.moveTo(x, y(high))));
  for (let i = run.length - 1; i >= 0; i--) {
    g.lineTo(run[i][0], y(run[i][1]));
  }
  g.globalAlpha = 0.22;
  g.fillStyle = token("active");
  g.fill();
  g.globalAlpha = 1;
}

function stroke(g, list, y, color, width, dash) {
  g.strokeStyle = color;
  g.lineWidth = width;
  g.setLineDash(dash);
  for (const run of list) {
    g.beginPath();
    run.forEach(([x, , high], i) => (i ? g.lineTo(x, y(high)) : g.moveTo(x, y(high))));
    if (run.length === 1) {
      g.lineTo(run[0][0] + 1, y(run[0][2]));
    }
    g.stroke();
  }
  g.setLineDash([]);
}

/** Open circles where a line stops and starts again at a gap. */
function openEnds(ctx) {
  const { g, panel, x, y } = ctx;
  for (const gap of gapList(ctx)) {
    if (x(gap.to_us) - x(gap.from_us) < 4) {
      continue;
    }
    for (const key of gap.keys) {
      for (const us of [gap.from_us - 1, gap.to_us + 1]) {
        const v = valueAt(panel.model, key, us);
        const px = x(us);
        if (v && px >= panel.x && px <= panel.x + panel.w) {
          ring(g, px, y(v.max), 2.6, token(key), 1.4);
        }
      }
    }
  }
}

function ring(g, px, py, r, color, width) {
  g.beginPath();
  g.arc(px, py, r, 0, 7);
  g.fillStyle = token("surface");
  g.fill();
  g.strokeStyle = color;
  g.lineWidth = width;
  g.stroke();
}

function bandLines({ g, panel, y }, band) {
  if (!band) {
    return;
  }
  const line = (n, color, width, dash) => {
    g.strokeStyle = token(color);
    g.lineWidth = width;
    g.setLineDash(dash);
    hline(g, panel.x, panel.x + panel.w, y(n));
    g.setLineDash([]);
  };
  line(band.recovery_bytes, "gap", 1, [1, 4]);
  line(band.warning_bytes, "warn-line", 1, []);
  line(band.emergency_bytes, "limit", 1, [3, 3]);
  line(band.limit_bytes, "limit", 2.5, []);
}

function bandNames(g, scene, lay) {
  const band = limitAt(scene.model.limits, scene.range.to);
  if (!band) {
    return;
  }
  const x = lay.left + lay.plotWidth + 8 * lay.u;
  const whole = limitText(band.limit_bytes);
  const unit = band.limit_bytes / Number(whole.split(" ")[0]);
  const short = (n) => {
    const v = n / unit;
    return v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  };
  const name = (long, brief) => (lay.small ? brief : long);
  const labels = [
    { text: `${name("emergency", "kill")} ${short(band.emergency_bytes)}`, n: band.emergency_bytes, color: "limit" },
    { text: `limit ${lay.small ? whole.split(" ")[0] : whole}`, n: band.limit_bytes, color: "limit", fixed: true },
    { text: `${name("warning", "warn")} ${short(band.warning_bytes)}`, n: band.warning_bytes, color: "warn" },
    { text: `${name("recovery", "calm")} ${short(band.recovery_bytes)}`, n: band.recovery_bytes, color: "muted" },
  ].map((l) => ({ ...l, y: lay.y(l.n) }));
  g.textAlign = "left";
  for (const l of spread(labels, 14 * lay.u)) {
    g.font = font(0.857, l.fixed ? 650 : 400);
    g.fillStyle = token(l.color);
    g.fillText(l.text, x, l.y);
  }
}

function projection({ g, scene, lay, panel, x, y }) {
  const t = scene.trend;
  if (!t || panel.kind === "lens" || x(t.atUs) > panel.x + panel.w - 3) {
    return;
  }
  const until = Math.min(panel.to, t.atUs + t.msToLimit * 1000);
  g.save();
  g.beginPath();
  g.rect(panel.x, lay.top, panel.w, lay.height);
  g.clip();
  g.strokeStyle = token("charge");
  g.lineWidth = 1.5;
  g.setLineDash([1.5, 4]);
  g.beginPath();
  g.moveTo(x(t.atUs), y(t.at));
  g.lineTo(x(until), y(t.at + t.slope * (until - t.atUs)));
  g.stroke();
  g.restore();
}

/** Names on the lines, where the three are far enough apart and none touches the limit. */
function lineNames({ g, lay, panel, y }, band) {
  if (panel.w < 300 * lay.u || panel.kind === "main") {
    return;
  }
  const gap = 17 * lay.u;
  const wall = band ? y(band.limit_bytes) : -1e4;
  for (let f = 0.1; f < 0.86; f += 0.04) {
    const us = panel.from + f * (panel.to - panel.from);
    const at = LINES.map(([key]) => [key, valueAt(panel.model, key, us)?.max ?? null]);
    const ahead = LINES.map(([key]) => valueAt(panel.model, key, us + 0.08 * (panel.to - panel.from))?.max ?? null);
    if (at.some(([, v]) => v === null) || ahead.some((v) => v === null)) {
      continue;
    }
    const ys = at.map(([key, v], i) => [key, key === "active" ? y(Math.min(v, ahead[i])) + 13 * lay.u : y(Math.max(v, ahead[i])) - 10 * lay.u]);
    const apart = ys[1][1] - ys[0][1] > gap && ys[2][1] - ys[1][1] > gap;
    if (apart && ys.every(([, py]) => Math.abs(py - wall) > 12 * lay.u && py < lay.top + lay.height - 8)) {
      ys.forEach(([key, py]) => haloText(g, key, panel.x + f * panel.w, py, token(key)));
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

function peak({ g, scene, lay, panel, x, y }) {
  const p = scene.model.peak.charge;
  if (!p || panel.kind === "main" || p.at_us < panel.from || p.at_us > panel.to) {
    return;
  }
  const px = x(p.at_us);
  const py = y(p.charge_bytes);
  ring(g, px, py, 4.5, token("charge"), 2);
  g.font = font(0.857, 650);
  const label = `peak ${bytes(p.charge_bytes)}`;
  const w = g.measureText(label).width + 12 * lay.u;
  const h = 19 * lay.u;
  const bx = Math.max(panel.x + 3, Math.min(px - w / 2, panel.x + panel.w - w - 3));
  const by = py - h - 9 < lay.top + 2 ? py + 9 : py - h - 9;
  g.fillStyle = token("surface");
  g.fillRect(bx, by, w, h);
  g.strokeStyle = token("line-strong");
  g.lineWidth = 1;
  g.strokeRect(bx + 0.5, by + 0.5, w - 1, h - 1);
  g.fillStyle = token("charge");
  g.textAlign = "left";
  g.fillText(label, bx + 6 * lay.u, by + h / 2 + 0.5);
}

function lensFrame({ g, scene, lay, panel }) {
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
  g.fillText(`the stop, ${((scene.stop.to - scene.stop.from) / 1e6).toFixed(0)} s`, panel.x + 7, y - 11 * lay.u);
}

function cursor({ g, scene, lay, panel, x, y }) {
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

function selection({ g, scene, lay, panel, x }) {
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

