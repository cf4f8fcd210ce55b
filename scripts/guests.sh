#!/usr/bin/env bash
# Formats, lints and tests the guests natively: their logic needs no server. Building them to wasm is plugins/build.sh.
#
# usage: scripts/guests.sh fmt | check-fmt | lint | test | bindings
#
# `bindings` regenerates the C and Go bindings from wit/; `test` fails when they are out of date.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# The guests' workspaces are separate from the host's. They share one target folder.
export CARGO_TARGET_DIR="$ROOT/target/guests-native"

each() {
    local manifest
    for manifest in guest-sdk/rust/Cargo.toml guest-sdk/bindgen/Cargo.toml plugins/Cargo.toml tests/guests/rust/Cargo.toml \
        examples/checkpoint/Cargo.toml; do
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

lint() { cargo clippy --locked --workspace --all-targets "$@" -- -D warnings; }

bindings() { cargo run --locked --quiet --manifest-path guest-sdk/bindgen/Cargo.toml -- guest-sdk "$@"; }

# Every folder under these that has its own go.mod, except the templates.
test_go() {
    local go module
    go=$(go_tool)
    for module in guest-sdk/go plugins/*/go.mod; do
        module=${module%/go.mod}
        [ -f "$module/go.mod" ] || continue
        # The generated bindings are for wasm only.
        (cd "$module" && "$go" list ./... | grep -v /internal/wit/ | xargs "$go" vet && "$go" list ./... | grep -v /internal/ | xargs "$go" test)
    done
}

# The tests of the C SDK and of each plugin in C, with all warnings and sanitizers.
test_c() {
    local test folder flags="-std=gnu11 -Wall -Wextra -Werror -g -fsanitize=address,undefined -fno-sanitize-recover"
    mkdir -p target/guests-native
    for test in guest-sdk/c/tests/*_test.c plugins/*/*_test.c; do
        [ -f "$test" ] || continue
        folder=${test%/*}
        # shellcheck disable=SC2046,SC2086  # lists of words
        cc $flags -I guest-sdk/c -I "$folder" -o target/guests-native/c-test "$test" \
            $(find "$folder" -maxdepth 1 -name '*.c' ! -name '*_test.c') guest-sdk/c/windlass.c guest-sdk/c/windlass_fake.c -lm
        target/guests-native/c-test
    done
}

tests() {
    bindings --check
    each cargo test --locked --workspace
    test_go
    test_c
    test_python
    test_js
}

case ${1:-} in
fmt) each cargo fmt --all ;;
check-fmt) each cargo fmt --all --check ;;
lint) each lint ;;
test) tests ;;
bindings) bindings ;;
*) fail "usage: scripts/guests.sh fmt | check-fmt | lint | test | bindings" ;;
esac
