// Pointer and wheel on the plot: drag zooms, Shift-drag pans, click sets the instant, Ctrl or Cmd
// with the wheel zooms (the plain wheel only while the plot has the focus, since the page must
// scroll), double click shows the whole run; two fingers pinch and pan.

import { hit } from "./layout.js";

const CLICK_PX = 4;

/** plot: {layout(), shown(), zoomTo(from, to), pan(us), instant(us), mark(group), hover(us), select(s), reset()}. */
export function wirePointer(canvas, plot) {
  const fingers = new Map();
  let drag = null;
  let pinch = null;

  canvas.addEventListener("pointerdown", (e) => {
    if (e.button !== 0) {
      return;
    }
    canvas.parentElement.focus({ preventScroll: true });
    fingers.set(e.pointerId, e.offsetX);
    if (fingers.size === 2) {
      drag = null;
      plot.select(null);
      pinch = { xs: [...fingers.values()], range: { ...plot.shown() } };
      return;
    }
    const at = hit(plot.layout(), e.offsetX);
    if (at) {
      drag = {
        x: e.offsetX,
        y: e.offsetY,
        at,
        range: { ...plot.shown() },
        pan: e.shiftKey,
        touch: e.pointerType === "touch",
        moved: false,
      };
      canvas.setPointerCapture(e.pointerId);
    }
  });

  canvas.addEventListener("pointermove", (e) => {
    if (fingers.has(e.pointerId)) {
      fingers.set(e.pointerId, e.offsetX);
    }
    if (pinch && fingers.size === 2) {
      pinchTo(plot, pinch, [...fingers.values()]);
    } else if (drag) {
      dragTo(plot, drag, e);
    } else {
      const at = hit(plot.layout(), e.offsetX);
      plot.hover(at ? at.us : null);
      canvas.classList.toggle("on-mark", markAt(plot, e) !== null);
    }
  });

  const finish = (e, cancelled) => {
    fingers.delete(e.pointerId);
    if (fingers.size < 2) {
      pinch = null;
    }
    const done = drag;
    drag = null;
    plot.select(null);
    if (!done || cancelled) {
      return;
    }
    if (!done.moved) {
      const group = markAt(plot, e);
      group ? plot.mark(group) : plot.instant(done.at.us);
    } else if (!done.pan && !done.touch) {
      const to = usIn(done.at.panel, e.offsetX);
      plot.zoomTo(Math.min(done.at.us, to), Math.max(done.at.us, to));
    }
  };
  canvas.addEventListener("pointerup", (e) => finish(e, false));
  canvas.addEventListener("pointercancel", (e) => finish(e, true));
  canvas.addEventListener("pointerleave", () => plot.hover(null));
  canvas.addEventListener("dblclick", () => plot.reset());
  canvas.addEventListener("wheel", (e) => wheel(canvas, plot, e), { passive: false });
}

const usIn = (panel, px) =>
  panel.from + (Math.min(panel.w, Math.max(0, px - panel.x)) / panel.w) * (panel.to - panel.from);

function dragTo(plot, drag, e) {
  drag.moved ||= Math.abs(e.offsetX - drag.x) > CLICK_PX;
  if (!drag.moved) {
    return;
  }
  if (drag.pan || drag.touch) {
    const perPx = (drag.range.to - drag.range.from) / drag.at.panel.w;
    const d = (drag.x - e.offsetX) * perPx;
    plot.setRange(drag.range.from + d, drag.range.to + d);
  } else {
    plot.select({ kind: drag.at.panel.kind, from: drag.at.us, to: usIn(drag.at.panel, e.offsetX) });
  }
}

function pinchTo(plot, pinch, xs) {
  const lay = plot.layout();
  const panel = lay.panels[0];
  const wide = Math.max(10, Math.abs(pinch.xs[0] - pinch.xs[1]));
  const now = Math.max(10, Math.abs(xs[0] - xs[1]));
  const mid0 = (pinch.xs[0] + pinch.xs[1]) / 2;
  const mid1 = (xs[0] + xs[1]) / 2;
  const span = (pinch.range.to - pinch.range.from) * (wide / now);
  const anchor = pinch.range.from + ((mid0 - panel.x) / panel.w) * (pinch.range.to - pinch.range.from);
  const from = anchor - ((mid1 - panel.x) / panel.w) * span;
  plot.setRange(from, from + span);
}

function markAt(plot, e) {
  const lay = plot.layout();
  if (e.offsetY > lay.top - 6 * lay.u) {
    return null;
  }
  for (const panel of lay.panels) {
    for (const group of panel.groups ?? []) {
      if (e.offsetX > group.x - 9 * lay.u && e.offsetX < group.x1 + 40 * lay.u) {
        return group;
      }
    }
  }
  return null;
}

function wheel(canvas, plot, e) {
  const focused = document.activeElement === canvas.parentElement;
  if (!e.ctrlKey && !e.metaKey && !focused) {
    return;
  }
  e.preventDefault();
  const at = hit(plot.layout(), e.offsetX);
  if (at) {
    plot.zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 240))), at.us);
  }
}
