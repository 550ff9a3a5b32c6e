// Writes openapi/openapi.json from openapi/openapi.yaml: node openapi-json.mjs

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { OPENAPI } from "./support/paths.mjs";

export const render = () => `${JSON.stringify(parse(readFileSync(join(OPENAPI, "openapi.yaml"), "utf8")))}\n`;

if (process.argv[1]?.endsWith("openapi-json.mjs")) {
  writeFileSync(join(OPENAPI, "openapi.json"), render());
}
