#!/usr/bin/env bash
# Fetches what the tests need and runs all of them, in the dev profile: with overflow checks and debug assertions.
set -euo pipefail

cd "$(dirname "$0")/.."
scripts/fetch-models.sh
scripts/fetch-servers.sh
scripts/fetch-store.sh
scripts/fetch-browser.sh
# Everything but the Python package, with the features that are opt-in.
tests=(cargo test --workspace --exclude picktools-python --features picktools-cli/onnx,picktools-runtime/schemars)
"${tests[@]}" --no-run
# Tests wait more than they work: what they leave of the processors compiles the Python package, from when cargo has found that
# the tests are compiled, and no longer keeps others from the folder.
set -m
(sleep 20; nice -n 19 scripts/test-python.sh --collect-only) >/dev/null 2>&1 &
package=$!
set +m
trap 'kill -- "-$package" 2>/dev/null || true' EXIT
"${tests[@]}"
wait "$package" || true # What went wrong is told below.
scripts/test-python.sh
scripts/check-docs
