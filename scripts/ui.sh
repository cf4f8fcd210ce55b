#!/usr/bin/env bash
# Builds the console: installs what ui/package-lock.json names, checks the types, and writes ui/dist, which is committed.
#
# usage: scripts/ui.sh [build|check|watch]
#   build   write ui/dist (the default; this is what `make ui` runs)
#   check   build into a folder of its own, and fail if ui/dist differs by a byte; this is what `make test` runs
#   watch   build at every change, for `windlass serve --ui-dir ui/dist`
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT/ui"

have npm || fail "npm is missing: it builds the console." "Install Node.js 18 or newer. Only those who change ui/ need it: the built console is committed."

# Without scripts of packages: everything that is needed comes as files.
stamp=node_modules/.installed-$(sha256sum package-lock.json | cut -c 1-12)
if [ ! -e "$stamp" ]; then
    say "installing what ui/package-lock.json names (npm)"
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2 || fail "npm could not install what ui/package-lock.json names." "It needs a network connection."
    : >"$stamp"
fi

case ${1:-build} in
build)
    node_modules/.bin/tsc -p .
    node build.mjs
    ;;
check)
    node_modules/.bin/tsc -p .
    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT
    node build.mjs --out "$made/dist"
    diff -r "$made/dist" dist >/dev/null || fail "ui/dist is not what ui/src builds." "Run 'make ui' and commit the result."
    ;;
watch) exec node build.mjs --watch ;;
*) fail "unknown: $1" "usage: scripts/ui.sh [build|check|watch]" ;;
esac
