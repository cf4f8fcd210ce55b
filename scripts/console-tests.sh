#!/usr/bin/env bash
# Tests the console with a real browser against the real server: see tests/console/.
#
# usage: scripts/console-tests.sh [FILE.test.mjs...]     all of them when none is named
#
# WINDLASS_BIN and WINDLASS_PLUGINS name the server and its plugins (default: those of target/); WINDLASS_UI_DIR serves the console from
# a folder instead of from the binary. It installs Chromium where it can do so without asking (apt as root), and says in words what is
# missing where it cannot.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

have npm || fail "npm is missing: the console is tested with a browser that it drives." "Install Node.js 20 or newer."
node=$(node --version | sed 's/^v//')
version_at_least "$node" 20 || fail "Node.js $node is too old to run the tests of the console." "Install Node.js 20 or newer."

have_browser() { have chromium || have chromium-browser || have google-chrome-stable || have google-chrome; }
if ! have_browser && is_root && apt_offers chromium; then apt_install chromium fonts-dejavu-core; fi
have_browser || fail "Chromium is missing, and the console cannot be tested without a browser." \
    "Install it with your package manager; on Debian: sudo apt-get install chromium"

export WINDLASS_BIN=${WINDLASS_BIN:-$ROOT/target/debug/windlass} WINDLASS_PLUGINS=${WINDLASS_PLUGINS:-$ROOT/target/plugins}
[ -x "$WINDLASS_BIN" ] || fail "there is no server to test at $WINDLASS_BIN." "Build it: cargo build -p windlass"

cd tests/console
# Without scripts of packages: playwright-core brings no browser, and axe-core is one file.
stamp=node_modules/.installed-$(sha256sum package-lock.json | cut -c 1-12)
if [ ! -e "$stamp" ]; then
    say "installing what tests/console/package-lock.json names (npm)"
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2 ||
        fail "npm could not install what tests/console/package-lock.json names." "It needs a network connection."
    : >"$stamp"
fi

files=("$@")
[ ${#files[@]} -gt 0 ] || files=(*.test.mjs)
exec node --test --test-concurrency=2 --test-reporter=./lib/reporter.mjs "${files[@]}"
