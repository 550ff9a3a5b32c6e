// What the canvases share: colours from the tokens, fonts, sizes in device pixels, hatching, and the
// glyph shapes of markers. Read anew when the scheme or the size changes.

let cache = new Map();
let styles = null;

/** A colour token by name, for example token("charge"). */
export function token(name) {
  let v = cache.get(name);
  if (v === undefined) {
    styles ??= getComputedStyle(document.documentElement);
    v = styles.getPropertyValue(`--${name}`).trim();
    cache.set(name, v);
  }
  return v;
}

export function forgetTokens() {
  cache = new Map();
  styles = null;
}

/** Root font size: every measure on a canvas scales with it / 14. */
export function rootSize() {
  return parseFloat(getComputedStyle(document.documentElement).fontSize) || 14;
}

export const font = (size, weight = 400, family = "font-ui") =>
  `${weight} ${(size * rootSize()).toFixed(2)}px ${token(family)}`;

/** Sizes the canvas to its box and the screen; returns {g, w, h} in CSS pixels, or null if hidden. */
export function fit(canvas) {
  const ratio = devicePixelRatio || 1;
  const w = canvas.clientWidth;
  const h = canvas.clientHeight;
  if (w === 0 || h === 0) {
    return null;
  }
  const pw = Math.round(w * ratio);
  const ph = Math.round(h * ratio);
  if (canvas.width !== pw || canvas.height !== ph) {
    canvas.width = pw;
    canvas.height = ph;
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  return { g, w, h };
}

/** Diagonal lines inside a box. */
export function hatch(g, x, y, w, h, color, step, lineWidth = 1) {
  if (w <= 0 || h <= 0) {
    return;
  }
  g.save();
  g.beginPath();
  g.rect(x, y, w, h);
  g.clip();
  g.strokeStyle = color;
  g.lineWidth = lineWidth;
  g.beginPath();
  for (let i = -h; i < w + h; i += step) {
    g.moveTo(x + i, y + h);
    g.lineTo(x + i + h, y);
  }
  g.stroke();
  g.restore();
}

const GLYPHS = {
  start: { d: "M7 2.8a4.2 4.2 0 1 0 0 8.400a4.200 4.200 0 1 0 0-8.400", stroke: 1.8 },
  run: { d: "M7 2.500a4.500 4.500 0 1 0 0 9a4.500 4.500 0 1 0 0-9" },
  warn: { d: "M7 1.2 13.4 12.6H.6z" },
  limit: { d: "M1 5h6v4H1zM8.5 1h3v12h-3z" },
  ckpt: { d: "M7 .8 13.2 7 7 13.2.8 7z" },
  term: { d: "M1 2h12L7 12.6z", stroke: 1.8 },
  kill: { d: "m2 2 10 10M12 2 2 12", stroke: 2.4 },
  end: { d: "M2 2h10v10H2z" },
  flag: { d: "M2.5 1h1.5v12H2.5zM4 2h8l-2 2.8L12 7.6H4z" },
  gap: { d: "M1 2h1.8v10H1zM11.2 2H13v10h-1.8zM2.8 6.2h2v1.6h-2zM9.2 6.2h2v1.6h-2z" },
};

/** Draws a marker's glyph with its centre at x, y. */
export function glyph(g, name, x, y, size, color) {
  const shape = GLYPHS[name] ?? GLYPHS.flag;
  shape.path ??= new Path2D(shape.d);
  g.save();
  g.translate(x - size / 2, y - size / 2);
  g.scale(size / 14, size / 14);
  if (shape.stroke) {
    g.strokeStyle = color;
    g.lineWidth = shape.stroke;
    g.lineJoin = "round";
    g.stroke(shape.path);
  } else {
    g.fillStyle = color;
    g.fill(shape.path);
  }
  g.restore();
}

export const toneColor = (tone) => (tone === "warn" ? token("warn") : tone === "bad" ? token("limit") : null);
