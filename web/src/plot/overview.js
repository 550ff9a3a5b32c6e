// The overview below the plot: the whole run's charge, the limit, and the window with its handles.

import { duration } from "../lib/format.js";
import { limitAt, runs, yTop } from "./model.js";
import { fit, font, token } from "./theme.js";

const HANDLE = 7;

/** Paints it. geometry: {left, plotWidth, u, small} of the plot above. */
export function drawOverview(canvas, model, range, geometry) {
  const box = fit(canvas);
  if (!box || !model) {
    return null;
  }
  const { g, h } = box;
  const { left, plotWidth: width, u } = geometry;
  const span = Math.max(1, model.to - model.from);
  const x = (us) => left + Math.min(1, Math.max(0, (us - model.from) / span)) * width;
  const top = yTop(model);
  const y = (n) => h - 6 - (n / top) * (h - 12);
  const key = model.chargeMax.some((v) => v !== null) ? "charge" : "active"; // no charge: an external job
  for (const run of runs(model, key, model.from, model.to, width, false)) {
    area(g, run, left, y);
  }
  const band = limitAt(model.limits, model.to);
  if (band) {
    g.strokeStyle = token("limit");
    g.lineWidth = 1.5;
    g.beginPath();
    g.moveTo(left, y(band.limit_bytes));
    g.lineTo(left + width, y(band.limit_bytes));
    g.stroke();
  }
  const x0 = x(range.from);
  const x1 = Math.max(x0 + 2, x(range.to));
  frame(g, h, left, width, x0, x1);
  if (!geometry.small) {
    g.font = font(0.82);
    g.fillStyle = token("muted");
    g.textAlign = "left";
    g.textBaseline = "middle";
    g.fillText(duration(span / 1000), left + width + 8 * u, h / 2);
  }
  return { x0, x1, us: (px) => model.from + ((px - left) / width) * span, span };
}

function area(g, run, left, y) {
  g.fillStyle = token("p8");
  g.beginPath();
  g.moveTo(left + run[0][0], y(0));
  run.forEach(([x, , high]) => g.lineTo(left + x, y(high)));
  g.lineTo(left + run.at(-1)[0], y(0));
  g.fill();
  g.strokeStyle = token("charge");
  g.lineWidth = 1;
  g.beginPath();
  run.forEach(([x, , high], i) => (i ? g.lineTo(left + x, y(high)) : g.moveTo(left + x, y(high))));
  g.stroke();
}

function frame(g, h, left, width, x0, x1) {
  g.fillStyle = token("bg");
  g.globalAlpha = 0.72;
  g.fillRect(left, 0, x0 - left, h);
  g.fillRect(x1, 0, left + width - x1, h);
  g.globalAlpha = 1;
  g.strokeStyle = token("ink");
  g.lineWidth = 1;
  g.strokeRect(x0 + 0.5, 2.5, Math.max(2, x1 - x0 - 1), h - 5);
  g.fillStyle = token("ink");
  for (const x of [x0, x1]) {
    g.fillRect(x - 2, h / 2 - 9, 4, 18);
  }
}

/** Drags the window or a handle. get() gives the last geometry; set(from, to) takes the new range. */
export function overviewDrag(canvas, get, set) {
  canvas.addEventListener("pointerdown", (e) => {
    const geo = get();
    if (!geo) {
      return;
    }
    e.preventDefault();
    canvas.setPointerCapture(e.pointerId);
    const start = e.offsetX;
    const from = geo.us(geo.x0);
    const to = geo.us(geo.x1);
    const part = partAt(geo, start);
    if (part === "outside") {
      const half = (to - from) / 2;
      set(geo.us(start) - half, geo.us(start) + half);
      return;
    }
    const move = (ev) => {
      const d = geo.us(ev.offsetX) - geo.us(start);
      set(part === "right" ? from : from + d, part === "left" ? to : to + d);
    };
    canvas.addEventListener("pointermove", move);
    const done = () => canvas.removeEventListener("pointermove", move);
    canvas.addEventListener("pointerup", done, { once: true });
    canvas.addEventListener("pointercancel", done, { once: true });
  });
}

function partAt(geo, px) {
  if (Math.abs(px - geo.x0) <= HANDLE) {
    return "left";
  }
  if (Math.abs(px - geo.x1) <= HANDLE) {
    return "right";
  }
  return px > geo.x0 && px < geo.x1 ? "window" : "outside";
}
