#!/usr/bin/env bash
# Runs every test of Bulkhead on a machine that need not have anything installed.
#
# usage: tests/run.sh [--full] [--only STAGE[,STAGE…]] [--no-install] [--list]
#   --full        the long forms: soak, large fuzz runs, scale (CI runs the short ones)
#   --only        a few stages by name (see --list); prerequisites are built all the same
#   --no-install  take the machine as it is
#
# Ends with one line that counts tests: "N passed, N failed, N skipped". Exit 0 only without failures.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD

stages=(format lint build unit asan scenario real web fuzz)
only="" full=0 install=1
while [ $# -gt 0 ]; do
    case "$1" in
    --full) full=1 ;;
    --only)
        [ $# -ge 2 ] || { echo "run.sh: --only needs a stage" >&2; exit 64; }
        only=",$2,"
        shift
        ;;
    --no-install) install=0 ;;
    --list)
        printf '%s\n' "${stages[@]}"
        exit 0
        ;;
    -h | --help)
        sed -n '2,9s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *)
        echo "run.sh: unknown option $1 (see --help)" >&2
        exit 64
        ;;
    esac
    shift
done
for name in $(tr ',' ' ' <<<"$only"); do
    case " ${stages[*]} " in
    *" $name "*) ;;
    *)
        echo "run.sh: no stage named $name; there are: ${stages[*]}" >&2
        exit 64
        ;;
    esac
done

passed=0 failed=0 skipped=0
failures=()
work=$(mktemp -d "${TMPDIR:-/tmp}/bulkhead-tests.XXXXXX")
trap 'unwatch; rm -rf "$work"' EXIT

wanted() { [ -z "$only" ] || [[ "$only" == *",$1,"* ]]; }
say() { printf '\n== %s (%ds)\n' "$*" "$SECONDS"; counted=$SECONDS; }
# watch LOG: on a terminal shows, in place, the newest line of a log that grows; unwatch ends that
watcher=""
unwatch() {
    [ -n "$watcher" ] || return 0
    kill "$watcher" && wait "$watcher" 2>/dev/null
    watcher=""
    printf '\r%-75s\r' ''
}
watch() {
    unwatch
    [ -t 1 ] || return 0
    while sleep 1; do printf '\r   %-72.72s' "$(tail -n 1 "$1" | tr -cd '[:print:]')"; done 2>/dev/null &
    watcher=$!
}
# count NAME PASSED FAILED SKIPPED [LOG]: adds a group's numbers and says how long it took; a failed group
# shows its log, of unittest only what is below the list of the tests
counted=0
count() {
    unwatch
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    printf '%-34s %5d passed %4d failed %4d skipped %5ds\n' "$1" "$2" "$3" "$4" $((SECONDS - counted))
    counted=$SECONDS
    if [ "$3" -gt 0 ]; then
        failures+=("$1")
        if [ -n "${5:-}" ]; then
            if grep -q '^=\{70\}$' "$5"; then sed -n '/^=\{70\}$/,$p' "$5"; else cat "$5"; fi | tail -n 150
        fi
    fi
}
# check NAME COMMAND…: one test that passes when the command exits 0
check() {
    local name=$1 log="$work/check.log"
    shift
    watch "$log"
    if "$@" >"$log" 2>&1; then count "$name" 1 0 0; else count "$name" 0 1 0 "$log"; fi
}

# ---- runners of the three kinds of test ------------------------------------------------------
# cmocka executables of a build directory; a program that dies counts as one failure
run_cmocka() {
    local label=$1 build=$2 log="$work/$1.log" p f s status
    : >"$log"
    watch "$log"
    (cd "$build" && ctest --output-on-failure -V -j2 --timeout 300) >"$log" 2>&1
    status=$?
    p=$(grep -oE '\[  PASSED  \] [0-9]+ test' "$log" | awk '{s += $4} END {print s + 0}')
    f=$(grep -oE '\[  FAILED  \] [0-9]+ test' "$log" | awk '{s += $4} END {print s + 0}')
    s=$(grep -oE '\[  SKIPPED \] [0-9]+ test' "$log" | awk '{s += $4} END {print s + 0}')
    if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ $status -ne 0 ]; then grep -nE 'FAILED|Failed|ERROR|error:|Error #' "$log" | head -60; fi
    count "$label" "$p" "$f" "$s" "$([ $status -eq 0 ] || echo "$log")"
}
# a Python file of unittest cases
run_unittest() {
    local label=$1 file=$2 log="$work/unittest.log" status total whole p f s
    watch "$log"
    (cd "$(dirname "$file")" && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/tests/support:$root/api/client/python" \
        timeout 600 "$BULKHEAD_PYTHON" -m unittest -v "$(basename "$file" .py)") >"$log" 2>&1
    status=$?
    total=$(grep -oE '^Ran [0-9]+ tests?' "$log" | awk '{s += $2} END {print s + 0}')
    f=$(grep -cE '^(FAIL|ERROR): ' "$log")
    s=$(grep -oE 'skipped=[0-9]+' "$log" | tail -1 | cut -d= -f2)
    s=${s:-0}
    # a class or module that is skipped or fails as a whole counts as one, and "Ran" leaves it out
    whole=$(grep -cE '^(setUp(Class|Module) .* skipped|(FAIL|ERROR): setUp(Class|Module) )' "$log")
    if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ "$total" -eq 0 ] && [ "$s" -eq 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    p=$((total + whole - f - s))
    count "$label" $((p > 0 ? p : 0)) "$f" "$s" "$log"
}
run_node_tests() {
    local label=$1 log="$work/node.log" status p f s
    shift
    watch "$log"
    timeout 900 node --test "$@" >"$log" 2>&1
    status=$?
    p=$(grep -oE '^(# |ℹ )pass [0-9]+' "$log" | awk '{s += $3} END {print s + 0}')
    f=$(grep -oE '^(# |ℹ )fail [0-9]+' "$log" | awk '{s += $3} END {print s + 0}')
    s=$(grep -oE '^(# |ℹ )skipped [0-9]+' "$log" | awk '{s += $3} END {print s + 0}')
    if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    [ "$((p + f))" -gt 0 ] || f=1
    count "$label" "$p" "$f" "$s" "$log"
}

# ---- stages ------------------------------------------------------------------------------------
if [ $install -eq 1 ]; then
    say "What the tests need"
    ./deploy/install-deps.sh test || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
fi
export BULKHEAD_VENV=${BULKHEAD_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/venv}
export BULKHEAD_PYTHON=${BULKHEAD_PYTHON:-$BULKHEAD_VENV/bin/python3}
export BULKHEAD_BIN_DIR=$root/build/release/bin
export BULKHEAD_FULL=$full
ulimit -c 0

build() {
    local preset=$1 log="$work/build-$1.log"
    shift
    watch "$log"
    { cmake --preset "$preset" && cmake --build "build/$preset" -- "$@"; } >"$log" 2>&1
}

if wanted format; then
    say "Format"
    check "clang-format" sh -c 'git ls-files "*.c" "*.h" | xargs clang-format-14 --dry-run -Werror'
fi

say "Build (release, warnings are errors)"
if build release; then
    count "build release" 1 0 0
else
    count "build release" 0 1 0 "$work/build-release.log"
    echo
    echo "$passed passed, $failed failed, $skipped skipped"
    exit 1
fi

if wanted build; then
    check "install" sh -c "DESTDIR='$work/stage' cmake --install build/release --prefix /usr >/dev/null &&
        '$work/stage/usr/bin/bulkhead-supervise' version && '$work/stage/usr/bin/bulkheadd' --version"
fi

if wanted lint; then
    say "Lints"
    for lint in tests/lint/*.py; do
        check "lint $(basename "$lint" .py)" "$BULKHEAD_PYTHON" "$lint" "$root" "$root/build/release"
    done
fi

if wanted unit; then
    say "Unit tests (release)"
    run_cmocka "unit" build/release
fi

if wanted asan; then
    say "Unit tests (AddressSanitizer, UndefinedBehaviorSanitizer)"
    if build asan unit-tests; then
        ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 run_cmocka "unit, sanitized" build/asan
    else
        count "build asan" 0 1 0 "$work/build-asan.log"
    fi
fi

if wanted scenario; then
    say "Scenarios"
    while IFS= read -r file; do
        run_unittest "scenario $(basename "$file" .py)" "$file"
    done < <(find tests/scenario tests/platform -name 'test_*.py' | sort)
fi

if wanted real; then
    say "Real MLX"
    if path=$(tests/real/fetch_memory_viz.sh 2>"$work/viz.log"); then
        export BULKHEAD_MEMORY_VIZ=$path
        count "PyTorch's _memory_viz.py" 1 0 0
    else
        count "PyTorch's _memory_viz.py" 0 1 0 "$work/viz.log"
    fi
    if [ "$full" -eq 1 ] && [ "$install" -eq 1 ]; then
        BULKHEAD_PYTHONS=${BULKHEAD_PYTHONS:-$(tests/real/other_pythons.sh)}
        export BULKHEAD_PYTHONS
    fi
    while IFS= read -r file; do
        run_unittest "real $(basename "$file" .py)" "$file"
    done < <(find tests/real -name 'test_*.py' | sort)
fi

if wanted web; then
    say "Dashboard"
    # the tests' own packages (browser driver, accessibility checks), beside the built page
    if [ -f tests/web/package.json ]; then
        mkdir -p "$root/build/web-tests"
        cp -R tests/web/. "$root/build/web-tests/"
        check "npm packages of the web tests" sh -c \
            "cd build/web-tests && npm ci --silent --no-audit --no-fund"
    fi
    export BULKHEAD_WEB_SOURCE=$root/web
    unit=$(find build/web-tests -maxdepth 2 -name '*.test.mjs' ! -name 'e2e*' ! -path '*/node_modules/*' | sort)
    # shellcheck disable=SC2086
    run_node_tests "page, pure modules" $unit
    e2e=$(find build/web-tests -maxdepth 2 -name 'e2e*.test.mjs' ! -path '*/node_modules/*' | sort)
    # shellcheck disable=SC2086
    run_node_tests "page in Chromium" $e2e
fi

if wanted fuzz; then
    say "Fuzzing (short)"
    seconds=$([ "$full" -eq 1 ] && echo 600 || echo 10)
    if build fuzz fuzzers; then
        for target in build/fuzz/fuzz/fuzz_*; do
            name=$(basename "$target")
            mkdir -p "$work/corpus/$name"
            if [ -d "tests/fuzz/corpus/$name" ]; then cp tests/fuzz/corpus/"$name"/* "$work/corpus/$name"/; fi
            check "$name" "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
                -artifact_prefix="$work/" "$work/corpus/$name"
        done
    else
        count "build fuzz" 0 1 0 "$work/build-fuzz.log"
    fi
fi

say "Done"
if [ ${#failures[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failures[@]}"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
