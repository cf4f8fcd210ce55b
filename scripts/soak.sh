#!/usr/bin/env bash
# Tests the API against its description, compares two large trees through a crash, then runs the deterministic simulator of the engine
# for an hour, or for SECONDS_TO_RUN (and the API for a quarter of that before).
# A failing seed prints the command that replays it. Last, the rules in core and about a hundred random places of the engine are
# changed one at a time, to see whether the tests notice: scripts/mutants.sh. SHARD=0/20 takes a sample of both.
#
# usage: scripts/soak.sh
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
scripts/host-tools.sh
say "testing the API against its description"
cargo build --locked --workspace --all-targets
scripts/schemathesis.sh "$ROOT/target/debug/windlass" 200 $((${SECONDS_TO_RUN:-3600} / 4))
say "comparing two trees of 200,000 files, through a crash"
plugins/build.sh tree-diff >/dev/null
WINDLASS_TREE_FILES=210000 WINDLASS_BIN="$ROOT/target/debug/windlass" WINDLASS_PLUGINS="$ROOT/target/plugins" \
    cargo test --workspace --all-targets -- a_large_tree_is_compared --nocapture
say "running the simulator"
WINDLASS_SOAK_SECONDS=${SECONDS_TO_RUN:-3600} cargo test -p windlass-store --test store simulator -- --nocapture
scripts/mutants.sh
PACKAGE=windlass-store SHARD=${SHARD:-$((RANDOM % 26))/26} exec scripts/mutants.sh
