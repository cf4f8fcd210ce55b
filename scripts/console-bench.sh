#!/usr/bin/env bash
# Measures the console in a real browser against a release build: see tests/console/bench/. Part of `make bench`.
#
# usage: scripts/console-bench.sh [--quick]
#
# WINDLASS_BIN and WINDLASS_PLUGINS name another server and other plugins.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
# shellcheck source=scripts/browser.sh
. scripts/browser.sh

export WINDLASS_BIN=${WINDLASS_BIN:-$ROOT/target/release/windlass} WINDLASS_PLUGINS=${WINDLASS_PLUGINS:-$ROOT/target/plugins}
[ -x "$WINDLASS_BIN" ] || fail "there is no server to measure at $WINDLASS_BIN." "Build it: cargo build --release -p windlass"
exec node tests/console/bench/run.mjs "$@"
