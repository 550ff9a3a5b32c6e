// Where the sources are. The tests may run from a copy of this folder (tests/run.sh does), then
// BULKHEAD_WEB_SOURCE names web/.

import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));

export const WEB = process.env.BULKHEAD_WEB_SOURCE ?? resolve(here, "../../../web");
export const ROOT = resolve(WEB, "..");
export const OPENAPI = join(ROOT, "openapi");

/** Imports a module of web/src. */
export const load = (path) => import(pathToFileURL(join(WEB, "src", path)).href);
