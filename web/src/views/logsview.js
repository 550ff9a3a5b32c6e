// The log: plain text, appended as it comes. Scrolling up pauses; at most 5,000 lines are kept on the
// page, earlier ones are fetched on demand. Bytes are only ever set as text.

import { fill, h, text } from "../lib/dom.js";
import { api } from "../lib/api.js";
import { bytes, exact } from "../lib/format.js";
import { isLive } from "../lib/words.js";
import { LogFind } from "./logfind.js";

const POLL_MS = 700;
const MOST_LINES = 5000;
const FIRST_BYTES = 256 * 1024;
const EMPTY_LINE = "\u200b"; // keeps the height of a line
const EARLIER_BYTES = 256 * 1024;

export class LogsView {
  constructor(host) {
    this.host = host;
    this.stream = "stdout";
    this.build();
    this.restart("stdout");
  }

  build() {
    this.tabs = {};
    const seg = h(
      "span",
      { class: "seg", role: "group", "aria-label": "Stream" },
      ["stdout", "stderr"].map((s) => {
        this.tabs[s] = h(
          "button",
          { type: "button", "aria-pressed": "false", onclick: () => this.restart(s) },
          s,
        );
        return this.tabs[s];
      }),
    );
    this.pauseBtn = h(
      "button",
      { type: "button", class: "btn", "aria-pressed": "false", onclick: () => this.setPaused(!this.paused) },
      "Pause",
    );
    this.save = h("a", { class: "btn" }, "Download");
    this.log = h("div", {
      class: "log",
      tabindex: "0",
      role: "log",
      "aria-live": "off",
      onscroll: () => this.scrolled(),
      onkeydown: (e) => this.key(e),
    });
    this.earlier = h(
      "button",
      { type: "button", class: "linkish", onclick: () => this.loadEarlier() },
      "Load earlier",
    );
    this.head = h("div", { class: "sys" });
    this.lines = h("div", { class: "lines" });
    this.foot = h("div", { class: "sys" });
    this.log.append(this.head, this.lines, this.foot);
    this.find = new LogFind(this.lines, this.log);
    this.el = h(
      "section",
      { class: "panel v-logs", "aria-label": "Output" },
      h("div", { class: "bar" }, seg, this.find.el, h("span", { class: "sp" }), this.pauseBtn, this.save),
      this.log,
    );
  }

  restart(stream) {
    this.abort?.abort();
    this.abort = new AbortController();
    clearTimeout(this.timer);
    this.stream = stream;
    this.from = null;
    this.next = 0;
    this.partial = "";
    this.half = false;
    this.seam = "";
    this.ended = false;
    this.pending = 0;
    this.decoder = new TextDecoder("utf-8");
    for (const [s, b] of Object.entries(this.tabs)) {
      b.setAttribute("aria-pressed", String(s === stream));
    }
    this.log.setAttribute("aria-label", stream);
    this.save.href = api.links(this.host.get().id)[stream];
    this.save.download = `${this.host.get().name}-${stream}.log`;
    fill(this.lines);
    text(this.foot, "");
    this.setPaused(false);
    this.poll();
  }

  /** Fetches what is new; the first time only the last part of a long stream. */
  async poll() {
    const signal = this.abort.signal;
    try {
      const wasLive = isLive(this.host.get());
      if (this.from === null) {
        const size = await api.logSize(this.host.get().id, this.stream, signal);
        this.from = Math.max(0, size - FIRST_BYTES);
        this.next = this.from;
        this.half = this.from > 0;
      }
      const got = (await api.log(this.host.get().id, this.stream, this.next, signal)).bytes;
      if (signal.aborted) {
        return;
      }
      this.take(got);
      if (!wasLive && got.length === 0) {
        this.finish();
        return;
      }
      this.timer = setTimeout(() => this.poll(), got.length ? POLL_MS / 2 : POLL_MS);
    } catch (e) {
      this.trouble(e, signal);
    }
  }

  trouble(e, signal) {
    if (e.name === "AbortError" || signal.aborted) {
      return;
    }
    if (e.code === "log_cut" && this.next === 0) {
      text(this.foot, e.message);
    } else {
      text(this.foot, `The output could not be fetched. ${e.message}`);
      this.timer = setTimeout(() => this.poll(), POLL_MS * 4);
    }
  }

  take(got) {
    if (got.length) {
      this.next += got.length;
      this.addText(this.decoder.decode(got, { stream: true }));
    }
    text(this.tabs[this.stream], `${this.stream} ${bytes(this.next)}`);
    this.headText();
  }

  addText(chunk) {
    if (!chunk) {
      return;
    }
    const parts = (this.partial + chunk).split("\n");
    if (this.half && parts.length > 1) {
      this.half = false; // the first line shown would be half of one
      this.seam = parts.shift();
    }
    this.partial = parts.pop();
    this.openLine?.remove();
    const nodes = parts.map(lineNode);
    this.openLine = this.partial ? lineNode(this.partial) : null;
    this.lines.append(...nodes, ...(this.openLine ? [this.openLine] : []));
    this.trim();
    this.find.refresh();
    if (this.paused) {
      this.pending += nodes.length;
      this.pauseText();
    } else {
      this.toEnd();
    }
  }

  /** Drops the oldest lines; where the view begins moves along, so that "Load earlier" finds them. */
  trim() {
    while (this.lines.childElementCount > MOST_LINES) {
      const line = this.lines.firstChild;
      const length = line.textContent === EMPTY_LINE ? 0 : new TextEncoder().encode(line.textContent).length;
      this.from += length + 1 + new TextEncoder().encode(this.seam ? `${this.seam}\n` : "").length;
      this.seam = "";
      line.remove();
    }
  }

  toEnd() {
    this.log.scrollTop = this.log.scrollHeight;
  }

  finish() {
    this.ended = true;
    this.pauseBtn.hidden = true;
    text(this.foot, this.next === 0 ? `Nothing was written to ${this.stream}.` : "End of output.");
    this.toEnd();
  }

  headText() {
    this.head.replaceChildren();
    if (this.from > 0) {
      this.head.append(`Showing from byte ${exact(this.from)}. `, this.earlier);
    }
  }

  async loadEarlier() {
    const to = this.from;
    const from = Math.max(0, to - EARLIER_BYTES);
    const { signal } = this.abort;
    const got = (await api.log(this.host.get().id, this.stream, from, signal, to)).bytes;
    const part = new TextDecoder("utf-8").decode(got).split("\n");
    part[part.length - 1] += this.seam; // the other half of the line that was cut here
    this.seam = from > 0 ? part.shift() : "";
    const before = this.log.scrollHeight;
    this.lines.prepend(...part.filter((l, i) => l !== "" || i < part.length - 1).map(lineNode));
    this.from = from;
    this.headText();
    this.setPaused(true);
    this.log.scrollTop += this.log.scrollHeight - before;
    this.find.refresh();
  }

  scrolled() {
    const atEnd = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 24;
    if (!this.ended && atEnd !== !this.paused) {
      this.setPaused(!atEnd);
    }
  }

  setPaused(on) {
    this.paused = on;
    if (!on) {
      this.pending = 0;
      this.toEnd();
    }
    this.pauseBtn.hidden = this.ended;
    this.pauseText();
  }

  pauseText() {
    this.pauseBtn.setAttribute("aria-pressed", String(this.paused));
    text(
      this.pauseBtn,
      this.paused ? (this.pending ? `${exact(this.pending)} new lines` : "Paused") : "Pause",
    );
  }

  key(e) {
    if (e.key === " ") {
      e.preventDefault();
      this.setPaused(!this.paused);
    } else if (e.key === "/") {
      e.preventDefault();
      this.find.input.focus();
    } else if (e.key === "n" || e.key === "N") {
      this.find.step(e.key === "n" ? 1 : -1);
    }
  }

  update() {}

  sample() {}

  notice() {}

  redraw() {}

  destroy() {
    this.abort.abort();
    clearTimeout(this.timer);
  }
}

function lineNode(line) {
  const el = document.createElement("div");
  el.textContent = line === "" ? EMPTY_LINE : line;
  return el;
}
