// The flame graph of what is live at an instant: root on top, own files bold, last row the primitive.

import { h, text } from "../lib/dom.js";
import { bytes, exact, percent } from "../lib/format.js";
import { flameTree, growthTrees } from "../lib/stacks.js";
import { fit, font, rootSize, token } from "./theme.js";

const LEAST_LABEL_PX = 26;
const PAD = 14;
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
    this.title = h("b", { class: "ink" });
    this.what = h("b", { class: "mono" });
    this.how = h("span");
    this.el = h(
      "div",
      { class: "flame" },
      h(
        "div",
        { class: "fh" },
        this.title,
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

  /** compare: bars from a middle axis, growth to the right, what shrank to the left. */
  show(groups, color, compare = false) {
    this.color = color;
    this.chosen = null;
    this.trees = compare ? growthTrees(groups) : { live: flameTree(groups) };
    this.compare = compare;
    text(this.title, compare ? "What grew and what shrank" : "Flame graph of what is live");
    this.depth = Math.max(...Object.values(this.trees).map(deepest));
    const rows = Math.min(24, Math.max(8, this.depth + 1));
    this.canvas.style.setProperty("height", `${rows * 2.1}rem`);
    this.draw();
    this.tell(this.top());
  }

  /** The root that stands for the whole picture. */
  top() {
    const { live, grew, shrank } = this.trees ?? {};
    const root = live ?? (grew?.bytes >= shrank?.bytes ? grew : shrank);
    return root?.kids.length ? root : null;
  }

  /** Marks the frames of one group, chosen in the table. */
  mark(group) {
    this.marked = group;
    this.draw();
  }

  draw() {
    const box = fit(this.canvas);
    if (!box || !this.top()) {
      return;
    }
    const { g, w, h: height } = box;
    const row = Math.min(2.4 * rootSize(), Math.floor((height - 4) / (this.depth + 1)));
    this.boxes = [];
    g.textBaseline = "middle";
    g.textAlign = "left";
    if (!this.compare) {
      this.node(g, this.trees.live, PAD, 2, w - 2 * PAD, row);
      return;
    }
    const { grew, shrank } = this.trees;
    const scale = (w - 2 * PAD) / (grew.bytes + shrank.bytes);
    const axis = PAD + shrank.bytes * scale;
    this.node(g, shrank, PAD, 2, shrank.bytes * scale, row);
    this.node(g, grew, axis, 2, grew.bytes * scale, row);
    g.fillStyle = token("ink");
    g.fillRect(Math.round(axis) - 1, 0, 2, height);
  }

  node(g, n, x, y, w, row) {
    if (w < 0.6) {
      return;
    }
    const primitive = n.kind === "primitive";
    g.fillStyle = primitive ? token(`p${this.color(n.name)}`) : token(FILL[n.kind]);
    g.fillRect(x, y, Math.max(1, w - 1), row - 1);
    this.boxes.push({ x, y, w, h: row, node: n });
    const picked = n === this.chosen || (this.marked !== null && n.parent && holds(n, this.marked));
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
    this.tell(n ?? this.chosen ?? this.top());
  }

  pick(n) {
    this.chosen = n;
    this.onPick(n?.parent ? leaves(n) : null);
    this.tell(n ?? this.top());
    this.draw();
  }

  tell(n) {
    if (!n) {
      text(this.what, this.compare ? "Nothing grew or shrank." : "");
      text(this.how, "");
      return;
    }
    let root = n;
    while (root.parent) {
      root = root.parent;
    }
    const of = this.compare ? `what ${root.name}` : "what is live";
    text(this.what, n.name);
    text(
      this.how,
      `${bytes(n.bytes)}, ${exact(n.bytes)} bytes, ${percent(n.bytes, root.bytes, 1)} % of ${of}`,
    );
  }

  key(e) {
    const n = this.chosen ?? this.top();
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
