#!/usr/bin/env bash
# Fetches what the tests need and runs all of them.
set -euo pipefail

cd "$(dirname "$0")/.."
scripts/fetch-models.sh
scripts/fetch-servers.sh
scripts/fetch-store.sh
scripts/fetch-browser.sh
cargo test --release
scripts/test-python.sh
