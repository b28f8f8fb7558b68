"""Measures whether the gateway stays fast and small under a load that does not end.

usage: scripts/measure-load.py soak [--seconds N] [--program PROGRAM] [--json]

A steady client calls an echo server 50 times a second over 4 connections. Its quiet times are those at a gateway with
the echo server only, before and after the load. The load is a chatty, a slow, a dead, a crashing and a hostile server,
400 silent connections, and two greedy keys with the default limits.

Fails if the p99 with load is more than three times the quiet one, if a call of the steady client fails, or if the memory
of the last third is more than a tenth over that of the second third.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import generator
from gateway import MIB, Gateway, quantile
from isolation import ECHO_SERVER, ROOT, SCRIPTS, Load, echo_gateway, key_settings, measure_steady, say

MAX_RATIO = 3
MAX_GROWTH = 1.1
MAX_WINDOW_S = 60
SLOW_TOOL = "slow__echo"


def loaded_gateway(program, folder, switch):
    """Returns a gateway in front of the echo server and of servers that misbehave."""
    servers = {
        "echo": {"command": sys.executable, "args": [str(ECHO_SERVER)]},
        "hostile": {"command": sys.executable, "args": [str(SCRIPTS / "hostile.py"), str(switch)]},
        "chatty": generator.server(tools=100, change_every_ms=100),
        "slow": generator.server(tools=100, start_delay_ms=5_000, call_ms=5_000),
        "dead": {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]},
        "crashing": {"command": sys.executable, "args": ["-c", "raise SystemExit(1)"]},
    }
    settings = {"mode": "search", "upstreams": {"hostile": {"call_s": 10}, "slow": {"call_s": 10}}, **key_settings()}
    return Gateway(program, folder, servers, settings)


def measure_quiet(program, folder, seconds):
    with echo_gateway(program, folder) as gateway:
        return measure_steady(gateway, seconds)


def measure_windows(gateway, seconds, errors):
    """Measures the steady client, and the memory at the end of each window of time."""
    count = max(1, round(seconds / MAX_WINDOW_S))
    window_s = seconds / count
    windows = []
    with ThreadPoolExecutor(1) as threads:
        steady = threads.submit(measure_steady, gateway, seconds)
        started = time.monotonic()
        for number in range(1, count + 1):
            time.sleep(max(0, started + number * window_s - time.monotonic()))
            memory_mib = round(gateway.status_bytes("VmRSS") / MIB, 1)
            windows.append({"second": round(number * window_s), "memory_mib": memory_mib, "times_ms": []})
            say(f"second {windows[-1]['second']}: {memory_mib} MiB")
        measured = steady.result()
    errors.update(measured["errors"])
    for due_s, time_ms in zip(measured["due_s"], measured["times_ms"]):
        windows[min(int(due_s / window_s), count - 1)]["times_ms"].append(time_ms)
    for window in windows:
        window["p99_ms"] = round(quantile(window["times_ms"], 0.99), 2)
    return windows


def measure(program, folder, seconds):
    """Measures before, under and after the load. Returns the figures."""
    quiet_s = min(MAX_WINDOW_S, max(3, seconds / 10))
    errors = Counter()
    quiet = measure_quiet(program, folder / "before", quiet_s)["times_ms"]
    switch = folder / "hostile-is-active"
    with loaded_gateway(program, folder / "loaded", switch) as gateway, Load(gateway, switch, ("b", "c"), SLOW_TOOL):
        windows = measure_windows(gateway, seconds, errors)
    quiet += measure_quiet(program, folder / "after", quiet_s)["times_ms"]
    loaded = [time_ms for window in windows for time_ms in window.pop("times_ms")]
    figures = {"calls": len(loaded), "errors": dict(errors), "windows": windows}
    for name, times in (("quiet", quiet), ("loaded", loaded)):
        figures[f"{name}_p50_ms"] = round(quantile(times, 0.5), 2)
        figures[f"{name}_p99_ms"] = round(quantile(times, 0.99), 2)
    figures["ratio"] = round(figures["loaded_p99_ms"] / figures["quiet_p99_ms"], 2)
    third = len(windows) // 3
    if third:
        memory = [window["memory_mib"] for window in windows]
        figures["growth"] = round(max(memory[-third:]) / max(memory[third:2 * third]), 2)
    return figures


def broken_floors(figures):
    """Returns a sentence for each floor that is broken."""
    broken = []
    if not figures["ratio"] <= MAX_RATIO:
        broken.append(f"the p99 with load is {figures['ratio']} times the quiet one; the limit is {MAX_RATIO}")
    if figures["errors"]:
        broken.append(f"calls of the steady client failed: {figures['errors']}")
    if figures.get("growth", 1) > MAX_GROWTH:
        broken.append(f"the memory grew to {figures['growth']} times its value; the limit is {MAX_GROWTH}")
    return broken


def print_figures(figures):
    print("| second | p99 of the steady client | memory |\n|---|---|---|")
    for window in figures["windows"]:
        print(f"| {window['second']} | {window['p99_ms']} ms | {window['memory_mib']} MiB |")
    for name in ("quiet", "loaded"):
        print(f"{name}: p50 {figures[f'{name}_p50_ms']} ms, p99 {figures[f'{name}_p99_ms']} ms")
    failed = sum(figures["errors"].values())
    growth = f"; growth of the memory: {figures['growth']}" if "growth" in figures else ""
    print(f"ratio of the p99: {figures['ratio']}; failed calls: {failed} of {figures['calls'] + failed}{growth}")


def main(given):
    arguments = argparse.ArgumentParser(
        description=__doc__, usage=argparse.SUPPRESS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--seconds", type=float, default=1_800)
    arguments.add_argument("--program", type=Path, default=ROOT / "target/release/picktools")
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args(given)
    generator.build()
    with tempfile.TemporaryDirectory(prefix="measure-load-") as folder:
        figures = measure(options.program.resolve(), Path(folder), options.seconds)
    print(json.dumps(figures)) if options.json else print_figures(figures)
    broken = broken_floors(figures)
    for sentence in broken:
        say(sentence)
    return 1 if broken else 0
