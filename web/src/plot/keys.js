// Keys of the plot, active while it has the focus.

/** Moves the cursor by pixels of the plot. */
function step(plot, px) {
  const shown = plot.shown();
  const perPx = (shown.to - shown.from) / plot.layout().panels[0].w;
  const from = plot.cursorUs() ?? shown.to;
  plot.pin(Math.min(shown.to, Math.max(shown.from, from + px * perPx)));
}

function jump(plot, direction) {
  const at = plot.cursorUs() ?? 0;
  const marks = plot.marks();
  const next =
    direction > 0 ? marks.find((m) => m.at_us > at + 1) : [...marks].reverse().find((m) => m.at_us < at - 1);
  if (next) {
    plot.pin(next.at_us);
  }
}

const KEYS = {
  ArrowLeft: (p, e) => step(p, e.shiftKey ? -20 : -1),
  ArrowRight: (p, e) => step(p, e.shiftKey ? 20 : 1),
  PageUp: (p) => p.panBy(-0.8),
  PageDown: (p) => p.panBy(0.8),
  "+": (p) => p.zoom(0.6),
  "=": (p) => p.zoom(0.6),
  "-": (p) => p.zoom(1 / 0.6),
  0: (p) => p.reset(),
  "[": (p) => jump(p, -1),
  "]": (p) => jump(p, 1),
  p: (p) => p.host.at("peak"),
  l: (p) => p.host.at("limit"),
  e: (p) => p.host.at("end"),
  f: (p) => p.host.toggleFollow(),
  m: (p) => p.host.compare(),
  Enter: (p) => {
    const us = p.cursorUs();
    if (us !== null) {
      p.instant(us);
    }
  },
  Escape: (p) => {
    p.pinned = null;
    p.host.clear();
    p.schedule();
  },
};

export function plotKeys(plot, e) {
  if (e.ctrlKey || e.metaKey || e.altKey) {
    return;
  }
  const act = KEYS[e.key];
  if (act) {
    e.preventDefault();
    act(plot, e);
  }
}

/** What the Keys dialog lists: [part, [[[keys], what they do]]]. */
export const KEY_HELP = [
  [
    "Jobs",
    [
      [["↑", "↓", "Home", "End"], "move between rows"],
      [["Enter"], "open the job"],
      [["c"], "checkpoint"],
      [["s"], "stop"],
      [["k"], "kill"],
      [["/"], "filter"],
    ],
  ],
  [
    "Timeline",
    [
      [["←", "→"], "move the cursor, with Shift 20 px"],
      [["Page Up", "Page Down"], "pan"],
      [["+", "−"], "zoom"],
      [["0"], "whole run"],
      [["[", "]"], "marker before, after"],
      [["p", "l", "e"], "at peak, at the limit, at the end"],
      [["f"], "follow"],
      [["Enter"], "what was live"],
      [["m"], "compare with this instant"],
      [["Esc"], "clear"],
    ],
  ],
  [
    "What was live",
    [
      [["↑", "↓"], "move between rows"],
      [["Enter"], "keep the mark"],
    ],
  ],
  [
    "Allocations",
    [
      [["←", "→"], "move between blocks"],
      [["Enter"], "its stack"],
      [["Esc"], "clear"],
    ],
  ],
  [
    "Flame graph",
    [
      [["←", "→", "↑", "↓"], "move between frames"],
      [["Enter"], "find it in the table"],
      [["Esc"], "clear"],
    ],
  ],
  [
    "Log",
    [
      [["/"], "find"],
      [["n", "N"], "next, previous"],
      [["Space"], "pause"],
    ],
  ],
];
