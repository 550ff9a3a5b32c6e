// The timeline's data and its reduction to pixels. Pure: no canvas, no DOM, no clock.
//
// A model holds what the timeline route answers: buckets with the exact extremes of each series;
// null stays null and is never bridged. Bucket i reaches from t[i] to t[i+1], the last one to `to`.

export const KEYS = ["active", "reserved", "charge"];

export function fromAnswer(answer) {
  const model = { from: answer.from_us, to: answer.to_us, t: [...answer.t_us] };
  for (const key of KEYS) {
    model[`${key}Min`] = [...answer[`${key}_min`]];
    model[`${key}Max`] = [...answer[`${key}_max`]];
  }
  model.limits = answer.limits ?? [];
  model.markers = answer.markers ?? [];
  model.losses = answer.losses ?? [];
  model.peak = answer.peak ?? { charge: null, active: null };
  return model;
}

/** An answer that knows nothing, for a job whose timeline was not fetched yet. */
export function emptyAnswer(from) {
  const none = Object.fromEntries(
    KEYS.flatMap((k) => [
      [`${k}_min`, []],
      [`${k}_max`, []],
    ]),
  );
  return { from_us: from, to_us: from + 1, t_us: [], ...none };
}

/** Adds a live sample (SSE) behind what is known; samples that are already covered are left out. */
export function appendSample(model, sample) {
  if (sample.to_us <= model.to) {
    return false;
  }
  model.t.push(Math.max(sample.from_us, model.to));
  for (const key of KEYS) {
    const v = sample[key];
    model[`${key}Min`].push(v ? v.min : null);
    model[`${key}Max`].push(v ? v.max : null);
  }
  model.to = sample.to_us;
  const peak = model.peak.charge;
  if (sample.charge && (!peak || sample.charge.max > peak.charge_bytes)) {
    model.peak = { ...model.peak, charge: { at_us: sample.to_us, charge_bytes: sample.charge.max } };
  }
  return true;
}

/** Index of the bucket that holds us, or -1. */
function bucketAt(model, us) {
  const { t } = model;
  if (t.length === 0 || us < t[0] || us > model.to) {
    return -1;
  }
  let lo = 0;
  let hi = t.length - 1;
  while (lo < hi) {
    const mid = (lo + hi + 1) >> 1;
    if (t[mid] <= us) {
      lo = mid;
    } else {
      hi = mid - 1;
    }
  }
  return lo;
}

/** {min, max} of a series at an instant, or null where unknown. */
export function valueAt(model, key, us) {
  const i = bucketAt(model, us);
  const max = i < 0 ? null : model[`${key}Max`][i];
  return max === null || max === undefined ? null : { min: model[`${key}Min`][i], max };
}

/** {min, max} of a series over a span, or null where any of it is unknown. */
export function extremes(model, key, from, to) {
  const first = bucketAt(model, from);
  const last = bucketAt(model, to);
  if (first < 0 || last < 0) {
    return null;
  }
  const out = { min: Infinity, max: -Infinity };
  for (let i = first; i <= last; i++) {
    const high = model[`${key}Max`][i];
    if (high === null) {
      return null;
    }
    out.min = Math.min(out.min, model[`${key}Min`][i]);
    out.max = Math.max(out.max, high);
  }
  return out;
}

/** The limit in force at an instant, or null. */
export function limitAt(limits, us) {
  let found = limits[0] ?? null;
  for (const l of limits) {
    if (l.at_us <= us) {
      found = l;
    }
  }
  return found;
}

const end = (model, i) => (i + 1 < model.t.length ? model.t[i + 1] : model.to);

/**
 * One series over [from, to] in `width` pixels, as runs of [x, low, high] split where it is unknown.
 * Dense (more buckets than pixels): extremes per pixel column. Else each bucket exactly; with `step` a
 * value holds to its bucket's end, as readings and allocator counters do: nothing in between is made up.
 */
export function runs(model, key, from, to, width, step) {
  const lows = model[`${key}Min`];
  const highs = model[`${key}Max`];
  const { t } = model;
  const scale = width / (to - from);
  const first = Math.max(0, bucketAt(model, from));
  let last = first;
  while (last < t.length && t[last] <= to) {
    last++;
  }
  const dense = last - first > width;
  const out = [];
  let run = null;
  for (let i = first; i < last; i++) {
    if (highs[i] === null || highs[i] === undefined) {
      run = null;
      continue;
    }
    if (!run) {
      run = [];
      out.push(run);
    }
    if (dense) {
      addColumn(run, Math.floor((t[i] - from) * scale), lows[i], highs[i]);
    } else {
      addBucket(run, t, i, (us) => (us - from) * scale, lows[i], highs[i], step, end(model, i));
    }
  }
  return out;
}

function addColumn(run, x, low, high) {
  const at = run[run.length - 1];
  if (at && at[0] === x) {
    at[1] = Math.min(at[1], low);
    at[2] = Math.max(at[2], high);
  } else {
    run.push([x, low, high]);
  }
}

function addBucket(run, t, i, x, low, high, step, until) {
  run.push([x(t[i]), low, high]);
  if (step || i + 1 === t.length) {
    run.push([x(until), low, high]);
  }
}

/** Spans in which a series is unknown between two known ones, from nulls: [{from, to}]. */
export function nullSpans(model, key) {
  const highs = model[`${key}Max`];
  const spans = [];
  let start = -1;
  let seen = false;
  for (let i = 0; i < highs.length; i++) {
    const known = highs[i] !== null && highs[i] !== undefined;
    if (known && start >= 0 && seen) {
      spans.push({ from: model.t[start], to: model.t[i] });
    }
    if (known) {
      seen = true;
      start = -1;
    } else if (start < 0) {
      start = i;
    }
  }
  return spans;
}

/** Which series a loss leaves unknown. */
export function lossKeys(reason) {
  if (reason === "samples_unusable") {
    return ["charge"];
  }
  return reason === "clock_gap" ? KEYS : ["active", "reserved"];
}

/** The top of the y axis: 1.17 limit or 1.05 peak, whichever is higher, and something for nothing. */
export function yTop(model) {
  let top = 0;
  for (const l of model.limits) {
    top = Math.max(top, l.limit_bytes * 1.17);
  }
  if (model.peak.charge) {
    top = Math.max(top, model.peak.charge.charge_bytes * 1.05);
  }
  for (const key of KEYS) {
    for (const v of model[`${key}Max`]) {
      if (v !== null && v * 1.05 > top) {
        top = v * 1.05;
      }
    }
  }
  return top || 64 * 1024 * 1024;
}

const BYTE_STEPS = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/** Round binary steps for the y axis: {step, unit name, unit bytes}, at most `most` lines. */
export function byteTicks(top, most) {
  const units = [
    ["KiB", 1024],
    ["MiB", 1024 ** 2],
    ["GiB", 1024 ** 3],
    ["TiB", 1024 ** 4],
  ];
  for (const [name, unit] of units.filter(([, u]) => u * 1024 > top)) {
    for (const s of BYTE_STEPS) {
      if (top / (s * unit) <= most) {
        return { step: s * unit, name, unit };
      }
    }
  }
  return { step: top, name: "TiB", unit: 1024 ** 4 };
}

const TIME_STEPS = [
  1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1.5e7, 3e7, 6e7, 1.2e8, 3e8, 6e8, 9e8,
  1.8e9, 3.6e9, 7.2e9, 1.08e10, 2.16e10, 4.32e10, 8.64e10,
];

/** Microseconds between time labels so that one has at least `px` pixels. */
export function timeStep(spanUs, width, px) {
  return TIME_STEPS.find((s) => (s / spanUs) * width >= px) ?? TIME_STEPS.at(-1);
}

/** Merges marks (with x, in order) that stand closer than `near` pixels: [{x, x1, marks}]. */
export function groupMarks(marks, near) {
  const groups = [];
  for (const mark of marks) {
    const g = groups.at(-1);
    if (g && mark.x - g.x1 < near) {
      g.marks.push(mark);
      g.x1 = mark.x;
    } else {
      groups.push({ x: mark.x, x1: mark.x, marks: [mark] });
    }
  }
  return groups;
}

/** A range moved and scaled so that it stays inside [lo, hi] and is at least `least` wide. */
export function clampRange(from, to, lo, hi, least) {
  let span = Math.max(least, to - from);
  span = Math.min(span, Math.max(least, hi - lo));
  const mid = (from + to) / 2;
  let a = to - from < least ? mid - span / 2 : from;
  a = Math.min(Math.max(a, lo), Math.max(lo, hi - span));
  return { from: Math.round(a), to: Math.round(a + span) };
}

/** Zooms a range by `factor` around an instant that keeps its place. */
export function zoomRange(range, factor, aroundUs) {
  return {
    from: aroundUs - (aroundUs - range.from) * factor,
    to: aroundUs + (range.to - aroundUs) * factor,
  };
}
