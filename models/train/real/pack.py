#!/usr/bin/env python3
"""Writes a pack of examples: requests for tools that are known by a fingerprint of their definition.

    python pack.py TOOLS REQUESTS PACK

TOOLS has one tool a line (`tools.jsonl` of collect.py), and REQUESTS has the form of requests.jsonl. The pack in the program is made by

    python models/train/real/pack.py REAL_DIR/tools.jsonl models/train/real/requests.jsonl crates/models/examples/popular.tsv

PACK contains no definition and no name: only fingerprints, and requests in English that one tool serves. A fingerprint is a digest of the name,
then a digest of the name, the title, the description and the names of the parameters. Equal definitions of several servers share their
requests. Tools with a very short definition are left out, because other servers may have the same one. `src/examples/pack.rs` computes the same fingerprint; its tests compare the two.
"""

import hashlib, json, re, sys

HEADER = "picktools examples 1"
#: The most requests of a tool.
MOST = 8
#: The fewest words of a description and names of parameters together. A shorter definition, such as "Lists users", may be that of any server.
DISTINCT = 5


def one_line(text):
    """Space may differ between versions of a server's language, for example the indentation of a docstring."""
    return " ".join(part for part in re.split("[ \t\n\f\r]+", text) if part)


def fingerprint(tool):
    name = one_line(tool["name"])
    title = tool.get("title") or ""
    title = "" if title == tool["name"] else one_line(title)
    parameters = (tool.get("parameters") or {}).get("properties")
    parameters = sorted(one_line(x) for x in parameters) if isinstance(parameters, dict) else []
    definition = "\n".join([name, title, one_line(tool["description"]), *parameters])
    digest = lambda text: hashlib.sha256(text.encode()).hexdigest()
    return digest(name)[:8] + digest(definition)[:32]


def is_distinct(tool):
    words, parameters = tool["description"].split(), (tool.get("parameters") or {}).get("properties") or {}
    return bool(words) and len(words) + len(parameters) >= DISTINCT


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main(tools, requests, pack):
    fingerprints = {(t["source"], t["name"]): fingerprint(t) if is_distinct(t) else None for t in read(tools)}
    chosen, missing, short = {}, set(), set()
    for request in read(requests):
        if len(request["tools"]) != 1 or request.get("lang", "en") != "en":
            continue
        tool = (request["server"], request["tools"][0])
        if tool not in fingerprints:
            missing.add(tool)
            continue
        if not fingerprints[tool]:
            short.add(tool)
            continue
        text, known = one_line(request["q"]), chosen.setdefault(fingerprints[tool], [])
        if len(known) < MOST and text not in known:
            known.append(text)
    lines = [HEADER] + ["\t".join([key, *chosen[key]]) for key in sorted(chosen)]
    with open(pack, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)
    left_out = f"left out {len(missing)} tools without a definition and {len(short)} with a short one"
    print(f"{sum(map(len, chosen.values()))} requests for {len(chosen)} tools; {left_out}", file=sys.stderr)


main(*sys.argv[1:])
