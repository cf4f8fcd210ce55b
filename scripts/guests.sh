#!/usr/bin/env bash
# Formats, lints and tests the Rust guests natively: their logic needs no server. Building them to wasm is plugins/build.sh.
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

lint() { cargo clippy --workspace --all-targets "$@" -- -D warnings; }

case ${1:-} in
fmt) each cargo fmt --all ;;
check-fmt) each cargo fmt --all --check ;;
lint) each lint ;;
test) each cargo test --workspace ;;
*) fail "usage: scripts/guests.sh fmt | check-fmt | lint | test" ;;
esac
