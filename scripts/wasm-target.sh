#!/usr/bin/env bash
# Makes sure that Rust guests can be built for wasm32-wasip2, and prints the variables for it.
#
# usage:  . scripts/wasm-target.sh     sets the variables below in your shell (any POSIX one; from the project's root, if it is
#                                      not bash); returns 1 if no compiler can be had
#         scripts/wasm-target.sh       does the same work and prints the variables as `export` lines
#
# Then `cargo build --release --target wasm32-wasip2 --target-dir "$WINDLASS_GUEST_TARGET_DIR"` builds a component. The variables:
#   WINDLASS_GUEST_TARGET_DIR   where guest builds go; one folder per compiler, since two compilers must not share one
#   RUSTC                       only with the Debian toolchain: the compiler that has the target
#
# WINDLASS_WASM_TOOLCHAIN chooses where the target comes from:
#   auto     (default) the first that works: already installed, cached from an earlier Debian set-up, rustup, Debian
#   rustup   the installed compiler, with `rustup target add wasm32-wasip2` if need be
#   debian   Debian's rustc-web packages, for machines where rustup cannot reach its server. They are unpacked, not installed:
#            no root is needed. std is built once (about two minutes) and cached in ~/.cache/windlass (or XDG_CACHE_HOME).
# Safe to run twice, also at the same time: the set-up holds a lock. Delete ~/.cache/windlass to start over.

# When sourced, do the work in a separate shell, so that nothing but the variables reaches the caller.
if [ "${0##*/}" != wasm-target.sh ]; then
    # shellcheck disable=SC2128  # the first element is meant; other shells have no such variable
    _windlass_exports=$(bash "${BASH_SOURCE:-scripts/wasm-target.sh}") || return 1
    eval "$_windlass_exports"
    unset _windlass_exports
    return 0
fi

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

TARGET=wasm32-wasip2
RUSTUP_TIMEOUT_S=180
LINKER_VERSION=0.5.31

# Guests are built with the compiler chosen here, whatever the caller had set.
unset RUSTC

has_std() { # has_std RUSTC
    local lib
    lib=$("$1" --print target-libdir --target $TARGET 2>/dev/null) && compgen -G "$lib/libstd-*.rlib" >/dev/null
}

print_exports() { # print_exports TARGET-FOLDER [RUSTC]
    printf 'export WINDLASS_GUEST_TARGET_DIR=%q\n' "$ROOT/target/$1"
    if [ $# -gt 1 ]; then printf 'export RUSTC=%q\n' "$2"; else printf 'unset RUSTC\n'; fi
}

# --- rustup -----------------------------------------------------------------------------------------------------------------

add_with_rustup() {
    have rustup || { warn "rustup is not installed"; return 1; }
    say "wasm target: rustup target add $TARGET (at most ${RUSTUP_TIMEOUT_S} s)"
    if have timeout; then
        timeout "$RUSTUP_TIMEOUT_S" rustup target add $TARGET >&2 || { warn "rustup could not add the target"; return 1; }
    else
        rustup target add $TARGET >&2 || { warn "rustup could not add the target"; return 1; }
    fi
    has_std rustc
}

# --- Debian -----------------------------------------------------------------------------------------------------------------

# Prints the compiler of the cached toolchain, if it works.
kept_debian_rustc() {
    local rustc
    for rustc in "$CACHE"/rust-web-*/rustc; do
        if [ -x "$rustc" ] && has_std "$rustc"; then
            link_linker "$(dirname "$rustc")" && printf '%s\n' "$rustc" && return 0
        fi
    done
    return 1
}

# The names of a package's dependencies that match a pattern.
depends_on() {
    apt-cache depends "$1" 2>/dev/null | sed -n 's/^ *|\{0,1\}Depends: *//p' | grep -E "$2" | head -n 1 || true
}

make_debian_toolchain() {
    { have apt-get && have dpkg; } || fail "no $TARGET target: rustup could not add it, and this is no Debian, so its packages cannot stand in." \
        "Give rustup a network connection and run: rustup target add $TARGET"
    have cargo || fail "cargo is missing." "Run scripts/host-tools.sh: it says how to get it."
    apt_offers rustc-web "$(wanted_rust)" || fail "apt has no package rustc-web of Rust $(wanted_rust) or newer, which is the compiler for guests." \
        "Refresh the package list (sudo apt-get update), or give rustup a network connection and run: rustup target add $TARGET"

    local version dir part std llvm packages
    version=$(apt_candidate rustc-web)
    dir=$CACHE/rust-web-${version%%[+~-]*}
    part=$CACHE/making-${dir##*/} # renamed when it works, so that an incomplete one is never used
    std=$(depends_on libstd-rust-web-dev '^libstd-rust-web-[0-9]')
    llvm=$(depends_on "$std" '^libllvm[0-9]')
    packages=(rustc-web libstd-rust-web-dev "$std" "$llvm" rust-web-src wasi-libc)
    # Packages that LLVM needs and a minimal machine may lack.
    for extra in libz3-4 libedit2 libxml2; do
        if apt_offers "$extra"; then packages+=("$extra"); fi
    done
    if ! rustup_linker >/dev/null; then packages+=("lld-${llvm#libllvm}"); fi

    rm -rf "$part" "$dir"
    mkdir -p "$part/debs" "$part/sys"

    say "wasm target: fetching Debian's Rust $version (about 150 MB, cached in $CACHE)"
    (cd "$part/debs" && apt-get download -q "${packages[@]}" >"$part/apt.log" 2>&1) || {
        cat "$part/apt.log" >&2
        fail "apt-get could not download: ${packages[*]}" "If the package list is old: sudo apt-get update"
    }
    local deb
    for deb in "$part"/debs/*.deb; do dpkg -x "$deb" "$part/sys"; done
    rm -rf "$part/debs"

    write_wrapper "$part"
    "$part/rustc" --version >&2 || fail "Debian's rustc does not start (see above)." \
        "A library is missing; installing the compiler brings them all: sudo apt-get install rustc-web"
    link_linker "$part" || fail "no linker for components: rustup's toolchain has none and building one failed (see above)." \
        "Install a Rust toolchain with rustup: it brings wasm-component-ld."

    build_std "$part"
    probe "$part"

    rm -rf "$part/sys/usr/src" "$part/sys/usr/share" "$part/build" "$part/apt.log"
    mv "$part" "$dir"
    say "wasm target: installed in $dir"
}

# A compiler that finds its own libraries wherever the folder is.
write_wrapper() {
    cat >"$1/rustc" <<'WRAPPER'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
for lib in "$here"/sys/usr/lib/*-linux-gnu*; do
    LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH
exec "$here/sys/usr/bin/rustc" "$@"
WRAPPER
    chmod +x "$1/rustc"
}

# The tools folder of the installed rustup toolchain, if it has both linkers.
rustup_linker() {
    local bin
    bin=$(rustc --print sysroot 2>/dev/null)/lib/rustlib/$(rustc -vV 2>/dev/null | sed -n 's/^host: //p')/bin
    [ -x "$bin/wasm-component-ld" ] && [ -x "$bin/rust-lld" ] && printf '%s\n' "$bin"
}

# rustc calls wasm-component-ld, which calls wasm-ld; both are expected next to rustc's own tools. They are links to rustup's,
# or, where there is no rustup, wasm-component-ld built from crates.io and Debian's wasm-ld.
link_linker() {
    local dir=$1 host tools bin lld
    host=$("$dir/rustc" -vV | sed -n 's/^host: //p')
    tools=$dir/sys/usr/lib/rustlib/$host/bin
    mkdir -p "$tools"
    if bin=$(rustup_linker); then
        ln -sfn "$bin/wasm-component-ld" "$tools/wasm-component-ld"
        ln -sfn "$bin/rust-lld" "$tools/wasm-ld"
        return 0
    fi
    if ! [ -x "$dir/bin/wasm-component-ld" ]; then
        say "wasm target: building wasm-component-ld, the linker for components (once, a few minutes)"
        env CARGO_TARGET_DIR="$dir/build/linker" cargo install --quiet --locked --root "$dir" "wasm-component-ld@$LINKER_VERSION" >&2 || return 1
    fi
    lld=$(compgen -G "$dir/sys/usr/lib/llvm-*/bin/wasm-ld" | head -n 1) || lld=$(command -v wasm-ld) || {
        warn "there is no wasm-ld; install Debian's lld"
        return 1
    }
    ln -sfn ../../../../../../bin/wasm-component-ld "$tools/wasm-component-ld"
    case $lld in
    "$dir"/*) ln -sfn "../../../../${lld#"$dir/sys/usr/"}" "$tools/wasm-ld" ;;
    *) ln -sfn "$lld" "$tools/wasm-ld" ;;
    esac
}

# std for the target, built from the packaged sources and installed where the compiler expects it.
build_std() {
    local flags dir=$1 work=$1/build lib=$1/sys/usr/lib/rustlib/$TARGET/lib
    mkdir -p "$work/std/src" "$lib/self-contained"
    : >"$work/std/src/lib.rs"
    printf '[package]\nname = "windlass-std"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n' >"$work/std/Cargo.toml"
    say "wasm target: building std for $TARGET (once, about two minutes)"
    # Bitcode lets a guest's build use link-time optimisation across std. Paths in panic messages contain no folder of this
    # machine.
    flags=-Cembed-bitcode=yes$'\x1f'--remap-path-prefix=$dir/sys/usr/lib/rustlib/src/rust=/rustc
    (cd "$work/std" && env RUSTC="$dir/rustc" RUSTC_BOOTSTRAP=1 CARGO_ENCODED_RUSTFLAGS="$flags" \
        CARGO_TARGET_DIR="$work/target" cargo build --quiet --release -Zbuild-std=std,panic_abort --target $TARGET >&2) ||
        fail "std for $TARGET did not build (see above)." "It needs the crates that std depends on from the package registry: check the network and try again."
    cp "$work/target/$TARGET/release/deps/"*.rlib "$lib/"
    rm -f "$lib"/libwindlass_std-*.rlib
    cp "$dir"/sys/usr/lib/wasm32-wasi/{crt1-command.o,crt1-reactor.o,libc.a} "$lib/self-contained/"
}

# Builds a minimal guest that uses std; a toolchain that cannot build it is removed.
probe() {
    local dir=$1 work=$1/build/probe
    mkdir -p "$work"
    cat >"$work/probe.rs" <<'PROBE'
use std::collections::HashMap;

#[unsafe(no_mangle)]
pub extern "C" fn probe() -> u32 {
    let mut counts = HashMap::new();
    for word in "haul haul pawl".split(' ') {
        *counts.entry(word).or_insert(0) += 1;
    }
    println!("{counts:?} {:?}", std::time::Instant::now());
    counts["haul"]
}
PROBE
    say "wasm target: building a small guest to try it"
    "$dir/rustc" --edition 2024 --crate-type cdylib --target $TARGET -O -o "$work/probe.wasm" "$work/probe.rs" >&2 ||
        fail "the Debian toolchain could not build a small guest (see above)."
}

use_debian() {
    local rustc
    if ! rustc=$(kept_debian_rustc); then
        make_debian_toolchain
        rustc=$(kept_debian_rustc) || fail "the toolchain in $CACHE does not work." "Delete that folder and try again."
    fi
    say "wasm target: using Debian's compiler, $("$rustc" --version)"
    print_exports guests-debian "$rustc"
}

# ----------------------------------------------------------------------------------------------------------------------------

choose() {
    case ${WINDLASS_WASM_TOOLCHAIN:-auto} in
    auto)
        if has_std rustc; then
            print_exports guests
        elif kept_debian_rustc >/dev/null; then
            use_debian
        elif add_with_rustup; then
            print_exports guests
        else
            use_debian
        fi
        ;;
    rustup)
        has_std rustc || add_with_rustup || fail "rustup could not add $TARGET (see above)." \
            "Check the network, or try Debian's packages: WINDLASS_WASM_TOOLCHAIN=debian"
        print_exports guests
        ;;
    debian) use_debian ;;
    *) fail "WINDLASS_WASM_TOOLCHAIN is '$WINDLASS_WASM_TOOLCHAIN'." "It can be auto, rustup or debian." ;;
    esac
}

mkdir -p "$CACHE"
if have flock; then
    exec 9>"$CACHE/wasm-target.lock"
    flock -n 9 || { say "wasm target: another run is setting it up; waiting for it"; flock 9; }
fi
choose
