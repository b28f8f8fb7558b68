#!/usr/bin/env python3
"""Measures picktools from Python: beside other rankings in Python, and beside the program, on the same sets in one run.

usage: target/python/venv/bin/python scripts/measure-python.py [--picktools PROGRAM] SET…

A SET is a folder of tools.jsonl, queries.jsonl and qrels.tsv. Of each ranking: the mean of nDCG@10, the seconds that
preparing takes, and the median of µs of a request (ten tools, evidence included, one thread). `scripts/test-python.sh`
installs what it needs.

The second table is of the same requests with the same options by `picktools eval`, in turns with Python; the least of the
rounds' medians counts. The third: requests a second of one thread and of four.
"""

import argparse
import importlib.metadata
import json
import math
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import picktools

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/scoreboard"))
from rivals import K, RIVALS  # noqa: E402

ROUNDS = 5


class Picktools:
    package = "picktools"

    def __init__(self, model):
        self.model = model

    def prepare(self, tools):
        self.engine = picktools.Engine(picktools.Catalog.from_tools(tools), self.model)

    def rank(self, query, k):
        return [pick.tool.id for pick in self.engine.pick(query, k, min_score=0.0)]


def read(path):
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def judgments(path):
    judged = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        query, tool, grade = line.split("\t")[-3:]
        if grade.lstrip("-").isdigit():
            judged.setdefault(query, {})[tool] = int(grade)
    return judged


def ndcg(ranking, judged):
    gain = lambda grades: sum((2**max(g, 0) - 1) / math.log2(place + 2) for place, g in enumerate(grades[:K]))
    return gain([judged.get(tool, 0) for tool in ranking]) / gain(sorted(judged.values(), reverse=True))


def measure(ranking, folder):
    """nDCG@10, seconds of preparing, and µs of a request."""
    tools, queries, judged = read(folder / "tools.jsonl"), read(folder / "queries.jsonl"), judgments(folder / "qrels.tsv")
    started = time.perf_counter()
    ranking.prepare(tools)
    prepared, seconds, scores = time.perf_counter() - started, [], []
    for query in queries:
        started = time.perf_counter()
        found = ranking.rank(query["text"], K)
        seconds.append(time.perf_counter() - started)
        if any(grade > 0 for grade in judged.get(query["id"], {}).values()):
            scores.append(ndcg(found, judged[query["id"]]))
    return statistics.mean(scores), prepared, statistics.median(seconds) * 1e6


def beside_rivals(sets):
    rankings = [("picktools {}, static", lambda: Picktools("static")), ("picktools {}, tuned", lambda: Picktools("tuned"))]
    rankings += [(f"{name} {{}}", RIVALS[name]) for name in ("fastmcp", "dehydrator", "rank-bm25")]
    print("| ranking | nDCG@10 | preparing, s | a request, µs |\n|---|---|---|---|")
    for title, make in rankings:
        rows = [measure(make(), folder) for folder in sets]
        score, prepared, request = (statistics.mean(column) for column in zip(*rows))
        version = importlib.metadata.version(make().package)
        print(f"| {title.format(version)} | {score:.3f} | {prepared:.2f} | {request:,.0f} |", flush=True)


def beside_the_program(program, sets):
    print("\n| set | tools | the program, µs | Python, µs | more, µs |\n|---|---|---|---|---|")
    for folder in sets:
        engine = picktools.Engine(picktools.Catalog.open(folder / "tools.jsonl"))
        queries = [query["text"] for query in read(folder / "queries.jsonl")]
        ours, theirs = [], []
        for _ in range(ROUNDS):
            told = subprocess.run([program, "eval", folder, "--json"], capture_output=True, check=True).stdout
            (report,) = json.loads(told)["sets"].values()
            theirs.append(report["latency_us"]["p50"])
            seconds = []
            for query in queries:
                started = time.perf_counter()
                engine.pick(query, K, min_score=0.0)
                seconds.append(time.perf_counter() - started)
            ours.append(statistics.median(seconds) * 1e6)
        row = (min(theirs), min(ours), min(ours) - min(theirs))
        print(f"| {folder.name} | {len(engine.catalog):,} | " + " | ".join(f"{each:.0f}" for each in row) + " |", flush=True)


def threads(folder):
    engine = picktools.Engine(picktools.Catalog.open(folder / "tools.jsonl"))
    queries = [query["text"] for query in read(folder / "queries.jsonl")]
    queries *= math.ceil(2_000 / len(queries))

    def rate(count):
        started = time.perf_counter()
        work = [threading.Thread(target=lambda: [engine.pick(query) for query in queries]) for _ in range(count)]
        [thread.start() for thread in work]
        [thread.join() for thread in work]
        return count * len(queries) / (time.perf_counter() - started)

    pairs = [(rate(1), rate(4)) for _ in range(ROUNDS)]
    ratios = [four / one for one, four in pairs]
    one, four = (max(column) for column in zip(*pairs))
    print(f"\n{folder.name}: {one:,.0f} requests a second by one thread, {four:,.0f} by four;", end=" ")
    print(f"{statistics.median(ratios):.2f} times as many (median of {ROUNDS})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picktools", type=Path, default=ROOT / "target/release/picktools", help="the program")
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET")
    given = parser.parse_args()
    beside_rivals(given.sets)
    beside_the_program(given.picktools, given.sets)
    threads(given.sets[0])


if __name__ == "__main__":
    main()
