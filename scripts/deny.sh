#!/usr/bin/env bash
# Checks the licences, bans and sources of everything that is linked, in all workspaces, against deny.toml.
#
# usage: scripts/deny.sh
#
# cargo-deny is built once, without optimisation, into the cache (about two minutes).
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

deny=$(cargo_tool cargo-deny 0.20.2)

for manifest in Cargo.toml guest-sdk/rust/Cargo.toml guest-sdk/bindgen/Cargo.toml plugins/Cargo.toml tests/guests/rust/Cargo.toml; do
    "$deny" --log-level error --manifest-path "$manifest" --config deny.toml check --hide-inclusion-graph licenses bans sources ||
        fail "$manifest links something that deny.toml does not allow (see above)." "Remove the dependency, or allow it in deny.toml."
done
