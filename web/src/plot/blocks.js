// Paints allocation blocks over time: the folded strip of what lives throughout under a zigzag, the
// largest blocks stacked above it, the sum of the others on top. Colours by primitive.

import { bytes, bytesShort, clock } from "../lib/format.js";
import { blockAt } from "../lib/blocks.js";
import { byteTicks, timeStep } from "./model.js";
import { fit, font, rootSize, token } from "./theme.js";

/**
 * scene: {from, to, base: [{primitive, bytes}], baseBytes, stack: {shown, top}, unfolded, picked,
 * color(primitive)}. Returns {pick(x, y)} or null when hidden.
 */
export function paintBlocks(canvas, scene) {
  const box = fit(canvas);
  if (!box) {
    return null;
  }
  const { g, w, h } = box;
  const u = rootSize() / 14;
  const left = (w < 600 * u ? 44 : 62) * u;
  const strip = scene.unfolded || scene.baseBytes === 0 ? 0 : 46 * u;
  const area = {
    x: left,
    y: 12 * u,
    w: w - left - 14 * u,
    h: h - 12 * u - 26 * u - (strip ? strip + 10 * u : 0),
  };
  const floor = scene.unfolded ? 0 : scene.baseBytes;
  const peak = Math.max(1, ...scene.stack.top.map(([, a, b]) => a + b));
  const top = (peak + scene.baseBytes - floor) * 1.03;
  const x = (us) => area.x + ((us - scene.from) / Math.max(1, scene.to - scene.from)) * area.w;
  const y = (above) => area.y + area.h - ((above + scene.baseBytes - floor) / top) * area.h;
  const ctx = { g, scene, area, u, x, y, top, floor, strip };
  g.textBaseline = "middle";
  axes(ctx, h);
  if (scene.unfolded) {
    solidBase(ctx);
  }
  others(ctx);
  blocks(ctx);
  if (strip) {
    foldedStrip(ctx);
  }
  return { pick: (px, py) => pick(ctx, px, py) };
}

function axes({ g, scene, area, u, x, floor, top }, h) {
  const ticks = byteTicks(top, Math.max(3, Math.floor(area.h / (40 * u))));
  g.font = font(0.857);
  g.lineWidth = 1;
  const scale = (n) => area.y + area.h - ((n - floor) / top) * area.h;
  for (let n = Math.ceil(floor / ticks.step) * ticks.step; n <= floor + top; n += ticks.step) {
    g.strokeStyle = token("line");
    g.beginPath();
    g.moveTo(area.x, Math.round(scale(n)) + 0.5);
    g.lineTo(area.x + area.w, Math.round(scale(n)) + 0.5);
    g.stroke();
    g.fillStyle = token("muted");
    g.textAlign = "right";
    g.fillText(bytesShort(n), area.x - 6 * u, scale(n));
  }
  const step = timeStep(scene.to - scene.from, area.w, 88 * u);
  const decimals = step >= 1e6 ? 0 : step >= 1e5 ? 1 : step >= 1e4 ? 2 : 3;
  g.textAlign = "center";
  for (let us = Math.ceil(scene.from / step) * step; us <= scene.to; us += step) {
    if (x(us) > area.x + 24 * u && x(us) < area.x + area.w - 24 * u) {
      g.fillText(clock(us, decimals), x(us), h - 12 * u);
    }
  }
}

function solidBase({ g, scene, area, y }) {
  g.fillStyle = token("p8");
  g.fillRect(area.x, y(0), area.w, area.y + area.h - y(0));
}

/** The blocks too small to be drawn one by one, as one area on top of the others. */
function others({ g, scene, x, y }) {
  const { top } = scene.stack;
  g.fillStyle = token("p8");
  g.beginPath();
  g.moveTo(x(top[0][0]), y(0));
  let last = 0;
  for (const [t, shown, rest] of top) {
    g.lineTo(x(Math.max(t, scene.from)), y(last));
    last = shown + rest;
    g.lineTo(x(Math.max(t, scene.from)), y(last));
  }
  g.lineTo(x(scene.to), y(last));
  g.lineTo(x(scene.to), y(0));
  g.fill();
}

function shape({ g, scene, x, y }, b) {
  const at = (t) => x(Math.min(scene.to, Math.max(scene.from, t)));
  g.beginPath();
  b.pts.forEach(([t, v], i) => (i ? g.lineTo(at(t), y(v)) : g.moveTo(at(t), y(v))));
  for (let i = b.pts.length - 1; i >= 0; i--) {
    g.lineTo(at(b.pts[i][0]), y(b.pts[i][1] + b.size));
  }
  g.closePath();
}

function blocks(ctx) {
  const { g, scene, area, top } = ctx;
  for (const b of scene.stack.shown) {
    const px = (b.size / top) * area.h;
    shape(ctx, b);
    g.fillStyle = token(`p${scene.color(b.primitive)}`);
    g.fill();
    if (px > 3) {
      g.strokeStyle = token("surface");
      g.lineWidth = px > 10 ? 1 : 0.5;
      g.stroke();
    }
    if (px > 15) {
      name(ctx, b);
    }
  }
  if (scene.picked?.pts) {
    shape(ctx, scene.picked);
    g.strokeStyle = token("ink");
    g.lineWidth = 2;
    g.stroke();
  }
}

/** A block's primitive, on its longest stretch that is level to the pixel, where it fits. */
function name({ g, x, y, u, scene, top, area }, b) {
  const label = b.primitive ?? "array";
  g.font = font(0.857, 600);
  const best = longestLevel(b.pts, top / area.h, (t) => x(Math.max(scene.from, t)));
  if (g.measureText(label).width + 12 * u < best.wide) {
    g.fillStyle = token("p-ink");
    g.textAlign = "left";
    g.fillText(label, best.x + 6 * u, y(best.y + b.size / 2));
  }
}

function longestLevel(pts, pixel, x) {
  let best = { wide: 0, x: 0, y: 0 };
  let start = 0;
  for (let i = 1; i < pts.length; i++) {
    if (Math.abs(pts[i][1] - pts[start][1]) >= pixel) {
      start = i;
    }
    const wide = x(pts[i][0]) - x(pts[start][0]);
    if (wide > best.wide) {
      best = { wide, x: x(pts[start][0]), y: pts[start][1] };
    }
  }
  return best;
}

function foldedStrip({ g, scene, area, u, strip }) {
  const y0 = area.y + area.h + 10 * u;
  const height = strip - 16 * u;
  g.strokeStyle = token("line-strong");
  g.lineWidth = 1;
  g.beginPath();
  for (let k = 0; k * 6 <= area.w; k++) {
    g.lineTo(area.x + k * 6, area.y + area.h + (k % 2 ? 3 : 7));
  }
  g.stroke();
  let x = area.x;
  for (const { primitive, bytes: n } of scene.base) {
    const w = (n / scene.baseBytes) * area.w;
    g.fillStyle = token(`p${scene.color(primitive)}`);
    g.fillRect(x, y0, Math.max(1, w - 1), height);
    const label = `${primitive ?? "arrays"} ${bytes(n)}`;
    g.font = font(0.857, 600);
    if (g.measureText(label).width + 12 * u < w) {
      g.fillStyle = token("p-ink");
      g.textAlign = "left";
      g.fillText(label, x + 6 * u, y0 + height / 2);
    }
    x += w;
  }
}

function pick({ scene, area, top, floor }, px, py) {
  if (px < area.x || px > area.x + area.w || py < area.y || py > area.y + area.h) {
    return null;
  }
  const us = scene.from + ((px - area.x) / area.w) * (scene.to - scene.from);
  const above = ((area.y + area.h - py) / area.h) * top - scene.baseBytes + floor;
  return blockAt(scene.stack.shown, us, above);
}
