#!/usr/bin/env bash
# Installs what Bulkhead needs on Debian 12 (or a relative): packages by apt, MLX from PyPI into a
# virtual environment outside the tree. Whatever is present already is left alone.
#
# usage: install-deps.sh build|run|test
#   build  compiler, libraries, node and npm for the dashboard
#   run    build, and a virtual environment with MLX (the CPU build, which wants g++ for mx.compile)
#   test   run, and what the tests use: clang tools, Chromium, mlx-lm, a few ordinary programs
#
# The virtual environment is $BULKHEAD_VENV, default ${XDG_CACHE_HOME:-~/.cache}/bulkhead/venv.
set -euo pipefail

what=${1:-}
case "$what" in
build | run | test) ;;
*)
    echo "usage: $0 build|run|test" >&2
    exit 64
    ;;
esac

say() { printf '== %s\n' "$*"; }

packages=(gcc libc6-dev cmake ninja-build pkg-config git ca-certificates curl
    libmicrohttpd-dev libjansson-dev libuv1-dev libsqlite3-dev libcmocka-dev)
if ! command -v npm >/dev/null 2>&1; then
    packages+=(nodejs npm) # a vendor's nodejs conflicts with Debian's npm: only where there is none
fi
[ "$what" = build ] || packages+=(python3 python3-venv g++) # MLX compiles fused kernels at run time, with g++
if [ "$what" = test ]; then
    packages+=(clang-14 clang-format-14 llvm-14 libclang-rt-14-dev chromium binutils procps
        make bzip2 xz-utils zstd) # ordinary programs that must run unharmed under supervision
fi

missing=()
for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "These packages are missing, and there is no sudo here. As root:" >&2
            echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
            echo "Then start this again; it needs no more rights after that." >&2
            exit 77
        fi
        as_root=(sudo env DEBIAN_FRONTEND=noninteractive) # sudo keeps no environment
    fi
    say "installing by apt (takes a minute or two): ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

[ "$what" != build ] || exit 0

# The real interpreter: a version manager's shim would start slowly and hide which one it is.
venv=${BULKHEAD_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/venv}
if [ ! -x "$venv/bin/python3" ]; then
    say "making a virtual environment for MLX"
    mkdir -p "$(dirname "$venv")"
    /usr/bin/python3 -m venv "$venv"
fi
has() { "$venv/bin/python3" -c "import importlib.metadata as m; m.version('$1')" 2>/dev/null; }
if ! has mlx-cpu; then
    say "installing MLX from PyPI"
    "$venv/bin/python3" -m pip install -q --disable-pip-version-check "mlx[cpu]"
fi
if [ "$what" = test ] && ! has mlx-lm; then
    say "installing mlx-lm from PyPI"
    "$venv/bin/python3" -m pip install -q --disable-pip-version-check mlx-lm
fi
"$venv/bin/python3" -c 'import importlib.metadata as m; print("== MLX", m.version("mlx"))'
