#!/usr/bin/env bash
# Three gateways before one store, on this machine and without containers: starts a store, publishes a catalog, asks each
# gateway, publishes a change, asks again, ends a gateway, and ends all of it. `--keep` leaves them running until a key is pressed.
#
# usage: scripts/three-gateways.sh [--keep] [CATALOG]      (default: fixtures/catalogs/workplace)
set -euo pipefail

cd "$(dirname "$0")/.."
keep=
if [ "${1:-}" = --keep ]; then keep=1; shift; fi
catalog=${1:-fixtures/catalogs/workplace}
scripts/fetch-store.sh
cargo build --release
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
picktools() { target/release/picktools "$@"; }

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
answers() { # what to run until it succeeds
    for _ in $(seq 100); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done
    echo "error: $* does not answer" >&2
    exit 1
}
ask() { # gateway, request
    curl --silent --fail --max-time 5 "http://$1/v1/pick" --json "{\"query\": \"$2\", \"options\": {\"max_candidates\": 1}}" |
        python3 -c 'import json, sys; picked = json.load(sys.stdin)["picks"]; print(picked[0]["tool"]["id"] if picked else "nothing")'
}

store=$(free_port)
target/store/valkey-server --port "$store" --bind 127.0.0.1 --save "" --appendonly yes --dir "$work" \
    --loadmodule "$PWD/target/store/redisearch.so" >"$work/store.log" 2>&1 &
export PICKTOOLS_STORE=redis://127.0.0.1:$store/0
answers picktools store status --store env
picktools index --catalog "$catalog" --store env

gateways=() pids=()
for number in 1 2 3; do
    address=127.0.0.1:$(free_port)
    mkdir "$work/$number"
    echo '{"mcpServers": {}}' >"$work/$number/servers.json"
    target/release/picktools serve --store env --config "$work/$number/servers.json" --state-dir "$work/$number" --listen "$address" \
        2>"$work/$number/log" &
    pids+=($!) gateways+=("$address")
done
for address in "${gateways[@]}"; do answers curl --silent --fail "http://$address/health"; done
for address in "${gateways[@]}"; do echo "$address picks: $(ask "$address" "book a meeting room")"; done

echo "publishing a change"
cp -r "$catalog" "$work/catalog" 2>/dev/null || { mkdir "$work/catalog"; cp "$catalog" "$work/catalog"; }
echo '[{"name": "water_plants", "description": "Waters the plants of an office", "parameters": {"type": "object"}, "source": "garden"}]' >"$work/garden.json"
picktools index --catalog "$work/catalog" --catalog "$work/garden.json" --store env
sleep 1
for address in "${gateways[@]}"; do echo "$address picks: $(ask "$address" "water the plants")"; done

echo "ending the first gateway"
kill "${pids[0]}"
for address in "${gateways[@]:1}"; do echo "$address picks: $(ask "$address" "water the plants")"; done
if [ -n "$keep" ]; then
    echo "running: ${gateways[*]:1}; press a key to end them"
    read -r -n 1
fi
