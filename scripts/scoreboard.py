#!/usr/bin/env python3
"""Ranks benchmark sets with picktools and its rivals, each on each set in a process of its own, scores all runs with one scorer, and
prints a table. Run it through scripts/scoreboard.sh, which installs the rivals.

usage: scripts/scoreboard.py [--quick | --further] [--write] [--only RANKING …] [--resume] [--picktools PROGRAM] [--benchmarks DIR] [--left-out FILE]

Exits with 1 where a run is wrong: a tool that is not in the catalog, one that stands twice, a request that is not asked, a ranking
that finds next to nothing, or a figure of picktools' own that is not the scorer's. What cannot be installed is a row that says so.
"""

import argparse
import datetime
import hashlib
import json
import math
import os
import platform
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "scripts/scoreboard"
INSTALLED = ROOT / "target/scoreboard"
sys.path.insert(0, str(HERE))

import further  # noqa: E402  (scripts/scoreboard/further.py)

TEN = ["metatool", "metatool-multi", "bfcl", "seal-tools", "toolbench"]
TEN += ["toolalpaca", "apibank", "nestful", "mcpproxy-golden", "rotbench-clean"]
WRITTEN = [f"written-{fold}" for fold in range(1, 6)]
WEIGHED = "bfcl"  # where memory is measured
QUICK = ["toolalpaca", "mcpproxy-golden"]
K = 10  # as in scripts/scoreboard/rivals.py
MARKERS = ("<!-- scoreboard -->", "<!-- /scoreboard -->")
# As check-ranking.sh allows: the scorer rounds to four places.
TOLERANCE = 0.0001
# What a ranking reaches with one relevant tool among N, by drawing ten at random, is this by N; below it is no ranking.
AT_RANDOM = sum(1 / math.log2(place + 1) for place in range(1, K + 1))
LIMIT_SECONDS = 3600
# How many programs may run, a ranking included, before times are said to be of a busy machine.
BUSY = 1 + (os.cpu_count() or 1) / 2

# Starts a program on one processor, and writes its peak memory. Its own is small, and so is that of what it starts at first: the
# system counts what a program was before it became another.
LAUNCH = """
import os, signal, sys
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
child = os.spawnvp(os.P_NOWAIT, sys.argv[3], sys.argv[3:])
def stop(*_):
    sys.stderr.write(f"stopped after {sys.argv[2]} seconds")
    os.kill(child, signal.SIGKILL)
signal.signal(signal.SIGALRM, stop)
signal.alarm(int(sys.argv[2]))
_, status, usage = os.wait4(child, 0)
kib = usage.ru_maxrss // 1024 if sys.platform == "darwin" else usage.ru_maxrss
open(sys.argv[1], "w").write(str(kib))
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""
ONE_THREAD = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "RTEN_NUM_THREADS")
} | {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}


class Wrong(Exception):
    """A result that cannot be right."""


class Missing(Exception):
    """A rival that is not installed."""


def say(text):
    print(f"scoreboard: {text}", file=sys.stderr, flush=True)


class Set:
    """A benchmark folder, or a sample of its requests in a folder of its own."""

    def __init__(self, folder, tools=None):
        self.name = folder.name
        self.folder = folder
        self.tools, self.queries, self.qrels = tools or folder / "tools.jsonl", folder / "queries.jsonl", folder / "qrels.tsv"
        for path in (self.tools, self.queries, self.qrels):
            if not path.is_file():
                raise Wrong(f"there is no file {path}")
        self.tool_ids = self.ids(self.tools)
        self.query_ids = self.ids(self.queries)

    @staticmethod
    def ids(path):
        with open(path, encoding="utf-8") as lines:
            return [json.loads(line)["id"] for line in lines]

    def sample(self, count, work):
        """The same catalog with some of the requests, drawn by a fixed seed."""
        if len(self.query_ids) <= count:
            return self
        chosen = set(random.Random(0).sample(self.query_ids, count))
        folder = work / "sample" / self.name
        folder.mkdir(parents=True, exist_ok=True)
        queries = self.queries.read_text(encoding="utf-8").splitlines(True)
        (folder / "queries.jsonl").write_text("".join(line for line in queries if json.loads(line)["id"] in chosen), encoding="utf-8")
        judged = self.qrels.read_text(encoding="utf-8").splitlines(True)
        (folder / "qrels.tsv").write_text("".join(line for line in judged if line.split("\t")[0] in chosen), encoding="utf-8")
        return Set(folder, self.tools)


def launched(command, work, environment=None):
    """What a program prints, and its peak memory in KiB."""
    peak = work / "peak"
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCH, str(peak), str(LIMIT_SECONDS), *map(str, command)]
    started = subprocess.Popen(
        launcher, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
        env={**os.environ, **ONE_THREAD, **(environment or {})},
    )
    try:
        printed, errors = started.communicate()
    except BaseException:
        os.killpg(started.pid, signal.SIGKILL)
        raise
    if started.returncode:
        raise Wrong(f"{' '.join(map(str, command))} failed:\n{errors.strip()[-2000:]}")
    return printed, int(peak.read_text())


def reason(name):
    """Why a rival is not there, in one line."""
    try:
        lines = (INSTALLED / name / "failed").read_text(encoding="utf-8").strip().splitlines()
    except OSError:
        lines = []
    errors = [line for line in lines if line.lower().startswith("error")] or lines[-1:]
    return errors[0].strip()[:120] if errors else "scripts/scoreboard.sh has not installed it"


class PythonRival:
    """A package with an adapter in rivals.py. Of catalogs with more than `above` tools it is asked a sample of the requests."""

    def __init__(self, key, title, weights=None, sample=None, above=10_000):
        self.key, self.title, self.weights, self.sample, self.above, self.version = key, title, weights, sample, above, None

    def check(self):
        if not (INSTALLED / self.key / "pins").is_file():
            raise Missing(reason(self.key))
        if self.weights and not (INSTALLED / "weights" / self.weights).is_dir():
            raise Missing(f"its weights, {self.weights}, could not be fetched")
        pins = (HERE / f"requirements/{self.key}.txt").read_text(encoding="utf-8")
        self.version = re.search(rf"^{self.key}==(\S+)", pins, re.MULTILINE)[1]

    def made_of(self):
        return [HERE / "rivals.py", HERE / f"requirements/{self.key}.txt"]

    def rank(self, each, run, work):
        command = [INSTALLED / self.key / "venv/bin/python", HERE / "rivals.py", self.key, each.tools, each.queries, run]
        # What memory is measured on is embedded anew.
        vectors = "" if each.name == WEIGHED else str(INSTALLED / "vectors")
        printed, peak = launched(command, work, {"SCOREBOARD_WEIGHTS": str(INSTALLED / "weights"), "SCOREBOARD_VECTORS": vectors})
        told = json.loads(printed.splitlines()[-1])
        if told["version"] != self.version:
            raise Wrong(f"{self.key} {told['version']} is installed, and pinned is {self.version}")
        return timed(told["seconds"], each), peak

    def download(self):
        files = list((INSTALLED / self.key / "wheels").iterdir())
        files += (INSTALLED / "weights" / self.weights).iterdir() if self.weights else []
        return sum(file.stat().st_size for file in files)


class Ratel:
    title, sample = "ratel-ai-core {version}, BM25 (Rust)", None
    key = "ratel"
    program = INSTALLED / "ratel/release/scoreboard-ratel"

    def check(self):
        if not self.program.is_file():
            raise Missing(reason("ratel"))
        lock = (HERE / "ratel/Cargo.lock").read_text(encoding="utf-8")
        self.version = re.search(r'name = "ratel-ai-core"\nversion = "(.*)"', lock)[1]

    def made_of(self):
        return [HERE / "ratel/src/main.rs", HERE / "ratel/Cargo.lock"]

    def rank(self, each, run, work):
        printed, peak = launched([self.program, each.tools, each.queries, K, run], work)
        return timed(json.loads(printed)["seconds"], each), peak

    def download(self):
        """The crates that it depends on here, as the registry has them."""
        command = ["cargo", "tree", "--locked", "--prefix", "none", "--edges", "normal,build", "--format", "{p}"]
        listed = subprocess.run([*command, "--manifest-path", HERE / "ratel/Cargo.toml"], capture_output=True, text=True, check=True)
        crates = {tuple(line.split()[:2]) for line in listed.stdout.splitlines() if "(/" not in line and line}
        cache = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry/cache"
        total = 0
        for name, version in crates:
            found = list(cache.glob(f"*/{name}-{version[1:]}.crate"))
            if not found:
                raise Wrong(f"the crate {name} {version} is not in {cache}")
            total += found[0].stat().st_size
        return total


class Picktools:
    sample, version = None, None

    def __init__(self, key, title, options, program):
        self.key, self.title, self.options, self.program = key, title, options, program

    def check(self):
        if not self.program.is_file():
            raise Wrong(f"there is no program {self.program}: build it with `cargo build --release`, or name it with --picktools")

    def made_of(self):
        return [self.program]

    def rank(self, each, run, work):
        self.own = None
        if (each.folder / "skills").is_dir():
            launch = lambda command: launched(command, work)
            return None, further.pick_skills(launch, self.program, self.options, each.folder, run, K)
        # A cache of its own, as the others embed the catalog each time, too.
        with tempfile.TemporaryDirectory(dir=work) as folder:
            out = ["--json", "--run-out", folder, "--cache-dir", f"{folder}/cache"]
            printed, peak = launched([self.program, "eval", each.folder, *out, *self.options], work)
            os.replace(f"{folder}/{each.name}.trec", run)
        self.own = json.loads(printed)["sets"][each.name]
        return self.own["latency_us"]["p50"] / 1e6, peak

    def agrees(self, each, figures):
        for name, theirs in figures.items():
            ours = self.own["measures"].get(name.replace("S@", "Success@").replace("C@", "Completeness@"))
            if ours is not None and abs(ours - theirs) > TOLERANCE:
                raise Wrong(f"{self.title} says of {each.name} that {name} is {ours:.5f}, and the scorer {theirs:.5f}")

    def download(self):
        return self.program.stat().st_size


def rivals(program):
    return [
        Ratel(),
        PythonRival("fastmcp", "fastmcp {version}, BM25SearchTransform", sample=200),
        PythonRival("dehydrator", "dehydrator {version}, ToolIndex"),
        PythonRival("rank-bm25", "rank-bm25 {version}, BM25Okapi"),
        PythonRival("llama-index-retrievers-bm25", "llama-index-retrievers-bm25 {version}, BM25Retriever"),
        PythonRival("graph-tool-call", "graph-tool-call {version}, ToolGraph", sample=200, above=1_000),
        PythonRival("model2vec", "model2vec {version}, potion-base-8M", weights="potion-base-8M"),
        PythonRival("fastembed", "fastembed {version}, all-MiniLM-L6-v2 (int8)", weights="minilm"),
        PythonRival("langgraph-bigtool", "langgraph-bigtool {version}, MiniLM", weights="minilm", sample=200),
        PythonRival("litellm", "litellm {version}, semantic tool filter, MiniLM", weights="minilm", sample=200, above=1_000),
        PythonRival("semantic-router", "semantic-router {version}, IndexedRouter, MiniLM", weights="minilm", sample=200),
        Picktools("keyword", "picktools, keyword", ["--mode", "keyword"], program),
        Picktools("default", "picktools, hybrid (the default)", [], program),
        Picktools("tuned", "picktools, hybrid with the tuned model", ["--model", "tuned"], program),
    ]


def digest(paths):
    """One digest of files, in their order."""
    total = hashlib.sha256()
    for path in paths:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def timed(seconds, each):
    if len(seconds) != len(each.query_ids):
        raise Wrong(f"{len(seconds)} requests of {each.name} were timed, and there are {len(each.query_ids)}")
    return statistics.median(seconds)


def scored(each, run, scorer):
    """The scorer's figures of a run, once it is sure that it is a run of this set."""
    tools, queries, seen = set(each.tool_ids), set(each.query_ids), {}
    for number, line in enumerate(run.read_text(encoding="utf-8").splitlines(), 1):
        parts = line.split()
        query, tool = parts[0], " ".join(parts[2:-3])
        if query not in queries or tool not in tools:
            raise Wrong(f"{run}, line {number}: {query} and {tool} are not both of {each.name}")
        answers = seen.setdefault(query, [])
        if tool in answers or int(parts[-3]) != len(answers) + 1 or len(answers) == K:
            raise Wrong(f"{run}, line {number}: {tool} stands twice, at a wrong rank, or after {K} others")
        answers.append(tool)
    command = [sys.executable, str(scorer), str(run), str(each.qrels)]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    # Keywords find nothing in a script that no tool has.
    least = 0 if each.name in further.LANGUAGES else AT_RANDOM / len(tools)
    if not all(0 <= figure <= 1 for figure in figures.values()) or figures["nDCG@10"] < least:
        raise Wrong(f"{run}: these are figures of no ranking: {figures}")
    return figures


def made_of(rival, sets):
    return digest([*rival.made_of(), *(path for each in sets for path in (each.tools, each.queries, each.qrels))])


def stored(path):
    """Rows that an earlier run left."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else {}
    except (ValueError, KeyError) as error:
        raise Wrong(f"{path} is no file of this program's figures ({error!r}): remove it") from error


def earlier(rivals, sets, rows, path):
    """Rows of an earlier run, which must be whole, and of the same sets, programs and pins."""
    for rival in rivals:
        row = rows.get(rival.key)
        if row and "missing" not in row:
            rival.check()
            why = "of other sets, another program or other pins" if row.get("of") != made_of(rival, sets) else None
            why = why or ("in part only" if len(row["sets"]) < len(sets) else None)
            if why:
                raise Wrong(f"{path} has {row['title']} {why}: name {rival.key} with --only, too, with --resume to go on with it")
    return {rival.key: rows[rival.key] for rival in rivals if rival.key in rows}


def measure(rival, sets, scorer, work, before):
    """Asks a rival all sets that are not in its row of before, if that is of the same; yields the row as it grows."""
    row = {"title": rival.title, "sets": {}}
    try:
        rival.check()
    except Missing as missing:
        row |= {"title": rival.title.replace(" {version}", ""), "missing": str(missing)}
        say(f"{row['title']}: {missing}")
        yield row
        return
    row |= {"title": rival.title.format(version=rival.version), "download": rival.download(), "of": made_of(rival, sets)}
    row |= {"machine": machine(), "date": datetime.date.today().isoformat(), "busy": False}
    if before and before.get("of") == row["of"] and before.get("machine") == row["machine"]:
        row |= {"sets": before["sets"], "busy": before.get("busy", False)}
        yield row
    for whole in (each for each in sets if each.name not in row["sets"]):
        # Only where there are very many tools and requests of minutes each would come of it.
        each = whole.sample(rival.sample, work) if rival.sample and len(whole.tool_ids) > rival.above else whole
        if os.getloadavg()[0] > BUSY and not row["busy"]:
            say("the machine has other work, too, and so times are longer than they should be")
            row["busy"] = True
        started = time.monotonic()
        run = INSTALLED / f"runs/{rival.key}-{whole.name}.trec"
        p50, peak = rival.rank(each, run, work)
        figures = scored(each, run, scorer)
        if isinstance(rival, Picktools) and rival.own:
            rival.agrees(each, figures)
        row["sets"][whole.name] = {"measures": figures, "p50": p50, "peak": peak, "asked": len(each.query_ids)}
        told = f"nDCG@10 {figures['nDCG@10']:.4f}, {peak / 1024:.0f} MiB" + (f", p50 {milliseconds(p50)} ms" if p50 else "")
        say(f"{row['title']}: {whole.name}, {told}, took {time.monotonic() - started:.0f} s")
        yield row


LEFT_OUT = {"keyword": "keyword", "default": "keyword, static", "tuned": "keyword, static, model"}


def left_out(path):
    """Figures on left-out folds by ranking and set, out of what models/train/fusion/fit.py prints."""
    if path is None:
        python = INSTALLED / "fit/venv/bin/python"
        if not (INSTALLED / "fit/pins").is_file():
            say(f"no figures on left-out folds: numpy and scipy are not installed ({reason('fit')})")
            return {}
        say("fitting the fusion without the fold that is scored: a few minutes")
        command = [python, ROOT / "models/train/fusion/fit.py", *LEFT_OUT.values()]
        text = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    else:
        text = path.read_text(encoding="utf-8")
    figures, ranking = {}, None
    for line in text.splitlines():
        if ", left out: nDCG@10, R@5, Success@1, complete in 10" in line:
            ranking = figures.setdefault(line.split(", left out:")[0], {})
        elif ranking is not None and (row := re.match(r"(\S+)\s+((?:\d\.\d{4} ?)+)$", line)):
            ranking[row[1]] = dict(zip(("nDCG@10", "R@5", "S@1", "C@10"), map(float, row[2].split())))
    found = {key: figures.get(name, {}) for key, name in LEFT_OUT.items()}
    for key, rows in found.items():
        if absent := [name for name in TEN + WRITTEN if name not in rows]:
            what = f"no left-out figures of {LEFT_OUT[key]!r} on {', '.join(absent)}"
            raise Wrong(f"there are {what}: give what models/train/fusion/fit.py prints")
    return found


def milliseconds(seconds):
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def mean(rows, names, measure):
    return statistics.mean(rows[name]["measures"][measure] if "measures" in rows[name] else rows[name][measure] for name in names)


def columns(sets):
    """Title, and what stands in a row of figures that is complete."""
    names = [each.name for each in sets]
    sizes = {each.name: len(each.tool_ids) for each in sets}
    ten, written = [n for n in names if n in TEN], [n for n in names if n in WRITTEN]
    groups = [("", ten, ("nDCG@10", "S@1", "C@10")), (", other words", written, ("nDCG@10", "S@1"))]
    spelt = {"nDCG@10": "nDCG@10", "S@1": "Success@1", "C@10": "complete in 10"}
    quality = [(spelt[m] + what, group, m) for what, group, measures in groups if group for m in measures]
    timed = [n for n in ("metatool", "bfcl", "toolbench") if n in names] or names
    return quality, [(n, f"p50, {sizes[n]:,} tools") for n in timed], WEIGHED if WEIGHED in names else names[0]


def table(rows, sets, lefts):
    quality, timed, weighed = columns(sets)
    size = next(len(each.tool_ids) for each in sets if each.name == weighed)
    heads = ["ranking", *(title for title, _, _ in quality), *(title for _, title in timed)]
    heads += [f"memory, {size:,} tools", "download"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for key, row in rows.items():
        if "missing" in row:
            lines.append(f"| {row['title']} | not installed: {row['missing'].replace('|', '/')} |" + " |" * (len(heads) - 2))
            continue
        cells = []
        for _, group, name in quality:
            if key != "tuned":
                cells.append(f"{mean(row['sets'], group, name):.3f}")
            elif lefts:
                cells.append(f"{mean(lefts[key], group, name):.3f} †")
            else:
                cells.append(f"({mean(row['sets'], group, name):.3f}: trained on these)")
        cells += [f"{milliseconds(row['sets'][n]['p50'])} ms" for n, _ in timed]
        cells += [f"{row['sets'][weighed]['peak'] / 1024:.0f} MiB", f"{row['download'] / 1e6:.0f} MB"]
        if key in ("keyword", "default", "tuned"):
            cells = [f"**{cell}**" for cell in cells]
            row = {**row, "title": f"**{row['title']}**"}
        lines.append(f"| {row['title']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def notes(rows, sets, lefts):
    """What must be known to read the table."""
    quality, _, _ = columns(sets)
    said = lambda key, figures: ", ".join(f"{mean(figures, group, name):.3f}" for _, group, name in quality) if key in rows else ""
    text = []
    chosen = "whose fusion constants (a dozen numbers) are fitted on these sets, and whose keyword ranking was chosen by looking at them"
    if lefts and "tuned" in rows:
        text.append(
            "† Figures on left-out folds (`models/train/fusion/fit.py`): model and constants of a set's figure never saw its fold (the "
            "ten best, not chosen as a set). The program's own tuned model was trained on all of these sets, and its figures there "
            f"({said('tuned', rows['tuned']['sets'])}) say nothing of other tools. Keyword and default are the program's, {chosen}; "
            f"left out they have {said('keyword', lefts['keyword'])} and {said('default', lefts['default'])}."
        )
    elif "tuned" in rows:
        text.append(
            "The tuned model was trained on these sets, and so its figures in brackets say nothing of other tools; the other two of "
            f"picktools are the program's, {chosen}."
        )
    text.append("The rivals have seen none of these sets, as far as their packages tell.")
    sampled = {(row["title"], name): figures["asked"] for row in rows.values() for name, figures in row["sets"].items()
               if figures["asked"] < next(len(s.query_ids) for s in sets if s.name == name)}
    text += [f"{title} is asked {asked} requests of {name}, drawn by a fixed seed." for (title, name), asked in sampled.items()]
    if busy := [row["title"] for row in rows.values() if row.get("busy")]:
        which = "all rows" if len(busy) == len(rows) else "; ".join(busy)
        text.append(f"The machine had other work, too, so that times are longer than they should be ({which}).")
    when = sorted({f"{row['machine']}, {row['date']}" for row in rows.values() if "missing" not in row})
    text.append(
        "Ten picks a request, each ranking on one processor and in a process of its own. p50 of picktools is with evidence and reasons. "
        "Memory is the peak, reading and indexing included. The download is what pip or cargo fetches for a rival here (wheels or crates, "
        "and weights), and picktools' program file. Rivals that take texts get the name in words, the description, and the names and "
        "descriptions of parameters. "
        f"{'; '.join(when)}; `scripts/scoreboard.sh`."
    )
    return " ".join(text)


def machine():
    try:
        model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):
        model = platform.processor() or platform.machine()
    return f"{platform.system()}, {os.cpu_count()} processors ({model.strip()})"


def by_set(rows, sets, lefts):
    """nDCG@10 of each set, for docs/results.md."""
    present = {key: row for key, row in rows.items() if "missing" not in row}
    trained = " †" if lefts else " (trained on these)"
    heads = [row["title"] + (trained if key == "tuned" else "") for key, row in present.items()]
    lines = ["| set | " + " | ".join(heads) + " |", "|---" * (len(present) + 1) + "|"]
    for each in sets:
        figures = [mean(lefts[key] if lefts and key == "tuned" else row["sets"], [each.name], "nDCG@10") for key, row in present.items()]
        lines.append(f"| {each.name} | " + " | ".join(f"{figure:.4f}" for figure in figures) + " |")
    return "\n".join(lines)


def into(path, text):
    """Puts the table between the markers of a page."""
    page = path.read_text(encoding="utf-8")
    first, last = (page.find(marker) for marker in MARKERS)
    if not 0 <= first < last or page.count(MARKERS[0]) != 1 or page.count(MARKERS[1]) != 1:
        raise Wrong(f"{path} has not one {MARKERS[0]} with one {MARKERS[1]} behind it")
    page = page[: first + len(MARKERS[0])] + f"\n{text}\n" + page[last:]
    draft = path.with_suffix(".md.new")
    draft.write_text(page, encoding="utf-8")
    os.replace(draft, path)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\nusage")[0])
    add = parser.add_argument
    add("--quick", action="store_true", help=f"only {' and '.join(QUICK)}")
    add("--further", action="store_true", help="real servers, languages and skills instead of the ten sets; prints nDCG@10 of each")
    add("--write", action="store_true", help="put the table into docs/comparison.md, between its markers")
    add("--only", metavar="RANKING", nargs="+",
        help="ask only these (ratel, fastmcp, …, tuned); the other rows are those of an earlier run, in --out")
    add("--resume", action="store_true", help="go on with a run that was stopped: what stands in --out, of the same sets and programs, stays")
    add("--picktools", type=Path, default=ROOT / "target/release/picktools", help="the program (default: target/release/picktools)")
    add("--benchmarks", type=Path, default=ROOT / "../shared/benchmarks", help="default: ../shared/benchmarks")
    add("--scorer", type=Path, help="default: ../bin/score.py of the benchmarks")
    add("--written", type=Path, help="what writes the folds of written servers (default: ../bin/written_sets.py of the benchmarks)")
    add("--left-out", type=Path, help="what models/train/fusion/fit.py printed (default: it is run, but for --quick)")
    add("--out", type=Path, help="all figures as JSON (default: target/scoreboard/results.json, with --quick quick.json, with --further further.json)")
    chosen = parser.parse_args()
    if chosen.write and (chosen.quick or chosen.further):
        parser.error("--write wants the whole table: leave out --quick and --further")
    chosen.picktools = chosen.picktools.resolve()
    chosen.out = chosen.out or INSTALLED / ("quick.json" if chosen.quick else "further.json" if chosen.further else "results.json")
    chosen.benchmarks = chosen.benchmarks.resolve()
    chosen.scorer = chosen.scorer or chosen.benchmarks / "../bin/score.py"
    chosen.written = chosen.written or chosen.benchmarks / "../bin/written_sets.py"
    for path in (chosen.benchmarks, chosen.scorer, *([] if chosen.quick or chosen.further else [chosen.written])):
        if not path.exists():
            raise Wrong(f"there is no {path}: name what does not lie beside the repository with --benchmarks, --scorer and --written")
    return chosen


def figures_of(chosen, all_rivals, work):
    """The sets, the rows, and the figures on left-out folds; what is measured is kept as it comes."""
    if chosen.further:
        sets = [Set(folder) for folder in further.folders(chosen.benchmarks, INSTALLED / "skills", work)]
    else:
        sets = [Set(chosen.benchmarks / name) for name in (QUICK if chosen.quick else TEN)]
    if not (chosen.quick or chosen.further):
        subprocess.run([sys.executable, str(chosen.written), str(work)], check=True)
        sets += [Set(work / name) for name in WRITTEN]
    again = [rival for rival in all_rivals if not chosen.only or rival.key in chosen.only]
    before = stored(chosen.out) if chosen.only or chosen.resume else {}
    known = earlier([rival for rival in all_rivals if rival not in again], sets, before, chosen.out)
    for rival in again:
        if isinstance(rival, Picktools):
            rival.check()  # before an hour of others
    wants = "tuned" in known or any(rival.key == "tuned" for rival in again)
    lefts = left_out(chosen.left_out) if wants and (chosen.left_out or not (chosen.quick or chosen.further)) else {}
    rows = known
    for rival in again:
        for known[rival.key] in measure(rival, sets, chosen.scorer, work, before.get(rival.key) if chosen.resume else None):
            rows = {rival.key: known[rival.key] for rival in all_rivals if rival.key in known}
            unasked = {key: row for key, row in before.items() if key not in rows}
            chosen.out.write_text(json.dumps({"rows": {**rows, **unasked}, "left_out": lefts}, indent=1), encoding="utf-8")
    return sets, rows, lefts


def main():
    chosen = arguments()
    for name in ("runs", "vectors"):
        (INSTALLED / name).mkdir(parents=True, exist_ok=True)
    all_rivals = rivals(chosen.picktools)
    if unknown := set(chosen.only or ()) - {rival.key for rival in all_rivals}:
        raise Wrong(f"--only {' '.join(unknown)}: there are {', '.join(rival.key for rival in all_rivals)}")
    with tempfile.TemporaryDirectory() as folder:
        sets, rows, lefts = figures_of(chosen, all_rivals, Path(folder))
    if chosen.write and len(rows) < len(all_rivals):
        raise Wrong("--write wants the whole table: leave out --only once")
    if chosen.further:
        print(further.table({key: row for key, row in rows.items() if "missing" not in row}))
        return
    text = f"{table(rows, sets, lefts)}\n\n{notes(rows, sets, lefts)}"
    print(f"{text}\n\n{by_set(rows, sets, lefts)}")
    if chosen.write:
        into(ROOT / "docs/comparison.md", f"\n{text}\n")
        say("the table is in docs/comparison.md")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except Wrong as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        sys.exit(1)
