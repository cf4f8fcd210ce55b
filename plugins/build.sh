#!/usr/bin/env bash
# Builds plugins into target/plugins/NAME.wasm: those in plugins/, and the conformance handlers in tests/guests/ as test-LANG. What has
# not changed is not built again.
#
# usage: plugins/build.sh [NAME...]     all of them when none is named
#
# The Rust plugins are one workspace and are built by cargo, with the compiler that scripts/wasm-target.sh finds or makes. All others
# have a windlass.toml with a section [build], and `windlass plugin build` builds them, as it does for everybody; it brings the tools
# of their languages into ~/.cache/windlass.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"
cd "$ROOT"

out=target/plugins
mkdir -p "$out"

# shellcheck source=scripts/wasm-target.sh
. scripts/wasm-target.sh
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$ROOT/target/guests}"
windlass=${WINDLASS_BIN:-$ROOT/target/debug/windlass}

wanted() { # wanted NAME: whether it was named, or nothing was
    [ ${#names[@]} -eq 0 ] && return 0
    local name
    for name in "${names[@]}"; do [ "$name" = "$1" ] && return 0; done
    return 1
}

told() { printf '%8d bytes  %s\n' "$(wc -c <"$out/$1.wasm")" "$out/$1.wasm"; }

rust_plugin() { # rust_plugin NAME
    cargo build --quiet --locked --release --target wasm32-wasip2 --manifest-path "plugins/$1/Cargo.toml"
    local built="$CARGO_TARGET_DIR/wasm32-wasip2/release/${1//-/_}.wasm"
    # As `windlass plugin build` does it; without a windlass, they are a little larger.
    if [ -x "$windlass" ]; then
        "$windlass" plugin strip "$built" --out "$out/$1.wasm.part"
    else
        cp "$built" "$out/$1.wasm.part"
    fi
    # Replaced only when it differs, so that whoever looks at times sees what has really changed.
    if cmp -s "$out/$1.wasm.part" "$out/$1.wasm"; then
        rm "$out/$1.wasm.part"
    else
        mv "$out/$1.wasm.part" "$out/$1.wasm"
    fi
}

# The digest of all that goes into a component: its folder, its SDK and the interface.
inputs() { # inputs FOLDER LANG
    local sdk=$2
    if [ "$sdk" = ts ]; then sdk=js; fi
    find "$1" "guest-sdk/$sdk" guest-sdk/wit wit -type f \
        -not -path '*/target/*' -not -path '*/node_modules/*' -not -path '*/__pycache__/*' -not -path '*/build/*' \
        -not -path '*/template*' -not -path '*/tests/*' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1
}

other_plugin() { # other_plugin FOLDER NAME LANG
    local digest kept="$out/.$2.inputs"
    digest=$(inputs "$1" "$3")
    if [ -f "$out/$2.wasm" ] && [ "$(cat "$kept" 2>/dev/null)" = "$digest" ]; then return 0; fi
    [ -x "$windlass" ] || {
        say "building windlass, which builds the plugins"
        env -u CARGO_TARGET_DIR -u RUSTC cargo build --locked --workspace --all-targets
    }
    say "building $2 ($3)"
    # The server's own check comes at upload; for a large component it takes seconds.
    "$windlass" plugin build "$1" --no-check --out "$out/$2.wasm" >/dev/null
    printf '%s\n' "$digest" >"$kept"
}

# field FILE NAME: the value of a line like name = "value".
field() { sed -n "s/^$2 *= *\"\([^\"]*\)\".*/\1/p" "$1" | head -n 1; }

names=("$@")
built=0
for manifest in plugins/*/Cargo.toml; do
    folder=${manifest%/Cargo.toml}
    name=${folder#plugins/}
    wanted "$name" || continue
    rust_plugin "$name"
    told "$name"
    built=$((built + 1))
done
for manifest in plugins/*/windlass.toml tests/guests/*/windlass.toml; do
    folder=${manifest%/windlass.toml}
    [ -f "$manifest" ] && [ ! -f "plugins/${folder#plugins/}/Cargo.toml" ] || continue
    lang=$(field "$manifest" lang)
    [ -n "$lang" ] || continue
    name=$(field "$manifest" name)
    name=${name:-${folder##*/}}
    wanted "$name" || continue
    other_plugin "$folder" "$name" "$lang"
    told "$name"
    built=$((built + 1))
done
[ "$built" -gt 0 ] || fail "there is no plugin called ${names[*]}."
