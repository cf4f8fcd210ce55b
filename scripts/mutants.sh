#!/usr/bin/env bash
# Changes the code in one place at a time and counts how many of the changes the tests notice: the rules in runtime/core by
# core's unit tests, or the engine in runtime/store by its conformance suite and its simulator.
#
# usage: scripts/mutants.sh [FILE...]     (paths or globs; without any, the whole crate)
#
#   PACKAGE=windlass-store   the engine instead of the rules; its simulator runs WINDLASS_SEEDS seeds (200) for each change
#   SHARD=3/20               a sample, where time is short: every twentieth change, beginning with the fourth (0/20 to 19/20)
#   LEAST=85                 fails when fewer than 85 of 100 are caught (90 unless set)
#
# The changes that were missed are listed in target/mutants/PACKAGE/mutants.out/missed.txt: each is a rule without a test, or code
# that makes no difference and can be removed. Those that are accepted are in .cargo/mutants.toml, with the reason.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

mutants=$(cargo_tool cargo-mutants 27.1.0)

package=${PACKAGE:-windlass-core}
case $package in
    windlass-core) tests=(--cargo-arg=--lib) ;;
    windlass-store)
        tests=(--cargo-arg=--test=store)
        export WINDLASS_SEEDS=${WINDLASS_SEEDS:-200}
        ;;
    *) fail "there are no tests to judge changes of $package by." "Use PACKAGE=windlass-core or PACKAGE=windlass-store." ;;
esac

which=()
for file in "$@"; do which+=(--file "$file"); done
if [ -n "${SHARD:-}" ]; then which+=(--sharding round-robin --shard "$SHARD"); fi

say "changing $package in one place at a time${SHARD:+ (sample $SHARD)}"
place=target/mutants/$package
mkdir -p "$place"
# Nobody reads a backtrace of these builds, and without debug information they link faster.
export CARGO_PROFILE_DEV_DEBUG=none
# Exit codes 2 and 3 mean that some changes were missed or ended in an endless loop, which the check below decides on.
"$mutants" mutants --package "$package" --output "$place" --jobs 2 --no-shuffle --colors never \
    "${which[@]}" "${tests[@]}" || [ $? -le 3 ]
out=$place/mutants.out
missed=$(wc -l <"$out/missed.txt")
caught=$(cat "$out/caught.txt" "$out/timeout.txt" | wc -l)
[ $((caught + missed)) -gt 0 ] || fail "no change was tried." "Do the files exist? $*"
share=$((100 * caught / (caught + missed)))
say "$caught of $((caught + missed)) changes were caught ($share %); the others are in $out/missed.txt"
[ "$share" -ge "${LEAST:-90}" ] || fail "fewer than ${LEAST:-90} % of the changes were caught." "Add tests for those in $out/missed.txt."
