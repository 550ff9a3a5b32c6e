// Builds the page: node build.mjs OUTDIR. Writes index.html, app.js, app.css and manifest.json, the
// list of what may be served. Fails when the page is heavier than it may be.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const HERE = dirname(fileURLToPath(import.meta.url));
const MOST_GZIP_BYTES = 200 * 1024;
const FILES = [
  ["/", "index.html", "text/html; charset=utf-8"],
  ["/app.js", "app.js", "text/javascript; charset=utf-8"],
  ["/app.css", "app.css", "text/css; charset=utf-8"],
];

const out = resolve(process.argv[2] ?? join(HERE, "dist"));
await mkdir(out, { recursive: true });
for (const [, file] of FILES) {
  await rm(join(out, file), { force: true });
}
await build({
  entryPoints: { app: join(HERE, "src/main.js") },
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  outdir: out,
  logLevel: "warning",
});
await build({
  entryPoints: { app: join(HERE, "src/app.css") },
  bundle: true,
  minify: true,
  target: ["chrome111", "firefox113", "safari16.4"],
  legalComments: "none",
  outdir: out,
  logLevel: "warning",
});
await writeFile(join(out, "index.html"), await readFile(join(HERE, "index.html")));

const files = [];
let total = 0;
for (const [path, file, type] of FILES) {
  const bytes = await readFile(join(out, file));
  const gzip = gzipSync(bytes, { level: 9 }).length;
  total += gzip;
  files.push({
    path,
    file,
    type,
    bytes: bytes.length,
    gzip_bytes: gzip,
    sha256: createHash("sha256").update(bytes).digest("hex"),
  });
}
await writeFile(join(out, "manifest.json"), `${JSON.stringify({ files, gzip_bytes: total }, null, 2)}\n`);
if (total > MOST_GZIP_BYTES) {
  console.error(`The page is ${total} bytes compressed, more than ${MOST_GZIP_BYTES}.`);
  process.exit(1);
}
console.log(`${files.length} files, ${total} bytes compressed, in ${out}`);
