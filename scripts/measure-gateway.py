#!/usr/bin/env python3
"""Measures the gateway before real servers: what a call costs more, what sessions leave behind, and whether answers stay
right while servers are killed. Needs target/release/picktools and scripts/fetch-servers.sh.

usage: scripts/measure-gateway.py overhead|abandoned|chaos [--seconds N] [--calls N] [--sessions N]
"""

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/release/picktools"
EVERYTHING = ROOT / "target/servers/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
UPSTREAM = ROOT / "crates/cli/tests/servers/upstream.py"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "measure", "version": "1"}}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port):
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(port)


class Pipe:
    """A client on standard input and output."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        self.output = self.process.stdout
        self.rest = b""
        self.next = 0
        self.ask("initialize", HELLO)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def ask(self, method, params):
        self.next += 1
        self.send({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        while True:
            while b"\n" not in self.rest:
                self.rest += os.read(self.output.fileno(), 1 << 16)
            line, _, self.rest = self.rest.partition(b"\n")
            message = json.loads(line)
            if message.get("id") == self.next:
                return message

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


class Http:
    """A client of streamable HTTP, on one connection that is kept."""

    def __init__(self, port, path="/mcp"):
        self.path = path
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        self.next = 0
        self.ask("initialize", HELLO)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.connection.request("POST", self.path, json.dumps(message), self.headers)
        answer = self.connection.getresponse()
        session = answer.getheader("Mcp-Session-Id")
        if session:
            self.headers = {**self.headers, "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        return answer.read().decode()

    def ask(self, method, params):
        self.next += 1
        body = self.send({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        for line in body.splitlines():
            line = line.removeprefix("data:").strip()
            if line.startswith("{"):
                message = json.loads(line)
                if message.get("id") == self.next:
                    return message
        raise ValueError(body[:300])

    def close(self):
        self.connection.close()


class Gateway:
    """A gateway that listens, before these servers."""

    def __init__(self, folder, servers, settings=None, program=PROGRAM):
        folder = Path(folder)
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        (folder / "settings.json").write_text(json.dumps(settings or {}))
        self.arguments = [
            "--config", folder / "mcp.json", "--settings", folder / "settings.json", "--state-dir", folder / "state",
        ]
        self.environment = {**os.environ, "PICKTOOLS_CACHE_DIR": str(folder / "cache")}
        self.program = program

    def serve(self):
        self.port = free_port()
        listen = ["serve", "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(
            [self.program, *listen, *self.arguments], env=self.environment, stderr=subprocess.DEVNULL
        )
        wait_for(self.port)
        return self

    def memory(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024

    def close(self):
        self.process.terminate()
        self.process.wait(20)


def quantiles(times):
    times = sorted(times)
    return times[len(times) // 2] * 1e3, times[int(len(times) * 0.99)] * 1e3


def compare(name, direct, through, calls, arguments, tool, own):
    """Calls directly and through the gateway in turn, so that both meet the same machine."""
    clients = {"direct": (direct, {"name": own, "arguments": arguments})}
    clients["call_tool"] = (through, {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}})
    times = {key: [] for key in clients}
    for number in range(calls + 200):
        for key, (client, params) in clients.items():
            start = time.perf_counter()
            answer = client.ask("tools/call", params)
            took = time.perf_counter() - start
            if "isError" in answer["result"] and answer["result"]["isError"]:
                raise ValueError(answer)
            if number >= 200:
                times[key].append(took)
    (direct50, direct99), (through50, through99) = quantiles(times["direct"]), quantiles(times["call_tool"])
    print(
        f"{name}: direct p50 {direct50:.2f} ms p99 {direct99:.2f} ms; call_tool p50 {through50:.2f} ms p99 "
        f"{through99:.2f} ms; more: p50 {through50 - direct50:.2f} ms",
        flush=True,
    )


def overhead(options):
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        server = subprocess.Popen(
            ["node", EVERYTHING, "streamableHttp"], env={**os.environ, "PORT": str(port)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        wait_for(port)
        servers = {"everything": {"url": f"http://127.0.0.1:{port}/mcp"}}
        gateway = Gateway(folder, servers, {"mode": "search"}).serve()
        direct, through = Http(port), Http(gateway.port)
        arguments = {"message": "hello"}
        compare("server-everything over HTTP", direct, through, options.calls, arguments, "everything__echo", "echo")
        through.close()
        direct.close()
        gateway.close()
        server.terminate()
    with tempfile.TemporaryDirectory() as folder:
        servers = {"up": {"command": sys.executable, "args": [str(UPSTREAM)]}}
        gateway = Gateway(folder, servers, {"mode": "search"})
        os.environ["PICKTOOLS_CACHE_DIR"] = str(Path(folder) / "cache")
        through = Pipe(str(PROGRAM), "mcp", *map(str, gateway.arguments))
        direct = Pipe(sys.executable, str(UPSTREAM))
        compare("upstream.py on standard input and output", direct, through, options.calls, {"text": "a"}, "up__echo", "echo")
        through.close()
        direct.close()


def abandoned(options):
    for name, http_settings in [
        ("up to 20,000 sessions at once", {"max_sessions": 20_000}),
        ("up to 1,000, as it is unless told otherwise", {}),
    ]:
        with tempfile.TemporaryDirectory() as folder:
            servers = {"up": {"command": sys.executable, "args": [str(UPSTREAM)]}}
            gateway = Gateway(folder, servers, {"mode": "search", "http": http_settings}).serve()
            for _ in range(100):
                client = Http(gateway.port)
                client.connection.request("DELETE", "/mcp", headers=client.headers)
                client.connection.getresponse().read()
                client.close()
            Http(gateway.port).ask("tools/list", {})
            time.sleep(5)
            start, peak, begun = gateway.memory(), 0, time.monotonic()
            for number in range(options.sessions):
                Http(gateway.port).close()
                if number % 200 == 0:
                    peak = max(peak, gateway.memory())
            took = time.monotonic() - begun
            peak = max(peak, gateway.memory())
            time.sleep(150)
            end = gateway.memory()
            alive = Http(gateway.port).ask("tools/list", {})
            print(
                f"{name}: {options.sessions} sessions in {took:.0f} s; {start:.1f} MiB before, {peak:.1f} at most, "
                f"{end:.1f} after ({end / start - 1:+.1%}); it {'answers' if 'result' in alive else 'does not answer'}",
                flush=True,
            )
            gateway.close()


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def chaos(options):
    """Calls without end while servers are killed; each answer must hold the nonce of its call."""
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        servers = {f"up{number}": {"command": sys.executable, "args": [str(UPSTREAM)]} for number in range(4)}
        settings = {"mode": "search", "upstreams": {"*": {"share": "all", "call_s": 5}}}
        gateway = Gateway(folder, servers, settings).serve()
        counts, lock, stop = {"sent": 0, "right": 0, "wrong": 0, "open": 0}, threading.Lock(), threading.Event()
        waits = []

        def count(key, step=1):
            with lock:
                counts[key] = counts.get(key, 0) + step

        def work(user):
            own = random.Random(user)
            client = Http(gateway.port)
            number = 0
            while not stop.is_set():
                number += 1
                nonce = f"{user}-{number}-{own.random()}"
                arguments = {"text": nonce, "seconds": own.choice([0, 0, 0, 0.01, 0.1])}
                call = {"name": f"up{own.randrange(4)}__echo", "arguments": arguments}
                count("sent")
                count("open")
                start = time.monotonic()
                try:
                    answer = client.ask("tools/call", {"name": "call_tool", "arguments": call})
                except Exception as error:
                    count(f"lost: {type(error).__name__}")
                    client = Http(gateway.port)
                else:
                    result = answer.get("result", {})
                    code = result.get("_meta", {}).get("picktools/error", {}).get("code")
                    if code:
                        count(code)
                        time.sleep(0.01)
                    elif result.get("content", [{}])[0].get("text") == nonce:
                        count("right")
                    else:
                        count("wrong")
                        print("wrong:", nonce, answer, file=sys.stderr)
                count("open", -1)
                with lock:
                    waits.append(time.monotonic() - start)

        workers = [threading.Thread(target=work, args=(user,), daemon=True) for user in range(8)]
        for worker in workers:
            worker.start()
        kills, until = 0, time.monotonic() + options.seconds
        while time.monotonic() < until:
            time.sleep(rng.uniform(0.5, 3))
            alive = children(gateway.process.pid)
            if alive:
                os.kill(rng.choice(alive), signal.SIGKILL)
                kills += 1
        stop.set()
        for worker in workers:
            worker.join(20)
        failures = sum(value for key, value in counts.items() if key not in ("sent", "right", "wrong", "open"))
        is_whole = counts["sent"] == counts["right"] + failures and not counts["wrong"] and not counts["open"]
        print(f"{options.seconds} s, {kills} servers killed: {json.dumps(counts)}; longest answer {max(waits):.1f} s")
        print("every call is accounted for" if is_whole else "CALLS ARE MISSING OR WRONG")
        gateway.close()
        sys.exit(0 if is_whole else 1)


parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["overhead", "abandoned", "chaos"])
parser.add_argument("--seconds", type=int, default=300)
parser.add_argument("--calls", type=int, default=3000)
parser.add_argument("--sessions", type=int, default=10_000)
options = parser.parse_args()
{"overhead": overhead, "abandoned": abandoned, "chaos": chaos}[options.what](options)
