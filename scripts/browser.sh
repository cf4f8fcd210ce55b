# shellcheck shell=bash
# Makes sure that there is a browser, and what drives it; sourced by the scripts that need one, in the project's root, after lib.sh.
# It installs Chromium where it can do so without asking (apt as root), and says in words what is missing where it cannot.

have npm || fail "npm is missing: the console is tested with a browser that it drives." "Install Node.js 20 or newer."
version_at_least "$(node --version | sed 's/^v//')" 20 ||
    fail "Node.js $(node --version) is too old to drive a browser." "Install Node.js 20 or newer."

have_browser() { have chromium || have chromium-browser || have google-chrome-stable || have google-chrome; }
if ! have_browser && is_root && apt_offers chromium; then apt_install chromium fonts-dejavu-core; fi
have_browser || fail "Chromium is missing, and the console cannot be tested without a browser." \
    "Install it with your package manager; on Debian: sudo apt-get install chromium"

# Without scripts of packages: playwright-core brings no browser, and axe-core is one file.
_stamp=tests/console/node_modules/.installed-$(sha256sum tests/console/package-lock.json | cut -c 1-12)
if [ ! -e "$_stamp" ]; then
    say "installing what tests/console/package-lock.json names (npm)"
    (cd tests/console && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2) ||
        fail "npm could not install what tests/console/package-lock.json names." "It needs a network connection."
    : >"$_stamp"
fi
unset _stamp
