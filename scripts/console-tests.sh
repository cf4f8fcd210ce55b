#!/usr/bin/env bash
# Tests the console with a real browser against the real server: see tests/console/.
#
# usage: scripts/console-tests.sh [FILE.test.mjs...]     all of them when none is named
#
# WINDLASS_BIN and WINDLASS_PLUGINS name the server and its plugins (default: those of target/); WINDLASS_UI_DIR serves the console from
# a folder instead of from the binary.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
# shellcheck source=scripts/browser.sh
. scripts/browser.sh

export WINDLASS_BIN=${WINDLASS_BIN:-$ROOT/target/debug/windlass} WINDLASS_PLUGINS=${WINDLASS_PLUGINS:-$ROOT/target/plugins}
[ -x "$WINDLASS_BIN" ] || fail "there is no server to test at $WINDLASS_BIN." "Build it: cargo build -p windlass"

cd tests/console
files=("$@")
[ ${#files[@]} -gt 0 ] || files=(*.test.mjs)
run() { node --test "--test-concurrency=$1" --test-reporter=./lib/reporter.mjs "${@:2}"; }

# A browser on a busy machine may miss a deadline that has nothing to do with the console: what fails is run once more, alone, and has to
# pass then. What failed is printed either way.
failures=$(mktemp)
trap 'rm -f "$failures"' EXIT
if run 2 "${files[@]}" | tee "$failures"; then exit 0; fi
mapfile -t again < <(sed -n 's/^--- \([a-z-]*\.test\.mjs\):.*/\1/p' "$failures" | sort -u)
[ ${#again[@]} -gt 0 ] || exit 1
say "once more, alone: ${again[*]}"
run 1 "${again[@]}"
