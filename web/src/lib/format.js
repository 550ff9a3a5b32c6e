// Numbers and times as people read them. Pure: the zone and "now" are arguments or the platform's.

export const KiB = 1024;
export const MiB = 1024 ** 2;
export const GiB = 1024 ** 3;
export const TiB = 1024 ** 4;

const two = (n) => String(n).padStart(2, "0");

/** Binary units: "6.04 GiB", "41 MiB", "4.3 MiB". Rounding never shows 1024 of a unit. */
export function bytes(n) {
  const size = Math.abs(n);
  const sign = n < 0 ? "−" : "";
  if (size < 999.5) {
    return `${sign}${Math.round(size)} B`;
  }
  if (size < 1023.5 * KiB) {
    return `${sign}${Math.max(1, Math.round(size / KiB))} KiB`;
  }
  if (size < 9.95 * MiB) {
    return `${sign}${(size / MiB).toFixed(1)} MiB`;
  }
  if (size < 1023.5 * MiB) {
    return `${sign}${Math.round(size / MiB)} MiB`;
  }
  if (size < 1023.995 * GiB) {
    return `${sign}${(size / GiB).toFixed(2)} GiB`;
  }
  return `${sign}${(size / TiB).toFixed(2)} TiB`;
}

/** For tight places: "36 GiB", "17.5 GiB"; trailing zeros left out. */
export function bytesShort(n) {
  return bytes(n)
    .replace(/(\.\d*?)0+ /, "$1 ")
    .replace(". ", " ");
}

const LIMIT_UNITS = [
  ["TiB", TiB],
  ["GiB", GiB],
  ["TB", 1e12],
  ["GB", 1e9],
  ["MiB", MiB],
  ["MB", 1e6],
  ["KiB", KiB],
  ["KB", 1000],
];

/** A limit as it was given: the largest unit that states it exactly in at most three decimals. */
export function limit(n) {
  for (const [name, unit] of LIMIT_UNITS) {
    const parts = (n * 1000) / unit;
    if (n >= unit && Number.isInteger(parts)) {
      return `${parts / 1000} ${name}`;
    }
  }
  return n < KiB ? `${n} B` : bytes(n);
}

/** Every digit: "6,442,450,944". */
export function exact(n) {
  return Math.round(n).toLocaleString("en-US");
}

/** value as a share of whole. Never rounded onto 100 or across it. */
export function percent(value, whole, decimals = 0) {
  const step = 10 ** -decimals;
  const share = (value / whole) * 100;
  let shown = Math.round(share / step) * step;
  if (value < whole && shown >= 100) {
    shown = 100 - step;
  }
  if (value > whole && shown <= 100) {
    shown = 100 + step;
  }
  return shown.toFixed(decimals);
}

/** "0.64 s", "3.8 s", "51 s", "41 min 59 s", "3 h 12 min", "2 d 3 h". */
export function duration(ms) {
  if (ms < 0) {
    return `−${duration(-ms)}`;
  }
  if (ms < 0.1) {
    return `${(ms * 1000).toFixed(0)} µs`;
  }
  if (ms < 10) {
    return `${ms.toFixed(1)} ms`;
  }
  if (ms < 100) {
    return `${Math.round(ms)} ms`;
  }
  if (ms < 995) {
    return `${(ms / 1000).toFixed(2)} s`;
  }
  if (ms < 9950) {
    return `${(ms / 1000).toFixed(1)} s`;
  }
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) {
    return `${seconds} s`;
  }
  if (seconds < 3600) {
    return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1440) {
    return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  }
  return `${Math.floor(minutes / 1440)} d ${Math.floor(minutes / 60) % 24} h`;
}

/** A span for sentences: "21 min", "45 s", "1 h 20 min". */
export function roughly(ms) {
  const minutes = ms / 60000;
  if (minutes < 1) {
    return `${Math.max(1, Math.round(ms / 1000))} s`;
  }
  if (minutes < 60) {
    return `${Math.round(minutes)} min`;
  }
  const rounded = Math.round(minutes);
  return `${Math.floor(rounded / 60)} h ${rounded % 60} min`;
}

/** Local 24 h clock of an epoch time in microseconds; decimals of a second 0 to 6. */
export function clock(us, decimals = 0) {
  const unit = 10 ** (6 - decimals);
  const cut = Math.floor(us / unit) * unit;
  const date = new Date(Math.floor(cut / 1e6) * 1000);
  const base = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (decimals === 0) {
    return base;
  }
  const fraction = Math.floor((cut % 1e6) / unit);
  return `${base}.${String(fraction).padStart(decimals, "0")}`;
}

/** "2026-11-30 14:23:07" in local time. */
function dateClock(us) {
  const date = new Date(us / 1000);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(us)}`;
}

/** dateClock with the zone's offset, for titles. */
export function dateClockZone(us) {
  const offset = -new Date(us / 1000).getTimezoneOffset();
  const sign = offset < 0 ? "−" : "+";
  const abs = Math.abs(offset);
  return `${dateClock(us)} (UTC${sign}${two(Math.floor(abs / 60))}:${two(abs % 60)})`;
}

/** "just now", "16 min ago", "3 h ago", "yesterday", "5 days ago". */
export function ago(us, nowMs) {
  const seconds = (nowMs - us / 1000) / 1000;
  if (seconds < 45) {
    return "just now";
  }
  if (seconds < 3570) {
    return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  }
  if (seconds < 86400) {
    return `${Math.round(seconds / 3600)} h ago`;
  }
  const days = Math.floor(seconds / 86400);
  return days === 1 ? "yesterday" : `${days} days ago`;
}

/** RFC 3339 to epoch microseconds; null stays null. */
export function toUs(text) {
  return text === null || text === undefined ? null : Date.parse(text) * 1000;
}

/** A count with commas and its noun: "1 process", "2 processes". */
export function plural(n, one, many = `${one}s`) {
  return `${exact(n)} ${n === 1 ? one : many}`;
}
