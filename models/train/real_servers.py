"""Requests and tasks for real MCP servers (real/), with the tools that answer them, by server and fold.

The definitions are read from the folder that real/collect.py writes; servers without definitions there are skipped.
"""

import hashlib, json, os

REQUESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "real")
#: Servers that most people use: files, git, browser, mail, calendar, chat, search, fetch, databases, office. No fold leaves them out.
POPULAR = set(
    "brave-search chrome-devtools desktop-commander discord duckduckgo email excel fetch filesystem git github gitlab gmail google-calendar"
    " google-drive google-search google-sheets google-workspace microsoft-365 mssql mysql notion playwright postgres powerpoint slack sqlite"
    " tavily teams word".split()
)


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(l) for l in f]


def fold(server):
    """The fold of a server, 1 to 3 by a digest of its name, or 0 if it is popular."""
    return 0 if server in POPULAR else 1 + int(hashlib.sha256(server.encode()).hexdigest()[:8], 16) % 3


def servers_of_set(folder, tools):
    """The servers that an evaluation set has: by name, or by a tool with the same name and the same description."""
    same = lambda t: (t["name"], (t.get("description") or "")[:80])
    scored = lines(f"{folder}/tools.jsonl")
    names, keys = {t["source"] for t in scored}, {same(t) for t in scored}
    return names | {t["source"] for t in tools if same(t) in keys}


class RealServers:
    """The tools of the servers that take part in training, by id, and the requests and tasks that they answer.

    Without a folder, it has no tools. `without` is the fold to leave out (0: none), and `unseen` the folder of an evaluation set whose servers
    are left out, or empty.
    """

    def __init__(self, folder, without=0, unseen=""):
        tools = lines(f"{folder}/tools.jsonl") if folder else []
        left_out = {t["source"] for t in tools if without and fold(t["source"]) == without}
        if unseen:
            left_out |= servers_of_set(unseen, tools)
        self.all = {t["id"]: t for t in tools}
        self.tools = {k: t for k, t in self.all.items() if t["source"] not in left_out}

    def requests(self):
        """Yields each request or task as its language, text, and tools; alternatives are tools, too. Without tools it is skipped, and
        a task with a tool of a left-out server is skipped as well."""
        for r in lines(f"{REQUESTS}/requests.jsonl"):
            of = lambda name: f"{r['server']}/{name}"
            needed = [of(n) for n in r["tools"]]
            others = [of(n) for x in r.get("or", {}).values() for n in x]
            yield from self.answered(r, needed, others)
        for r in lines(f"{REQUESTS}/tasks.jsonl"):
            yield from self.answered(r, r["tools"], [n for x in r.get("or", {}).values() for n in x])

    def unanswered(self):
        """English requests near the subject of a server that none of its tools answers."""
        sources = {t["source"] for t in self.tools.values()}
        rows = [r for r in lines(f"{REQUESTS}/requests.jsonl") if r["server"] in sources]
        return [r["q"] for r in rows if not r["tools"] and r.get("lang", "en") == "en"]

    def answered(self, request, needed, others):
        if needed and all(n in self.tools for n in needed):
            ids = dict.fromkeys([*needed, *(n for n in others if n in self.tools)])
            yield request.get("lang", "en"), request.get("q") or request["text"], [self.tools[i] for i in ids]


def fold_set(folder, number):
    """One fold as a catalog: its tools, and each English request with its tools by id (grade 1; alternatives count as well)."""
    real = RealServers(folder)
    chosen = [t for t in real.tools.values() if fold(t["source"]) == number]
    ids = {t["id"] for t in chosen}
    asked = [(q, [t["id"] for t in tools]) for lang, q, tools in real.requests() if lang == "en"]
    return chosen, [(q, x) for q, x in asked if ids.issuperset(x)]
