#!/usr/bin/env bash
# Checks with the vendors' own Python packages that what goes back to a model for its calls is what their APIs take.
#
# usage: scripts/check-results.sh
#
# Fetches the packages into target/vendors, once.
set -euo pipefail

cd "$(dirname "$0")/.."
packages=(openai==3.54.0 anthropic==2.12.0 google-genai==3.4.0 ollama==0.6.3 mcp==2.3.0)

if ! target/vendors/bin/python -c 'import openai, anthropic, google.genai, ollama, mcp' 2>/dev/null; then
    python3 -m venv target/vendors
    target/vendors/bin/pip install --quiet "${packages[@]}"
fi
cargo build --release
target/vendors/bin/python scripts/check-results.py target/release/picktools
