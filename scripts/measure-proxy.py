#!/usr/bin/env python3
"""Measures the model proxy in front of a provider of the tests: what models are shown, what that saves, and what it costs.

usage: scripts/measure-proxy.py [--program PATH] [recall|tokens|overhead]... [--min-score S] [--per-turn N]

recall    of the conversations of fixtures/transcripts, how often the tool that the last message needs is shown (qrels), and how
          many are, of 220
tokens    three of these conversations: what their requests' definitions cost with and without, turn by turn
overhead  1,000 tools: the time of requests through the proxy and straight to the provider, in turns
"""

import argparse
import http.client
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKPLACE = "fixtures/catalogs/workplace"


class Proxy:
    """A provider of the tests, and picktools before it."""

    def __init__(self, program, folder, **proxy):
        self.log = folder / "log"
        self.log.write_text("")
        (folder / "wanted.json").write_text("{}")
        provider = [ROOT / "crates/cli/tests/servers/provider.py", self.log, folder / "wanted.json"]
        self.provider = subprocess.Popen(["python3", *map(str, provider)], stdout=subprocess.PIPE, text=True)
        self.straight = int(self.provider.stdout.readline())
        url = {"url": f"http://127.0.0.1:{self.straight}/v1"}
        (folder / "settings.json").write_text(json.dumps({"proxy": {"openai": url, **proxy}}))
        serve = [program, "serve", "--listen", "127.0.0.1:0", "--settings", folder / "settings.json", "--state-dir", folder]
        self.child = subprocess.Popen(list(map(str, serve)), stderr=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+)/mcp", self.child.stderr.readline())[1])

    def end(self):
        for child in (self.child, self.provider):
            child.kill()
            child.wait()


def post(connection, body):
    """Sends a request, written as official clients write it."""
    body = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    body = body.encode()
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    assert answer.status == 200, data
    return answer


def definitions(program):
    """The tools of the workplace as OpenAI's chat has them, their ids by their names there, and what they cost in tokens."""
    command = [program, "translate", "--catalog", WORKPLACE, "--provider", "openai", "--json"]
    translated = json.loads(subprocess.run(list(map(str, command)), cwd=ROOT, check=True, capture_output=True).stdout)
    return translated["tools"], translated["names"], translated["tokens"]["o200k_base"]


def conversations():
    """Each conversation of the fixtures with the ids of the tools that its last message needs."""
    for folder in sorted((ROOT / "fixtures/transcripts").iterdir()):
        needed = {}
        for line in (folder / "qrels.tsv").read_text().splitlines():
            query, tool, grade = line.split("\t")
            needed.setdefault(query, []).extend([tool] if grade == "2" else [])
        for line in (folder / "queries.jsonl").read_text().splitlines():
            query = json.loads(line)
            yield f"{folder.name}/{query['id']}", query["messages"], needed.get(query["id"], [])


def sent_tools(proxy):
    last = proxy.log.read_text().splitlines()[-1]
    return json.loads(json.loads(last)["body"])["tools"]


def recall(proxy, program):
    tools, names, _ = definitions(program)
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port)
    found, counts = [], []
    for _, messages, needed in conversations():
        post(connection, {"model": "m", "messages": messages, "tools": tools})
        shown = [names[tool["function"]["name"]] for tool in sent_tools(proxy)]
        counts.append(len(shown))
        if needed:
            found.append(sum(tool in shown for tool in needed) / len(needed))
    print(f"recall: {len(found)} conversations: what the last message needs is shown in {statistics.mean(found):.3f}; "
          f"{statistics.mean(counts):.1f} of {len(tools)} tools are, at most {max(counts)}")


def tokens(proxy, program):
    tools, _, whole = definitions(program)
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port)
    long = sorted(conversations(), key=lambda it: -sum(message["role"] == "user" for message in it[1]))[:3]
    print("| conversation | turn | tools | tokens without | tokens with |\n|---|---|---|---|---|")
    for name, messages, _ in long:
        turn = 0
        for place, message in enumerate(messages):
            if message["role"] != "user":
                continue
            turn += 1
            answer = post(connection, {"model": "m", "messages": messages[: place + 1], "tools": tools})
            saved = int(answer.getheader("picktools-saved-tokens"))
            print(f"| {name} | {turn} | {answer.getheader('picktools-tools')} | {whole} | {whole - saved} |")


def overhead(proxy, program):
    tools, _, _ = definitions(program)
    many = []
    for number in range(1000):
        tool = json.loads(json.dumps(tools[number % len(tools)]))
        tool["function"]["name"] += f"_{number}"
        many.append(tool)
    said = [messages for _, messages, _ in conversations()]
    ways = {"through": [], "straight": [], "whole": []}
    ports = {"through": proxy.port, "straight": proxy.straight, "whole": proxy.straight}
    connections = {way: http.client.HTTPConnection("127.0.0.1", port) for way, port in ports.items()}
    inside = []
    for number in range(330):
        messages = said[number % len(said)] + [{"role": "user", "content": f"and number {number}"}]
        body = json.dumps({"model": "m", "messages": messages, "tools": many}, separators=(",", ":"))
        # Straight to the provider once what the proxy sends it, and once all that the client has, as without a proxy.
        for way in ways:
            sent = narrowed if way == "straight" else body
            started = time.perf_counter()
            answer = post(connections[way], sent)
            took = (time.perf_counter() - started) * 1e3
            if number >= 30:
                ways[way].append(took)
            if way == "through":
                assert answer.getheader("picktools-tools"), answer.headers
                inside.append(int(answer.getheader("picktools-time-us")))
                narrowed = json.loads(proxy.log.read_text().splitlines()[-1])["body"]
            proxy.log.write_text("")
    middle = {way: statistics.median(times) for way, times in ways.items()}
    print(f"overhead: 1,000 tools in {len(body)} bytes, 300 requests: p50 {middle['through']:.2f} ms through, "
          f"{middle['straight']:.2f} ms straight with what is left, {middle['whole']:.2f} ms straight with all; until it is passed on "
          f"p50 {statistics.median(inside[30:]) / 1e3:.2f} ms, p99 {sorted(inside[30:])[-3] / 1e3:.2f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=[[], "recall", "tokens", "overhead"], default=[])
    parser.add_argument("--program", default=ROOT / "target/release/picktools")
    parser.add_argument("--min-score", type=float)
    parser.add_argument("--per-turn", type=int)
    given = parser.parse_args()
    settings = {"min_score": given.min_score, "per_turn": given.per_turn}
    settings = {name: value for name, value in settings.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder:
        proxy = Proxy(given.program, pathlib.Path(folder), **settings)
        try:
            for what in given.what or ["recall", "tokens", "overhead"]:
                {"recall": recall, "tokens": tokens, "overhead": overhead}[what](proxy, given.program)
        finally:
            proxy.end()


if __name__ == "__main__":
    main()
