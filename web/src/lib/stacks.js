// Python stacks: which frame a person should see first, and the tree for the flame graph. Pure.
// A traceback is [[file, function, line], ...], outermost first, or null.

/** "own", "mlx" or "lib": whose file it is. */
export function frameKind(file) {
  if (/(^|\/)(site|dist)-packages\/mlx\//.test(file)) {
    return "mlx";
  }
  if (/(^|\/)(site|dist)-packages\/|(^|\/)lib(64)?\/python3|^<frozen|^<__array_function__/.test(file)) {
    return "lib";
  }
  return "own";
}

const baseName = (file) => file.replace(/\/+$/, "").split("/").at(-1) || file;

/** "leaky.py:12". */
export const place = ([file, , line]) => `${baseName(file)}:${line}`;

/** The innermost frame of the user's own files, else the innermost of all; null without a stack. */
export function keyFrame(traceback) {
  if (!traceback || traceback.length === 0) {
    return null;
  }
  return [...traceback].reverse().find(([file]) => frameKind(file) === "own") ?? traceback.at(-1);
}

/** The innermost frame when it is not the one shown: where the call went in the end. */
export function viaFrame(traceback) {
  const key = keyFrame(traceback);
  const last = traceback?.at(-1);
  return last && key && (last[0] !== key[0] || last[2] !== key[2]) ? last : null;
}

/**
 * The tree of what is live: root, then frames outermost first, the last row the primitive. A node:
 * {name, kind, bytes, kids, group}; kids by bytes, largest first; group is the index of a leaf's group.
 */
export function flameTree(groups, rootName = "everything live") {
  const root = node(rootName, "lib");
  groups.forEach((group, i) => {
    root.bytes += group.bytes;
    let at = root;
    const frames = group.traceback ?? null;
    const path =
      frames && frames.length
        ? frames.map((f) => [`${place(f)} ${f[1]}`, frameKind(f[0])])
        : [["no Python stack", "lib"]];
    for (const [name, kind] of path) {
      at = child(at, name, kind, group.bytes);
    }
    const leaf = child(at, group.primitive_name ?? "array", "primitive", group.bytes);
    leaf.group = group.index ?? i;
  });
  sortTree(root);
  return root;
}

/** What grew and what shrank since the compare time, as two trees; groups keep their index. */
export function growthTrees(groups) {
  const side = (sign, name) =>
    flameTree(
      groups
        .map((g, index) => ({ ...g, index, bytes: Math.max(0, sign * (g.growth_bytes ?? 0)) }))
        .filter((g) => g.bytes > 0),
      name,
    );
  return { grew: side(1, "grew"), shrank: side(-1, "shrank") };
}

const node = (name, kind) => ({ name, kind, bytes: 0, kids: [], group: null, parent: null });

function child(parent, name, kind, bytes) {
  let found = parent.kids.find((k) => k.name === name && k.kind === kind);
  if (!found) {
    found = node(name, kind);
    found.parent = parent;
    parent.kids.push(found);
  }
  found.bytes += bytes;
  return found;
}

function sortTree(n) {
  n.kids.sort((a, b) => b.bytes - a.bytes);
  n.kids.forEach(sortTree);
}

/** Colour numbers 0..7 for primitives by bytes, 8 for all others and for arrays without one. */
export function primitiveColors(groups) {
  const sums = new Map();
  for (const g of groups) {
    if (g.primitive_name !== null) {
      sums.set(g.primitive_name, (sums.get(g.primitive_name) ?? 0) + g.bytes);
    }
  }
  const order = [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  return (name) => {
    const i = order.indexOf(name);
    return i < 0 || i > 7 ? 8 : i;
  };
}
