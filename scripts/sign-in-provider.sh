#!/usr/bin/env bash
# Installs the OpenID Connect provider of the end-to-end tests: what tests/e2e/provider/package-lock.json names.
#
# usage: scripts/sign-in-provider.sh
#
# `make test` runs it, and so do the tests that need it. Quick when nothing is missing.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT/tests/e2e/provider"

for tool in node npm; do
    have "$tool" || fail "$tool is missing: it runs the OpenID Connect provider that sign-in is tested against." \
        "Install Node.js 20 or newer; on Debian or Ubuntu: sudo apt-get install nodejs npm"
done
version=$(node --version)
version_at_least "${version#v}" 20 || fail "Node.js $version is too old for the OpenID Connect provider that sign-in is tested against." \
    "Install Node.js 20 or newer."

# Without scripts of packages: everything that is needed comes as files.
stamp=node_modules/.installed-$(sha256sum package-lock.json | cut -c 1-12)
if [ ! -e "$stamp" ]; then
    say "installing what tests/e2e/provider/package-lock.json names (npm)"
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2 ||
        fail "npm could not install what tests/e2e/provider/package-lock.json names." "It needs a network connection."
    : >"$stamp"
fi
