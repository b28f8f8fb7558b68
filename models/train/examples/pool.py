"""Holds rules for pooling examples against each other, on signals of the program: what `src/retrieve/examples.rs` does, in NumPy.

usage: python pool.py WORK keyword,static|keyword,static,model SET[,SET…] "[(share, many, keyword spread, static spread, model spread), …]"

WORK/sets/SET is what split.py writes. WORK/signals/SET/tools and WORK/signals/SET/examples are what `picktools eval --signals-out` writes
for the tools and for the examples, these as a catalog that has one tool `·` for each line of pairs.tsv, with the request as its
description, the id `eN` (N is the line, from 0) and the source `sN`. WORK/weights.json has the weights of src/fuse/fits.rs:
{"keyword,static": {"keyword": [own, source], "static": [own, source], "softening": S}, …}.
"""
import collections, json, math, pathlib, sys

import numpy as np


def load(work, name):
    signals, sets = work / "signals" / name, work / "sets" / name
    tools, queries = json.load(open(signals / "tools/ids.json"))
    documents, _ = json.load(open(signals / "examples/ids.json"))
    places = {tool: place for place, tool in enumerate(tools)}
    pairs = [line.rstrip("\n").split("\t") for line in open(sets / "pairs.tsv", encoding="utf-8")]
    grades = collections.defaultdict(dict)
    for line in open(sets / "qrels.tsv", encoding="utf-8"):
        query, tool, grade = line.rstrip("\n").split("\t")
        grades[query][places[tool]] = int(grade)
    arrays = {path.stem: np.load(path) for path in (signals / "tools").glob("*.npy")}
    of_examples = {path.stem: np.load(path) for path in (signals / "examples").glob("*.npy")}
    owners = np.array([places[pairs[int(document[1:])][1]] for document in documents])
    return arrays, of_examples, owners, [grades[query] for query in queries], len(tools)


def ndcg(values, grades):
    top = np.argsort(-values, kind="stable")[:10]
    gain = lambda grades: sum((2**grade - 1) / math.log2(place + 2) for place, grade in enumerate(grades))
    best = gain(sorted(grades.values(), reverse=True)[:10])
    return gain([grades.get(int(tool), 0) for tool in top]) / best if best else 0.0


def pooled(scores, owners, tools, spread, many):
    best = np.full(tools, -np.inf)
    np.maximum.at(best, owners, scores)
    sums, counts = np.zeros(tools), np.bincount(owners, minlength=tools)
    np.add.at(sums, owners, np.exp((scores - best[owners]) / spread))
    has = counts > 0
    best[has] += spread * np.log(sums[has] / ((1 + counts[has] / many) / (1 + 1 / many)))
    return best


def mean(data, weights, rule):
    arrays, of_examples, owners, grades, tools = data
    total = 0.0
    for query, wanted in enumerate(grades):
        signals = {name: arrays[name][query].astype(float) for name in weights if name != "softening"}
        if rule:
            share, many, *spreads = rule
            for name, spread in zip(("keyword", "static", "model"), spreads):
                if name in signals:
                    raised = pooled(of_examples[name][query].astype(float), owners, tools, spread, many)
                    signals[name] += share * np.maximum(0, raised - signals[name])
        soft, value = 1 / (1 + weights["softening"] * signals["keyword"].max()), np.zeros(tools)
        for name, signal in signals.items():
            own, source = weights[name]
            of_sources = arrays.get(f"{name}-sources")
            part = own * signal + (source * of_sources[query] if of_sources is not None else 0)
            value += part if name == "keyword" else soft * part
        total += ndcg(value, wanted)
    return total / len(grades)


if __name__ == "__main__":
    work, combination, names, rules = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(","), eval(sys.argv[4])
    weights = json.load(open(work / "weights.json"))[combination]
    sets = {name: load(work, name) for name in names}
    for rule in [None, *rules]:
        print(rule, {name: round(mean(data, weights, rule), 4) for name, data in sets.items()}, flush=True)
