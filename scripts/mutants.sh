#!/usr/bin/env bash
# Changes the rules in runtime/core one at a time and counts how many of the changes its unit tests notice.
#
# usage: scripts/mutants.sh [FILE...]     (paths or globs; without any, the whole crate)
#
# Fails when fewer than 90 of 100 are caught (LEAST=85: another limit). Those that were missed are listed in
# target/mutants.out/missed.txt: each is a rule without a test, or code that makes no difference and can be removed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

VERSION=27.1.0
folder=$CACHE/cargo-mutants-$VERSION

if [ ! -x "$folder/bin/cargo-mutants" ]; then
    say "building cargo-mutants $VERSION into $folder"
    mkdir -p "$folder"
    cargo install cargo-mutants --version "$VERSION" --locked --debug --quiet --root "$folder" --target-dir "$folder/target" ||
        fail "cargo could not install cargo-mutants $VERSION." "It needs a network connection."
    rm -rf "$folder/target"
fi

files=()
for file in "$@"; do files+=(--file "$file"); done

say "changing the rules of core one at a time"
# Exit codes 2 and 3 mean that some changes were missed or ended in an endless loop, which the check below decides on.
"$folder/bin/cargo-mutants" mutants --package windlass-core --output target --jobs 2 --no-shuffle --colors never "${files[@]}" || [ $? -le 3 ]
out=target/mutants.out
missed=$(wc -l <"$out/missed.txt")
caught=$(cat "$out/caught.txt" "$out/timeout.txt" | wc -l)
[ $((caught + missed)) -gt 0 ] || fail "no change was tried." "Do the files exist? $*"
share=$((100 * caught / (caught + missed)))
say "$caught of $((caught + missed)) changes were caught ($share %); the others are in $out/missed.txt"
[ "$share" -ge "${LEAST:-90}" ] || fail "fewer than ${LEAST:-90} % of the changes were caught." "Add tests for those in $out/missed.txt."
