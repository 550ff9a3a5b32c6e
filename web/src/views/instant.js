// "Live at TIME why": what was live at an instant, by Python stack or by primitive, and the flame
// graph beside it. Sums, growth and "keeps growing" come from the server.

import { fill, h, text } from "../lib/dom.js";
import { bytes, clock, exact, percent } from "../lib/format.js";
import { frameKind, keyFrame, place, primitiveColors, viaFrame } from "../lib/stacks.js";
import { isLive, reasonText } from "../lib/words.js";
import { Flame } from "../plot/flame.js";

const WHY = {
  peak: "at the peak of active",
  limit: "when the charge reached the limit",
  end: "at the end",
  at: "",
};
const TOP = 200;
const SHOWN = 40;

export class Instant {
  /** host: {fetchLive(params, signal), job(), hasTrace()}. */
  constructor(host) {
    this.host = host;
    this.group = "stack";
    this.since = null;
    this.ask = null;
    this.build();
  }

  build() {
    this.title = h("h2", { tabindex: "-1" });
    this.by = {};
    const seg = h(
      "span",
      { class: "seg", role: "group", "aria-label": "Group by" },
      [
        ["stack", "By Python stack"],
        ["primitive", "By primitive"],
      ].map(([id, label]) => {
        this.by[id] = h(
          "button",
          { type: "button", "aria-pressed": String(id === "stack"), onclick: () => this.setGroup(id) },
          label,
        );
        return this.by[id];
      }),
    );
    this.compare = h("button", { type: "button", class: "btn", onclick: () => this.toggleCompare() });
    this.tools = h("span", { class: "row" }, seg, this.compare);
    this.body = h("tbody");
    this.foot = h("tfoot");
    this.sinceHead = h("th", { class: "num", scope: "col" });
    this.table = h(
      "table",
      { class: "live" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, "Allocated by"),
          h("th", { class: "num", scope: "col" }, "Bytes"),
          h("th", { class: "num hide-s", scope: "col" }, "Count"),
          h("th", { class: "num share", scope: "col" }, "Share"),
          this.sinceHead,
        ),
      ),
      this.body,
      this.foot,
    );
    this.flame = new Flame((groups) => this.select(groups));
    this.note = h("div", { class: "empty" });
    this.cols = h("div", { class: "cols" }, h("div", { class: "scroll" }, this.table), this.flame.el);
    this.el = h(
      "section",
      { class: "panel inst", "aria-label": "What was live" },
      h("div", { class: "hd" }, this.title, this.tools),
      this.note,
      this.cols,
    );
    this.message("");
  }

  destroy() {
    this.abort?.abort();
    this.flame.destroy();
  }

  setGroup(id) {
    this.group = id;
    for (const [name, b] of Object.entries(this.by)) {
      b.setAttribute("aria-pressed", String(name === id));
    }
    this.load();
  }

  /** ask: {at: "peak"|"limit"|"end"} or {at_us}. */
  show(ask) {
    this.ask = ask;
    return this.load();
  }

  setCompare(us) {
    this.since = us;
    this.load();
  }

  toggleCompare() {
    this.since = this.since === null && this.last ? this.last.at_us : null;
    this.load();
  }

  async load() {
    if (!this.ask) {
      return null;
    }
    if (this.nothingRecorded()) {
      return null;
    }
    this.abort?.abort();
    this.abort = new AbortController();
    const params = { ...this.ask, group: this.group, top: TOP };
    if (this.since !== null) {
      params.since_us = this.since;
    }
    try {
      this.last = await this.host.fetchLive(params, this.abort.signal);
      this.render();
      return this.last;
    } catch (e) {
      if (e.name !== "AbortError") {
        this.refuse(e);
      }
      return null;
    }
  }

  /** Without a trace there is nothing to ask for: says so instead. */
  nothingRecorded() {
    const r = this.host.job().recorder;
    const none = !this.host.hasTrace();
    if (none) {
      text(this.title, "What was live");
      this.last = null;
      const absent = ["absent", "off"].includes(r?.state);
      const why = absent ? reasonText(r.reason || "no_mlx") : "nothing was allocated yet";
      this.message(`No allocations are recorded: ${why}.`, "The limit and the charge line work as usual.");
    }
    return none;
  }

  refuse(e) {
    text(this.title, "What was live");
    if (e.code === "limit_not_crossed") {
      this.message(
        "This job has not reached its limit.",
        "Choose At peak, At the end, or click into the plot.",
      );
    } else if (e.code === "no_trace") {
      this.message("Nothing is recorded yet.", "Recording starts by itself when the job loads MLX.");
    } else {
      this.message("What was live could not be fetched.", e.message);
    }
  }

  message(head, detail = "") {
    const on = head !== "";
    this.note.hidden = !on;
    this.cols.hidden = on;
    this.tools.hidden = on && !this.last;
    fill(this.note, on && h("h3", null, head), on && h("p", null, detail));
  }

  render() {
    const live = this.last;
    fill(
      this.title,
      "Live at ",
      clock(live.at_us, 3),
      " ",
      h("span", { class: "muted why" }, this.why(live)),
    );
    text(
      this.compare,
      this.since === null ? "Compare from here" : `Stop comparing with ${clock(this.since)}`,
    );
    this.sinceHead.hidden = this.since === null;
    text(this.sinceHead, this.since === null ? "" : `Since ${clock(this.since)}`);
    if (live.total_bytes === 0 && live.groups.length === 0) {
      this.message(
        "Nothing was live at this instant.",
        "Click into the plot where the active line is above 0.",
      );
      return;
    }
    this.message("");
    this.color = primitiveColors(live.groups);
    fill(
      this.body,
      live.groups.slice(0, SHOWN).map((g, i) => this.rowOf(g, i, live)),
      this.restRow(live),
    );
    fill(this.foot, this.sumRow(live));
    this.flame.el.hidden = false;
    this.flame.show(withRest(live), this.color, this.since !== null);
  }

  why(live) {
    const why = live.why ?? this.ask.at ?? "at";
    return why === "end" && isLive(this.host.job()) ? "newest" : (WHY[why] ?? "");
  }

  rowOf(group, i, live) {
    const share = live.total_bytes ? (group.bytes / live.groups[0].bytes) * 100 : 0;
    const bar = h("i");
    bar.style.setProperty("width", `${share.toFixed(2)}%`);
    const tr = h(
      "tr",
      {
        tabindex: i === 0 ? "0" : "-1",
        "data-i": String(i),
        "aria-selected": "false",
        onclick: () => this.pick(i),
        onkeydown: (e) => this.key(e, i),
        onfocus: () => this.flame.mark(i),
        onpointerenter: () => this.flame.mark(i),
        onpointerleave: () => this.flame.mark(this.picked ?? null),
      },
      h(
        "td",
        null,
        this.source(group),
        group.keeps_growing && h("span", { class: "tag" }, "keeps growing"),
        h("span", { class: "via" }, this.via(group)),
      ),
      h("td", { class: "num", title: `${exact(group.bytes)} bytes` }, bytes(group.bytes)),
      h("td", { class: "num hide-s" }, exact(group.count)),
      h("td", { class: "num share" }, `${percent(group.bytes, live.total_bytes || 1, 1)} %`, bar),
      this.since === null ? null : growth(group.growth_bytes),
    );
    return tr;
  }

  source(group) {
    const sq = h("i", { class: `sq p${this.color(group.primitive_name)}` });
    if (this.group === "primitive") {
      return h("span", { class: "src" }, sq, group.primitive_name ?? "arrays without a primitive");
    }
    const frame = keyFrame(group.traceback);
    if (!frame) {
      return h("span", { class: "src" }, sq, "no Python stack");
    }
    const own = frameKind(frame[0]) === "own";
    return h(
      "span",
      { class: "src", title: `${frame[0]}:${frame[2]}` },
      sq,
      own ? h("b", null, place(frame)) : place(frame),
      ` ${frame[1]} `,
    );
  }

  via(group) {
    if (this.group === "primitive") {
      return "";
    }
    if (!group.traceback) {
      return "made before recording began, or by a thread without Python";
    }
    const via = viaFrame(group.traceback);
    return [via && `via ${place(via)} ${via[1]}`, group.primitive_name ?? "array"].filter(Boolean).join(", ");
  }

  restRow(live) {
    const hidden = live.groups.slice(SHOWN);
    const count = hidden.length + (live.other?.groups ?? 0);
    if (count === 0) {
      return null;
    }
    const sum = hidden.reduce((n, g) => n + g.bytes, live.other?.bytes ?? 0);
    const number = hidden.reduce((n, g) => n + g.count, live.other?.count ?? 0);
    return h(
      "tr",
      { class: "rest" },
      h("td", null, `${exact(count)} smaller groups`),
      h("td", { class: "num", title: `${exact(sum)} bytes` }, bytes(sum)),
      h("td", { class: "num hide-s" }, exact(number)),
      h("td", { class: "num share" }, `${percent(sum, live.total_bytes || 1, 1)} %`),
      this.since === null ? null : h("td"),
    );
  }

  sumRow(live) {
    const count = live.total_count ?? live.groups.reduce((n, g) => n + g.count, live.other?.count ?? 0);
    const grown =
      this.since === null
        ? null
        : live.groups.reduce((n, g) => n + (g.growth_bytes ?? 0), live.other?.growth_bytes ?? 0);
    return h(
      "tr",
      null,
      h("td", null, "All live, = active"),
      h("td", { class: "num total", title: `${exact(live.total_bytes)} bytes` }, bytes(live.total_bytes)),
      h("td", { class: "num hide-s" }, exact(count)),
      h("td", { class: "num share" }, "100 %"),
      this.since === null ? null : growth(grown),
    );
  }

  /** One stop in the tab order, arrows between rows, Enter keeps the mark. */
  key(e, i) {
    const rows = [...this.body.querySelectorAll("tr[data-i]")];
    const to = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: rows.length - 1 }[e.key];
    if (rows[to]) {
      e.preventDefault();
      rows.forEach((tr, k) => {
        tr.tabIndex = k === to ? 0 : -1;
      });
      rows[to].focus();
    } else if (e.key === "Enter") {
      this.pick(i);
    }
  }

  pick(i) {
    this.picked = this.picked === i ? null : i;
    this.select(this.picked === null ? null : [i], false);
    this.flame.mark(this.picked);
  }

  /** Highlights rows; from the flame graph they also come into view. */
  select(groups, scroll = true) {
    for (const tr of this.body.querySelectorAll("tr[data-i]")) {
      const on = groups !== null && groups.includes(Number(tr.dataset.i));
      tr.setAttribute("aria-selected", String(on));
      if (on && scroll && groups[0] === Number(tr.dataset.i)) {
        tr.scrollIntoView({ block: "nearest" });
      }
    }
  }
}

function withRest(live) {
  const rest = live.other?.bytes ?? 0;
  return rest > 0
    ? [
        ...live.groups,
        {
          traceback: null,
          primitive_name: "smaller groups",
          bytes: rest,
          count: live.other.count,
          growth_bytes: live.other.growth_bytes ?? 0,
        },
      ]
    : live.groups;
}

function growth(n) {
  if (n === null || n === undefined) {
    return h("td", { class: "num muted" }, "–");
  }
  const small = n === 0;
  return h(
    "td",
    { class: small ? "num muted" : "num", title: `${exact(n)} bytes` },
    small ? "0" : `${n > 0 ? "+ " : "− "}${bytes(Math.abs(n))}`,
  );
}
