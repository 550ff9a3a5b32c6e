// Is it growing, and when would it reach the limit: a least-squares line over the last minutes,
// told only where it stands out of the noise. Pure.

const WINDOW_US = 5 * 60 * 1e6;
const LEAST_POINTS = 8;
const LEAST_SPAN_US = 20 * 1e6;
const LONGEST_MS = 2 * 3600 * 1000;

/** Slope (bytes per microsecond) and the standard deviation around the line. */
function fitLine(points) {
  const n = points.length;
  const t0 = points[0][0];
  let st = 0;
  let sv = 0;
  for (const [t, v] of points) {
    st += t - t0;
    sv += v;
  }
  const mt = st / n;
  const mv = sv / n;
  let stt = 0;
  let stv = 0;
  for (const [t, v] of points) {
    stt += (t - t0 - mt) ** 2;
    stv += (t - t0 - mt) * (v - mv);
  }
  const slope = stt === 0 ? 0 : stv / stt;
  let rest = 0;
  for (const [t, v] of points) {
    rest += (v - mv - slope * (t - t0 - mt)) ** 2;
  }
  return {
    slope,
    noise: Math.sqrt(rest / Math.max(1, n - 2)),
    at: mv + slope * (points[n - 1][0] - t0 - mt),
  };
}

/**
 * points: [epoch µs, bytes] in order of time. Returns {bytesPerMinute, msToLimit, slope, at, atUs}, or
 * null when the growth does not exceed the noise or the limit is more than two hours away.
 */
export function trendToLimit(points, limitBytes) {
  const last = points.at(-1);
  if (!last || limitBytes === null) {
    return null;
  }
  const recent = points.filter(([t]) => t >= last[0] - WINDOW_US);
  const span = last[0] - recent[0][0];
  if (recent.length < LEAST_POINTS || span < LEAST_SPAN_US || last[1] >= limitBytes) {
    return null;
  }
  const { slope, noise, at } = fitLine(recent);
  const growth = slope * span;
  if (slope <= 0 || growth <= 2 * noise || growth < 1024 * 1024) {
    return null;
  }
  const msToLimit = Math.max(0, (limitBytes - Math.max(at, last[1])) / slope / 1000);
  if (msToLimit > LONGEST_MS) {
    return null;
  }
  return { bytesPerMinute: slope * 60e6, msToLimit, slope, at: Math.max(at, last[1]), atUs: last[0] };
}
