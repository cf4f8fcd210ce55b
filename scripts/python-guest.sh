#!/usr/bin/env bash
# Makes sure that Python guests can be built: a Python environment with what guest-sdk/python/requirements.txt names.
#
# usage: scripts/python-guest.sh      prints the path of its interpreter
#
# It is installed once, into the same folder of the cache as that of `windlass plugin build`; nothing else is changed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

if ! have python3; then
    if is_root && apt_offers python3; then apt_install python3 python3-venv >&2; fi
    have python3 || fail "python3 is missing: Python guests are built with it." \
        "Install it with your package manager; on Debian or Ubuntu: sudo apt-get install python3 python3-venv"
fi

folder=$(venv_tools python "$ROOT/guest-sdk/python/requirements.txt")
printf '%s\n' "$folder/bin/python"
