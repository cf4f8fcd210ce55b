#!/usr/bin/env bash
# Runs the deterministic simulator of the engine for as long as one likes: an hour unless SECONDS_TO_RUN says otherwise.
# A failing seed prints the one command that replays it.
#
# usage: scripts/soak.sh
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
scripts/host-tools.sh
WINDLASS_SOAK_SECONDS=${SECONDS_TO_RUN:-3600} exec cargo test -p windlass-store --test store simulator -- --nocapture
