#!/usr/bin/env bash
# Tries the API against its description, then runs the deterministic simulator of the engine, for as long as one likes: an hour
# unless SECONDS_TO_RUN says otherwise (and a quarter of that before, for the API).
# A failing seed prints the one command that replays it.
#
# usage: scripts/soak.sh
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
scripts/host-tools.sh
say "trying the API against its description"
cargo build --workspace --all-targets
scripts/schemathesis.sh "$ROOT/target/debug/windlass" 200 $((${SECONDS_TO_RUN:-3600} / 4))
say "running the simulator"
WINDLASS_SOAK_SECONDS=${SECONDS_TO_RUN:-3600} exec cargo test -p windlass-store --test store simulator -- --nocapture
