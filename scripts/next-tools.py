#!/usr/bin/env python3
"""Measures what sequences of calls tell of the next tools, by cross-validation over the requests of a benchmark.

Each request with two or more relevant tools becomes a transcript: the user has asked it, and the assistant has called one
of its relevant tools, chosen by seed. The others are to be found. The sequences are the relevant tools of the requests of
the other folds, in the order of the judgments.

usage: scripts/next-tools.py BENCHMARK… [--out DIR] [--picktools FILE [-- OPTION…]] [--sequences-of BENCHMARK]

Writes DIR/SET-FOLD/ with tools.jsonl, queries.jsonl, qrels.tsv and sequences.jsonl, which `picktools eval DIR/SET-FOLD`
reads, with and without `--sequences DIR/SET-FOLD/sequences.jsonl`. With --picktools it runs both, with the options behind
`--`, and prints nDCG@10 and Completeness@10 as means over the requests. Needs Python 3 and nothing else.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MEASURES = ["nDCG@10", "Completeness@10"]


def relevant_tools(folder):
    """The relevant tools of each request."""
    relevant = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, tool, grade = line.split("\t")
        if int(grade) > 0:
            relevant.setdefault(query, []).append(tool)
    return relevant


def make(folder, out, folds, seed, others):
    """Writes the folds of one benchmark, and returns their folders."""
    relevant = relevant_tools(folder)
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines() if line]
    queries = [query for query in queries if len(relevant.get(query["id"], [])) > 1]
    shuffled = queries[:]
    randomly = random.Random(seed)
    randomly.shuffle(shuffled)
    fold_of = {query["id"]: place % folds for place, query in enumerate(shuffled)}
    used = {query["id"]: randomly.choice(relevant[query["id"]]) for query in shuffled}
    foreign = None if others is None else list(relevant_tools(others).values())
    written = []
    for fold in range(folds):
        target = out / f"{folder.name}-{fold + 1}"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / "tools.jsonl", target / "tools.jsonl")
        with open(target / "queries.jsonl", "w", encoding="utf-8") as asked, \
                open(target / "qrels.tsv", "w", encoding="utf-8") as judged:
            for query in (query for query in queries if fold_of[query["id"]] == fold):
                call = {"type": "function", "function": {"name": used[query["id"]], "arguments": "{}"}}
                messages = [{"role": "user", "content": query["text"]},
                            {"role": "assistant", "content": None, "tool_calls": [call]}]
                asked.write(json.dumps({"id": query["id"], "messages": messages}, ensure_ascii=False) + "\n")
                left = (tool for tool in relevant[query["id"]] if tool != used[query["id"]])
                judged.writelines(f"{query['id']}\t{tool}\t1\n" for tool in left)
        tasks = foreign or [relevant[query["id"]] for query in queries if fold_of[query["id"]] != fold]
        with open(target / "sequences.jsonl", "w", encoding="utf-8") as sequences:
            sequences.writelines(json.dumps(tools, ensure_ascii=False) + "\n" for tools in tasks)
        written.append(target)
    return written


def measured(program, folders, options, sequences):
    """Means over the requests of all folds."""
    sums, requests = dict.fromkeys(MEASURES, 0.0), 0
    for folder in folders:
        command = [program, "eval", folder, "--json", *options]
        command += ["--sequences", folder / "sequences.jsonl"] if sequences else []
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        (result,) = json.loads(run.stdout)["sets"].values()
        requests += result["queries"]
        for measure in MEASURES:
            sums[measure] += result["queries"] * result["measures"][measure]
    return requests, [total / requests for total in sums.values()]


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="+", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picktools")
    parser.add_argument("--sequences-of", type=Path)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    arguments, options = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1:]
    if arguments.out is None and arguments.picktools is None:
        parser.error("give --out, --picktools or both")
    with tempfile.TemporaryDirectory() as scratch:
        out = arguments.out or Path(scratch)
        if arguments.picktools:
            print("set\trequests\t" + "\t".join(f"{name} without\twith" for name in MEASURES))
        for benchmark in arguments.benchmarks:
            folders = make(benchmark, out, arguments.folds, arguments.seed, arguments.sequences_of)
            if arguments.picktools:
                requests, without = measured(arguments.picktools, folders, options, False)
                _, with_them = measured(arguments.picktools, folders, options, True)
                figures = (f"{a:.4f}\t{b:.4f}" for a, b in zip(without, with_them))
                print(benchmark.name, requests, *figures, sep="\t", flush=True)


main()
