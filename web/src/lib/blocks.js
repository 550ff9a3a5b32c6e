// Allocations as blocks over time: each buffer from its allocation to its free, stacked as they came,
// so that the top edge is active. Pure.

const OPENS = new Set(["AllocNew", "AllocReuse", "AllocMakeBuffer"]);
const CLOSES = new Set(["FreeActiveToCache", "FreeActiveToOS", "Release"]);

const keyOf = (e) => `${e.pid}/${e.image}/${e.addr}`;

/**
 * The buffers that came or went in a window of events (in order of seq). t0 null: it was there before;
 * t1 null: it outlives the window. What lives through all of it is in no event and so not here.
 */
export function blocksOf(events) {
  const open = new Map();
  const blocks = [];
  const add = (e, t0, t1) => {
    const block = {
      id: blocks.length,
      size: e.size,
      t0,
      t1,
      primitive: e.primitive_name,
      traceback: e.traceback,
    };
    blocks.push(block);
    return block;
  };
  for (const e of events) {
    const key = keyOf(e);
    if (OPENS.has(e.action)) {
      open.set(key, add(e, e.timestamp_us, null));
    } else if (CLOSES.has(e.action)) {
      const block = open.get(key);
      if (block) {
        block.t1 = e.timestamp_us;
        open.delete(key);
      } else {
        add(e, null, e.timestamp_us);
      }
    }
  }
  return blocks.filter((b) => b.size > 0);
}

/** Bytes by primitive that live through the whole window: what was live at its start, less what went. */
export function throughout(groupsAtStart, blocks) {
  const sums = new Map(groupsAtStart.map((g) => [g.primitive_name, g.bytes]));
  for (const b of blocks) {
    if (b.t0 === null) {
      sums.set(b.primitive, (sums.get(b.primitive) ?? 0) - b.size);
    }
  }
  return [...sums]
    .filter(([, bytes]) => bytes > 0)
    .map(([primitive, bytes]) => ({ primitive, bytes }))
    .sort((a, b) => b.bytes - a.bytes);
}

/**
 * Stacks the `most` largest blocks in [from, to]: each gets pts, the lower edge as [time, bytes]. The
 * rest is summed. Returns {shown, rest: number of blocks, top: [[time, shown bytes, rest bytes]]}.
 */
export function stackBlocks(blocks, from, to, most) {
  const life = (b) => (b.t1 ?? to) - (b.t0 ?? from);
  const largest = [...blocks].sort((a, b) => b.size - a.size || life(b) - life(a) || a.id - b.id);
  const shown = largest.slice(0, most);
  const chosen = new Set(shown);
  const steps = [];
  for (const b of blocks) {
    steps.push([b.t0 ?? from, 1, b]);
    if (b.t1 !== null) {
      steps.push([b.t1, 0, b]);
    }
  }
  // at one instant what goes makes room for what comes; what was there before comes first of all
  steps.sort(
    (a, b) =>
      a[0] - b[0] ||
      (a[2].t0 === null ? -1 : 0) - (b[2].t0 === null ? -1 : 0) ||
      a[1] - b[1] ||
      a[2].id - b[2].id,
  );
  return sweep(steps, chosen, shown, blocks.length - shown.length, from, to);
}

function sweep(steps, chosen, shown, rest, from, to) {
  const stack = [];
  const top = [[from, 0, 0]];
  let sum = 0;
  let others = 0;
  for (const [t, comes, b] of steps) {
    if (!chosen.has(b)) {
      others += comes ? b.size : -b.size;
    } else if (comes) {
      b.pts = [[t, sum]];
      stack.push(b);
      sum += b.size;
    } else {
      close(stack, b, t);
      sum -= b.size;
    }
    top.push([t, sum, others]);
  }
  for (const b of stack) {
    b.pts.push([to, b.pts.at(-1)[1]]);
  }
  top.push([to, sum, others]);
  return { shown, rest, top };
}

function close(stack, b, t) {
  const i = stack.indexOf(b);
  b.pts.push([t, b.pts.at(-1)[1]]);
  stack.splice(i, 1);
  for (let k = i; k < stack.length; k++) {
    const above = stack[k];
    const y = above.pts.at(-1)[1];
    above.pts.push([t, y], [t, y - b.size]);
  }
}

/** The lower edge of a block at an instant, or null when it is not there. */
export function edgeAt(block, us) {
  const { pts } = block;
  if (us < pts[0][0] || us > pts.at(-1)[0]) {
    return null;
  }
  let y = pts[0][1];
  for (const [t, at] of pts) {
    if (t > us) {
      break;
    }
    y = at;
  }
  return y;
}

/** The block at an instant and a height above the fold, or null. */
export function blockAt(shown, us, bytes) {
  return (
    shown.find((b) => {
      const y = edgeAt(b, us);
      return y !== null && bytes >= y && bytes < y + b.size;
    }) ?? null
  );
}

/** First seq whose event is not before us, by asking for single events; count + 1 when there is none. */
export async function seqAt(us, count, eventFrom) {
  let lo = 1;
  let hi = count + 1;
  while (lo < hi) {
    const mid = Math.floor((lo + hi) / 2);
    const e = await eventFrom(mid);
    if (e === null || e.timestamp_us >= us) {
      hi = mid;
    } else {
      lo = Math.max(mid, e.seq) + 1;
    }
  }
  return lo;
}
