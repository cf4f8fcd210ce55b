#!/usr/bin/env bash
# Makes sure that JavaScript guests can be built and tested: node, and the tools that guest-sdk/js/tools/package-lock.json names.
#
# usage: scripts/js-guest.sh      prints the folder with the tools, for WINDLASS_TOOLS
#
# They are installed once, into the same folder of the cache as those of `windlass plugin build`; nothing else is changed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

OLDEST_NODE=20.6

if ! have node || ! have npm; then
    if is_root && apt_offers nodejs "$OLDEST_NODE"; then apt_install nodejs npm >&2; fi
    { have node && have npm; } || fail "node or npm is missing: JavaScript guests are built with them." \
        "Install Node.js $OLDEST_NODE or newer: https://nodejs.org, or on Debian or Ubuntu: sudo apt-get install nodejs npm"
fi
version_at_least "$(node --version | sed 's/^v//')" "$OLDEST_NODE" ||
    fail "node $(node --version) is too old." "Install Node.js $OLDEST_NODE or newer: https://nodejs.org"

wanted=("$ROOT/guest-sdk/js/tools/package.json" "$ROOT/guest-sdk/js/tools/package-lock.json")
folder=$(locked_folder js "${wanted[@]}")
mkdir -p "$CACHE"
exec 9>"$folder.lock"
flock 9
if ! [ -e "$folder/.ready" ]; then
    say "installing the JavaScript tools into $folder (npm, once)"
    rm -rf "$folder"
    mkdir -p "$folder"
    cp "${wanted[@]}" "$folder/"
    # Only what has the digest in the lock file, and no scripts of packages.
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2) ||
        fail "npm could not install them (see above)." "Check the network, then run this again."
    : >"$folder/.ready"
fi
printf '%s\n' "$folder"
