#!/usr/bin/env bash
# Takes the pictures of the console again that README.md and docs/console.md show: a server of its own with the demo's load, a few minutes.
#
# usage: scripts/screenshots.sh
#
# WINDLASS_BIN and WINDLASS_PLUGINS name the server and its plugins (default: those of target/).
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
have python3 || fail "python3 is missing: it makes the load that the pictures show."
# shellcheck source=scripts/browser.sh
. scripts/browser.sh

export WINDLASS_BIN=${WINDLASS_BIN:-$ROOT/target/debug/windlass} WINDLASS_PLUGINS=${WINDLASS_PLUGINS:-$ROOT/target/plugins}
[ -x "$WINDLASS_BIN" ] || fail "there is no server to show at $WINDLASS_BIN." "Build it: cargo build -p windlass"
[ -f "$WINDLASS_PLUGINS/digest.wasm" ] || fail "the demo's plugin is missing." "Build it: plugins/build.sh digest"
exec node tests/console/screenshots.mjs
