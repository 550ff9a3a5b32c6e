// The small bars: a job's charge against its limit, and the host's memory.

import { fit, hatch, token } from "./theme.js";

const SCALE = 1.2;

/** A limit bar, 0 to 120 % of the job's own limit: the walls of a column stand in one line. */
export function drawLimitBar(canvas, bar) {
  const box = fit(canvas);
  if (!box) {
    return;
  }
  const { g, w, h } = box;
  if (bar.peak === null && bar.charge === null) {
    g.fillStyle = token("sunken");
    g.fillRect(0, h / 2 - 1, w, 2);
    return;
  }
  if (!bar.limit) {
    dashed(g, w, h);
    return;
  }
  const x = (f) => Math.round((Math.min(f, SCALE) / SCALE) * w);
  drawBands(g, w, h, x, bar);
  if (bar.live) {
    drawLevels(g, w, h, bar);
  } else {
    g.fillStyle = token("line-strong");
    g.fillRect(0, h / 2 - 1, x((bar.peak ?? 0) / bar.limit), 2);
  }
  g.fillStyle = token("limit");
  g.fillRect(x(1) - 1, 0, 2.5, h);
  if (bar.peak !== null) {
    g.fillStyle = token("charge");
    g.fillRect(Math.min(x(bar.peak / bar.limit), w - 2) - 1, 3, 2, h - 6);
    if (bar.peak / bar.limit > SCALE) {
      arrow(g, w, h);
    }
  }
}

function dashed(g, w, h) {
  g.strokeStyle = token("line-strong");
  g.setLineDash([3, 3]);
  g.beginPath();
  g.moveTo(0, h / 2);
  g.lineTo(w, h / 2);
  g.stroke();
  g.setLineDash([]);
}

function drawBands(g, w, h, x, { limit, bands }) {
  const warn = x((bands?.warning_bytes ?? limit * 0.9) / limit);
  const emergency = x((bands?.emergency_bytes ?? limit * 1.1) / limit);
  const wall = x(1);
  const top = 2;
  const height = h - 4;
  g.fillStyle = token("sunken");
  g.fillRect(0, top, warn, height);
  g.fillStyle = token("warn-wash");
  g.fillRect(warn, top, wall - warn, height);
  g.fillStyle = token("limit-wash");
  g.fillRect(wall, top, w - wall, height);
  hatch(g, wall, top, emergency - wall, height, token("limit-hatch"), 6);
  hatch(g, emergency, top, w - emergency, height, token("limit-hatch"), 3.5);
}

function drawLevels(g, w, h, { charge, active, limit }) {
  const x = (n) => (Math.min(n / limit, SCALE) / SCALE) * w;
  if (charge !== null) {
    g.fillStyle = token("charge");
    g.fillRect(0, h / 2 - 4, x(charge), 5);
  }
  if (active !== null) {
    g.fillStyle = token("active");
    g.fillRect(0, h / 2 + 2, x(active), 2);
  }
}

function arrow(g, w, h) {
  g.fillStyle = token("charge");
  g.beginPath();
  g.moveTo(w, h / 2);
  g.lineTo(w - 6, h / 2 - 4);
  g.lineTo(w - 6, h / 2 + 4);
  g.fill();
}

/** Jobs from the left, largest first; everything else from the right; the bracket is what limits commit. */
export function drawHostBar(canvas, host) {
  const box = fit(canvas);
  if (!box) {
    return;
  }
  const { g, w } = box;
  const x = (n) => (Math.max(0, n) / host.memory_total_bytes) * w;
  g.fillStyle = token("sunken");
  g.fillRect(0, 6, w, 10);
  let left = 0;
  g.fillStyle = token("charge");
  for (const { charge_bytes: n } of host.charged) {
    g.fillRect(left, 6, Math.max(1, x(n) - 1.5), 10);
    left += x(n);
  }
  g.fillStyle = token("p8");
  g.fillRect(w - x(host.other_bytes), 6, x(host.other_bytes), 10);
  if (host.committed_bytes > 0) {
    bracket(g, Math.min(w - 1, x(host.committed_bytes)));
  }
}

function bracket(g, right) {
  g.strokeStyle = token("limit");
  g.lineWidth = 1.5;
  g.beginPath();
  g.moveTo(0.75, 17.5);
  g.lineTo(0.75, 21);
  g.lineTo(right, 21);
  g.lineTo(right, 17.5);
  g.stroke();
  g.fillStyle = token("limit");
  g.fillRect(right - 1, 2, 2.5, 19);
}
