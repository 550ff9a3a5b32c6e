#!/usr/bin/env bash
# Builds the dashboard: npm runs on a copy of web/, so that the source tree stays clean.
# usage: build-web.sh SOURCE WORK OUTPUT
set -euo pipefail
source=$1 work=$2 output=$3

mkdir -p "$work"
# everything but node_modules; stale copies of removed files must not be built
find "$work" -mindepth 1 -maxdepth 1 ! -name node_modules -exec rm -rf {} +
(cd "$source" && find . -mindepth 1 -maxdepth 1 ! -name node_modules ! -name dist -exec cp -R {} "$work"/ \;)
cd "$work"
lock_sum=$(sha256sum package-lock.json | cut -d' ' -f1)
if [ ! -f node_modules/.bulkhead-lock ] || [ "$(cat node_modules/.bulkhead-lock)" != "$lock_sum" ]; then
    npm ci --silent --no-audit --no-fund --omit=optional >npm.log 2>&1 || npm ci --no-audit --no-fund >npm.log 2>&1 || {
        cat npm.log >&2
        exit 1
    }
    echo "$lock_sum" >node_modules/.bulkhead-lock
fi
rm -rf "$output"
node build.mjs "$output"
