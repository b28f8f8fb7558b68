"""Holds rules for what examples add against each other, on signals of the program: what `src/retrieve/examples.rs` does, in NumPy,
but that it compares requests whole, where the program does so sentence by sentence.

usage: python pool.py WORK SET=TABLE[,SET=TABLE…] "[(share, many, spread, weight, most), …]"

WORK/sets/SET is what split.py writes, and TABLE a static model that has not seen the set. WORK/signals/SET/tools and WORK/signals/SET/examples are
what `picktools eval --model TABLE --signals-out` writes for the tools and for the examples, these as a catalog that has one tool `·` for each line of
pairs.tsv, with the request as its description, the id `eN` (N is the line, from 0) and the source `sN`. WORK/weights.json has weights of
src/fuse/fits.rs: {"keyword": [own, source], "static": [own, source], "softening": S}.
"""
import collections, json, math, os, pathlib, sys

import numpy as np

TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [TRAIN, os.path.join(TRAIN, "static")]
from common import split_words
from static_ref import Static


def load(work, name, table):
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
    model, texts = Static(table), {}
    for tool in map(json.loads, open(sets / "examples.jsonl", encoding="utf-8")):
        texts[tool["id"]] = f"{' '.join(split_words(tool['name']))}: {tool['description']}"
    sums = np.zeros((len(tools), model.d))
    np.add.at(sums, owners, [model.vector(pairs[int(document[1:])][0], False) for document in documents])
    own = np.array([model.vector(texts[tool], True) for tool in tools])
    return arrays, of_examples, owners, [grades[query] for query in queries], own, sums


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
    arrays, of_examples, owners, grades, own, sums = data
    tools, total = len(own), 0.0
    counts = np.bincount(owners, minlength=tools)
    if rule:
        share, many, spread, weight, most = rule
        each = weight * np.minimum(1, most / np.maximum(counts, 1))
        lengths = np.linalg.norm(own + each[:, None] * sums, axis=1)
    for query, wanted in enumerate(grades):
        signals = {name: arrays[name][query].astype(float) for name in ("keyword", "static")}
        if rule:
            words, cosines = (of_examples[name][query].astype(float) for name in ("keyword", "static"))
            signals["keyword"] += share * np.maximum(0, pooled(words, owners, tools, spread, many) - signals["keyword"])
            centre = (signals["static"] + each * np.bincount(owners, cosines, tools)) / lengths
            signals["static"] = np.where(counts > 0, np.maximum(signals["static"], centre), signals["static"])
        soft, value = 1 / (1 + weights["softening"] * signals["keyword"].max()), np.zeros(tools)
        for name, signal in signals.items():
            of_own, source = weights[name]
            of_sources = arrays.get(f"{name}-sources")
            part = of_own * signal + (source * of_sources[query] if of_sources is not None else 0)
            value += part if name == "keyword" else soft * part
        total += ndcg(value, wanted)
    return total / len(grades)


if __name__ == "__main__":
    work, rules = pathlib.Path(sys.argv[1]), eval(sys.argv[3])
    weights = json.load(open(work / "weights.json"))
    sets = {name: load(work, name, table) for name, table in (x.split("=") for x in sys.argv[2].split(","))}
    for rule in [None, *rules]:
        print(rule, {name: round(mean(data, weights, rule), 4) for name, data in sets.items()}, flush=True)
