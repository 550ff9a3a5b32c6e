// The flame graph of what is live at an instant: root on top, own files bold, last row the primitive.

import { h, text } from "../lib/dom.js";
import { bytes, exact, percent } from "../lib/format.js";
import { flameTree } from "../lib/stacks.js";
import { fit, font, rootSize, token } from "./theme.js";

const LEAST_LABEL_PX = 26;
const FILL = { own: "frame-own", lib: "frame-lib", mlx: "frame-fw" };

export class Flame {
  /** onPick(groupIndexes | null): frames chosen here. */
  constructor(onPick) {
    this.onPick = onPick;
    this.canvas = h("canvas", {
      tabindex: "0",
      role: "img",
      "aria-label": "Flame graph; the table beside it holds the same numbers",
      onpointermove: (e) => this.point(this.at(e)),
      onpointerleave: () => this.point(null),
      onclick: (e) => this.pick(this.at(e)),
      onkeydown: (e) => this.key(e),
    });
    this.what = h("b", { class: "mono" });
    this.how = h("span");
    this.el = h(
      "div",
      { class: "flame" },
      h(
        "div",
        { class: "fh" },
        h("b", { class: "ink" }, "Flame graph of what is live"),
        h("span", null, h("i", { class: "sq own" }), "your files"),
        h("span", null, h("i", { class: "sq lib" }), "libraries"),
        h("span", null, h("i", { class: "sq fw" }), "mlx"),
        h("span", null, "last row: primitive"),
      ),
      h("div", { class: "fc" }, this.canvas),
      h("div", { class: "ft" }, this.what, this.how),
    );
    this.boxes = [];
    this.chosen = null;
    this.marked = null;
    this.resize = new ResizeObserver(() => this.draw());
    this.resize.observe(this.canvas);
  }

  destroy() {
    this.resize.disconnect();
  }

  show(groups, color) {
    this.root = flameTree(groups);
    this.color = color;
    this.chosen = null;
    this.depth = deepest(this.root);
    const rows = Math.min(24, Math.max(8, this.depth + 1));
    this.canvas.style.setProperty("height", `${rows * 2.1}rem`);
    this.draw();
    this.tell(this.root.kids.length ? this.root : null);
  }

  /** Marks the frames of one group, chosen in the table. */
  mark(group) {
    this.marked = group;
    this.draw();
  }

  draw() {
    const box = fit(this.canvas);
    if (!box || !this.root || this.root.bytes === 0) {
      return;
    }
    const { g, w, h: height } = box;
    const row = Math.min(2.4 * rootSize(), Math.floor((height - 4) / (this.depth + 1)));
    this.boxes = [];
    g.textBaseline = "middle";
    g.textAlign = "left";
    this.node(g, this.root, 14, 2, w - 28, row);
  }

  node(g, n, x, y, w, row) {
    if (w < 0.6) {
      return;
    }
    const primitive = n.kind === "primitive";
    g.fillStyle = primitive ? token(`p${this.color(n.name)}`) : token(FILL[n.kind]);
    g.fillRect(x, y, Math.max(1, w - 1), row - 1);
    this.boxes.push({ x, y, w, h: row, node: n });
    const picked = n === this.chosen || (this.marked !== null && holds(n, this.marked) && n !== this.root);
    if (picked) {
      g.strokeStyle = token("ink");
      g.lineWidth = n === this.chosen ? 2 : 1;
      g.strokeRect(x + 1, y + 1, Math.max(1, w - 3), row - 3);
    }
    if (w > LEAST_LABEL_PX) {
      label(g, n, x, y, w, row);
    }
    let cx = x;
    for (const kid of n.kids) {
      const kw = (kid.bytes / n.bytes) * w;
      this.node(g, kid, cx, y + row, kw, row);
      cx += kw;
    }
  }

  at(e) {
    return (
      this.boxes.findLast(
        (b) => e.offsetX >= b.x && e.offsetX < b.x + b.w && e.offsetY >= b.y && e.offsetY < b.y + b.h,
      )?.node ?? null
    );
  }

  point(n) {
    this.canvas.classList.toggle("on-mark", n !== null);
    this.tell(n ?? this.chosen ?? this.root);
  }

  pick(n) {
    this.chosen = n;
    this.onPick(n && n !== this.root ? leaves(n) : null);
    this.tell(n ?? this.root);
    this.draw();
  }

  tell(n) {
    if (!n || !this.root) {
      text(this.what, "");
      text(this.how, "");
      return;
    }
    text(this.what, n.name);
    text(
      this.how,
      `${bytes(n.bytes)}, ${exact(n.bytes)} bytes, ${percent(n.bytes, this.root.bytes, 1)} % of what is live`,
    );
  }

  key(e) {
    const n = this.chosen ?? this.root;
    const peers = n?.parent?.kids ?? [n];
    const i = peers.indexOf(n);
    const next = {
      ArrowDown: n?.kids[0],
      ArrowUp: n?.parent,
      ArrowLeft: peers[i - 1],
      ArrowRight: peers[i + 1],
    }[e.key];
    if (next) {
      e.preventDefault();
      this.chosen = next;
      this.tell(next);
      this.draw();
    } else if (e.key === "Enter") {
      this.pick(this.chosen);
    } else if (e.key === "Escape") {
      this.pick(null);
    }
  }
}

function label(g, n, x, y, w, row) {
  g.save();
  g.beginPath();
  g.rect(x, y, w - 3, row);
  g.clip();
  g.fillStyle = n.kind === "primitive" ? token("p-ink") : token("ink");
  g.font = font(0.857, n.kind === "own" ? 700 : 400, "font-mono");
  const full = `${n.name}  ${bytes(n.bytes)}`;
  g.fillText(g.measureText(full).width < w - 10 ? full : cut(g, n.name, w - 10), x + 5, y + row / 2);
  g.restore();
}

function cut(g, name, room) {
  if (g.measureText(name).width <= room) {
    return name;
  }
  const keep = Math.floor(room / g.measureText("m").width) - 1;
  return keep < 3 ? "" : `${name.slice(0, keep)}…`;
}

const deepest = (n) => (n.kids.length ? 1 + Math.max(...n.kids.map(deepest)) : 0);
const leaves = (n) => (n.kids.length ? n.kids.flatMap(leaves) : [n.group]);
const holds = (n, group) => n.group === group || n.kids.some((k) => holds(k, group));
