// Where things stand on the timeline's canvas: margins, the y scale, the panels (the stop lens is a
// second panel over the same y axis). Pure but for the sizes handed in.

import { yTop } from "./model.js";

const LENS_SHARE = 0.3;
const LENS_GAP = 18;
const LENS_BEFORE_US = 4.4e6;
const LENS_AFTER_US = 1.1e6;
const LENS_LEAST_SPAN_US = 240e6;

/** Is there room and reason for the stop lens? */
export function wantsLens(plotWidth, spanUs, stop) {
  return stop !== null && plotWidth >= 760 && spanUs > LENS_LEAST_SPAN_US;
}

/** {from, to} of the stop: from before the limit to after the exit; null without an intervention. */
export function stopRange(markers, endUs) {
  const first =
    markers.find((m) => m.kind === "limit_crossed") ?? markers.find((m) => m.kind === "signal") ?? null;
  if (!first || endUs === null) {
    return null;
  }
  return { from: first.at_us - LENS_BEFORE_US, to: endUs + LENS_AFTER_US };
}

/**
 * scene: {model, range, stop, lensModel}. Returns {u, left, top, height, plotWidth, yMax, y(bytes),
 * panels: [{kind, from, to, x, w, model}]}.
 */
export function layout(scene, w, h, rootSize) {
  const u = rootSize / 14;
  const small = w < 600 * u;
  const left = (small ? 38 : 62) * u;
  const right = (scene.model.limits.length === 0 ? (small ? 12 : 70) : small ? 72 : 118) * u;
  const top = 34 * u;
  const bottom = 27 * u;
  const height = Math.max(40, h - top - bottom);
  const all = Math.max(60, w - left - right);
  const yMax = yTop(scene.model);
  const { range } = scene;
  const lens = scene.lensModel && wantsLens(w, range.to - range.from, scene.stop);
  const lensWidth = lens ? Math.round(all * LENS_SHARE) : 0;
  const mainWidth = lens ? all - lensWidth - LENS_GAP : all;
  const panels = [
    {
      kind: lens ? "main" : "only",
      from: range.from,
      to: range.to,
      x: left,
      w: mainWidth,
      model: scene.model,
    },
  ];
  if (lens) {
    panels.push({
      kind: "lens",
      from: scene.stop.from,
      to: scene.stop.to,
      x: left + all - lensWidth,
      w: lensWidth,
      model: scene.lensModel,
    });
  }
  return {
    u,
    small,
    w,
    h,
    left,
    right,
    top,
    height,
    plotWidth: all,
    yMax,
    panels,
    y: (n) => top + height - (n / yMax) * height,
  };
}

/** The panel under a pixel, with the instant there; null outside. */
export function hit(lay, px) {
  for (const panel of [...lay.panels].reverse()) {
    if (px >= panel.x && px <= panel.x + panel.w) {
      return { panel, us: panel.from + ((px - panel.x) / panel.w) * (panel.to - panel.from) };
    }
  }
  return null;
}

/** Pushes labels apart so that none is nearer than `gap`; the one named `fixed` keeps its place. */
export function spread(labels, gap) {
  const out = labels.map((l) => ({ ...l })).sort((a, b) => a.y - b.y);
  const pivot = Math.max(
    0,
    out.findIndex((l) => l.fixed),
  );
  for (let i = pivot - 1; i >= 0; i--) {
    out[i].y = Math.min(out[i].y, out[i + 1].y - gap);
  }
  for (let i = pivot + 1; i < out.length; i++) {
    out[i].y = Math.max(out[i].y, out[i - 1].y + gap);
  }
  return out;
}
