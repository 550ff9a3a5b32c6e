// Other people's viewers, served from one loopback server beside the exports they are to read.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";

const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".txt": "text/plain",
  ".wasm": "application/wasm",
};

/** Serves {prefix: folder} and {path: text}; close() ends it. */
export async function serveReaders(folders, texts) {
  const answer = async (path) => {
    if (texts[path] !== undefined) {
      return texts[path];
    }
    const prefix = Object.keys(folders).find((p) => path.startsWith(p));
    const name = prefix && normalize(path.slice(prefix.length) || "index.html");
    return prefix && !name.startsWith("..") ? readFile(join(folders[prefix], name)) : null;
  };
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    answer(path)
      .catch(() => null)
      .then((body) => {
        const type = TYPES[extname(path) || ".html"] ?? "application/octet-stream";
        response.writeHead(body === null ? 404 : 200, { "Content-Type": type });
        response.end(body ?? "");
      });
  });
  await new Promise((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    base: `http://127.0.0.1:${server.address().port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}
