// The command editor: one chip per argument. Typing a blank ends nothing (arguments may hold blanks);
// Enter or Tab adds, a pasted line splits, Backspace in an empty box takes the last one back.

import { h } from "../lib/dom.js";
import { splitLine } from "../lib/input.js";

export class ArgvEditor {
  constructor(id, onChange) {
    this.args = [];
    this.onChange = onChange;
    this.input = h("input", {
      id,
      placeholder: "program, or paste a whole command line",
      autocomplete: "off",
      spellcheck: "false",
      autocapitalize: "off",
      onkeydown: (e) => this.key(e),
      onpaste: (e) => this.paste(e),
      onblur: () => this.commit(),
      oninput: () => this.onChange(),
    });
    this.list = h("span", { class: "chips", role: "list", "aria-label": "Arguments" });
    this.el = h(
      "div",
      { class: "argv", onclick: (e) => e.target === this.el && this.input.focus() },
      this.list,
      this.input,
    );
  }

  /** The arguments, the one being typed included. */
  value() {
    const typed = this.input.value;
    return typed === "" ? [...this.args] : [...this.args, typed];
  }

  set(args) {
    this.args = [...args];
    this.input.value = "";
    this.render();
  }

  commit() {
    if (this.input.value !== "") {
      // the first thing typed is often the whole line
      const typed = this.input.value;
      this.args.push(...(this.args.length === 0 && /\s/.test(typed.trim()) ? splitLine(typed) : [typed]));
      this.input.value = "";
      this.render();
    }
  }

  paste(e) {
    const pasted = e.clipboardData.getData("text").trim();
    if (/\s/.test(pasted) && this.input.value === "") {
      e.preventDefault();
      this.args.push(...splitLine(pasted));
      this.render();
    }
  }

  key(e) {
    if (e.key === "Enter" && this.input.value !== "") {
      e.preventDefault();
      this.commit();
    } else if (e.key === "Backspace" && this.input.value === "" && this.args.length) {
      e.preventDefault();
      this.input.value = this.args.pop();
      this.render();
    }
  }

  remove(i) {
    this.args.splice(i, 1);
    this.render();
    this.input.focus();
  }

  render() {
    this.list.replaceChildren(
      ...this.args.map((a, i) =>
        h(
          "span",
          { class: "chip", role: "listitem" },
          a === "" ? "“”" : a,
          h(
            "button",
            {
              type: "button",
              "aria-label": `Remove argument ${i + 1}, ${a}`,
              title: "Remove",
              onclick: () => this.remove(i),
            },
            "×",
          ),
        ),
      ),
    );
    this.input.placeholder = this.args.length ? "next argument" : "program, or paste a whole command line";
    this.onChange();
  }
}
