#!/usr/bin/env bash
# Checks on the public benchmarks that translated tools keep their providers' rules and that calls of them validate, and
# that `picktools check` finds errors in at most 1 % of the tools of real catalogs.
#
# usage: scripts/check-calls.sh [BENCHMARKS]      (default: ../shared/benchmarks)
# PICKTOOLS names a program to use in place of the one that is built in release.
set -euo pipefail

cd "$(dirname "$0")/.."
benchmarks=${1:-../shared/benchmarks}

if [ ! -d "$benchmarks" ]; then
    echo "CALLS NOT CHECKED ON BENCHMARKS: there is no folder $benchmarks" >&2
    exit 0
fi
if [ -z "${PICKTOOLS:-}" ]; then
    cargo build --release --features picktools-cli/onnx
    PICKTOOLS=target/release/picktools
fi
for set in bfcl seal-tools; do
    python3 scripts/check-calls.py "$benchmarks/$set" "$PICKTOOLS"
done
for set in toolbench bfcl seal-tools; do
    "$PICKTOOLS" check --catalog "$benchmarks/$set" --json | python3 -c '
import json, sys
report, name = json.load(sys.stdin), sys.argv[1]
tools = report["tools"]
errors = {finding["tool"] or finding["position"] for finding in report["findings"] if finding["severity"] == "error"}
share = len(errors) / tools
print(f"{name}: check finds errors in {len(errors)} of {tools} tools ({share:.2%})")
sys.exit(0 if share <= 0.01 else 1)' "$set"
done
