#!/usr/bin/env bash
# Sets Bulkhead up on a fresh Debian 12 and shows what it does: installs packages, builds, starts the
# server, runs a leaking MLX program under a 1 GiB limit, and says how it ended and where everything is.
#
# usage: deploy/quickstart.sh [--no-install] [--once] [--state DIR]
#   --no-install  take the machine as it is
#   --once        stop the server again at the end (otherwise it keeps running, with the page)
#   --state DIR   the server's state directory (default: $BULKHEAD_STATE, else where bulkheadd puts it)
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

install=1 once=0
home_state=${XDG_STATE_HOME:-$HOME/.local/state}/bulkhead
state=${BULKHEAD_STATE:-$home_state}
while [ $# -gt 0 ]; do
    case "$1" in
    --no-install) install=0 ;;
    --once) once=1 ;;
    --state)
        [ $# -ge 2 ] || { echo "quickstart.sh: --state needs a directory" >&2; exit 64; }
        state=$2
        shift
        ;;
    -h | --help)
        sed -n '2,8s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *)
        echo "quickstart.sh: unknown option $1 (see --help)" >&2
        exit 64
        ;;
    esac
    shift
done

say() { printf '== %s\n' "$*"; }
fail() {
    printf 'quickstart: %s\n' "$1" >&2
    [ -z "${2:-}" ] || tail -n 30 "$2" >&2
    exit 1
}

[ $install -eq 0 ] || ./deploy/install-deps.sh run
export BULKHEAD_VENV=${BULKHEAD_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead/venv}
python=$BULKHEAD_VENV/bin/python3
[ -x "$python" ] || fail "no MLX in $BULKHEAD_VENV; run without --no-install"

# progress: on a terminal, the newest of the lines read, in place; elsewhere nothing
progress() {
    [ -t 1 ] || { cat >/dev/null; return; }
    while IFS= read -r line; do printf '\r   %-72.72s' "$line"; done
    printf '\r%-75s\r' ''
}
say "building (build/release; the first time takes a minute or two)"
log=$(mktemp "${TMPDIR:-/tmp}/bulkhead-build.XXXXXX")
{ cmake --preset release && cmake --build build/release; } 2>&1 | tee "$log" | progress || fail "the build failed" "$log"
rm -f "$log"
bin=$root/build/release/bin

# ---- the server: ours if one answers already, else a new one that outlives this script -----------
mkdir -p -m 700 "$state"
state=$(cd "$state" && pwd)
socket=$state/bulkhead.sock
if curl -sf --max-time 5 --unix-socket "$socket" http://localhost/livez >/dev/null 2>&1; then
    say "a server answers on $socket already: using it"
    started=""
else
    say "starting the server (state in $state)"
    server_log=$state/bulkheadd.log
    # the default port may belong to somebody else's server: then any free one
    listen=127.0.0.1:7373
    if (exec 3<>/dev/tcp/127.0.0.1/7373) 2>/dev/null; then listen=127.0.0.1:0; fi
    setsid "$bin/bulkheadd" --state "$state" --listen "$listen" </dev/null >>"$server_log" 2>&1 &
    started=$!
    for _ in $(seq 200); do
        curl -sf --max-time 5 --unix-socket "$socket" http://localhost/readyz >/dev/null 2>&1 && break
        kill -0 "$started" 2>/dev/null || fail "the server did not start" "$server_log"
        sleep 0.05
    done
fi
api() { curl -sS --fail-with-body --unix-socket "$socket" "$@"; }
field() { "$python" -c 'import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1].split("."):
    value = value.get(name) if isinstance(value, dict) else None
print("" if value is None else value)' "$1"; }

# ---- the main job --------------------------------------------------------------------------------
spec=$("$python" -c 'import json, sys
print(json.dumps({"command": sys.argv[1:], "limit": "1GiB"}))' "$python" "$root/deploy/demo/leaky.py")
say "launching a program that leaks, with a limit of 1 GiB:"
printf "   curl --unix-socket %q --json '%s' http://localhost/jobs\n" "$socket" "$spec"
answer=$(api --json "$spec" http://localhost/jobs) || fail "the launch was refused: $answer"
id=$(field id <<<"$answer")
[ -n "$id" ] || fail "no job id in: $answer"

sequence=0 job_state="" shown="" sentence=""
for _ in $(seq 120); do
    job=$(api "http://localhost/v1/jobs/$id?wait=1s&since=$sequence")
    sequence=$(field event_sequence <<<"$job")
    job_state=$(field state <<<"$job")
    line=$(printf '   %-10s charge %5d MiB   recorded %s events' "$job_state" \
        $(($(field charge.value <<<"$job" | grep . || echo 0) / 1048576)) "$(field recorder.events <<<"$job")")
    if [ -t 1 ]; then printf '\r%s   ' "$line"; elif [ "$job_state" != "$shown" ]; then printf '%s\n' "$line"; fi
    shown=$job_state
    if [ "$job_state" = finished ] || [ "$job_state" = failed_to_start ]; then break; fi
done
[ ! -t 1 ] || printf '\n'
sentence=$(field outcome.sentence <<<"$job")
[ "$job_state" = finished ] || fail "the job did not end within two minutes; it is $job_state"

out=$state/quickstart
mkdir -p -m 700 "$out"
api -o "$out/report.json" "http://localhost/v1/jobs/$id/report"
api -o "$out/memory.pickle" "http://localhost/v1/jobs/$id/memory.pickle"
top=$(api "http://localhost/v1/jobs/$id/live?at=limit&group=stack&top=1" | "$python" -c 'import json, sys
live = json.load(sys.stdin)
for group in live["groups"]:
    frame = (group["traceback"] or [["?", "?", 0]])[-1]
    print("%d MiB of %d MiB: %s line %d, in %s" % (group["bytes"] >> 20, live["total_bytes"] >> 20, frame[0], frame[2], frame[1]))')

say "how it ended:  $sentence"
say "who held it:   $top"
say "report:        $out/report.json"
say "trace:         $out/memory.pickle   (drop it on docs.pytorch.org/memory_viz)"
if [ $once -eq 1 ]; then
    if [ -n "$started" ]; then
        kill "$started"
        wait "$started" 2>/dev/null || true
        say "the server was stopped again (--once)"
    fi
else
    link=$("$bin/bulkheadd" --login-link --state "$state" | grep -o 'http[^ ]*' | head -n 1)
    say "page:          $link   (valid 10 minutes, once; "bulkhead open" prints another)"
    [ -z "$started" ] || say "the server keeps running as process $started; stop it with: kill $started"
    say "your own program, in any shell (this python3 has MLX):"
    printf '   export PATH=%q:$PATH\n' "$bin"
    [ "$state" = "$home_state" ] || printf '   export BULKHEAD_STATE=%q\n' "$state"
    printf '   bulkhead run --limit 6GiB -- %q train.py\n' "$python"
fi
