#!/usr/bin/env bash
# Installs what the tests of the console need: Debian's Chromium, where there is none and this may be done, and what drives
# it, from npm by scripts/browser/package-lock.json. Where there can be no browser the tests go without, and say so.
#
# usage: scripts/fetch-browser.sh [FOLDER]      (default: target/browser)
set -euo pipefail

cd "$(dirname "$0")/.."
folder=${1:-target/browser}
has_browser() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; }

if ! has_browser; then
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        echo "installing Chromium"
        apt-get update --quiet --quiet
        DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --quiet --no-install-recommends \
            chromium fonts-dejavu-core >/dev/null
    fi
    if ! has_browser; then
        echo "NOT TESTED: there is no Chromium and it cannot be installed, so that the console is not tested in a browser" >&2
        exit 0
    fi
fi
pins=$(sha256sum <scripts/browser/package-lock.json | cut -d' ' -f1)
if [ "$(cat "$folder/pins" 2>/dev/null)" = "$pins" ]; then
    exit 0
fi
for program in node npm; do
    command -v "$program" >/dev/null || { echo "error: the tests drive a browser, which needs $program" >&2; exit 1; }
done

echo "installing what drives a browser into $folder"
rm -rf "$folder"
mkdir -p "$folder"
cp scripts/browser/package.json scripts/browser/package-lock.json "$folder"
(cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --silent)
echo "$pins" >"$folder/pins"
