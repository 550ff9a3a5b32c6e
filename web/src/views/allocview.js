// Allocations: the buffers that came or went in a range, as blocks over time. The range is that of the
// timeline; the events of a range are fetched when it holds at most MOST_EVENTS.

import { fill, h, text } from "../lib/dom.js";
import { api } from "../lib/api.js";
import { blocksOf, seqAt, stackBlocks, throughout } from "../lib/blocks.js";
import { bytes, clock, duration, exact } from "../lib/format.js";
import { keyFrame, place, primitiveColors } from "../lib/stacks.js";
import { isLive, reasonText } from "../lib/words.js";
import { paintBlocks } from "../plot/blocks.js";
import { clampRange, fromAnswer, zoomRange } from "../plot/model.js";
import { drawOverview, overviewDrag } from "../plot/overview.js";
import { rootSize } from "../plot/theme.js";

const MOST_EVENTS = 20000;
const PAGE = 5000;
const MOST_BLOCKS = 400;
const OVERVIEW_POINTS = 400;
const LEAST_SPAN_US = 1000;

export class AllocView {
  constructor(host, params) {
    this.host = host;
    this.range = params.from && params.to ? { from: Number(params.from), to: Number(params.to) } : null;
    this.unfolded = false;
    this.picked = null;
    this.build();
    this.resize = new ResizeObserver(() => this.redraw());
    this.resize.observe(this.canvas);
    this.load();
  }

  build() {
    this.title = h("h2");
    this.note = h("span", { class: "muted" });
    this.fold = h("button", { type: "button", class: "btn", onclick: () => this.toggle() }, "Unfold");
    const zoom = (factor, label, sign) =>
      h("button", { type: "button", "aria-label": label, onclick: () => this.zoom(factor) }, sign);
    this.tools = h(
      "div",
      { class: "tl-tools" },
      this.title,
      this.note,
      h("span", { class: "sp" }),
      this.fold,
      h(
        "span",
        { class: "seg", role: "group", "aria-label": "Zoom" },
        zoom(2, "Zoom out", "−"),
        zoom(0.5, "Zoom in", "+"),
      ),
    );
    this.legend = h("div", { class: "legend" });
    this.canvas = h("canvas", {
      tabindex: "0",
      role: "img",
      "aria-label": "Allocation blocks over time; the table of the timeline's instant holds the same bytes",
      onpointermove: (e) => this.point(this.at(e)),
      onpointerleave: () => this.point(null),
      onclick: (e) => this.pick(this.at(e)),
      onkeydown: (e) => this.key(e),
    });
    this.foot = h("div", { class: "ft" });
    this.stack = h("ol", { class: "stacklist mono" });
    this.over = h("canvas", {
      class: "cv-over",
      role: "img",
      "aria-label": "The whole run; the frame is the range shown",
    });
    overviewDrag(
      this.over,
      () => this.overGeo,
      (from, to) => this.setRange(from, to),
    );
    this.empty = h("div", { class: "empty", hidden: true });
    this.body = h("div", null, this.legend, this.canvas, this.foot, this.stack);
    this.el = h(
      "section",
      { class: "panel blk", "aria-label": "Allocations" },
      this.tools,
      this.empty,
      this.body,
      h("div", { class: "over" }, this.over),
    );
  }

  destroy() {
    this.resize.disconnect();
    this.abort?.abort();
    clearTimeout(this.soon);
  }

  say(head, detail) {
    this.empty.hidden = head === "";
    this.body.hidden = head !== "";
    fill(this.empty, head && [h("h3", null, head), h("p", null, detail)]);
  }

  shown() {
    return this.range ?? { from: this.whole.from, to: this.whole.to };
  }

  /* ---- data ---- */

  async load() {
    const job = this.host.get();
    this.abort?.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    try {
      this.whole ??= fromAnswer(await api.timeline(job.id, { points: OVERVIEW_POINTS }, signal));
      text(this.title, `Allocations, ${clock(this.shown().from, 1)} to ${clock(this.shown().to, 1)}`);
      this.redraw();
      if (!this.whole.activeMax.some((v) => v !== null)) {
        this.say(
          `No allocations are recorded: ${reasonText(job.recorder?.reason || "no_mlx")}.`,
          "The limit and the charge line work as usual.",
        );
        return;
      }
      await this.fetch(job, signal);
    } catch (e) {
      if (e.name !== "AbortError") {
        this.say("The allocations could not be fetched.", e.message);
      }
    }
  }

  async fetch(job, signal) {
    const { from, to } = this.shown();
    const one = async (seq) => (await api.events(job.id, seq, 1, signal)).events[0] ?? null;
    const count = job.recorder.events;
    const first = await seqAt(from, count, one);
    const last = await seqAt(to, count, one);
    if (last - first > MOST_EVENTS) {
      text(this.note, "");
      this.say(
        `${exact(last - first)} events in this range.`,
        `Zoom in to at most ${exact(MOST_EVENTS)}: drag a handle below, or zoom the timeline first.`,
      );
      return;
    }
    const events = [];
    for (let seq = first; seq < last; seq += PAGE) {
      const page = (await api.events(job.id, seq, Math.min(PAGE, last - seq), signal)).events;
      events.push(...page);
    }
    const live = await api.live(
      job.id,
      { at_us: Math.max(0, Math.round(from) - 1), group: "primitive", top: 1000 },
      signal,
    );
    if (!signal.aborted) {
      this.take(events, live, from, to);
    }
  }

  take(events, live, from, to) {
    this.say("", "");
    const blocks = blocksOf(events);
    const base = throughout(live.groups, blocks);
    const sums = [...live.groups, ...blocks.map((b) => ({ primitive_name: b.primitive, bytes: b.size }))];
    this.picked = null;
    this.scene = {
      from,
      to,
      base,
      baseBytes: base.reduce((n, b) => n + b.bytes, 0),
      stack: stackBlocks(blocks, from, to, MOST_BLOCKS),
      color: primitiveColors(sums),
    };
    const { shown, rest } = this.scene.stack;
    const folded = this.scene.baseBytes ? ` ${bytes(this.scene.baseBytes)} live throughout is folded.` : "";
    text(
      this.note,
      `${rest ? `${exact(shown.length)} largest of ${exact(shown.length + rest)}.` : `${exact(shown.length)} came or went.`}${folded}`,
    );
    this.fold.hidden = this.scene.baseBytes === 0;
    this.showLegend(sums);
    this.redraw();
    this.tell(null);
  }

  showLegend(sums) {
    const names = [...new Set(sums.map((s) => s.primitive_name))];
    const seen = names.map((n) => [this.scene.color(n), n]).sort((a, b) => a[0] - b[0]);
    const listed = seen.filter(([c]) => c < 8);
    const others = seen.length > listed.length ? [[8, "other"]] : [];
    fill(
      this.legend,
      [...listed, ...others].map(([c, n]) => h("span", null, h("i", { class: `sq p${c}` }), n)),
    );
  }

  /* ---- view ---- */

  redraw() {
    if (this.whole) {
      const u = rootSize() / 14;
      const left = (this.over.clientWidth < 600 * u ? 44 : 62) * u;
      const width = Math.max(
        60,
        this.over.clientWidth - left - (this.over.clientWidth < 600 * u ? 14 : 90) * u,
      );
      const geometry = { left, plotWidth: width, u, small: this.over.clientWidth < 600 * u };
      this.overGeo = drawOverview(this.over, this.whole, this.shown(), geometry);
    }
    if (this.scene) {
      this.painted = paintBlocks(this.canvas, {
        ...this.scene,
        unfolded: this.unfolded,
        picked: this.hovered ?? this.picked,
      });
    }
  }

  setRange(from, to) {
    this.range = clampRange(from, to, this.whole.from, this.whole.to, LEAST_SPAN_US);
    this.host.route({ from: String(this.range.from), to: String(this.range.to) }, false);
    this.redraw();
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.load(), 250);
  }

  zoom(factor) {
    const { from, to } = this.shown();
    const next = zoomRange({ from, to }, factor, (from + to) / 2);
    this.setRange(next.from, next.to);
  }

  toggle() {
    this.unfolded = !this.unfolded;
    text(this.fold, this.unfolded ? "Fold" : "Unfold");
    this.redraw();
  }

  at(e) {
    return this.painted?.pick(e.offsetX, e.offsetY) ?? null;
  }

  point(block) {
    this.hovered = block;
    this.canvas.classList.toggle("on-mark", block !== null);
    this.tell(block ?? this.picked);
    this.redraw();
  }

  pick(block) {
    this.picked = block;
    this.hovered = null;
    this.tell(block);
    fill(this.stack, block && this.frames(block));
    this.redraw();
  }

  frames(block) {
    return (block.traceback ?? [["no Python stack", "", 0]]).map((f) =>
      h("li", null, f[2] ? `${f[0]}:${f[2]} ${f[1]}` : f[0]),
    );
  }

  tell(block) {
    if (!block) {
      fill(
        this.foot,
        h("span", { class: "muted" }, "Point at a block, or move with the arrows. Enter shows its stack."),
      );
      return;
    }
    const frame = keyFrame(block.traceback);
    const lived =
      block.t1 === null || block.t0 === null ? "" : `, alive ${duration((block.t1 - block.t0) / 1000)}`;
    const since = block.t0 === null ? ", from before this range" : `, from ${clock(block.t0, 3)}`;
    fill(
      this.foot,
      h("b", { class: "mono" }, frame ? `${place(frame)} ${frame[1]}` : "no Python stack"),
      h(
        "span",
        null,
        `${bytes(block.size)}, ${exact(block.size)} bytes, ${block.primitive ?? "array"}${lived}${since}`,
      ),
    );
  }

  /** Arrows step through the drawn blocks in order of their start; Enter shows the stack. */
  key(e) {
    const order = [...(this.scene?.stack.shown ?? [])].sort(
      (a, b) => (a.t0 ?? 0) - (b.t0 ?? 0) || a.id - b.id,
    );
    const i = order.indexOf(this.picked);
    const to = {
      ArrowRight: i + 1,
      ArrowUp: i + 1,
      ArrowLeft: i - 1,
      ArrowDown: i - 1,
      Home: 0,
      End: order.length - 1,
    }[e.key];
    if (to !== undefined && order.length) {
      e.preventDefault();
      this.picked = order[Math.max(0, Math.min(order.length - 1, to))];
      this.tell(this.picked);
      this.redraw();
    } else if (e.key === "Enter") {
      this.pick(this.picked);
    } else if (e.key === "Escape") {
      this.pick(null);
    }
  }

  update() {
    const live = isLive(this.host.get());
    if (this.wasLive && !live) {
      this.whole = null;
      this.load();
    }
    this.wasLive = live;
  }

  sample() {}

  notice() {}
}
