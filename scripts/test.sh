#!/usr/bin/env bash
# Checks everything, stage by stage, and stops at the first failure. This is what `make test` and CI run.
#
# usage: scripts/test.sh
#
# The host's tests share one build profile with `make run`, so that a cold checkout builds wasmtime once.
set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT" || exit 1

# stage NAME COMMAND...: prints what starts and when; exits if it fails.
stage() {
    local name=$1
    shift
    say "[${SECONDS}s] $name"
    "$@" || {
        printf '==> FAILED after %ss in stage "%s": %s\n' "$SECONDS" "$name" "$*" >&2
        exit 1
    }
}

check_format() {
    { cargo fmt --all --check && scripts/guests.sh check-fmt; } || {
        warn "run 'make fmt' to fix this"
        return 1
    }
}

# All packages of the host at once: building only some of them would select other features, and build wasmtime again.
host_tests() {
    WINDLASS_BIN="$ROOT/target/debug/windlass" WINDLASS_PLUGINS="$ROOT/target/plugins" cargo test --workspace --all-targets
}

stage "tools" scripts/host-tools.sh
stage "format" check_format
stage "licences, bans and sources" scripts/deny.sh
stage "workflows of the forge" scripts/workflows.sh
stage "lints (host)" cargo clippy --locked --workspace --all-targets -- -D warnings
stage "documentation of the crates" env RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps
stage "lints (guests)" scripts/guests.sh lint
stage "unit tests (guests, native)" scripts/guests.sh test
stage "console: types, and that ui/dist is what ui/src builds" scripts/ui.sh check
stage "the provider that sign-in is tested against" scripts/sign-in-provider.sh
stage "build" cargo build --locked --workspace --all-targets
stage "plugins" plugins/build.sh
stage "tests (host, including end to end)" host_tests
stage "the console in a browser" scripts/console-tests.sh
stage "examples in the documentation of the crates" cargo test --quiet --workspace --doc
stage "the API against its description" scripts/schemathesis.sh "$ROOT/target/debug/windlass" 4 35 8
say "[${SECONDS}s] everything passed"
