"""Makes benchmark sets that differ only in the servers of their tools.

    scripts/make-source-sets.py SET... OUT [--requests long.dev.jsonl]

For each set it writes four: SET as it is, SET-one with all tools in one source, SET-unequal with sources of 1 to about 40 tools
(some are joined and get longer descriptions, some are cut into pieces), and SET-unequal-one. With --requests, the requests
of that file for the set (`catalog`) replace those of the set. `picktools eval OUT/*` compares them.
"""

import argparse, json, random, shutil
from collections import defaultdict
from pathlib import Path


def load(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]


def write(folder, tools, queries, judgements):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, rows in ("tools", tools), ("queries", queries):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "qrels.tsv").write_text("".join("\t".join(row) + "\n" for row in judgements), encoding="utf-8")


def unequal(tools):
    rng, by_source, out = random.Random(5), defaultdict(list), {}
    for tool in tools:
        by_source[tool.get("source", "")].append(tool)
    names = sorted(by_source)
    rng.shuffle(names)
    while names:
        draw = rng.random()
        if draw < 0.3:
            joined = [names.pop() for _ in range(min(len(names), rng.randint(2, 4)))]
            out |= {tool["id"]: longer(tool, "-".join(joined[:2])) for name in joined for tool in by_source[name]}
        elif draw < 0.7:
            name, part = names.pop(), 0
            rest = rng.sample(by_source[name], len(by_source[name]))
            while rest:
                piece, rest = rest[: (size := rng.randint(1, 3))], rest[size:]
                out |= {tool["id"]: {**tool, "source": f"{name}-{part}"} for tool in piece}
                part += 1
        else:
            out |= {tool["id"]: tool for tool in by_source[names.pop()]}
    return [out[tool["id"]] for tool in tools]


def longer(tool, source):
    arguments = (tool.get("parameters") or {}).get("properties") or {}
    said = "; ".join(f"{name}: {schema.get('description', '')}" for name, schema in arguments.items())
    about = f" Use this tool whenever the user wants to work with {source.replace('-', ' ')}. Arguments: {said}"
    return {**tool, "source": source, "description": tool.get("description", "") + about}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--requests", type=Path)
    args = parser.parse_args()
    for folder in args.sets:
        tools, queries = load(folder / "tools.jsonl"), load(folder / "queries.jsonl")
        judgements = [line.split("\t") for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()]
        if args.requests:
            rows = [row for row in load(args.requests) if row["catalog"] == folder.name]
            queries = [{"id": row["id"], "text": row["text"]} for row in rows]
            judgements = [[row["id"], tool, "1"] for row in rows for tool in row["tools"]]
        for name, variant in (folder.name, tools), (f"{folder.name}-unequal", unequal(tools)):
            write(args.out / name, variant, queries, judgements)
            write(args.out / f"{name}-one", [{**tool, "source": "all"} for tool in variant], queries, judgements)


main()
