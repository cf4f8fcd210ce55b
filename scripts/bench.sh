#!/usr/bin/env bash
# Measures Windlass with a release build. QUICK=1 measures a small version of each figure, about a minute for each part.
#
# usage: scripts/bench.sh
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
scripts/host-tools.sh
say "building with optimisations"
cargo build --locked --release -p windlass -p windlass-bench
plugins/build.sh hostile >&2
mkdir -p target/bench
say "measuring the engine; do not use the machine meanwhile"
target/release/windlass-bench engine --dir target/bench ${QUICK:+--quick} "$@"
say "measuring flows"
target/release/windlass-bench flow --dir target/bench ${QUICK:+--quick} "$@"
say "measuring the sandbox"
target/release/windlass-bench guest --dir target/bench ${QUICK:+--quick} "$@"
say "measuring the server over HTTP"
target/release/windlass-bench http --dir target/bench ${QUICK:+--quick} "$@"
say "measuring the languages"
plugins/build.sh test-rust test-go test-c test-python test-js test-ts >&2
target/release/windlass-bench languages ${QUICK:+--quick} target/plugins/test-{rust,go,c,python,js,ts}.wasm
say "measuring the console in a browser"
scripts/console-bench.sh ${QUICK:+--quick}
