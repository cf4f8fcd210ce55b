#!/usr/bin/env bash
# Formats, lints and tests the guests natively: their logic needs no server. Building them to wasm is plugins/build.sh.
#
# usage: scripts/guests.sh fmt | check-fmt | lint | test
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# The guests are workspaces apart from the host's. One target folder serves them all.
export CARGO_TARGET_DIR="$ROOT/target/guests-native"

each() {
    local manifest
    for manifest in guest-sdk/rust/Cargo.toml plugins/Cargo.toml; do
        "$@" --manifest-path "$manifest"
    done
}

# The SDK's own tests, then those of every plugin that has any.
test_python() {
    local test
    PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover -q -s guest-sdk/python/tests
    for test in plugins/*/test_*.py; do
        (cd "$(dirname "$test")" && PYTHONDONTWRITEBYTECODE=1 python3 -m unittest -q -b "$(basename "$test" .py)")
    done
}

test_js() {
    local tools test
    tools=$(scripts/js-guest.sh)
    node --test --test-reporter=spec guest-sdk/js/test/
    for test in plugins/*/*.test.[jt]s; do
        WINDLASS_TOOLS=$tools node guest-sdk/js/test.mjs "$(dirname "$test")"
    done
}

lint() { cargo clippy --workspace --all-targets "$@" -- -D warnings; }

case ${1:-} in
fmt) each cargo fmt --all ;;
check-fmt) each cargo fmt --all --check ;;
lint) each lint ;;
test)
    each cargo test --workspace
    test_python
    test_js
    ;;
*) fail "usage: scripts/guests.sh fmt | check-fmt | lint | test" ;;
esac
