// What a person types: command lines, sizes, key=value lists. Pure.

const UNITS = {
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
};

export const SIZE_UNITS = ["GiB", "MiB", "GB", "MB"];

/** The server's size grammar: integer bytes, or a number with a unit. null when it is neither. */
export function parseSize(text) {
  const whole = /^([0-9]+)$/.exec(text);
  if (whole) {
    return Number(whole[1]);
  }
  const match = /^([0-9]+(?:\.[0-9]{1,3})?)(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$/.exec(text);
  return match ? Math.floor(Number(match[1]) * UNITS[match[2]]) : null;
}

/** What is wrong with a number and a unit, in one sentence with a right one; null when nothing is. */
export function sizeProblem(number, unit) {
  if (number.trim() === "") {
    return `Give a number, for example 6 ${unit}.`;
  }
  if (!/^[0-9]+(\.[0-9]{1,3})?$/.test(number.trim())) {
    return `“${number}” is not a number with at most three decimals. Write 6 or 6.5 and choose the unit beside it.`;
  }
  if (parseSize(number.trim() + unit) < 2) {
    return `“${number} ${unit}” is too small. The least limit is 2 bytes.`;
  }
  return null;
}

/**
 * Splits a pasted line into arguments as a shell would split plain words: blanks separate, quotes
 * and backslashes group. Nothing expands. An unclosed quote takes the rest of the line.
 */
export function splitLine(line) {
  const out = [];
  let word = null;
  let quote = "";
  for (let i = 0; i < line.length; i++) {
    const c = line[i];
    if (quote) {
      if (c === quote) {
        quote = "";
      } else if (c === "\\" && quote === '"' && /["\\]/.test(line[i + 1] ?? "")) {
        word += line[++i];
      } else {
        word += c;
      }
    } else if (c === '"' || c === "'") {
      quote = c;
      word ??= "";
    } else if (c === "\\" && i + 1 < line.length) {
      word = (word ?? "") + line[++i];
    } else if (/\s/.test(c)) {
      if (word !== null) {
        out.push(word);
      }
      word = null;
    } else {
      word = (word ?? "") + c;
    }
  }
  if (word !== null) {
    out.push(word);
  }
  return out;
}

/** An argv as one line that splitLine reads back. */
export function joinLine(argv) {
  return argv
    .map((a) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(a) ? a : `'${a.replace(/'/g, "'\\''")}'`))
    .join(" ");
}

/** The policy's bands for a limit: a tenth below and above, recovery two tenths below. */
export function bandsFor(limitBytes) {
  const step = Math.max(1, Math.floor(limitBytes / 10));
  return { recovery: limitBytes - 2 * step, warning: limitBytes - step, emergency: limitBytes + step };
}

/** Lines "KEY=value" to an object; throws the first line that is not one. */
export function parsePairs(text) {
  const out = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") {
      continue;
    }
    const at = line.indexOf("=");
    if (at < 1) {
      throw new Error(`“${line}” has no name and =. Write NAME=value, one a line.`);
    }
    out[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return out;
}
