// The timeline of one job: fetches what the view needs, follows live samples, answers keys and
// pointer, and paints at most once a frame. The server reduces; this holds a few thousand buckets.

import { announce, h, text } from "../lib/dom.js";
import { clock } from "../lib/format.js";
import { lossView, markerView } from "../lib/words.js";
import { trendToLimit } from "../lib/trend.js";
import { fillDataTable } from "./datatable.js";
import { paint } from "./draw.js";
import { plotKeys } from "./keys.js";
import { layout, stopRange } from "./layout.js";
import { appendSample, clampRange, emptyAnswer, fromAnswer, KEYS, valueAt, zoomRange } from "./model.js";
import { drawOverview, overviewDrag } from "./overview.js";
import { wirePointer } from "./pointer.js";
import { createReadout } from "./readout.js";
import { fit, rootSize } from "./theme.js";

const REFETCH_MS = 2500;
const LEAST_SPAN_US = 20;
const EXACT_MS = 200;
const OVERVIEW_POINTS = 400;

export class Timeline {
  /** host: {job, fetchTimeline(params, signal), onInstant(us), onRange(range|null), onModel(model)}. */
  constructor(host) {
    this.host = host;
    this.job = host.job;
    this.model = this.understand(emptyAnswer(this.start()));
    this.whole = this.understand(emptyAnswer(this.start()));
    this.lensModel = null;
    this.range = null; // null: the whole run
    this.follow = host.live();
    this.pinned = null;
    this.hoverUs = null;
    this.selection = null;
    this.trend = null;
    this.build();
    this.frame = 0;
    this.timer = setInterval(() => this.tick(), REFETCH_MS);
    this.resize = new ResizeObserver(() => this.schedule());
    this.resize.observe(this.plotEl);
  }

  build() {
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.plotEl = h(
      "div",
      {
        class: "plot",
        tabindex: "0",
        role: "application",
        "aria-label":
          "Memory timeline. Arrow keys move the cursor, plus and minus zoom, Enter shows what was live.",
        onkeydown: (e) => plotKeys(this, e),
      },
      this.canvas,
    );
    this.overCanvas = h("canvas", {
      class: "cv-over",
      role: "img",
      "aria-label": "The whole run; the frame is what the plot shows",
    });
    this.readout = createReadout();
    this.rangeEl = h("span", { class: "sp muted range" });
    this.table = h("table", { class: "vh plot-table" });
    wirePointer(this.canvas, this);
    overviewDrag(
      this.overCanvas,
      () => this.overGeo,
      (from, to) => this.setRange(from, to),
    );
  }

  destroy() {
    clearInterval(this.timer);
    clearTimeout(this.exactTimer);
    cancelAnimationFrame(this.frame);
    this.resize.disconnect();
    this.abort?.abort();
  }

  /* ---- what is shown ---- */

  /** The job's start, or its first known reading: a foreign trace begins before its job was made. */
  start() {
    const known = this.whole && this.whole.t.length ? this.whole.from : Infinity;
    return Math.min(this.host.startUs(), known);
  }

  end() {
    return this.host.live()
      ? Math.max(this.whole.to, this.model.to, this.start() + 1e6)
      : Math.max(this.host.endUs() ?? 0, this.whole.to);
  }

  /** The range on screen, [µs, µs]. */
  shown() {
    if (this.range) {
      return this.range;
    }
    const to = this.end();
    const span = Math.max(2e6, to - this.start());
    return { from: this.start(), to: this.host.live() ? this.start() + span * 1.03 : this.start() + span };
  }

  /** The instant of the cursor: hovered, pinned, else the newest, or the limit of an ended run. */
  cursorUs() {
    if (this.hoverUs !== null) {
      return this.hoverUs;
    }
    if (this.pinned !== null) {
      return this.pinned;
    }
    if (this.host.live()) {
      return this.model.t.length ? this.model.to : null;
    }
    return (
      this.model.markers.find((m) => m.kind === "limit_crossed")?.at_us ??
      this.model.peak.charge?.at_us ??
      null
    );
  }

  marks() {
    const marks = this.whole.markers
      .map((m) => ({ at_us: m.at_us, ...markerView(m) }))
      .filter((m) => !m.minor);
    for (const loss of this.whole.losses) {
      marks.push({ at_us: (loss.from_us + loss.to_us) / 2, ...lossView(loss) });
    }
    marks.push({ at_us: this.start(), glyph: "start", tone: "", word: "started" });
    return marks.sort((a, b) => a.at_us - b.at_us);
  }

  stop() {
    return this.host.live() ? null : stopRange(this.whole.markers, this.host.endUs());
  }

  scene() {
    const stop = this.stop();
    return {
      model: {
        ...this.model,
        limits: this.whole.limits.length ? this.whole.limits : this.model.limits,
        losses: this.whole.losses,
        peak: this.whole.peak.charge ? this.whole.peak : this.model.peak,
      },
      range: this.shown(),
      stop,
      lensModel: this.lensModel,
      marks: this.marks(),
      cursor: this.cursorUs(),
      selection: this.selection,
      trend: this.host.live() && this.follow ? this.trend : null,
      lossText: (loss) => `${lossView(loss).title.toLowerCase()}`,
    };
  }

  layout() {
    return this.lay ?? layout(this.scene(), this.canvas.clientWidth, this.canvas.clientHeight, rootSize());
  }

  schedule() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    const box = fit(this.canvas);
    if (!box) {
      return;
    }
    const scene = this.scene();
    this.lay = layout(scene, box.w, box.h, rootSize());
    paint(box.g, scene, this.lay);
    this.overGeo = drawOverview(this.overCanvas, this.whole, scene.range, this.lay);
    const at = this.cursorUs();
    const model = this.modelAt(at);
    this.readout.show(model, at, this.start());
    this.wantExact(model, at);
    text(this.rangeEl, `${clock(scene.range.from)} to ${clock(scene.range.to)}`);
    this.plotEl.classList.toggle("ready", this.model.t.length > 0);
  }

  /** The model that knows most about an instant: the lens where it reaches. */
  modelAt(us) {
    if (this.exact?.us === us) {
      return { ...this.exact.model, limits: this.whole.limits, losses: this.whole.losses };
    }
    const base = [this.lensModel, this.model].find((m) => m && us >= m.from && us <= m.to) ?? this.whole;
    return { ...base, limits: this.whole.limits, losses: this.whole.losses };
  }

  /** Where a bucket holds several values, the one at the cursor is asked for once it rests. */
  wantExact(model, us) {
    clearTimeout(this.exactTimer);
    const at = us === null ? null : Math.round(us);
    const vague = KEYS.some((key) => {
      const v = at === null ? null : valueAt(model, key, us);
      return v !== null && v.min !== v.max;
    });
    if (vague && (!this.host.live() || this.pinned !== null)) {
      this.exactTimer = setTimeout(() => this.loadExact(at, us), EXACT_MS);
    }
  }

  async loadExact(at, us) {
    try {
      const answer = await this.host.fetchTimeline({ from_us: at, to_us: at, points: 1 }, this.abort?.signal);
      this.exact = { us, model: { ...fromAnswer(answer), to: at + 1 } };
      if (this.cursorUs() === us) {
        this.readout.show(this.modelAt(us), us, this.start());
      }
    } catch {
      // the extremes of the bucket stay: they are true as well
    }
  }

  /* ---- data ---- */

  async load() {
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    const shown = this.shown();
    const points = Math.max(200, Math.min(4000, Math.round(this.canvas.clientWidth || 1000)));
    const ask = this.range
      ? { from_us: Math.round(shown.from), to_us: Math.round(shown.to), points }
      : { points };
    const jobs = [this.host.fetchTimeline(ask, abort.signal)];
    if (this.range) {
      jobs.push(this.host.fetchTimeline({ points: OVERVIEW_POINTS }, abort.signal));
    }
    const answers = (await Promise.all(jobs)).map((a) => this.understand(a));
    if (abort.signal.aborted) {
      return;
    }
    this.model = answers[0];
    this.whole = this.range ? answers[1] : { ...answers[0] };
    await this.loadLens(abort.signal);
    this.setTrend();
    this.host.onModel(this.whole);
    fillDataTable(this.table, this.model);
    this.schedule();
  }

  /** An answer as a model; what it cannot know yet comes from the job. */
  understand(answer) {
    const model = fromAnswer(answer);
    if (model.t.length === 0) {
      model.from = this.start();
      model.to = this.start() + 1;
    }
    if (model.limits.length === 0 && this.job.limit_bytes && this.job.bands) {
      model.limits = [{ at_us: this.start(), limit_bytes: this.job.limit_bytes, ...this.job.bands }];
    }
    return model;
  }

  /** The stop at its own scale needs its own, finer answer. */
  async loadLens(signal) {
    const stop = this.range ? null : this.stop();
    if (!stop || this.lensModel?.from === Math.round(stop.from)) {
      return;
    }
    const answer = await this.host.fetchTimeline(
      { from_us: Math.round(stop.from), to_us: Math.round(stop.to), points: 1000 },
      signal,
    );
    this.lensModel = { ...fromAnswer(answer), from: Math.round(stop.from) };
  }

  /** Loads soon, once, however often it is asked for. */
  loadSoon(ms = 80) {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.load().catch((e) => this.host.onError(e)), ms);
  }

  tick() {
    if (
      this.host.live() &&
      document.visibilityState === "visible" &&
      (this.follow || this.model.t.length === 0)
    ) {
      this.loadSoon(0);
    }
  }

  addSample(sample) {
    const fresh = this.follow && appendSample(this.model, sample);
    if (this.range) {
      appendSample(this.whole, sample);
      if (this.follow) {
        const span = this.range.to - this.range.from;
        this.range = { from: sample.to_us - span, to: sample.to_us };
      }
    } else if (fresh) {
      this.whole = { ...this.model };
    }
    this.setTrend();
    this.schedule();
  }

  setTrend() {
    const limit = this.job.mode === "enforce" ? this.job.limit_bytes : null;
    const points = this.whole.t.map((t, i) => [t, this.whole.chargeMax[i]]).filter(([, v]) => v !== null);
    this.trend = this.host.live() && limit ? trendToLimit(points, limit) : null;
  }

  update(job) {
    this.job = job;
    if (!this.host.live()) {
      this.follow = false;
    }
    this.schedule();
  }

  /* ---- moving ---- */

  setRange(from, to, push = false) {
    const lo = this.start();
    const hi = this.host.live() ? this.end() * 1 + (this.end() - lo) * 0.03 : this.end();
    this.range = clampRange(from, to, lo, hi, LEAST_SPAN_US);
    if (this.range.from <= lo && this.range.to >= hi) {
      this.range = null;
    }
    if (this.host.live()) {
      this.setFollow(this.range === null);
    }
    this.lensModel = null;
    this.host.onRange(this.range, push);
    this.loadSoon();
    this.schedule();
  }

  zoomTo(from, to) {
    if (to - from >= LEAST_SPAN_US) {
      this.setRange(from, to, true);
    }
  }

  zoom(factor, aroundUs = null) {
    const shown = this.shown();
    const around =
      aroundUs ?? Math.min(shown.to, Math.max(shown.from, this.cursorUs() ?? (shown.from + shown.to) / 2));
    const next = zoomRange(shown, factor, around);
    this.setRange(next.from, next.to);
  }

  panBy(share) {
    const shown = this.shown();
    const d = (shown.to - shown.from) * share;
    this.setRange(shown.from + d, shown.to + d);
  }

  reset() {
    this.range = null;
    this.setFollow(this.host.live());
    this.host.onRange(null, true);
    this.loadSoon(0);
    this.schedule();
  }

  showStop() {
    const stop = this.stop();
    if (stop) {
      this.zoomTo(stop.from, stop.to);
    }
  }

  setFollow(on) {
    this.follow = on && this.host.live();
    this.host.onFollow?.(this.follow);
  }

  mark(group) {
    const first = group.marks[0].at_us;
    const last = group.marks.at(-1).at_us;
    if (group.marks.length > 1 && last > first) {
      const pad = Math.max(50e3, (last - first) * 0.25);
      this.zoomTo(first - pad, last + pad);
    } else {
      this.pin(first);
    }
  }

  pin(us) {
    this.pinned = us;
    this.hoverUs = null;
    this.bringIntoView(us);
    this.schedule();
    this.speak();
  }

  bringIntoView(us) {
    if (this.range && (us < this.range.from || us > this.range.to)) {
      const half = (this.range.to - this.range.from) / 2;
      this.setRange(us - half, us + half);
    }
  }

  hover(us) {
    if (this.hoverUs !== us) {
      this.hoverUs = us;
      this.schedule();
    }
  }

  select(s) {
    this.selection = s;
    this.schedule();
  }

  instant(us) {
    this.pin(Math.round(us));
    this.host.onInstant(Math.round(us));
  }

  /** Speaks the cursor, 500 ms after it came to rest. */
  speak() {
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => {
      const us = this.cursorUs();
      if (us !== null) {
        const cells = [
          ...this.readout.el.querySelectorAll(".c-charge .val, .c-reserved .val, .c-active .val"),
        ].map((e) => e.textContent);
        announce(`${clock(us, 1)}: charge ${cells[0]}, reserved ${cells[1]}, active ${cells[2]}`);
      }
    }, 500);
  }
}
