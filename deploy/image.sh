#!/usr/bin/env bash
# Builds the container image from a release binary for this machine's architecture.
#
# usage: deploy/image.sh BINARY TAG
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"
[ $# -eq 2 ] || fail "usage: deploy/image.sh BINARY TAG"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$1" "$work/windlass"
if have objcopy; then objcopy --strip-all "$work/windlass"; fi
cp "$ROOT/deploy/Dockerfile" "$work/"
docker build --tag "$2" "$work"
