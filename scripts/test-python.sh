#!/usr/bin/env bash
# Builds the Python package, installs it beside the packages that it is tested with (pinned and digest-checked, from PyPI and
# npm), and runs its tests.
#
# usage: scripts/test-python.sh [PYTEST ARGUMENTS]
set -euo pipefail

cd "$(dirname "$0")/.."
folder=target/python
tests=bindings/python/tests
pins=$(cat "$tests/requirements.txt" "$tests/npm/package-lock.json" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$folder/pins" 2>/dev/null)" != "$pins" ]; then
    for program in node npm python3; do
        command -v "$program" >/dev/null || { echo "error: the tests of the Python package need $program" >&2; exit 1; }
    done
    echo "installing what the Python package is tested with into $folder"
    rm -rf "$folder"
    python3 -m venv "$folder/venv"
    # Every package is pinned, so none is looked for.
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes \
        --requirement "$tests/requirements.txt"
    mkdir "$folder/npm"
    cp "$tests/npm/package.json" "$tests/npm/package-lock.json" "$folder/npm"
    (cd "$folder/npm" && npm ci --ignore-scripts --no-audit --no-fund --silent)
    echo "$pins" >"$folder/pins"
fi

export PATH="$PWD/$folder/venv/bin:$PWD/$folder/npm/node_modules/.bin:$PATH"
pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall ./bindings/python
# From the folder of the tests, so that it is the installed package that is tested.
cd "$tests"
python -m pytest --quiet "$@"
