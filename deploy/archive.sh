#!/usr/bin/env bash
# Packs a release binary: target/dist/NAME.tar.gz with the program, stripped, and the licences; NAME-symbols.tar.gz with what a
# debugger needs.
#
# usage: deploy/archive.sh BINARY NAME
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"
[ $# -eq 2 ] || fail "usage: deploy/archive.sh BINARY NAME"
binary=$1 name=$2
dist=$ROOT/target/dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dist" "$work/$name" "$work/$name-symbols"

cp "$binary" "$work/$name/windlass"
if [ "$(uname)" = Darwin ]; then
    dsymutil -o "$work/$name-symbols/windlass.dSYM" "$binary"
    strip "$work/$name/windlass"
else
    objcopy --only-keep-debug "$binary" "$work/$name-symbols/windlass.debug"
    objcopy --strip-all --add-gnu-debuglink="$work/$name-symbols/windlass.debug" "$work/$name/windlass"
fi
cp "$ROOT"/LICENSE-* "$ROOT/README.md" "$ROOT/CHANGELOG.md" "$work/$name/"
tar -C "$work" -czf "$dist/$name.tar.gz" "$name"
tar -C "$work" -czf "$dist/$name-symbols.tar.gz" "$name-symbols"
say "$dist/$name.tar.gz ($(wc -c <"$work/$name/windlass") bytes of program)"
