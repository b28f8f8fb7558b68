#!/usr/bin/env bash
# Runs the JSON-Schema-Test-Suite and prints the figures of each draft. The suite is that of the source package
# jsonschema (PyPI, MIT), pinned and digest-checked. Nothing is fetched twice.
#
# usage: scripts/check-json-schema.sh [FOLDER]      (default: target/json-schema-suite)
set -euo pipefail

cd "$(dirname "$0")/.."
folder=${1:-target/json-schema-suite}
version=4.26.0
digest=0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326

if [ "$(cat "$folder/digest" 2>/dev/null)" != "$digest" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
        --dest "$folder" "jsonschema==$version"
    archive="$folder/jsonschema-$version.tar.gz"
    echo "$digest  $archive" | sha256sum --check --quiet
    tar --extract --gzip --file "$archive" --directory "$folder" --strip-components 3 "jsonschema-$version/json/tests"
    rm "$archive"
    echo "$digest" >"$folder/digest"
fi
PICKTOOLS_JSON_SCHEMA_SUITE=$(cd "$folder" && pwd) \
    cargo test --package picktools --test main json_schema_suite -- --ignored --nocapture
