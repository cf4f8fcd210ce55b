#!/usr/bin/env bash
# Tests the API of a running server against its own description with schemathesis: no 5xx, and no response outside its schema. As an
# admin of everything first, and then with a key of each role, more briefly: what a role may not do is answered 403, as described.
#
# usage: scripts/schemathesis.sh WINDLASS-BINARY [EXAMPLES-PER-OPERATION [SECONDS-AT-MOST [SECONDS-AT-MOST-FOR-EACH-ROLE]]]
#
# schemathesis is installed once into a virtual environment in the cache folder. If Python or the package index is not available,
# it says so and passes, because the e2e tests check the description as well. SCHEMATHESIS=require makes that a failure.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

BINARY=${1:?usage: scripts/schemathesis.sh WINDLASS-BINARY [EXAMPLES [SECONDS]]}
EXAMPLES=${2:-8}
SECONDS_AT_MOST=${3:-40}
SECONDS_OF_A_ROLE=${4:-15}
LOCK=$ROOT/scripts/schemathesis.txt
VENV=$(locked_folder schemathesis "$LOCK")

skip() {
    if [ "${SCHEMATHESIS:-}" = require ]; then fail "$@"; fi
    warn "$1 The API is not fuzzed this time."
    exit 0
}

install() {
    have python3 || skip "python3 is missing." "Install it with your package manager."
    say "installing schemathesis into $VENV (once)"
    rm -rf "$VENV"
    { python3 -m venv "$VENV" && "$VENV/bin/python" -m pip "${PIP_INSTALL[@]}" -r "$LOCK"; } >&2 || {
        rm -rf "$VENV"
        skip "schemathesis could not be installed." "Check the network and pip's index."
    }
    touch "$VENV/complete"
}

[ -e "$VENV/complete" ] || install

work=$(mktemp -d)
server=
cleanup() {
    if [ -n "$server" ]; then kill "$server" 2>/dev/null && wait "$server" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap cleanup EXIT

"$BINARY" serve --listen 127.0.0.1:0 --data "$work/data" >"$work/log" 2>&1 &
server=$!
url=
for _ in $(seq 300); do
    url=$(sed -n 's/.*is listening on \(http[^ ]*\).*/\1/p' "$work/log" | head -n 1)
    [ -n "$url" ] && break
    kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; fail "the server did not start (see above)."; }
    sleep 0.1
done
[ -n "$url" ] || fail "the server did not start within half a minute."

# make_key ROLE: a key of that role for the namespace `default`.
make_key() {
    curl -fsS -H "X-API-Key: $(cat "$work/data/admin.key")" -H 'Content-Type: application/json' \
        -d "{\"name\": \"fuzzing $1\", \"role\": \"$1\"}" "$url/api/v1/auth/keys" | sed -n 's/.*"key":"\([^"]*\)".*/\1/p'
}

# fuzz WHO KEY PHASES EXAMPLES SECONDS: it writes files to its working directory, so it runs in the folder that is removed. The endless event
# stream cannot be tested this way.
fuzz() {
    local status=0
    [ -n "$2" ] || fail "there is no key for: $1"
    (
        cd "$work"
        PYTHONPATH="$ROOT/scripts" SCHEMATHESIS_HOOKS=schemathesis_hooks "$VENV/bin/schemathesis" run "$url/openapi.json" \
            --header "X-API-Key: $2" \
            --checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance \
            --exclude-path /api/v1/events --phases "$3" --max-examples "$4" --max-time "$5" \
            --request-timeout 10 --warnings off --no-color
    ) >"$work/report" 2>&1 || status=$?
    if [ "$status" != 0 ] || grep -q ' ERROR ' "$work/log"; then
        cat "$work/report" >&2
        grep ' ERROR ' "$work/log" >&2 || true
        fail "the API does not match its description for: $1 (see above)."
    fi
    say "as $1:"
    tail -n 4 "$work/report" >&2
}

fuzz "an admin of everything" "$(cat "$work/data/admin.key")" examples,coverage,fuzzing "$EXAMPLES" "$SECONDS_AT_MOST"
# Each operation once or twice, which is enough to see who is let in, and how the others are refused.
for role in producer worker viewer operator deployer admin; do
    fuzz "$role" "$(make_key "$role")" fuzzing 2 "$SECONDS_OF_A_ROLE"
done
