#!/usr/bin/env bash
# Creates docs/demo.svg, the recording in the README: a job resumes from its checkpoint after `kill -9` of the server.
# This is what `make recording` runs.
#
# usage: scripts/record.sh [FILE.svg]
#
# It is a real run: scripts/record.py types the commands into two terminals and draws what they show. The server and its
# data are removed afterwards. The terminal emulator (pyte, from PyPI) is installed once, into ~/.cache/windlass.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

svg=${1:-$ROOT/docs/demo.svg}
windlass=${WINDLASS_BIN:-$ROOT/target/debug/windlass}
plugins=${WINDLASS_PLUGINS:-$ROOT/target/plugins}

have python3 || fail "python3 is missing, which the recording needs." "Install it with your package manager."
have jq || { is_root && apt_offers jq && apt_install jq; } || fail "jq is missing, which the recording uses." \
    "Install it with your package manager."
[ -x "$windlass" ] || (cd "$ROOT" && scripts/host-tools.sh && cargo build --locked --workspace --all-targets)
[ -f "$plugins/digest.wasm" ] || "$ROOT/plugins/build.sh" digest >&2

tools=$(venv_tools record-pyte-0.8.2 pyte==0.8.2)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/work"
# The commands in the recording find these by their plain names.
ln -s "$windlass" "$folder/bin/windlass"
cp "$plugins/digest.wasm" "$folder/work/"

say "recording (about half a minute)"
"$tools/bin/python" "$ROOT/scripts/record.py" "$folder" "$svg"
say "$svg: $(wc -c <"$svg") bytes"
