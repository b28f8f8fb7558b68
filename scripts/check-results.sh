#!/usr/bin/env bash
# Checks with the vendors' own Python packages that what goes back to a model for its calls is what their APIs take.
#
# usage: scripts/check-results.sh
#
# Installs the packages into target/vendors, once: pinned with all that they need, and digest-checked. The list is made with
# `uv pip compile --universal --python-version 3.11 --generate-hashes scripts/vendors/requirements.in`.
set -euo pipefail

cd "$(dirname "$0")/.."
folder=target/vendors
pins=$(sha256sum <scripts/vendors/requirements.txt | cut -d' ' -f1)

if [ "$(cat "$folder/pins" 2>/dev/null)" != "$pins" ]; then
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes \
        --requirement scripts/vendors/requirements.txt
    "$folder/bin/pip" --disable-pip-version-check check >&2
    echo "$pins" >"$folder/pins"
fi
cargo build --release
"$folder/bin/python" scripts/check-results.py target/release/picktools
