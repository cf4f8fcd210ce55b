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
exec node --test --test-concurrency=2 --test-reporter=./lib/reporter.mjs "${files[@]}"
