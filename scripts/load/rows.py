"""The rows of the table of `scripts/measure-load.py`.

A row is a function that measures a program and returns its figures. Servers, tools and requests are synthetic and the
same in each run.
"""

import statistics
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass

import generator
from gateway import MIB, Gateway

SLOW_START_MS = 500
# Memory that was freed after the start is used first, by the sessions before those that are measured.
IDLE_SESSIONS = 300
CHATTY_SERVERS = 40
CHANGE_EVERY_MS = 100
APPROVAL_LIMIT_S = 30
IDLE_S = 10
STARTS = 5


@dataclass
class Figure:
    """A figure of a row with its target."""

    text: str
    unit: str
    # `None` is a figure without a target.
    target: float = None
    is_minimum: bool = False
    # The target is the figure of the program of `--against`, and a tenth more.
    is_relative: bool = False


class Bench:
    """The program that is measured, and a folder for the files of one row."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder

    def gateway(self, servers=None, settings=None, arguments=(), name="gateway"):
        return Gateway(self.program, self.folder / name, servers, settings, arguments)

    def stdio(self, servers, mode="auto", name="gateway", **options):
        """Runs the gateway on standard input and output, and returns the figures of its client."""
        gateway = self.gateway(servers, {"mode": mode}, name=name)
        command = [self.program, "mcp", "--config", gateway.folder / "mcp.json", "--state-dir", gateway.state]
        command += ["--settings", gateway.folder / "settings.json"]
        command = ["env", f"PICKTOOLS_CACHE_DIR={gateway.folder / 'cache'}", *command]
        return generator.run("stdio", command, **options)


def sessions(bench):
    figures = {}
    for count in (32, 33, 40, 128):
        servers = {"load": generator.server(tools=20, start_delay_ms=SLOW_START_MS)}
        with bench.gateway(servers, {"mode": "search"}, name=f"sessions-{count}") as gateway:
            measured = generator.run("sessions", port=gateway.port, sessions=count, tool="load__echo", seconds=4)
        figures[f"{count} sessions"] = measured["per_second"]
        figures[f"{count} sessions: failures"] = measured["failed"]
        if measured["first_failure"]:
            figures["note"] = f"{count} sessions: {measured['first_failure'][:200]}"
    return figures


def session_memory(bench):
    with bench.gateway({"load": generator.server(tools=5_000)}) as gateway, held_sessions(gateway, IDLE_SESSIONS):
        before = gateway.settled_memory()
        with held_sessions(gateway, IDLE_SESSIONS):
            after = gateway.settled_memory()
    return {"one idle session": max(0, after - before) / IDLE_SESSIONS / 1024}


@contextmanager
def held_sessions(gateway, count):
    """Keeps idle sessions open."""
    client = generator.start("sessions", port=gateway.port, sessions=count, hold=1)
    try:
        if client.stdout.readline().strip() != "open":
            raise generator.GeneratorError("the sessions cannot be opened")
        yield
    finally:
        generator.stop(client)


def pages(bench):
    figures = {}
    for tools, rounds in ((5_000, 3), (16_000, 1)):
        servers = {"load": generator.server(tools=tools)}
        measured = bench.stdio(servers, "pass-through", f"gateway-{tools}", tools=tools, rounds=rounds, settle_ms=1_000)
        figures[f"page at {tools:,}"] = measured["page_times"]["p50_ms"]
        figures[f"memory at {tools:,}"] = measured["memory_mib"]
        if tools == 5_000:
            figures["whole list of 5,000"] = measured["list_ms"]
    return figures


def first_list(bench):
    figures = {}
    for text, servers, tools in (("20 tools", 1, 20), ("50 servers", 50, 10)):
        configured = {f"load{number}": generator.server(tools=tools, seed=number + 1) for number in range(servers)}
        # The first start is with an empty folder. The others find what it saved, as most starts do.
        times = [bench.stdio(configured, name=f"gateway-{servers}")["first_list_ms"] for _ in range(STARTS + 1)]
        figures[text] = statistics.median(times[1:])
        figures[f"{text}, first start"] = times[0]
    return figures


def approval(bench):
    chatty = {
        f"chatty{number}": generator.server(seed=number, change_every_ms=CHANGE_EVERY_MS)
        for number in range(CHATTY_SERVERS)
    }
    servers = {"quiet": generator.server(), "large": generator.server(tools=5_000), **chatty}
    settings = {"trust": "approve", "upstreams": {"large": {"trusted": True}}}
    with bench.gateway(servers, settings) as gateway:
        time.sleep(5)
        if is_listed(gateway, "quiet"):
            raise ValueError("the tool is listed before its approval")
        started = time.monotonic()
        command = [bench.program, "approve", "quiet/echo", "--yes", "--state-dir", gateway.state]
        subprocess.run(command, env=gateway.environment, check=True, capture_output=True, timeout=APPROVAL_LIMIT_S)
        while not is_listed(gateway, "quiet"):
            if time.monotonic() - started > APPROVAL_LIMIT_S:
                return {"seen": APPROVAL_LIMIT_S, "note": f"not seen within {APPROVAL_LIMIT_S} s"}
            time.sleep(0.02)
        return {"seen": time.monotonic() - started}


def is_listed(gateway, source):
    status, body = gateway.get(f"/v1/tools?source={source}")
    return status == 200 and '"echo"' in body


def connections(bench):
    catalog = generator.write_catalog(bench.folder / "catalog.jsonl", 16_000)
    with bench.gateway(arguments=["--catalog", catalog]) as gateway:
        measured = generator.run("requests", port=gateway.port, kind="pick", connections=900, seconds=8, warm_up=20)
        peak = gateway.status_bytes("VmHWM")
    return {
        "memory": peak / MIB, "p99": measured["times"]["p99_ms"] / 1e3, "answered": measured["per_second"],
        "refused": measured["refused"], "failures": measured["failed"], "note": measured["first_failure"],
    }


def batch(bench):
    catalog = generator.write_catalog(bench.folder / "catalog.jsonl", 1_000)
    with bench.gateway(arguments=["--catalog", catalog]) as gateway:
        measured = generator.run("requests", port=gateway.port, kind="batch", requests=40, warm_up=5, seconds=20)
    return checked(measured, "256 picks")


def proxy(bench):
    model = generator.start("model")
    try:
        port = model.stdout.readline().strip()
        arguments = ["--openai-url", f"http://127.0.0.1:{port}/v1"]
        with bench.gateway(arguments=arguments) as gateway:
            options = {"kind": "proxy", "size": 30, "seconds": 20}
            measured = generator.run("requests", port=gateway.port, requests=120, warm_up=60, **options)
    finally:
        generator.stop(model)
    return checked(measured, "30 lists")


def checked(measured, text):
    """Returns the median time, after a check that each request was answered."""
    if measured["failed"] or measured["refused"]:
        raise ValueError(f"{measured['failed']} failed, {measured['refused']} refused: {measured['first_failure']}")
    return {text: measured["times"]["p50_ms"]}


def search(bench):
    measured = bench.stdio({"load": generator.server(tools=20)}, "search", searches=480)
    return {"20 tools": measured["searches"]["p50_ms"]}


def wake_ups(bench):
    servers = {f"load{number}": generator.server(seed=number + 1) for number in range(10)}
    with bench.gateway(servers) as gateway:
        time.sleep(5)
        before = gateway.voluntary_switches()
        time.sleep(IDLE_S)
        after = gateway.voluntary_switches()
    return {"ten servers": sum(count - before.get(thread, 0) for thread, count in after.items()) / IDLE_S}


def overhead(bench):
    server = generator.server(tools=20)
    differences = []
    for _ in range(5):
        direct = generator.run("stdio", [server["command"], *server["args"]], tool="echo", requests=2_000)
        through = bench.stdio({"load": server}, "search", tool="call_tool/load__echo", requests=2_000)
        differences.append(through["calls"]["p50_ms"] - direct["calls"]["p50_ms"])
    return {"one call": statistics.median(differences) * 1e3}


# Row: (title, function, figures).
ROWS = {
    "sessions": ("one server that starts in 0.5 s", sessions, {
        **{f"{count} sessions": Figure(f"{count} sessions", "calls/s", target, is_minimum=True)
           for count, target in ((32, None), (33, None), (40, 8_000), (128, 8_000))},
        **{f"{count} sessions: failures": Figure(f"{count} sessions: failures", "", 0) for count in (32, 33, 40, 128)},
    }),
    "session-memory": ("memory of a session at 5,000 tools", session_memory, {
        "one idle session": Figure("one idle session", "KiB", 50),
    }),
    "pages": ("`tools/list` in pass-through mode", pages, {
        "page at 5,000": Figure("page at 5,000 tools", "ms", 0.5),
        "page at 16,000": Figure("page at 16,000 tools", "ms", 0.5),
        "whole list of 5,000": Figure("whole list of 5,000 after `initialize`", "ms", 150),
        "memory at 5,000": Figure("memory of the gateway at 5,000 tools", "MiB", 90),
        "memory at 16,000": Figure("memory of the gateway at 16,000 tools", "MiB", 150),
    }),
    "first-list": ("first list after the start", first_list, {
        "20 tools": Figure("20 tools", "ms", 30),
        "20 tools, first start": Figure("20 tools, empty state folder", "ms"),
        "50 servers": Figure("50 servers with 10 tools each", "ms", 120),
        "50 servers, first start": Figure("50 servers, empty state folder", "ms"),
    }),
    "approval": ("approval beside 40 chatty servers and 5,000 tools", approval, {"seen": Figure("until it is seen", "s", 1)}),
    "connections": ("900 connections on `/v1/pick`, 16,000 tools", connections, {
        "memory": Figure("peak memory", "MiB", 300 * 1e6 / MIB),
        "p99": Figure("p99 of answered requests", "s", 1.5),
        "answered": Figure("answered", "picks/s"),
        "refused": Figure("refused with 429 or 503", ""),
        "failures": Figure("failures", "", 0),
    }),
    "batch": ("`/v1/pick/batch`, 1,000 tools", batch, {"256 picks": Figure("256 picks", "ms", 60)}),
    "proxy": ("proxy, 30 known lists of 1,000 tools", proxy, {"30 lists": Figure("one request", "ms", 5)}),
    "search": ("`search_tools`, 20 tools", search, {"20 tools": Figure("one search, p50", "ms", 0.4)}),
    "wake-ups": ("idle, ten servers", wake_ups, {"ten servers": Figure("wake-ups", "/s", 4)}),
    "overhead": ("gateway overhead on stdio", overhead, {
        "one call": Figure("one call, p50", "µs", 120, is_relative=True),
    }),
}
