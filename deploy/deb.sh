#!/usr/bin/env bash
# Creates a Debian package of a release binary: target/dist/windlass_VERSION_ARCH.deb with the program and a systemd service that runs
# as its own user. The service is installed but not started.
#
# usage: deploy/deb.sh BINARY VERSION ARCH     (ARCH as in Debian: amd64, arm64)
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"
[ $# -eq 3 ] || fail "usage: deploy/deb.sh BINARY VERSION ARCH"
binary=$1 version=$2 arch=$3
dist=$ROOT/target/dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dist" "$work/DEBIAN"
chmod 755 "$work"

install -D -m 755 "$binary" "$work/usr/bin/windlass"
if have objcopy; then objcopy --strip-all "$work/usr/bin/windlass"; fi
install -D -m 644 "$ROOT/deploy/windlass.service" "$work/usr/lib/systemd/system/windlass.service"
install -D -m 644 "$ROOT/LICENSE-APACHE" "$work/usr/share/doc/windlass/LICENSE-APACHE"
install -D -m 644 "$ROOT/LICENSE-MIT" "$work/usr/share/doc/windlass/copyright"

cat >"$work/DEBIAN/control" <<TEXT
Package: windlass
Version: $version
Architecture: $arch
Maintainer: Windlass maintainers <maintainers@windlass.invalid>
Depends: libc6 (>= 2.34), libgcc-s1, ca-certificates
Section: admin
Priority: optional
Description: durable background jobs with sandboxed WebAssembly handlers
 One program that stores jobs on disk, schedules them, and runs their
 handlers, WebAssembly components, in a sandbox.
TEXT
cat >"$work/DEBIAN/postinst" <<'TEXT'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    echo "windlass is installed. Start it with: systemctl enable --now windlass"
fi
TEXT
chmod 755 "$work/DEBIAN/postinst"
dpkg-deb --root-owner-group --build "$work" "$dist/windlass_${version}_$arch.deb" >&2
