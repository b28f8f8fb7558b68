#!/usr/bin/env python3
"""Writes the real servers as evaluation sets for `picktools eval`: real-1 to real-3 (English requests, one fold of servers each) and
real-de, real-fr, ... (requests in one language, servers of all folds).

    python sets.py REAL_DIR OUT      REAL_DIR is the folder that collect.py wrote

A catalog has all tools of its servers. Alternatives count as tools of the request. Servers that no fold leaves out are in no fold set.
"""

import json, os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from real_servers import RealServers, fold_set


def write(out, tools, asked):
    os.makedirs(out, exist_ok=True)
    rows = {
        "tools.jsonl": [json.dumps(t, ensure_ascii=False) for t in tools],
        "queries.jsonl": [json.dumps({"id": f"q{n}", "text": q}, ensure_ascii=False) for n, (q, _) in enumerate(asked)],
        "qrels.tsv": [f"q{n}\t{x}\t1" for n, (_, ids) in enumerate(asked) for x in ids],
    }
    for name, content in rows.items():
        with open(f"{out}/{name}", "w", encoding="utf-8") as f:
            f.writelines(x + "\n" for x in content)


def main(folder, out):
    for n in (1, 2, 3):
        write(f"{out}/real-{n}", *fold_set(folder, n))
    asked = {}
    for lang, q, tools in RealServers(folder).requests():
        if lang != "en":
            asked.setdefault(lang, []).append((q, tools))
    sources = {t["source"] for x in asked.values() for _, tools in x for t in tools}
    catalog = [t for t in RealServers(folder).tools.values() if t["source"] in sources]
    for lang, x in asked.items():
        write(f"{out}/real-{lang}", catalog, [(q, [t["id"] for t in tools]) for q, tools in x])


main(*sys.argv[1:])
