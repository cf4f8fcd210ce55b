#!/usr/bin/env bash
# Checks the workflows of the forge with actionlint, so that a mistake in one is found before it is pushed.
#
# usage: scripts/workflows.sh
#
# actionlint is built once, by Go, into the cache (half a minute).
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

version=1.7.12
folder=$CACHE/actionlint-$version
if [ ! -x "$folder/actionlint" ]; then
    say "building actionlint $version into $folder"
    go=$(go_tool)
    mkdir -p "$folder"
    GOBIN=$folder GOFLAGS=-mod=mod "$go" install "github.com/rhysd/actionlint/cmd/actionlint@v$version" >&2 ||
        fail "go could not install actionlint $version." "It needs a network connection."
fi

"$folder/actionlint" || fail "a workflow in .github/workflows is wrong (see above)."
