#!/usr/bin/env bash
# Environments beside the usual one: MLX in the other interpreters of this host (python3.12 and later), and the earlier
# versions of MLX whose layout the recorder knows. Prints the paths of their interpreters, joined by `:`. What cannot be
# had is left out: its tests are skipped.
set -euo pipefail
base=${BULKHEAD_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/venv}
found=()

make() { # INTERPRETER FOLDER REQUIREMENT
    if ! "$2/bin/python3" -c 'import mlx.core' 2>/dev/null; then
        "$1" -m venv "$2" >&2 && "$2/bin/python3" -m pip install -q --disable-pip-version-check "$3" >&2 || return 0
    fi
    found+=("$2/bin/python3")
}

for minor in 12 13 14 15; do
    real=""
    # a version manager's shim may refuse although it has the interpreter
    for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor."*/bin/python3; do
        real=$("$candidate" -c 'import sys; print(sys.executable)' 2>/dev/null) && break
    done
    [ -n "$real" ] || continue
    make "$real" "$base-3.$minor" "mlx[cpu]"
done
for version in 0.30.6 0.31.2 0.32.1; do
    make /usr/bin/python3 "$base-mlx-$version" "mlx[cpu]==$version"
done
(IFS=:; echo "${found[*]-}")
