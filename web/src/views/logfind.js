// Find in the log: marks the lines that hold the words, steps through them.

import { fill, h, text } from "../lib/dom.js";
import { exact } from "../lib/format.js";

export class LogFind {
  constructor(lines, scroller) {
    this.lines = lines;
    this.scroller = scroller;
    this.hits = [];
    this.at = -1;
    this.count = h("span", { class: "muted nowrap", role: "status" });
    this.input = h("input", {
      type: "search",
      placeholder: "Find",
      "aria-label": "Find in the log",
      oninput: () => this.search(),
      onkeydown: (e) => this.key(e),
    });
    this.el = h(
      "span",
      { class: "find" },
      this.input,
      this.count,
      h("button", { type: "button", class: "btn quiet", onclick: () => this.step(-1) }, "Previous"),
      h("button", { type: "button", class: "btn quiet", onclick: () => this.step(1) }, "Next"),
    );
  }

  key(e) {
    if (e.key === "Enter") {
      e.preventDefault();
      this.step(e.shiftKey ? -1 : 1);
    } else if (e.key === "Escape") {
      this.input.value = "";
      this.search();
      this.scroller.focus();
    }
  }

  /** Lines came or went: mark again, keep the place. */
  refresh() {
    if (this.input.value) {
      this.search(true);
    }
  }

  search(keep = false) {
    const current = keep ? this.hits[this.at] : null;
    const words = this.input.value;
    for (const line of this.lines.querySelectorAll(".found")) {
      line.classList.remove("found", "hit");
      line.textContent = line.textContent;
    }
    this.hits = [];
    if (words) {
      for (const line of this.lines.children) {
        if (line.textContent.includes(words)) {
          markLine(line, words);
          this.hits.push(line);
        }
      }
    }
    this.at = current ? this.hits.indexOf(current) : -1;
    if (!keep && this.hits.length) {
      this.step(1);
    }
    this.tell();
  }

  step(by) {
    if (this.hits.length === 0) {
      return;
    }
    this.hits[this.at]?.classList.remove("hit");
    this.at = (this.at + by + this.hits.length) % this.hits.length;
    this.hits[this.at].classList.add("hit");
    this.hits[this.at].scrollIntoView({ block: "nearest" });
    this.tell();
  }

  tell() {
    text(
      this.count,
      this.input.value === ""
        ? ""
        : this.hits.length
          ? `${exact(this.at + 1)} of ${exact(this.hits.length)}`
          : "none",
    );
  }
}

function markLine(line, words) {
  const parts = line.textContent.split(words);
  line.classList.add("found");
  fill(
    line,
    parts.flatMap((p, i) => (i === 0 ? [p] : [h("mark", null, words), p])),
  );
}
