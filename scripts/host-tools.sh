#!/usr/bin/env bash
# Makes sure that the tools that build Windlass itself are installed: a C compiler, curl, cargo, rustfmt, clippy.
#
# usage: scripts/host-tools.sh
#
# It installs what a package manager on this machine can install without asking (apt as root; rustup for rustfmt and clippy).
# It never downloads and runs an installer: if Rust itself is missing and apt has no version that is new enough, it prints the
# command to run. Quiet and quick when nothing is missing. The wasm target for guests is scripts/wasm-target.sh.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

RUSTUP_COMMAND="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"

# need COMMAND PACKAGE...
need() {
    local command=$1
    shift
    have "$command" && return 0
    if is_root && apt_offers "$1"; then
        apt_install "$@"
    fi
    have "$command" || fail "'$command' is missing." "Install it with your package manager; on Debian or Ubuntu: sudo apt-get install $*"
}

need_cargo() {
    local wanted found
    wanted=$(wanted_rust)
    if ! have cargo; then
        if is_root && apt_offers cargo-web "$wanted"; then
            apt_install cargo-web rustc-web rustfmt-web rust-web-clippy libc6-dev
        fi
        have cargo || fail "Rust is missing: there is no cargo on the PATH nor in ~/.cargo/bin." \
            "Install Rust $wanted or newer with this command, then run make again:" "$RUSTUP_COMMAND"
    fi
    found=$(cargo --version 2>&1) || fail "cargo does not run: $found" "With rustup, this usually helps: rustup default stable"
    found=$(printf '%s\n' "$found" | awk '{print $2}')
    if ! version_at_least "$found" "$wanted"; then
        if have rustup; then
            fail "cargo $found is too old: Windlass needs $wanted or newer." "Update it: rustup update stable"
        fi
        fail "cargo $found is too old: Windlass needs $wanted or newer." "Install a newer one: $RUSTUP_COMMAND"
    fi
}

# need_component CARGO-SUBCOMMAND RUSTUP-COMPONENT DEBIAN-PACKAGE
need_component() {
    cargo "$1" --version >/dev/null 2>&1 && return 0
    if have rustup; then
        say "adding $2 (rustup component add $2)"
        rustup component add "$2" >&2 || true
    elif is_root && apt_offers "$3"; then
        apt_install "$3"
    fi
    cargo "$1" --version >/dev/null 2>&1 || fail "'cargo $1' is missing, and 'make test' needs it." \
        "Add it: rustup component add $2"
}

need cc build-essential
need curl curl ca-certificates
need_cargo
need_component fmt rustfmt rustfmt-web
need_component clippy clippy rust-web-clippy
