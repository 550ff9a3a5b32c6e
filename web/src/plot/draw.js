// Paints the timeline, back to front: bands, grid, gaps, active envelope, active, reserved, charge,
// band lines, markers, peak, cursor. Everything it paints was decided in model.js and layout.js.

import { clock } from "../lib/format.js";
import { byteTicks, limitAt, lossKeys, nullSpans, runs, timeStep, valueAt } from "./model.js";
import { bandNames, cursor, hline, lensFrame, LINES, lineNames, peak, ring, selection } from "./overlay.js";
import { drawRail } from "./rail.js";
import { font, hatch, token } from "./theme.js";

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
    const edge = Math.max(
      ...gap.keys.map((k) =>
        Math.max(
          valueAt(panel.model, k, gap.from_us - 1)?.max ?? 0,
          valueAt(panel.model, k, gap.to_us + 1)?.max ?? 0,
        ),
      ),
    );
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
    all[key] = runs(panel.model, key, panel.from, panel.to, panel.w, true);
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
