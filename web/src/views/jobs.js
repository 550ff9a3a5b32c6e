// The jobs view: host strip, launch form, and the live table with its filter.

import { fill, h, text } from "../lib/dom.js";
import { exact, toUs } from "../lib/format.js";
import { joinLine } from "../lib/input.js";
import { on, store } from "../lib/store.js";
import { trendToLimit } from "../lib/trend.js";
import { bucketOf, isExternal, isLive } from "../lib/words.js";
import { keyAction } from "./actions.js";
import { createRow } from "./jobrow.js";
import { hostStrip } from "./hoststrip.js";
import { launchForm } from "./launch.js";
import { refusals } from "./refusals.js";
import { canWrite } from "../lib/api.js";

const SEGMENTS = [
  ["all", "All"],
  ["live", "Live"],
  ["limit", "At limit"],
  ["failed", "Failed"],
  ["finished", "Finished"],
];
const COLUMNS = [
  ["Job", ""],
  ["State", ""],
  ["Charge against its limit", ""],
  ["Active", "num hide-m"],
  ["Reserved", "num hide-m"],
  ["Time", "num"],
  ["What is happening, or how it ended", ""],
];
const RENDER_MS = 200;
const ENDED_ROWS = 200;
const STILL_MS = 3000;
const TREND_POINTS = 600;

/** Recent charges of each live job, for "growing N a minute". */
const history = new Map();

export function noteCharge(sample) {
  if (sample.charge) {
    const list = history.get(sample.job_id) ?? [];
    list.push([sample.to_us, sample.charge.max]);
    history.set(sample.job_id, list.slice(-TREND_POINTS));
  }
}

export function jobsView({ openForm = false } = {}) {
  return new JobsView(openForm);
}

class JobsView {
  constructor(openForm) {
    this.rows = new Map();
    this.segment = "all";
    this.query = "";
    this.movedAt = 0;
    this.host = hostStrip();
    this.form = launchForm();
    this.refusals = refusals();
    this.build();
    if (openForm) {
      this.form.open();
    }
    this.offs = [on("jobs", () => this.schedule())];
    this.timer = setInterval(() => this.schedule(), 1000);
    this.resize = new ResizeObserver(() => this.rows.forEach((r) => r.draw(true)));
    this.resize.observe(this.body);
    this.render();
  }

  build() {
    this.search = h("input", {
      type: "search",
      placeholder: "Filter jobs",
      "aria-label": "Filter jobs",
      oninput: () => {
        this.query = this.search.value.trim().toLowerCase();
        this.render(true);
      },
    });
    this.segs = {};
    const seg = h(
      "span",
      { class: "seg", role: "group", "aria-label": "State" },
      SEGMENTS.map(([id, label]) => {
        this.segs[id] = h(
          "button",
          {
            type: "button",
            "aria-pressed": "false",
            onclick: () => {
              this.segment = id;
              this.render(true);
            },
          },
          label,
        );
        return this.segs[id];
      }),
    );
    this.body = h("tbody", {
      role: "rowgroup",
      onkeydown: (e) => this.key(e),
      onpointermove: () => {
        this.movedAt = Date.now();
      },
      onclick: (e) => this.click(e),
      onfocusin: (e) => this.focusRow(e),
    });
    this.groups = { live: groupRow(), ended: groupRow() };
    this.empty = h("div", { class: "empty" });
    this.most = ENDED_ROWS;
    this.more = h("button", {
      type: "button",
      class: "btn quiet more-rows",
      hidden: true,
      onclick: () => {
        this.most += ENDED_ROWS;
        this.render(true);
      },
    });
    this.table = h(
      "table",
      { class: "jobs", role: "table", "aria-label": "Jobs" },
      h(
        "thead",
        { role: "rowgroup" },
        h(
          "tr",
          { role: "row" },
          COLUMNS.map(([name, cls]) => h("th", { class: cls, role: "columnheader", scope: "col" }, name)),
          h("th", { role: "columnheader", scope: "col" }, h("span", { class: "vh" }, "Actions")),
        ),
      ),
      this.body,
    );
    this.el = h(
      "div",
      { class: "v-jobs" },
      h("h1", { class: "vh" }, "Jobs"),
      this.host.el,
      canWrite() ? this.form.el : null,
      h(
        "section",
        { class: "panel" },
        h("div", { class: "bar" }, h("h2", null, "Jobs"), this.search, seg),
        this.table,
        this.more,
        this.empty,
      ),
      this.refusals.el,
    );
  }

  destroy() {
    this.offs.forEach((off) => off());
    clearInterval(this.timer);
    clearTimeout(this.pending);
    this.resize.disconnect();
    this.host.destroy();
    this.refusals.destroy();
  }

  redraw() {
    this.host.draw();
    this.rows.forEach((r) => r.draw(true));
  }

  /** At most RENDER_MS apart: with many jobs, samples come faster than anyone reads. */
  schedule() {
    this.pending ||= setTimeout(() => {
      this.pending = 0;
      this.render();
    }, RENDER_MS);
  }

  /** Live jobs by start, then ended ones by end, both newest first, as filtered. */
  wanted() {
    const all = [...store.jobs.values()];
    const counts = { all: all.length, live: 0, limit: 0, failed: 0, finished: 0 };
    all.forEach((j) => {
      counts[bucketOf(j)]++;
    });
    SEGMENTS.forEach(([id, label]) => {
      text(this.segs[id], `${label} ${exact(counts[id])}`);
      this.segs[id].setAttribute("aria-pressed", String(this.segment === id));
    });
    const shown = all.filter(
      (j) => (this.segment === "all" || bucketOf(j) === this.segment) && this.matches(j),
    );
    const by = (member) => (a, b) =>
      (toUs(b[member]) ?? 0) - (toUs(a[member]) ?? 0) || (a.id < b.id ? 1 : -1);
    return {
      all,
      live: shown.filter(isLive).sort(by("created_at")),
      ended: shown.filter((j) => !isLive(j)).sort(by("ended_at")),
    };
  }

  matches(job) {
    if (!this.query) {
      return true;
    }
    const hay =
      `${job.name} ${joinLine(job.command ?? [])} ${job.outcome?.sentence ?? ""} ${job.id}`.toLowerCase();
    return this.query.split(/\s+/).every((w) => hay.includes(w));
  }

  render(force = false) {
    const { all, live, ended } = this.wanted();
    const listed = ended.slice(0, this.most);
    const order = [
      ...(live.length ? [this.groups.live, ...live.map((j) => this.row(j).tr)] : []),
      ...(ended.length ? [this.groups.ended, ...listed.map((j) => this.row(j).tr)] : []),
    ];
    text(this.groups.live.firstChild, `Live, ${exact(live.length)}`);
    text(this.groups.ended.firstChild, `Ended, ${exact(ended.length)}`);
    this.place(order, force);
    for (const job of [...live, ...listed]) {
      this.rows.get(job.id).update(this.trend(job));
    }
    this.more.hidden = ended.length <= this.most;
    text(this.more, `Show ${exact(ended.length - this.most)} more`);
    this.showEmpty(all.length, order.length);
    this.roving();
  }

  row(job) {
    let row = this.rows.get(job.id);
    if (!row) {
      const { id } = job;
      row = createRow(
        job,
        () => store.jobs.get(id) ?? job,
        (j) => this.form.prefill(j),
      );
      this.rows.set(id, row);
    }
    return row;
  }

  trend(job) {
    const points = history.get(job.id);
    return isLive(job) && job.mode === "enforce" && points ? trendToLimit(points, job.limit_bytes) : null;
  }

  /** Puts rows in order, unless a pointer or the focus rests among them: then they wait. */
  place(order, force) {
    const now = [...this.body.children];
    if (now.length === order.length && now.every((n, i) => n === order[i])) {
      return;
    }
    const busy = Date.now() - this.movedAt < STILL_MS || this.body.contains(document.activeElement);
    const gone = now.some((n) => n.dataset.id && !store.jobs.has(n.dataset.id));
    if (busy && !force && !gone && now.length > 0) {
      return;
    }
    const focused = document.activeElement;
    this.body.replaceChildren(...order);
    if (focused && this.body.contains(focused)) {
      focused.focus({ preventScroll: true });
    }
  }

  showEmpty(total, shown) {
    this.table.hidden = shown === 0;
    this.empty.hidden = shown > 0;
    const key = !store.loaded ? "load" : total === 0 ? "none" : "filtered";
    if (shown > 0 || this.empty.dataset.key === key) {
      return;
    }
    this.empty.dataset.key = key;
    if (key === "load") {
      fill(this.empty, h("p", null, "Fetching jobs."));
    } else if (key === "none") {
      fill(
        this.empty,
        h("h2", null, "No jobs yet"),
        h("p", null, "Launch one here, or from a terminal:"),
        h("p", null, h("code", null, "bulkhead run --limit 6GiB -- python3 train.py")),
        canWrite() &&
          h(
            "button",
            { type: "button", class: "btn primary", onclick: () => this.form.open() },
            "Launch a job",
          ),
      );
    } else {
      fill(
        this.empty,
        h("h2", null, "No job matches"),
        h("p", null, "Clear the filter to see all jobs."),
        h("button", { type: "button", class: "btn", onclick: () => this.clear() }, "Clear the filter"),
      );
    }
  }

  clear() {
    this.search.value = "";
    this.query = "";
    this.segment = "all";
    this.render(true);
  }

  /* ---- keyboard: one stop in the tab order, arrows between rows ---- */

  trs() {
    return [...this.body.querySelectorAll("tr.j")];
  }

  roving() {
    const trs = this.trs();
    if (trs.length && !trs.some((t) => t.tabIndex === 0)) {
      trs[0].tabIndex = 0;
    }
  }

  focusRow(e) {
    const tr = e.target.closest("tr.j");
    if (tr) {
      this.trs().forEach((t) => {
        t.tabIndex = t === tr ? 0 : -1;
      });
    }
  }

  key(e) {
    const tr = e.target.closest("tr.j");
    if (!tr || e.ctrlKey || e.metaKey || e.altKey) {
      return;
    }
    const trs = this.trs();
    const i = trs.indexOf(tr);
    const to = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: trs.length - 1 }[e.key];
    const job = store.jobs.get(tr.dataset.id);
    if (to !== undefined) {
      e.preventDefault();
      trs[Math.max(0, Math.min(trs.length - 1, to))].focus();
    } else if (e.key === "Enter" && e.target === tr) {
      location.hash = `#/jobs/${tr.dataset.id}/timeline`;
    } else if (e.key === "/") {
      e.preventDefault();
      this.search.focus();
    } else if (keyAction[e.key] && isLive(job) && !isExternal(job) && canWrite()) {
      e.preventDefault();
      keyAction[e.key](job);
    }
  }

  click(e) {
    const tr = e.target.closest("tr.j");
    if (tr && !e.target.closest("a, button") && !String(getSelection())) {
      location.hash = `#/jobs/${tr.dataset.id}/timeline`;
    }
  }
}

function groupRow() {
  return h("tr", { class: "grp", role: "row" }, h("td", { colspan: "8", role: "cell" }));
}
