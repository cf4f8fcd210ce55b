#!/usr/bin/env bash
# Starts the server with the demo plugin and a few demo jobs, and runs until Ctrl-C. This is what `make run` runs; `make demo` keeps it
# busy as well, so that there is something to see in the console.
#
# usage: scripts/run-demo.sh [FLAG-OF-WINDLASS-SERVE...]
#   LISTEN   the address to serve on   (default 127.0.0.1:7070)
#   DATA     the data folder           (default ./windlass-data)
#   LIVELY   1: with the load of scripts/demo-load.py, which needs python3
# A second run on the same folder continues where the first stopped: the plugin is uploaded again, which changes nothing, and a few
# more jobs are enqueued.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

LISTEN=${LISTEN:-127.0.0.1:7070}
DATA=${DATA:-./windlass-data}
QUEUE=demo.digest
START_TIMEOUT_S=60
LIVELY=${LIVELY:-}
if [ -n "$LIVELY" ]; then have python3 || fail "python3 is missing: it keeps the demo busy." "Install it, or run 'make run', which needs none."; fi

"$ROOT/scripts/host-tools.sh"
say "building the server (the first time this takes several minutes)"
# With the same packages as `make test`: others would mean other features, and building wasmtime twice.
cargo build --locked --workspace --all-targets
plugins/build.sh digest

# One cannot connect to a wildcard address, but to the loopback address that it includes.
port=${LISTEN##*:}
host=${LISTEN%:*}
case $host in 0.0.0.0) host=127.0.0.1 ;; '[::]') host='[::1]' ;; esac
url=http://$host:$port

if (exec 3<>"/dev/tcp/$(printf %s "$host" | tr -d '[]')/$port") 2>/dev/null; then
    fail "something already listens on $LISTEN." "Choose another address: make run LISTEN=127.0.0.1:$((port + 101))"
fi

# Job control gives the server its own process group: Ctrl-C reaches only this script, which asks the server to stop once.
set -m
"$ROOT/target/debug/windlass" serve --listen "$LISTEN" --data "$DATA" "$@" &
server=$!
set +m

# shellcheck disable=SC2329  # the trap below calls it
stop() {
    trap '' INT TERM
    if kill -0 "$server" 2>/dev/null; then
        say "stopping the server"
        if [ -n "${load:-}" ]; then kill -TERM "$load" 2>/dev/null || true; fi
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" || warn "the server ended with status $?"
    fi
    exit 0
}
trap stop INT TERM
# However this script ends, the server does not outlive it.
trap 'kill -TERM "$server" 2>/dev/null || true' EXIT

waited=0
until curl -fs -o /dev/null "$url/healthz"; do
    kill -0 "$server" 2>/dev/null || fail "the server did not start (see above)."
    [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || fail "the server did not answer on $url/healthz within $START_TIMEOUT_S s."
    sleep 0.1
    waited=$((waited + 1))
done

# The server made it at its first start; one that needs none gets one that it does not look at.
key=${WINDLASS_API_KEY:-$(cat "$DATA/admin.key" 2>/dev/null || true)}

if [ -n "$LIVELY" ]; then
    WINDLASS_URL=$url WINDLASS_API_KEY=$key python3 scripts/demo-load.py &
    load=$!
    trap 'kill -TERM "$server" "$load" 2>/dev/null || true' EXIT
    cat <<TEXT

The console is at $url/ui/. Sign in with the key in $DATA/admin.key:

  cat $DATA/admin.key

Ctrl-C stops the server and the load.

TEXT
    status=0
    wait "$server" || status=$?
    exit "$status"
fi

# call METHOD PATH CURL-ARGUMENTS...: prints the response; an error is shown and ends the demo.
call() {
    local method=$1 path=$2 answer status
    shift 2
    answer=$(curl -sS -H "X-API-Key: $key" -X "$method" -w '\n%{http_code}' "$@" "$url$path") || fail "$method $path: no answer."
    status=${answer##*$'\n'}
    answer=${answer%$'\n'*}
    case $status in
    2*) printf '%s\n' "$answer" ;;
    *) fail "$method $path was answered with $status: $answer" ;;
    esac
}

enqueue() {
    call POST /api/v1/enqueue -H 'content-type: application/json' -d "{\"queue\": \"$QUEUE\", \"payload\": $1}" |
        sed -nE 's/.*"(job_id|id)" *: *"(job_[^"]*)".*/\2/p'
}

say "uploading the demo plugin, digest, to serve the queue $QUEUE"
call PUT "/api/v1/plugins/digest?queues=$QUEUE" -H 'content-type: application/wasm' --data-binary @target/plugins/digest.wasm >/dev/null
call PUT /api/v1/plugins/digest/manifest --data-binary @plugins/digest/windlass.toml >/dev/null

say "enqueueing three demo jobs"
last=
for payload in '{"generate_mb": 16, "seed": 1, "pause_ms": 100}' \
    '{"generate_mb": 64, "seed": 2, "pause_ms": 250}' \
    '{"generate_mb": 128, "seed": 3, "pause_ms": 250}'; do
    last=$(enqueue "$payload")
    [ -n "$last" ] || fail "the response to an enqueue has no job id."
    warn "$last $payload"
done

cat <<TEXT

Windlass is at $url, its data in $DATA. Requests need a key, which the first start wrote into $DATA/admin.key; the command
\`windlass\` finds it there by itself. Three things to try in another terminal:

  export WINDLASS_API_KEY=\$(cat $DATA/admin.key)
  curl -H "X-API-Key: \$WINDLASS_API_KEY" $url/api/v1/jobs/$last
  curl -H "X-API-Key: \$WINDLASS_API_KEY" $url/api/v1/enqueue -d '{"queue": "$QUEUE", "payload": {"generate_mb": 32, "seed": 7, "pause_ms": 100}}'
  curl -H "X-API-Key: \$WINDLASS_API_KEY" $url/api/v1/queues

The first shows a job's progress and checkpoint, and its result when it has ended; the second starts another; the third counts them.
Ctrl-C stops the server; jobs that were running continue from their last checkpoint at the next start.

TEXT

status=0
wait "$server" || status=$?
exit "$status"
