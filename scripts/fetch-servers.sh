#!/usr/bin/env bash
# Installs the MCP servers that the tests start, pinned and digest-checked: from npm by scripts/servers/package-lock.json,
# from PyPI by scripts/servers/requirements.txt. Nothing is installed twice.
#
# usage: scripts/fetch-servers.sh [FOLDER]      (default: target/servers)
set -euo pipefail

cd "$(dirname "$0")/.."
folder=${1:-target/servers}
pins=$(cat scripts/servers/package-lock.json scripts/servers/requirements.txt | sha256sum | cut -d' ' -f1)
if [ "$(cat "$folder/pins" 2>/dev/null)" = "$pins" ]; then
    exit 0
fi
for program in node npm python3; do
    command -v "$program" >/dev/null || { echo "error: the tests start MCP servers, which need $program" >&2; exit 1; }
done

echo "installing MCP servers into $folder"
rm -rf "$folder"
mkdir -p "$folder/npm"
cp scripts/servers/package.json scripts/servers/package-lock.json "$folder/npm"
(cd "$folder/npm" && npm ci --ignore-scripts --no-audit --no-fund --silent)
python3 -m venv "$folder/python"
# Every package is pinned, so none is looked for: pip would take the newest of what one asks for with an extra.
"$folder/python/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --requirement scripts/servers/requirements.txt
"$folder/python/bin/pip" --disable-pip-version-check check >&2
echo "$pins" >"$folder/pins"
