#!/usr/bin/env bash
# Builds plugins into target/plugins/NAME.wasm. Quick when nothing has changed.
#
# usage: plugins/build.sh [NAME...]     all of them when none is named
#
# The Rust plugins need the target wasm32-wasip2; scripts/wasm-target.sh finds or makes a compiler that has it, and names it in
# the environment, together with the folder that builds by it go to.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
out="$root/target/plugins"
mkdir -p "$out"

# shellcheck source=scripts/wasm-target.sh
. "$root/scripts/wasm-target.sh"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target/guests}"

cd "$root/plugins"
if [ $# -eq 0 ]; then
    for manifest in */Cargo.toml; do
        set -- "$@" "${manifest%/Cargo.toml}"
    done
fi

for name; do
    cargo build --release --target wasm32-wasip2 --manifest-path "$name/Cargo.toml"
    built="$CARGO_TARGET_DIR/wasm32-wasip2/release/${name//-/_}.wasm"
    # Copied only when it differs, so that whoever looks at times sees what has really changed.
    if ! cmp -s "$built" "$out/$name.wasm"; then
        cp "$built" "$out/$name.wasm.part"
        mv "$out/$name.wasm.part" "$out/$name.wasm"
    fi
    printf '%8d bytes  %s\n' "$(wc -c <"$out/$name.wasm")" "target/plugins/$name.wasm"
done
