// The timeline tab: tools, plot, overview, what happened, and the instant below.

import { h, text } from "../lib/dom.js";
import { api, NoAnswer } from "../lib/api.js";
import { toUs } from "../lib/format.js";
import { happened } from "../lib/happened.js";
import { joinLine } from "../lib/input.js";
import { isLive } from "../lib/words.js";
import { Timeline } from "../plot/timeline.js";
import { createHappened } from "./happenedlist.js";
import { Instant } from "./instant.js";

export class TimelineView {
  /** host: {get(), route(params, push), onFacts(facts)}. params: {from, to, at} of the address. */
  constructor(host, params) {
    this.host = host;
    const job = host.get();
    this.t = new Timeline({
      job,
      live: () => isLive(host.get()),
      startUs: () => toUs(host.get().started_at) ?? toUs(host.get().created_at),
      endUs: () => host.get().outcome?.at_us ?? toUs(host.get().ended_at),
      fetchTimeline: (p, signal) => api.timeline(job.id, p, signal),
      onInstant: (us) => this.showInstant({ at_us: us }, true),
      onRange: (range, push) => this.address(range, push),
      onModel: (model) => this.fillHappened(model),
      onFollow: (on) => this.showFollow(on),
      onError: (e) => this.fail(e),
      at: (what) => this.showInstant({ at: what }, true),
      toggleFollow: () => this.toggleFollow(),
      compare: () => this.instant.setCompare(this.t.cursorUs()),
      clear: () => this.instant.setCompare(null),
    });
    this.list = createHappened((us) => this.t.pin(us));
    this.instant = new Instant({
      fetchLive: (p, signal) => api.live(job.id, p, signal),
      job: host.get,
      hasTrace: () => this.hasTrace(),
    });
    this.build();
    this.open(params);
  }

  build() {
    const b = (label, act, props) => h("button", { type: "button", onclick: act, ...props }, label);
    this.at = {
      peak: b("At peak", () => this.showInstant({ at: "peak" }, true), { "aria-pressed": "false" }),
      limit: b("At the limit", () => this.showInstant({ at: "limit" }, true), { "aria-pressed": "false" }),
      end: b("At the end", () => this.showInstant({ at: "end" }, true), { "aria-pressed": "false" }),
    };
    this.stopBtn = b("The stop", () => this.t.showStop());
    this.followBtn = h(
      "button",
      { type: "button", class: "btn follow", "aria-pressed": "true", onclick: () => this.toggleFollow() },
      "Follow",
    );
    this.error = h("p", { class: "c-bad plot-error", role: "alert" });
    this.el = h(
      "div",
      { class: "v-timeline" },
      h(
        "div",
        { class: "tl-grid" },
        h(
          "section",
          { class: "panel tl", "aria-label": "Memory over time" },
          h(
            "div",
            { class: "tl-tools" },
            h("span", { class: "seg", role: "group", "aria-label": "Instant" }, Object.values(this.at)),
            h(
              "span",
              { class: "seg", role: "group", "aria-label": "Zoom" },
              b("−", () => this.t.zoom(1 / 0.6), { "aria-label": "Zoom out" }),
              b("+", () => this.t.zoom(0.6), { "aria-label": "Zoom in" }),
              b("Whole run", () => this.t.reset()),
              this.stopBtn,
            ),
            this.followBtn,
            this.t.rangeEl,
          ),
          this.t.readout.el,
          this.error,
          this.t.plotEl,
          h("div", { class: "vhbox" }, this.t.table),
          h("div", { class: "over" }, this.t.overCanvas),
        ),
        this.list.el,
      ),
      this.instant.el,
    );
    this.update();
  }

  /** The timeline first: it tells whether there is a trace to ask about. */
  async open({ from, to, at }) {
    if (from && to) {
      this.t.range = { from: Number(from), to: Number(to) };
      this.t.follow = false;
    }
    this.showFollow(this.t.follow);
    try {
      await this.t.load();
    } catch (e) {
      this.fail(e);
      return;
    }
    if (/^\d+$/.test(at ?? "")) {
      this.t.pinned = Number(at);
      this.showInstant({ at_us: Number(at) }, false);
    } else if (["peak", "limit", "end"].includes(at)) {
      this.showInstant({ at }, false);
    } else {
      this.first();
    }
  }

  /** Without an instant in the address: the limit if it was crossed, else the peak. */
  async first() {
    const job = this.host.get();
    const crossed = job.outcome?.cause === "limit_exceeded";
    const live = isLive(job);
    await this.showInstant({ at: live ? "end" : crossed ? "limit" : "peak" }, false, !live);
  }

  async showInstant(ask, push, pin = true) {
    for (const [name, el] of Object.entries(this.at)) {
      el.setAttribute("aria-pressed", String(ask.at === name));
    }
    if (push) {
      this.params = { ...this.params, at: ask.at ?? String(ask.at_us) };
      this.host.route(this.params, true);
    }
    const live = await this.instant.show(ask);
    if (live) {
      if (pin && ask.at) {
        this.t.pin(live.at_us);
      }
      this.host.onFacts({
        crossedBy: live.crossed_by?.traceback ?? null,
        grows: live.groups.find((g) => g.keeps_growing)?.traceback ?? null,
      });
    }
  }

  /** Fresh figures of a live job: the instant follows the end until one is chosen, and comes late
   *  when recording begins late. */
  refreshInstant() {
    const used = this.instant.el.contains(document.activeElement);
    const follows = isLive(this.host.get()) && this.instant.ask?.at === "end" && !used;
    if (follows || (this.instant.ask && !this.instant.last && this.hasTrace())) {
      this.instant.load();
    }
  }

  hasTrace() {
    return this.t.whole.activeMax.some((v) => v !== null) || this.t.model.activeMax.some((v) => v !== null);
  }

  address(range, push) {
    this.params = { ...this.params };
    delete this.params.from;
    delete this.params.to;
    if (range) {
      Object.assign(this.params, { from: String(range.from), to: String(range.to) });
    }
    this.host.route(this.params, push);
  }

  toggleFollow() {
    const on = !this.t.follow;
    this.t.setFollow(on);
    if (on) {
      this.t.pinned = null;
      this.t.range = null;
      this.address(null, false);
      this.t.loadSoon(0);
    }
    this.t.schedule();
  }

  showFollow(on) {
    this.followBtn.setAttribute("aria-pressed", String(on));
    text(this.followBtn, on ? "Following" : "Follow");
  }

  fillHappened(model) {
    text(this.error, "");
    const job = this.host.get();
    this.list.show(
      happened({
        startUs: toUs(job.started_at),
        endUs: isLive(job) ? null : this.t.host.endUs(),
        command: joinLine(job.command ?? []).slice(0, 120),
        markers: model.markers,
        losses: model.losses,
        outcome: job.outcome,
      }),
    );
    this.stopBtn.hidden = isLive(job) || this.t.stop() === null;
    this.at.limit.hidden = !model.markers.some((m) => m.kind === "limit_crossed");
    this.host.onFacts({ trend: this.t.trend });
    this.refreshInstant();
  }

  fail(e) {
    if (e.name !== "AbortError" && !(e instanceof NoAnswer)) {
      text(this.error, `The timeline could not be fetched. ${e.message}`);
    }
  }

  update() {
    const job = this.host.get();
    const live = isLive(job);
    this.t.update(job);
    this.followBtn.hidden = !live;
    this.stopBtn.hidden = live || this.t.stop() === null;
    text(this.at.end, live ? "Now" : "At the end");
    if (this.wasLive && !live) {
      this.t.reset();
      setTimeout(() => this.first(), 300);
    }
    this.wasLive = live;
  }

  sample(sample) {
    this.t.addSample(sample);
  }

  notice() {
    this.t.loadSoon(150);
  }

  redraw() {
    this.t.schedule();
    this.instant.flame.draw();
  }

  destroy() {
    this.t.destroy();
    this.instant.destroy();
  }
}
