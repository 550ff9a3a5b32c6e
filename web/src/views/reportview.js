// The report in words, the downloads, and how to open the trace in memory_viz.

import { fill, h } from "../lib/dom.js";
import { api } from "../lib/api.js";
import { reportSections } from "../lib/reportwords.js";
import { isLive } from "../lib/words.js";

const VIZ = "https://docs.pytorch.org/memory_viz";
const RETRY_MS = 3000;

export class ReportView {
  constructor(host) {
    this.host = host;
    this.prose = h("article", { class: "panel prose" });
    this.el = h("div", { class: "rep" }, this.prose, this.side());
    this.load();
  }

  async load() {
    const job = this.host.get();
    clearTimeout(this.timer);
    if (isLive(job)) {
      this.say(
        "The report appears when the job has ended.",
        "Until then the timeline and the trace so far are complete up to now.",
      );
      return;
    }
    try {
      const report = await api.report(job.id);
      this.host.onFacts({ report });
      this.reportRow.hidden = false;
      this.render(report, job);
      if (report.reclamation && ["pending", undefined].includes(report.reclamation.verdict)) {
        this.timer = setTimeout(() => this.load(), RETRY_MS);
      }
    } catch (e) {
      if (e.code === "report_not_ready") {
        this.say("The report is being written.", "It appears here by itself.");
        this.timer = setTimeout(() => this.load(), 1000);
      } else if (e.code === "report_suppressed") {
        this.say("There is no valid report of this job.", e.message);
      } else {
        this.say("The report could not be fetched.", e.message);
      }
    }
  }

  say(head, detail) {
    fill(
      this.prose,
      h("h2", null, "Report"),
      h("p", null, h("b", null, head)),
      h("p", { class: "muted" }, detail),
    );
  }

  render(report, job) {
    fill(
      this.prose,
      h("h2", null, "Report"),
      reportSections(report, job).map((s) =>
        h(
          "section",
          { class: "sec" },
          h("h3", null, s.head),
          h(
            "div",
            null,
            s.paras.map((p) => h("p", null, p)),
            s.sum && sums(s.sum),
          ),
        ),
      ),
    );
  }

  side() {
    const job = this.host.get();
    const links = api.links(job.id);
    const row = (name, href, file, note) =>
      h(
        "li",
        null,
        h("b", null, name),
        h("a", { class: "btn", href, download: `${job.name}-${file}` }, file),
        h("span", { class: "muted" }, note),
      );
    // offered once it is there: before, the download would be an error message
    this.reportRow = row("Report", links.report, "report.json", "as written when the job ended");
    this.reportRow.hidden = true;
    return h(
      "div",
      { class: "side" },
      h(
        "section",
        { class: "panel" },
        h("h2", null, "Download"),
        h(
          "ul",
          { class: "dl" },
          this.reportRow,
          row(
            "Allocator trace",
            links.pickle,
            "memory.pickle",
            "for memory_viz and pickle.load; also while it runs",
          ),
          row("Allocator events", links.events, "events.ndjson", "one JSON object a line"),
          row("Trace for Perfetto", links.trace, "trace.json", "counters and markers"),
          row("Standard output", links.stdout, "stdout.log", "plain text"),
          row("Standard error", links.stderr, "stderr.log", "plain text"),
        ),
      ),
      h(
        "section",
        { class: "panel" },
        h("h2", null, "Open in memory_viz"),
        h(
          "ol",
          { class: "steps" },
          h("li", null, "Download ", h("code", null, "memory.pickle"), "."),
          h(
            "li",
            null,
            "Open ",
            h(
              "a",
              { href: VIZ, rel: "noreferrer noopener", target: "_blank" },
              "docs.pytorch.org/memory_viz",
              h("span", { class: "vh" }, " (new tab)"),
            ),
            ".",
          ),
          h("li", null, "Drop the file on that page. It is read in your browser; nothing is uploaded."),
        ),
      ),
    );
  }

  update() {
    const live = isLive(this.host.get());
    if (this.wasLive && !live) {
      this.load();
    }
    this.wasLive = live;
  }

  sample() {}

  notice() {}

  redraw() {}

  destroy() {
    clearTimeout(this.timer);
  }
}

function sums(rows) {
  return h(
    "div",
    { class: "sum" },
    rows.map((cells, i) =>
      cells.map((c, k) =>
        h(
          "span",
          {
            class: [i === rows.length - 1 && rows.length > 1 ? "tot" : "", k === 2 ? "muted" : ""]
              .join(" ")
              .trim(),
          },
          c,
        ),
      ),
    ),
  );
}
