// One row of the jobs table. Built once; later only the values that changed are set, so that rows
// keep their place, their focus and their selection.

import { h, icon, text } from "../lib/dom.js";
import { ago, bytes, dateClockZone, duration, exact, limit, toUs } from "../lib/format.js";
import {
  bytesOf,
  endedSentence,
  isLive,
  liveSentence,
  shareText,
  stateView,
  value,
  whyUnknown,
} from "../lib/words.js";
import { drawLimitBar } from "../plot/bars.js";
import { joinLine } from "../lib/input.js";
import { actionButtons } from "./actions.js";

export function createRow(job, get, onRelaunch) {
  const e = {
    name: h("a", { class: "name", href: `#/jobs/${job.id}/timeline`, tabindex: "-1" }, job.name),
    state: h("span", { class: "st" }),
    now: h("span"),
    share: h("span", { class: "muted" }),
    bar: h("canvas", { role: "img" }),
    active: h("td", { class: "num hide-m", role: "cell", "data-l": "active" }),
    reserved: h("td", { class: "num hide-m", role: "cell", "data-l": "reserved" }),
    time: h("span"),
    agoLine: h("time", { class: "muted ago" }),
    out: h("td", { class: "out", role: "cell" }),
    act: h("td", { class: "act", role: "cell" }),
  };
  const command = joinLine(job.command ?? []);
  const tr = h(
    "tr",
    { class: "j", role: "row", tabindex: "-1", "data-id": job.id },
    h(
      "th",
      { class: "n", scope: "row", role: "rowheader" },
      e.name,
      h("span", { class: "cmd", title: command }, command),
    ),
    h("td", { class: "s", role: "cell" }, e.state),
    h("td", { class: "lim", role: "cell" }, h("div", { class: "v" }, e.now, e.share), e.bar),
    e.active,
    e.reserved,
    h("td", { class: "num t", role: "cell" }, e.time, e.agoLine),
    e.out,
    e.act,
  );
  const row = { tr, e, glyph: "", draw: (again) => drawBar(row, barOf(get()), again) };
  row.update = (trend) => update(row, get(), trend, get, onRelaunch);
  return row;
}

/** Draws only what changed: most rows stand still. */
function drawBar(row, bar, again) {
  const key = JSON.stringify(bar);
  if (again || key !== row.bar) {
    row.bar = key;
    drawLimitBar(row.e.bar, bar);
  }
}

const barOf = (job) => ({
  live: isLive(job),
  limit: job.mode === "observe" ? null : job.limit_bytes,
  bands: job.bands,
  charge: isLive(job) ? value(job.charge) : null,
  peak: value(job.peak_charge),
  active: value(job.active),
});

function update(row, job, trend, get, onRelaunch) {
  const { e } = row;
  const live = isLive(job);
  const view = stateView(job);
  if (row.glyph !== view.glyph + view.word) {
    row.glyph = view.glyph + view.word;
    e.state.className = `st ${view.tone}`;
    e.state.replaceChildren(icon(view.glyph), view.word);
  }
  figures(e, job, live);
  figure(e.active, live ? job.active : null);
  figure(e.reserved, live ? job.reserved : null);
  times(e, job, live);
  text(e.out, live ? liveSentence(job, trend) : endedSentence(job));
  if (live) {
    actionButtons(e.act, get, true);
  } else if (e.act.dataset.key !== "ended") {
    e.act.dataset.key = "ended";
    e.act.replaceChildren(
      h(
        "button",
        {
          type: "button",
          class: "btn quiet relaunch",
          "aria-label": `Relaunch ${job.name}`,
          onclick: () => onRelaunch(get()),
        },
        "Relaunch",
      ),
    );
  }
  row.draw();
}

function figures(e, job, live) {
  const peak = value(job.peak_charge);
  const charge = value(job.charge);
  const guarded = job.mode !== "observe" && job.limit_bytes !== null;
  if (job.state === "failed_to_start") {
    text(e.now, "never ran");
    text(e.share, "");
  } else {
    const n = live ? charge : peak;
    const shown =
      n === null
        ? whyUnknown(live ? job.charge : job.peak_charge)
        : guarded
          ? bytesOf(n, job.limit_bytes)
          : bytes(n);
    lead(e.now, live ? "" : "peak ", shown);
    text(e.share, guarded ? shareText(n, job.limit_bytes) : "no limit");
    e.now.title = n === null ? "" : `${exact(n)} bytes`;
  }
  e.bar.setAttribute(
    "aria-label",
    `${e.now.textContent}${guarded ? `, ${e.share.textContent} of ${limit(job.limit_bytes)}` : ""}`,
  );
}

/** "peak 6.04 of 6 GiB" with the number strong. */
function lead(el, before, shown) {
  if (el.dataset.shown === before + shown) {
    return;
  }
  el.dataset.shown = before + shown;
  const at = shown.indexOf(" ");
  el.replaceChildren(
    h("span", { class: "muted" }, before),
    h("b", null, at < 0 ? shown : shown.slice(0, at)),
    at < 0 ? "" : shown.slice(at),
  );
}

function figure(td, observed) {
  const n = value(observed);
  text(td, n === null ? "–" : bytes(n));
  td.classList.toggle("none", n === null);
  td.title = n === null ? (observed ? whyUnknown(observed) : "") : `${exact(n)} bytes`;
}

function times(e, job, live) {
  const start = toUs(job.started_at);
  const end = toUs(job.ended_at);
  const now = Date.now() * 1000;
  text(e.time, start === null ? "–" : duration(((live ? now : (end ?? now)) - start) / 1000));
  const told = live ? null : (end ?? toUs(job.created_at));
  text(e.agoLine, told === null ? "" : ago(told, Date.now()));
  if (told !== null) {
    e.agoLine.dateTime = new Date(told / 1000).toISOString();
    e.agoLine.title = dateClockZone(told);
  }
}
