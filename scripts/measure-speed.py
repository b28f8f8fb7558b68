#!/usr/bin/env python3
"""Measures a program on the corpora of scripts/make-corpora.py: latency of picks, building an index and its memory, a pick from start to end.

usage: scripts/measure-speed.py [--picktools PROGRAM] [--against OLD | --rival] [--tools N …] [--rounds N] [--only PART] [--record]
       scripts/measure-speed.py --criterion [--record]

    pick/MODE/all/N/p50, p99      µs of a pick out of N tools, over all requests (`picktools eval`)
    pick/MODE/one/N, three/N      the same over the requests of one sentence, and of three
    index/MODE/N/wall, cpu, peak  `picktools index`: s, s of all processors, and MiB at most
    once/MODE/N/wall, cpu         ms of `picktools pick` from start to end, and of all processors

A figure is the best of --rounds, as what else runs on a machine only ever adds to it. MODE is keyword, or hybrid with the static model.

--against OLD   measures another program in turns with this one, round by round, and fails where a figure is more than a quarter worse
                than the other's: what is, is measured as often again first. Run it before a release, with the program of the last one.
--rival         asks ratel-ai-core's BM25 the same requests in turns with picktools, on one processor each, and prints how many times as
                long its median is; builds scripts/scoreboard/ratel where that is not built.
--criterion     takes the medians that `cargo bench` left in target/criterion in place of measuring
--record        adds the figures to benches/history.jsonl, a line each: date, commit, machine, corpus, measure, value, unit, rounds.
                scripts/draw-history.py draws them.
"""

import argparse
import datetime
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scoreboard import INSTALLED, ROOT, Wrong, launched, machine

HISTORY = ROOT / "benches/history.jsonl"
SIZES = [16_000, 100_000]
MODES = ["keyword", "hybrid"]
PARTS = {"all": None, "one": 1, "three": 3}
WORST = 1.25
# Below it a ratio is of noise: a clock's tick, a page more or less.
FLOOR = {"us": 20, "s": 0.05, "MiB": 4, "ms": 5}
# A ranking that finds less than this of what is meant is none, and its time is of something else.
LEAST_FOUND = 0.4


def say(text):
    print(f"speed: {text}", file=sys.stderr, flush=True)


def ran(command):
    """What a program prints, its seconds, those of all processors, and its peak memory in MiB."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - started
        out.seek(0), errors.seek(0)
        if process.returncode:
            told = errors.read().decode(errors="replace").strip()
            raise Wrong(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{told[-2000:]}")
        peak = usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
        return out.read().decode(), wall, usage.ru_utime + usage.ru_stime, peak


class Corpus:
    """One catalog, and the requests by how many sentences they have."""

    def __init__(self, folder, size, work):
        self.size, self.tools = size, folder / f"tools-{size}.jsonl"
        self.requests, self.qrels = folder / "requests.jsonl", folder / "qrels.tsv"
        for path in (self.tools, self.requests, self.qrels):
            if not path.is_file():
                raise Wrong(f"there is no {path}: scripts/make-corpora.py makes it")
        with open(self.tools, "rb") as file:
            self.digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        requests = self.requests.read_text(encoding="utf-8").splitlines(True)
        judged = self.qrels.read_text(encoding="utf-8").splitlines(True)
        self.text, self.asked = json.loads(requests[0])["text"], len(requests)
        self.parts = {}
        for part, sentences in PARTS.items():
            kept = [line for line in requests if sentences in (None, json.loads(line)["sentences"])]
            ids = {json.loads(line)["id"] for line in kept}
            paths = work / f"{part}.jsonl", work / f"{part}.tsv"
            paths[0].write_text("".join(kept), encoding="utf-8")
            paths[1].write_text("".join(line for line in judged if line.split("\t")[0] in ids), encoding="utf-8")
            self.parts[part] = paths


# Each measure runs a program once and returns {name: (value, unit)}.


def picks(program, corpus, mode, part):
    requests, qrels = corpus.parts[part]
    command = [program, "eval", "--catalog", corpus.tools, "--queries", requests, "--qrels", qrels, "--mode", mode, "--json"]
    (told,) = json.loads(ran(command)[0])["sets"].values()
    if told["tools"] != corpus.size or told["measures"]["R@10"] < LEAST_FOUND:
        raise Wrong(f"{program} finds {told['measures']['R@10']:.2f} of what is meant in {told['tools']} tools")
    name = f"pick/{mode}/{part}/{corpus.size}"
    return {f"{name}/{at}": (told["latency_us"][at], "us") for at in ("p50", "p99")}


def index(program, corpus, mode):
    printed, wall, cpu, peak = ran([program, "index", "--catalog", corpus.tools, "--mode", mode])
    if not printed.startswith(f"{corpus.size} tools"):
        raise Wrong(f"{program} index says of {corpus.size} tools: {printed.strip()}")
    name = f"index/{mode}/{corpus.size}"
    return {f"{name}/wall": (wall, "s"), f"{name}/cpu": (cpu, "s"), f"{name}/peak": (peak, "MiB")}


def once(program, corpus, mode):
    printed, wall, cpu, _ = ran([program, "pick", corpus.text, "--catalog", corpus.tools, "--mode", mode, "--json"])
    if not json.loads(printed)["picks"]:
        raise Wrong(f"{program} picks nothing for {corpus.text!r}")
    name = f"once/{mode}/{corpus.size}"
    return {f"{name}/wall": (wall * 1e3, "ms"), f"{name}/cpu": (cpu * 1e3, "ms")}


def measures(corpora, only):
    """(name, what runs it) of all measures whose name has `only` in it."""
    listed = []
    for corpus in corpora:
        for mode in MODES:
            listed += [(f"index/{mode}/{corpus.size}", index, corpus, (mode,)), (f"once/{mode}/{corpus.size}", once, corpus, (mode,))]
            listed += [(f"pick/{mode}/{part}/{corpus.size}", picks, corpus, (mode, part)) for part in PARTS]
    return [each for each in listed if not only or only in each[0]]


def best(before, found):
    """The better of each figure."""
    return {name: min(figure, before.get(name, figure)) for name, figure in found.items()} | {
        name: figure for name, figure in before.items() if name not in found}


def in_turns(programs, measure, rounds):
    """The best figures of each program, who take turns, and turns in being the first."""
    name, run, corpus, arguments = measure
    figures = [{} for _ in programs]
    for turn in range(rounds):
        order = list(range(len(programs)))
        for which in order if turn % 2 == 0 else reversed(order):
            say(f"{name}, round {turn + 1}" + (f", {programs[which]}" if len(programs) > 1 else ""))
            figures[which] = best(figures[which], run(programs[which], corpus, *arguments))
    return figures


def worse(new, old):
    """{name: ratio} of the figures that are more than a quarter worse."""
    return {name: value / old[name][0] for name, (value, unit) in new.items()
            if value > WORST * old[name][0] and value - old[name][0] > FLOOR[unit]}


def compared(new, old, all_measures, rounds):
    """Measures both programs; returns the new one's figures, and what is worse."""
    figures, failed = {}, {}
    for measure in all_measures:
        mine, others = in_turns([new, old], measure, rounds)
        if worse(mine, others):
            say(f"{', '.join(worse(mine, others))}: worse, so measured again")
            again = in_turns([old, new], measure, rounds)
            mine, others = best(mine, again[1]), best(others, again[0])
        failed |= worse(mine, others)
        figures |= mine
        for name, (value, unit) in mine.items():
            print(f"{name:<34} {value:>12,.3f} {unit:<3}  {others[name][0]:>12,.3f}  {value / others[name][0]:.2f}", flush=True)
    return figures, failed


# The rival.


def ratel():
    """The program that asks ratel-ai-core, as scripts/scoreboard.sh builds it."""
    program = INSTALLED / "ratel/release/scoreboard-ratel"
    if not program.is_file():
        say("building scripts/scoreboard/ratel")
        command = ["cargo", "build", "--release", "--locked", "--manifest-path", ROOT / "scripts/scoreboard/ratel/Cargo.toml"]
        subprocess.run([*command, "--target-dir", INSTALLED / "ratel"], check=True)
    return program


def against_rival(program, corpora, rounds, work):
    """Medians of ratel's BM25 and of picktools, in turns on one processor."""
    rival, figures = ratel(), {}
    for corpus in corpora:
        theirs, ours = [], {mode: [] for mode in MODES}
        for turn in range(rounds):
            say(f"{corpus.size} tools, round {turn + 1}")
            run = work / "run"
            seconds = json.loads(launched([rival, corpus.tools, corpus.requests, 10, run], work)[0])["seconds"]
            answered = len({line.split()[0] for line in run.read_text().splitlines()})
            if len(seconds) != corpus.asked or answered < corpus.asked * 0.9:
                raise Wrong(f"{rival} timed {len(seconds)} of {corpus.asked} requests and answered {answered}")
            theirs.append(statistics.median(seconds) * 1e6)
            for mode in MODES:
                command = [program, "eval", "--catalog", corpus.tools, "--queries", corpus.requests, "--qrels", corpus.qrels]
                (told,) = json.loads(launched([*command, "--mode", mode, "--json"], work)[0])["sets"].values()
                ours[mode].append(told["latency_us"]["p50"])
        figures[f"rival/ratel/{corpus.size}/p50"] = (min(theirs), "us")
        print(f"{corpus.size:,} tools: ratel's BM25 {min(theirs):,.0f} us", flush=True)
        for mode, values in ours.items():
            figures[f"rival/{mode}/{corpus.size}/p50"] = (min(values), "us")
            print(f"{corpus.size:,} tools: picktools, {mode} {min(values):,.0f} us, {min(theirs) / min(values):.1f} times as fast", flush=True)
    return figures


def criterion():
    """The medians that cargo bench left, in µs."""
    figures = {}
    for path in sorted((Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "criterion").rglob("new/benchmark.json")):
        estimates = json.loads((path.parent / "estimates.json").read_text())
        name = json.loads(path.read_text())["full_id"]
        figures[f"bench/{name}"] = (estimates["median"]["point_estimate"] / 1e3, "us")
    if not figures:
        raise Wrong("cargo bench has left nothing in target/criterion")
    return figures


# What is kept.


def commit():
    git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def record(figures, corpora, rounds, of_commit):
    digests = {str(corpus.size): corpus.digest for corpus in corpora}
    shared = {"date": datetime.date.today().isoformat(), "commit": of_commit or commit(), "machine": machine()}
    with open(HISTORY, "a", encoding="utf-8") as file:
        for name, (value, unit) in figures.items():
            corpus = next((digests[part] for part in name.split("/") if part in digests), "made by the bench")
            line = {**shared, "corpus": corpus, "measure": name, "value": round(value, 3), "unit": unit, "rounds": rounds}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    say(f"{len(figures)} figures are in {HISTORY.relative_to(ROOT)}")


def chosen():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--picktools", type=Path, default=ROOT / "target/release/picktools", metavar="PROGRAM")
    add("--against", type=Path, metavar="OLD")
    add("--rival", action="store_true")
    add("--criterion", action="store_true")
    add("--corpora", type=Path, default=ROOT / "target/corpora", metavar="DIR")
    add("--tools", type=int, nargs="+", default=SIZES, metavar="N", help="sizes of corpora (default: 16000 100000; 1000000 takes long)")
    add("--rounds", type=int, default=3)
    add("--only", metavar="PART", help="what has this in its name, such as pick/hybrid or 16000")
    add("--record", action="store_true")
    add("--commit", help="what the program was built of (default: what is checked out)")
    given = parser.parse_args()
    for program in (given.picktools, given.against):
        if program and not program.is_file() and not given.criterion:
            raise Wrong(f"there is no program {program}: build it with `cargo build --release`")
    if given.picktools:
        given.picktools = given.picktools.resolve()
    if given.against:
        given.against = given.against.resolve()
    return given


def figures_of(given, corpora, work):
    """What is asked for, and what of it is worse than before."""
    if given.rival:
        return against_rival(given.picktools, corpora, given.rounds, work), {}
    all_measures = measures(corpora, given.only)
    if not all_measures:
        raise Wrong(f"--only {given.only}: no measure has that in its name")
    if given.against:
        return compared(given.picktools, given.against, all_measures, given.rounds)
    figures = {}
    for measure in all_measures:
        (found,) = in_turns([given.picktools], measure, given.rounds)
        figures |= found
        show(found)
    return figures, {}


def show(figures):
    for name, (value, unit) in figures.items():
        print(f"{name:<34} {value:>12,.3f} {unit}", flush=True)


def main():
    given = chosen()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if given.criterion:
            corpora, failed, figures = [], {}, criterion()
            show(figures)
        else:
            if os.getloadavg()[0] > 1:
                say(f"other programs are running (load {os.getloadavg()[0]:.1f}): times will be of a busy machine")
            corpora = [Corpus(given.corpora.resolve(), size, work) for size in given.tools]
            figures, failed = figures_of(given, corpora, work)
        if given.record:
            record(figures, corpora, given.rounds, given.commit)
    if failed:
        raise Wrong("more than a quarter worse: " + ", ".join(f"{name} {ratio:.2f} times" for name, ratio in failed.items()))


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        sys.exit(1)
