#!/usr/bin/env bash
# Environments with MLX for the other interpreters of this host (python3.12 and later), beside the usual one; prints the
# paths of their interpreters, joined by `:`. What cannot be had is left out: its tests are skipped.
set -euo pipefail
base=${BULKHEAD_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/venv}
found=()
for minor in 12 13 14 15; do
    real=
    # a version manager's shim may refuse although it has the interpreter
    for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor."*/bin/python3; do
        real=$("$candidate" -c 'import sys; print(sys.executable)' 2>/dev/null) && break
    done
    [ -n "$real" ] || continue
    venv=$base-3.$minor
    if ! "$venv/bin/python3" -c 'import mlx.core' 2>/dev/null; then
        "$real" -m venv "$venv" >&2 || continue
        "$venv/bin/python3" -m pip install -q --disable-pip-version-check "mlx[cpu]" >&2 || continue
    fi
    found+=("$venv/bin/python3")
done
(IFS=:; echo "${found[*]-}")
