// The head of a job's page: where we are, the headline sentence, up to six facts, the tabs.

import { fill, h, icon, pieces, text } from "../lib/dom.js";
import { api, canWrite } from "../lib/api.js";
import { bytes, duration, exact, toUs } from "../lib/format.js";
import { reportFacts } from "../lib/reportwords.js";
import { keyFrame, place } from "../lib/stacks.js";
import {
  emphasize,
  endedSentence,
  isLive,
  liveSentence,
  reasonText,
  stateView,
  value,
} from "../lib/words.js";
import { actionButtons, askRemove } from "./actions.js";

const EARLY_US = 8e6; // a program may take its time to import MLX
const TABS = [
  ["timeline", "Timeline"],
  ["allocations", "Allocations"],
  ["report", "Report"],
  ["logs", "Logs"],
];

export class JobHead {
  constructor(get, onRelaunch) {
    this.get = get;
    this.onRelaunch = onRelaunch;
    this.name = h("span", { class: "name" });
    this.state = h("span", { class: "st" });
    this.acts = h("span", { class: "acts" });
    this.headline = h("h1", { class: "headline" });
    this.facts = h("dl", { class: "facts" });
    this.why = h("div", { class: "notes" });
    this.tabs = {};
    this.el = h(
      "div",
      { class: "jobhead" },
      h(
        "div",
        { class: "crumb" },
        h("a", { href: "#/jobs" }, "Jobs"),
        h("span", { "aria-hidden": "true" }, "/"),
        this.name,
        this.state,
        this.acts,
      ),
      h("div", { class: "hrow" }, this.headline, this.facts),
      this.why,
      h(
        "nav",
        { class: "tabs", "aria-label": "Job" },
        TABS.map(([id, label]) => {
          this.tabs[id] = h("a", { href: `#/jobs/${get().id}/${id}` }, label);
          return this.tabs[id];
        }),
      ),
    );
  }

  /** Timeline and allocations share their range: the links carry it. */
  setRange({ from, to }) {
    const q = from && to ? `?from=${from}&to=${to}` : "";
    for (const id of ["timeline", "allocations"]) {
      this.tabs[id].setAttribute("href", `#/jobs/${this.get().id}/${id}${q}`);
    }
  }

  setTab(tab) {
    for (const [id, a] of Object.entries(this.tabs)) {
      if (id === tab) {
        a.setAttribute("aria-current", "page");
      } else {
        a.removeAttribute("aria-current");
      }
    }
  }

  /** extra: {trend, report, crossedBy, grows}. */
  update(extra) {
    const job = this.get();
    const live = isLive(job);
    const view = stateView(job);
    text(this.name, job.name);
    if (this.state.dataset.key !== view.glyph + view.word) {
      this.state.dataset.key = view.glyph + view.word;
      this.state.className = `st ${view.tone}`;
      fill(this.state, icon(view.glyph), view.word);
    }
    const sentence = live ? liveSentence(job, extra.trend) : endedSentence(job);
    if (this.headline.textContent !== sentence) {
      fill(this.headline, pieces(emphasize(sentence)));
    }
    this.buttons(job, live);
    this.showFacts(factsOf(job, live, extra));
    this.recorderNote(job);
  }

  buttons(job, live) {
    if (live) {
      actionButtons(this.acts, this.get, false);
      return;
    }
    const key = `ended${canWrite()}`;
    if (this.acts.dataset.key !== key) {
      this.acts.dataset.key = key;
      const links = api.links(job.id);
      fill(
        this.acts,
        canWrite() &&
          h(
            "button",
            { type: "button", class: "btn", onclick: () => this.onRelaunch(this.get()) },
            "Relaunch…",
          ),
        canWrite() &&
          h("button", { type: "button", class: "btn", onclick: () => askRemove(this.get()) }, "Remove…"),
        job.state !== "failed_to_start" &&
          h(
            "a",
            { class: "btn", href: links.report, download: `${job.name}-report.json` },
            "Download report",
          ),
      );
    }
  }

  showFacts(facts) {
    const key = JSON.stringify(facts.map(([l]) => l));
    if (this.facts.dataset.key !== key) {
      this.facts.dataset.key = key;
      this.cells = facts.map(([label, , , mono]) => ({
        dt: h("dt", null, label),
        dd: h("dd", { class: mono ? "mono" : "" }),
        main: h("span"),
        small: h("small"),
      }));
      fill(
        this.facts,
        this.cells.map((c) => {
          c.dd.append(c.main, " ", c.small);
          return h("div", null, c.dt, c.dd);
        }),
      );
    }
    facts.forEach(([, main, small, , title], i) => {
      text(this.cells[i].main, main);
      text(this.cells[i].small, small ?? "");
      this.cells[i].dd.title = title ?? "";
    });
  }

  recorderNote(job) {
    const r = job.recorder;
    const absent =
      r &&
      (r.state === "absent" || r.state === "off") &&
      job.state !== "failed_to_start" &&
      job.state !== "starting";
    const waits = absent && isLive(job) && ["no_mlx", "", null].includes(r.reason);
    const early = waits && !r.reason && Date.now() * 1000 - (toUs(job.started_at) ?? 0) < EARLY_US;
    const key = absent && !early ? `${r.state}${r.reason}` : "";
    if (this.why.dataset.key === key) {
      return;
    }
    this.why.dataset.key = key;
    fill(
      this.why,
      absent &&
        h(
          "div",
          { class: "note" },
          icon("none"),
          h("b", null, `Allocations are not recorded: ${reasonText(r.reason || "no_mlx")}.`),
          h(
            "p",
            null,
            waits
              ? "Recording starts by itself when it loads MLX. The limit and the charge line work as usual."
              : "The limit and the charge line work as usual.",
          ),
        ),
    );
  }
}

/** [label, value, small, mono, title]; what is unknown is left out. */
function factsOf(job, live, { report, crossedBy, grows }) {
  const out = [];
  const peak = value(job.peak_charge);
  const { past, returned } = reportFacts(report);
  if (peak !== null) {
    out.push([live ? "Peak so far" : "Peak charge", bytes(peak), "", false, `${exact(peak)} bytes`]);
  }
  if (past !== null && past > 0) {
    out.push(["Past the limit", bytes(past), "at most", false, `${exact(past)} bytes`]);
  }
  for (const [label, traceback] of [
    ["Crossed by", crossedBy],
    ["Most of the growth", grows],
  ]) {
    const frame = keyFrame(traceback);
    if (frame) {
      out.push([label, place(frame), "", true, `${frame[0]}:${frame[2]} ${frame[1]}`]);
    }
  }
  const start = toUs(job.started_at);
  const end = live ? Date.now() * 1000 : toUs(job.ended_at);
  if (start !== null && end !== null) {
    out.push([live ? "Running for" : "Ran for", duration((end - start) / 1000)]);
  }
  if (live && job.members > 0) {
    out.push(["Processes", String(job.members)]);
  }
  if (job.recorder?.events > 0 && out.length < 6) {
    out.push([
      "Events recorded",
      exact(job.recorder.events),
      job.recorder.lost > 0 ? `${exact(job.recorder.lost)} lost` : "",
    ]);
  }
  if (returned !== null && out.length < 6) {
    out.push(["Memory given back", `${Math.round(returned * 100)} %`]);
  }
  return out.slice(0, 6);
}
