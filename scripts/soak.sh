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
say "walking the plugin guide in every language"
plugins/build.sh >/dev/null
WINDLASS_ALL_LANGUAGES=1 WINDLASS_BIN="$ROOT/target/debug/windlass" WINDLASS_PLUGINS="$ROOT/target/plugins" \
    cargo test --workspace --test all the_commands_of_the_plugin_guide_work
say "running the simulator"
WINDLASS_SOAK_SECONDS=${SECONDS_TO_RUN:-3600} exec cargo test -p windlass-store --test store simulator -- --nocapture
