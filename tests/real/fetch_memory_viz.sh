#!/usr/bin/env bash
# Prints the path of PyTorch's torch/cuda/_memory_viz.py, taken out of the PyPI wheel (the wheel is
# large; the smallest platform's is downloaded, one file of it kept, outside the tree).
set -euo pipefail
version=2.9.1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/torch-$version
file=$cache/_memory_viz.py
python=${BULKHEAD_PYTHON:-python3}
if [ ! -s "$file" ]; then
    mkdir -p "$cache"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: \
        --platform macosx_11_0_arm64 --platform macosx_14_0_arm64 --python-version 3.11 -d "$work" "torch==$version" >&2
    "$python" - "$work" "$file" <<'PY'
import glob, os, sys, zipfile
wheel = glob.glob(os.path.join(sys.argv[1], "*.whl"))[0]
data = zipfile.ZipFile(wheel).read("torch/cuda/_memory_viz.py")
with open(sys.argv[2] + ".part", "wb") as out:
    out.write(data)
os.replace(sys.argv[2] + ".part", sys.argv[2])
PY
fi
echo "$file"
