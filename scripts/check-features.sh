#!/usr/bin/env bash
# Checks that the library builds without a warning with no feature, and with each of its features alone.
set -euo pipefail

cd "$(dirname "$0")/.."
features=$(cargo metadata --no-deps --format-version 1 | python3 -c '
import json, sys
library = next(package for package in json.load(sys.stdin)["packages"] if package["name"] == "picktools")
print(*sorted(set(library["features"]) - {"default"}))')
for feature in "" $features; do
    echo "feature: ${feature:-none}" >&2
    cargo clippy --quiet --release -p picktools --no-default-features --features "$feature" -- -D warnings
done
