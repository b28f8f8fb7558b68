#!/usr/bin/env python3
"""Puts gateways before the same real servers and asks them the same things: is the tool found, what does the model read, how
long does it take. Needs target/release/picktools, scripts/fetch-servers.sh, and the tokenizer that
scripts/check-conformance.sh installs.

usage: scripts/compare-gateways.py
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVERS = ROOT / "target/servers"
NPM = SERVERS / "npm/node_modules/@modelcontextprotocol"
PYTHON = SERVERS / "python/bin"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "compare", "version": "1"}}
# What people ask, and the tool that does it; written from what the servers are for, before any gateway was asked.
REQUESTS = [
    ("record my staged changes with the message fix typo", "git", "git_commit"),
    ("show me the recent commits", "git", "git_log"),
    ("start a new branch called release", "git", "git_create_branch"),
    ("switch to the main branch", "git", "git_checkout"),
    ("which files did I change but not add yet", "git", "git_diff_unstaged"),
    ("what is in the commit 4f2a", "git", "git_show"),
    ("put all my edits into the index", "git", "git_add"),
    ("make a new folder called reports", "filesystem", "create_directory"),
    ("rename draft.txt to final.txt", "filesystem", "move_file"),
    ("find all files that end in .md", "filesystem", "search_files"),
    ("what does notes.txt say", "filesystem", "read_text_file"),
    ("how large is backup.zip and when was it changed", "filesystem", "get_file_info"),
    ("replace the word colour in style.css", "filesystem", "edit_file"),
    ("what is in this directory", "filesystem", "list_directory"),
    ("save this text as a new file", "filesystem", "write_file"),
    ("what time is it in Tokyo", "time", "get_current_time"),
    ("what is 9 am in Berlin in New York time", "time", "convert_time"),
    ("download https://example.org and tell me what it says", "fetch", "fetch"),
    ("think this problem through step by step", "thinking", "sequentialthinking"),
    ("remember that Ada works at Acme", "memory", "add_observations"),
    ("forget everything about Bob", "memory", "delete_entities"),
    ("what do you know about Ada", "memory", "search_nodes"),
    ("Ada is now married to Charles, note how they relate", "memory", "create_relations"),
    ("add up 3 and 5", "everything", "get-sum"),
]
FASTMCP = """
import json, sys
from fastmcp.server import create_proxy
from fastmcp.server.transforms.search import BM25SearchTransform
proxy = create_proxy(json.load(open(sys.argv[1])), name="proxy")
proxy.add_transform(BM25SearchTransform(max_results=8))
proxy.run(transport="stdio", show_banner=False)
"""


class Client:
    def __init__(self, command, environment):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
        )
        self.next = 0
        self.ask("initialize", HELLO)
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.next += 1
        self.send({"id": self.next, "method": method, "params": params})
        for line in self.process.stdout:
            answer = json.loads(line)
            if "method" in answer:
                if "id" in answer:
                    refusal = {"code": -32601, "message": "there is no such method here"}
                    self.send({"id": answer["id"], "error": refusal})
            elif answer.get("id") == self.next:
                if "result" not in answer:
                    raise ValueError(answer)
                return answer["result"]
        raise EOFError(method)

    def tools(self):
        tools, cursor = [], None
        while True:
            page = self.ask("tools/list", {"cursor": cursor} if cursor else {})
            tools += page["tools"]
            cursor = page.get("nextCursor")
            if not cursor:
                return tools

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def tokens(texts):
    script = 'import("gpt-tokenizer").then(({encode}) => { let t = ""; process.stdin.on("data", (d) => (t += d)).on("end", () =>' \
        " console.log(JSON.stringify(JSON.parse(t).map((text) => encode(text).length)))) })"
    counted = subprocess.run(
        ["node", "-e", script], input=json.dumps(texts), cwd=ROOT / "target/measure", capture_output=True, text=True, check=True
    )
    return json.loads(counted.stdout)


def names_in(text):
    """The names of tools in an answer, in their order."""
    value = json.loads(text)
    tools = value["tools"] if isinstance(value, dict) else value
    return [tool["name"] for tool in tools]


def is_tool(name, server, tool):
    return name.startswith(server) and name.endswith(tool) and len(name) <= len(server) + len(tool) + 2


def measure(name, command, environment, search):
    client = Client(command, environment)
    started = time.monotonic()
    listed = client.tools()
    while search and not any(tool["name"] == "search_tools" for tool in listed) and time.monotonic() - started < 60:
        time.sleep(1)
        listed = client.tools()
    # Servers that start while they are asked would make a search slower than it is, whoever searches.
    if search:
        client.ask("tools/call", {"name": "search_tools", "arguments": {"query": "anything"}})
        time.sleep(5)
    texts, ranks, times = [json.dumps(listed)], [], []
    for request, server, tool in REQUESTS:
        if not search:
            ranks.append(None)
            continue
        start = time.perf_counter()
        result = client.ask("tools/call", {"name": "search_tools", "arguments": {"query": request}})
        times.append(time.perf_counter() - start)
        text = result["content"][0]["text"]
        texts.append(text)
        found = [place for place, each in enumerate(names_in(text)) if is_tool(each, server, tool)]
        ranks.append(found[0] if found else None)
        if os.environ.get("SHOW"):
            print("   ", request, "->", ranks[-1], names_in(text)[:8])
    client.close()
    counts = tokens(texts)
    searches = counts[1:]
    row = {
        "gateway": name,
        "listed": len(listed),
        "tokens of the list": counts[0],
        "found first": sum(rank == 0 for rank in ranks),
        "found in 8": sum(rank is not None for rank in ranks),
        "tokens of a search": round(sum(searches) / len(searches)) if searches else None,
        "p50 ms": round(sorted(times)[len(times) // 2] * 1e3, 1) if times else None,
    }
    print(json.dumps(row), flush=True)


def main():
    node = lambda server, *more: {"command": "node", "args": [str(NPM / f"server-{server}/dist/index.js"), *more]}
    python = lambda server: {"command": str(PYTHON / f"mcp-server-{server}"), "args": []}
    with tempfile.TemporaryDirectory() as folder:
        servers = {
            "everything": node("everything"), "filesystem": node("filesystem", folder), "memory": node("memory"),
            "thinking": node("sequential-thinking"), "git": python("git"), "time": python("time"), "fetch": python("fetch"),
        }
        config = Path(folder) / "mcp.json"
        config.write_text(json.dumps({"mcpServers": servers}))
        environment = {**os.environ, "PICKTOOLS_CACHE_DIR": str(Path(folder) / "cache")}
        program = [str(ROOT / "target/release/picktools"), "mcp", "--config", str(config), "--unsafe", "allow"]
        program += ["--state-dir", str(Path(folder) / "state")]
        measure("none: every tool is listed", [*program, "--mode", "pass-through"], environment, False)
        measure("picktools mcp --mode search", [*program, "--mode", "search"], environment, True)
        script = Path(folder) / "proxy.py"
        script.write_text(FASTMCP)
        measure("FastMCP proxy, BM25SearchTransform", [str(PYTHON / "python"), str(script), str(config)], environment, True)


main()
