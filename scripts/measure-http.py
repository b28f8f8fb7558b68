#!/usr/bin/env python3
"""Measures the HTTP interface on 1,000 tools, with the clients on the same machine. Needs target/release/picktools.

usage: scripts/measure-http.py [load|rate|memory] [--program PROGRAM]

load    as many picks as it answers, over 32 connections that are kept
rate    picks at a steady rate, half of what `load` came to or --per-second; each is timed from when it was due
memory  the memory of the server over 100,000 picks
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONNECTIONS = 32
# Written for the fixture catalog's subjects; each tool of it is there several times under other names.
REQUESTS = [
    "post in the chat that the build is done",
    "make this picture smaller",
    "how many days of leave do I have left?",
    "book a meeting room for Monday at ten",
    "open a bug report that the export is empty",
    "translate this text to German",
    "what is the weather like in Oslo over the weekend?",
    "send an invoice to the customer and remind them in two weeks",
    "list the servers that run in the test account",
    "find the contract that we signed with the carrier last year",
]


def catalog(program, folder):
    """1,000 tools: those of the fixture catalog, again and again, of other sources."""
    listed = subprocess.run(
        [program, "translate", "--catalog", ROOT / "fixtures/catalogs/workplace", "--provider", "mcp", "--json"],
        capture_output=True, check=True,
    )
    translated = json.loads(listed.stdout)
    tools = []
    for number in range(1000):
        known = translated["tools"][number % len(translated["tools"])]
        source = translated["names"][known["name"]].split("/")[0]
        turn = number // len(translated["tools"])
        tools.append({
            "name": known["name"] if turn == 0 else f"{known['name']}_{turn}",
            "source": source if turn == 0 else f"{source}{turn}",
            "description": known["description"] + (f" In the workspace {turn}." if turn else ""),
            "parameters": known["inputSchema"],
        })
    path = folder / "tools.json"
    path.write_text(json.dumps(tools))
    return path


class Server:
    def __init__(self, program, folder):
        command = [program, "serve", "--listen", "127.0.0.1:0", "--catalog", catalog(program, folder),
                   "--conflicts", "warn", "--state-dir", folder / "state"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if line.startswith("serving") or "serving http" in line:
                self.port = int(line.split("://")[1].split("/")[0].split(":")[1])
                break
        else:
            sys.exit("the server did not start")

    def resident(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def end(self):
        self.process.terminate()
        self.process.wait()


def encoded():
    texts = []
    for request in REQUESTS:
        body = json.dumps({"query": request}).encode()
        head = f"POST /v1/pick HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        texts.append(head.encode() + body)
    return texts


class Connection(asyncio.Protocol):
    """One request at a time, over a connection that is kept."""

    def __init__(self):
        self.waiting = None
        self.buffer = bytearray()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).lower()
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(self.buffer) < end + 4 + length:
            return
        is_right = self.buffer.startswith(b"HTTP/1.1 200") and self.buffer.endswith(b"}")
        self.buffer.clear()
        waiting, self.waiting = self.waiting, None
        waiting.set_result(is_right)

    def connection_lost(self, error):
        if self.waiting:
            self.waiting.set_result(False)

    async def ask(self, text):
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(text)
        return await self.waiting


async def connected(port, count):
    loop = asyncio.get_running_loop()
    opened = [await loop.create_connection(Connection, "127.0.0.1", port) for _ in range(count)]
    return [connection for _, connection in opened]


async def flat_out(port, seconds=None, requests=None):
    """Asks as fast as it is answered; returns how often, and how often that went wrong."""
    texts, done, wrong = encoded(), 0, 0
    end = time.monotonic() + (seconds or 1e9)

    async def client(connection):
        nonlocal done, wrong
        while time.monotonic() < end and (requests is None or done < requests):
            done += 1
            if not await connection.ask(texts[done % len(texts)]):
                wrong += 1

    await asyncio.gather(*(client(connection) for connection in await connected(port, CONNECTIONS)))
    return done, wrong


async def steady(port, per_second, seconds):
    """Asks at a steady rate; returns the times in milliseconds, each from when the request was due."""
    texts, times, wrong = encoded(), [], 0
    free = asyncio.Queue()
    for connection in await connected(port, 4 * CONNECTIONS):
        free.put_nowait(connection)

    async def one(due, text):
        nonlocal wrong
        connection = await free.get()
        wrong += not await connection.ask(text)
        free.put_nowait(connection)
        times.append((time.perf_counter() - due) * 1e3)

    start, asked = time.perf_counter(), []
    for number in range(int(per_second * seconds)):
        due = start + number / per_second
        if (ahead := due - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        asked.append(asyncio.create_task(one(due, texts[number % len(texts)])))
    await asyncio.gather(*asked)
    return sorted(times), wrong


def load(server):
    asyncio.run(flat_out(server.port, seconds=3))
    started = time.monotonic()
    done, wrong = asyncio.run(flat_out(server.port, seconds=15))
    rate = done / (time.monotonic() - started)
    print(f"load: {rate:,.0f} picks/s over {CONNECTIONS} connections, {done:,} picks, {wrong} wrong")
    return rate


def rate(server, per_second):
    per_second = per_second or load(server) / 2
    times, wrong = asyncio.run(steady(server.port, per_second, 15))
    at = lambda share: times[int(share * (len(times) - 1))]
    print(f"rate: {per_second:,.0f} picks/s: p50 {at(0.5):.2f} ms, p90 {at(0.9):.2f} ms, p99 {at(0.99):.2f} ms, "
          f"at most {times[-1]:.1f} ms, {wrong} wrong")


def memory(server):
    asyncio.run(flat_out(server.port, requests=5_000))
    before, wrong, marks = server.resident(), 0, []
    for _ in range(10):
        wrong += asyncio.run(flat_out(server.port, requests=10_000))[1]
        marks.append(server.resident())
    shown = ", ".join(f"{mark:.1f}" for mark in marks)
    print(f"memory: {before:.1f} MiB after 5,000 picks; after each 10,000 more: {shown} MiB; {wrong} wrong")


def main():
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("which", nargs="?", choices=["load", "rate", "memory"])
    arguments.add_argument("--program", default=ROOT / "target/release/picktools", type=Path)
    arguments.add_argument("--per-second", type=float)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(given.program, Path(folder))
        try:
            if given.which == "load":
                load(server)
            if given.which in (None, "rate"):
                rate(server, given.per_second)
            if given.which in (None, "memory"):
                memory(server)
        finally:
            server.end()


if __name__ == "__main__":
    main()
