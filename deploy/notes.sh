#!/usr/bin/env bash
# Prints the notes of a release: the section of CHANGELOG.md with this version, without its heading.
#
# usage: deploy/notes.sh VERSION
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"
[ $# -eq 1 ] || fail "usage: deploy/notes.sh VERSION"

notes=$(awk -v heading="## [$1]" '
    index($0, "## ") == 1 { inside = index($0, heading) == 1; next }
    index($0, "[") == 1 && /^\[[^]]*\]: / { next }
    inside
' "$ROOT/CHANGELOG.md")
[ -n "$notes" ] || fail "CHANGELOG.md has no section for $1." "Rename the section [Unreleased] to [$1] in the commit that is tagged."
printf '%s\n' "$notes"
