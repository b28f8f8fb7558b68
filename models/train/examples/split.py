"""Halves sets of requests: one half becomes examples of the tools that answer it, the other is left to be scored.

usage: python split.py OUT N SET…

For each folder SET with tools.jsonl, queries.jsonl and qrels.tsv it writes to OUT/NAME

- queries.jsonl and qrels.tsv: the requests to be scored, those whose id has an even SHA-256;
- pairs.tsv: the others, as lines `request TAB tool`, at most N a tool, in the order of the set (for `picktools learn`);
- poison.tsv: 1,000 of the others, drawn by a seed, each as a request for one and the same tool;
- examples.jsonl: the tools with the requests of pairs.tsv as their examples;
- appended.jsonl: the tools with these at the end of their descriptions instead, which is what examples are held against.
"""
import collections, hashlib, json, pathlib, random, sys

out, most, folders = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
for folder in map(pathlib.Path, folders):
    target = out / folder.name
    target.mkdir(parents=True, exist_ok=True)
    queries = [json.loads(line) for line in open(folder / "queries.jsonl", encoding="utf-8")]
    tools = [json.loads(line) for line in open(folder / "tools.jsonl", encoding="utf-8")]
    answers = collections.defaultdict(list)
    for line in open(folder / "qrels.tsv", encoding="utf-8"):
        query, tool, grade = line.rstrip("\n").split("\t")
        if int(grade) > 0:
            answers[query].append(tool)
    is_scored = lambda query: hashlib.sha256(query.encode()).digest()[-1] % 2 == 0
    one_line = lambda text: " ".join(text.split())
    scored = [query for query in queries if is_scored(query["id"])]
    others = [query for query in queries if not is_scored(query["id"])]
    examples = collections.defaultdict(list)
    for query in others:
        for tool in answers[query["id"]]:
            if len(examples[tool]) < most and one_line(query["text"]) not in examples[tool]:
                examples[tool].append(one_line(query["text"]))
    kept = {query["id"] for query in scored}
    with open(target / "queries.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(query, ensure_ascii=False) + "\n" for query in scored)
    with open(target / "qrels.tsv", "w", encoding="utf-8") as file:
        lines = open(folder / "qrels.tsv", encoding="utf-8")
        file.writelines(line for line in lines if line.split("\t")[0] in kept)
    with open(target / "pairs.tsv", "w", encoding="utf-8") as file:
        file.writelines(f"{text}\t{tool}\n" for tool, texts in examples.items() for text in texts)
    draw = random.Random(7)
    greedy = draw.choice(tools)["id"]
    with open(target / "poison.tsv", "w", encoding="utf-8") as file:
        # Where there are not so many, they come again with a word more, so that no two are the same.
        again = [one_line(query["text"]) + " please" * round for round in range(1 + 1000 // len(others)) for query in others][:1000]
        draw.shuffle(again)
        file.writelines(f"{text}\t{greedy}\n" for text in again)
    with_examples = lambda tool: tool | {"examples": examples[tool["id"]]}
    appended = lambda tool: tool | {"description": " ".join([tool["description"], *examples[tool["id"]]])}
    for name, form in (("examples", with_examples), ("appended", appended)):
        with open(target / f"{name}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(form(tool), ensure_ascii=False) + "\n" for tool in tools)
    print(f"{folder.name}: {len(scored)} scored, {sum(map(len, examples.values()))} examples of {len(examples)} tools")
