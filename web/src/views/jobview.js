// One job's page: head and one of its tabs.

import { announce, h } from "../lib/dom.js";
import { api } from "../lib/api.js";
import { on, putJob, store } from "../lib/store.js";
import { isLive, stateView } from "../lib/words.js";
import { AllocView } from "./allocview.js";
import { JobHead } from "./jobhead.js";
import { LogsView } from "./logsview.js";
import { ReportView } from "./reportview.js";
import { TimelineView } from "./timelineview.js";

const TABS = { timeline: TimelineView, allocations: AllocView, report: ReportView, logs: LogsView };
const HEAD_MS = 1000;

export class JobView {
  /** nav: {relaunch(job), replace(hash), push(hash)}. */
  constructor(id, tab, params, nav) {
    this.id = id;
    this.tabName = tab;
    this.nav = nav;
    this.facts = { trend: null, report: null, crossedBy: null, grows: null };
    this.el = h("div", { class: "v-job" });
    this.offs = [];
    this.ready = this.start(tab, params);
  }

  get = () => store.jobs.get(this.id);

  async start(tab, params) {
    if (!this.get()) {
      try {
        const job = await api.job(this.id);
        this.id = job.id;
        putJob(job);
      } catch (e) {
        this.missing(e);
        return;
      }
    }
    this.head = new JobHead(this.get, (job) => this.nav.relaunch(job));
    this.tab = new TABS[tab](
      { get: this.get, onFacts: (f) => this.setFacts(f), route: (p, push) => this.route(p, push) },
      params,
    );
    this.head.setTab(tab);
    this.head.setRange(params);
    this.el.append(this.head.el, this.tab.el);
    this.offs = [
      on(`job:${this.id}`, () => this.changed()),
      on(`sample:${this.id}`, (s) => this.tab.sample(s)),
      on(`notice:${this.id}`, (n) => this.tab.notice(n)),
      on("jobs", () => this.get() === undefined && this.missing(null)),
    ];
    this.timer = setInterval(() => this.get() && this.head.update(this.facts), HEAD_MS);
    this.spoken = stateView(this.get()).word;
    this.changed();
    this.loadReport();
  }

  /** The facts beside the headline want the report on every tab. */
  async loadReport() {
    if (!isLive(this.get()) && this.get().state === "finished" && this.tabName !== "report") {
      try {
        this.setFacts({ report: await api.report(this.id) });
      } catch {
        // the report tab says why there is none
      }
    }
  }

  setFacts(facts) {
    for (const [key, v] of Object.entries(facts)) {
      this.facts[key] = v ?? (key === "trend" ? null : this.facts[key]);
    }
    if (this.get()) {
      this.head.update(this.facts);
    }
  }

  changed() {
    const job = this.get();
    this.head.update(this.facts);
    this.tab.update();
    document.title = `${job.name}, Bulkhead`;
    const word = stateView(job).word;
    if (word !== this.spoken) {
      this.spoken = word;
      announce(`${job.name}: ${job.outcome?.sentence ?? word}`);
      this.loadReport();
    }
  }

  route(params, push) {
    this.head.setRange(params);
    const q = new URLSearchParams(params).toString();
    const hash = `#/jobs/${this.id}/${this.tabName}${q ? `?${q}` : ""}`;
    push ? this.nav.push(hash) : this.nav.replace(hash);
  }

  missing(e) {
    this.destroy();
    this.el.replaceChildren(
      h(
        "div",
        { class: "panel empty" },
        h("h2", null, e && e.status !== 404 ? "This job could not be fetched" : "There is no such job"),
        h("p", null, e && e.status !== 404 ? e.message : "It may have been removed."),
        h("a", { class: "btn", href: "#/jobs" }, "All jobs"),
      ),
    );
  }

  redraw() {
    this.tab?.redraw();
  }

  destroy() {
    clearInterval(this.timer);
    this.offs.forEach((off) => off());
    this.offs = [];
    this.tab?.destroy();
    this.tab = null;
  }
}
