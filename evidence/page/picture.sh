#!/usr/bin/env bash
# Makes the README's picture again: the demo under a 1 GiB limit on a real server, the page in headless Chromium.
# usage: evidence/page/picture.sh [OUTPUT.png]   (needs build/release and the packages of tests/web; see tests/run.sh)
set -euo pipefail
cd "$(dirname "$0")/../.."
output=${1:-evidence/page/job-light-1280.png}
bin=${BULKHEAD_BIN_DIR:-$PWD/build/release/bin}
python=${BULKHEAD_PYTHON:-${BULKHEAD_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/venv}/bin/python3}
modules=${BULKHEAD_WEB_TESTS:-$PWD/build/web-tests}
state=$(mktemp -d)
# python3 and the script by their names alone, as a user types them: no path of this machine in the picture
PATH=$(dirname "$python"):$PATH "$bin/bulkheadd" --state "$state" --listen 127.0.0.1:0 >"$state/link" 2>"$state/log" &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -rf "$state"' EXIT
for _ in $(seq 100); do grep -q http "$state/link" && break; sleep 0.05; done
client() { "$python" api/client/python/bulkhead.py --state "$state" "$@"; }
(client=$PWD/api/client/python/bulkhead.py && cd deploy/demo &&
    "$python" "$client" --state "$state" run -d --limit 1GiB --name leaky -- python3 leaky.py --pause 0.05) >"$state/id"
id=$(cat "$state/id")
for _ in $(seq 300); do client ps -a | grep "$id" | grep -q finished && break; sleep 0.2; done
cat >"$modules/picture.mjs" <<'JS'
import puppeteer from "puppeteer-core";
const [url, id, path] = process.argv.slice(2);
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-component-update", "--disable-sync"] });
const page = await browser.newPage();
await page.setViewport({ width: 1280, height: 900 });
await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
await page.goto(url, { waitUntil: "networkidle2" }).catch(() => {});
await page.waitForSelector("table.jobs, .jobs");
await page.evaluate((h) => { location.hash = h; }, `#/jobs/${id}/timeline`);
await new Promise((r) => setTimeout(r, 2500));
await page.screenshot({ path, fullPage: true });
await browser.close();
JS
(cd "$modules" && node picture.mjs "$(grep -o 'http[^ ]*' "$state/link")" "$id" "$state/picture.png")
cp "$state/picture.png" "$output"
echo "$output"
