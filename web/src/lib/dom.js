// Building elements. Text is only ever set as text: nothing here parses HTML, so whatever a job
// prints or a file name holds stays text. Inline styles go through CSSOM, which the page's
// content security policy allows; style attributes it does not.

const SVG = "http://www.w3.org/2000/svg";

/** h("a", {class: "btn", href: "#", onclick: f, "aria-label": "x"}, "text", child, ...) */
export function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [key, val] of Object.entries(props ?? {})) {
    setProp(el, key, val);
  }
  append(el, children);
  return el;
}

function setProp(el, key, val) {
  if (val === null || val === undefined || val === false) {
    return;
  }
  if (key.startsWith("on")) {
    el.addEventListener(key.slice(2), val);
  } else if (key === "class") {
    el.className = val;
  } else if (key in el && !key.startsWith("aria-") && typeof val !== "string") {
    el[key] = val;
  } else {
    el.setAttribute(key, val === true ? "" : val);
  }
}

export function append(el, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      el.append(child instanceof Node ? child : String(child));
    }
  }
  return el;
}

/** Replaces the children of el. */
export function fill(el, ...children) {
  el.replaceChildren();
  return append(el, children);
}

/** Sets text only where it changed, so that selections and screen readers stay calm. */
export function text(el, value) {
  if (el.textContent !== value) {
    el.textContent = value;
  }
}

/** A glyph: one of the symbols of index.html. */
export function icon(name, tone = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `i ${tone} g-${name}`.trim());
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#g-${name}`);
  svg.append(use);
  return svg;
}

/** The three line samples of the legend. */
export function swatch(key) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `sw sw-${key}`);
  svg.setAttribute("viewBox", "0 0 22 8");
  svg.setAttribute("aria-hidden", "true");
  if (key === "active") {
    const wash = document.createElementNS(SVG, "path");
    wash.setAttribute("d", "M0 4v4h22V4z");
    wash.setAttribute("class", "wash");
    svg.append(wash);
  }
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("d", "M0 4h22");
  line.setAttribute("class", "line");
  svg.append(line);
  return svg;
}

export const strong = (t) => h("b", null, t);

/** Pieces of [text, strong] as nodes. */
export const pieces = (list) => list.map(([t, bold]) => (bold ? strong(t) : t));

let live;
/** Speaks to screen readers, politely. */
export function announce(message) {
  live ??= document.getElementById("live");
  if (live) {
    live.textContent = message;
  }
}
