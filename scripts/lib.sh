# shellcheck shell=bash disable=SC2034
# Shared by the scripts in this folder; sourced, never run. Messages are written to stderr, because a script's stdout is its result.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/windlass

say() { printf '==> %s\n' "$*" >&2; }
warn() { printf '    %s\n' "$*" >&2; }

# fail WHAT-IS-WRONG [WHAT-TO-DO ...]: one line each, then exit 1.
fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    if [ $# -gt 0 ]; then printf '       %s\n' "$@" >&2; fi
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

is_root() { [ "$(id -u)" = 0 ]; }

# version_at_least HAVE WANT: both like 1.95 or 1.95.0.
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# The oldest compiler the workspace accepts, as Cargo.toml names it.
wanted_rust() { sed -n 's/^rust-version *= *"\([^"]*\)".*/\1/p' "$ROOT/Cargo.toml" | head -n 1; }

# The version of a package that apt would install; empty if there is none.
apt_candidate() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: *//p' | grep -v '^(none)$' || true
}

# As root, updates apt's package list, once per script: an old list may name packages that are too old or no longer exist.
apt_refresh() {
    if [ -n "${APT_REFRESHED:-}" ] || ! is_root || ! have apt-get; then return 0; fi
    say "refreshing the package list (apt-get update)"
    apt-get update -qq >&2 || warn "that failed; continuing with the existing list"
    APT_REFRESHED=1
}

# apt_offers NAME [VERSION]: true if apt has the package, at least as new as VERSION.
apt_offers() {
    local found
    have apt-cache || return 1
    apt_refresh
    found=$(apt_candidate "$1" | sed 's/^[0-9]*://; s/[+~-].*//')
    [ -n "$found" ] && version_at_least "$found" "${2:-0}"
}

apt_install() {
    say "installing $* (apt-get install)"
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >&2
}

# What pip may install: files with a digest in the lock file, and none that would run a script of its own to be built.
PIP_INSTALL=(install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all:)

# locked_folder NAME FILE...: a folder of the cache named after what these files hold, as `windlass plugin build` names it.
locked_folder() {
    local name=$1
    shift
    printf '%s/%s-%s\n' "$CACHE" "$name" "$(cat "$@" | sha256sum | cut -c 1-12)"
}

# venv_tools NAME LOCK: a Python environment in the cache with what a lock file names, as `windlass plugin build` creates it; prints its
# folder.
venv_tools() {
    local folder
    folder=$(locked_folder "$1" "$2")
    if [ ! -e "$folder/.ready" ]; then
        mkdir -p "$CACHE"
        (
            flock 9
            [ ! -e "$folder/.ready" ] || exit 0
            say "installing what ${2#"$ROOT/"} names into $folder (pip)"
            rm -rf "$folder"
            python3 -m venv "$folder" >&2 || exit 1
            "$folder/bin/python" -m pip "${PIP_INSTALL[@]}" -r "$2" >&2 || exit 1
            : >"$folder/.ready"
        ) 9>"$folder.lock" || fail "pip could not install what ${2#"$ROOT/"} names." "It needs python3 with venv and a network connection."
    fi
    printf '%s\n' "$folder"
}

# cargo_tool NAME VERSION: a program from crates.io, built once, without optimisation, into the cache; prints its path.
cargo_tool() {
    local folder=$CACHE/$1-$2
    if [ ! -x "$folder/bin/$1" ]; then
        say "building $1 $2 into $folder"
        mkdir -p "$folder"
        # A separate target folder: the workspace's would be rebuilt with other features.
        cargo install "$1" --version "$2" --locked --debug --quiet --root "$folder" --target-dir "$folder/target" >&2 ||
            fail "cargo could not install $1 $2." "It needs a network connection."
        rm -rf "$folder/target"
    fi
    printf '%s\n' "$folder/bin/$1"
}

# The Go that builds and tests plugins: the one on the PATH if it is new enough (1.24), otherwise one in the cache.
go_tool() {
    if have go && version_at_least "$(go env GOVERSION | sed 's/^go//')" 1.24; then
        command -v go
    else
        printf '%s/bin/go\n' "$(venv_tools go "$ROOT/guest-sdk/go/requirements.txt")"
    fi
}
