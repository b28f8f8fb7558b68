"""Measures what one key notices of another one and of a hostile server, and of restarts.

usage: scripts/measure-load.py isolation [--minutes M] [--restarts N] [--program PATH] [--store URL] [--json]

load      Key A calls an echo server 50 times a second over 4 connections, on a quiet gateway and on a loaded one in turns.
          The load is a hostile server (scripts/load/hostile.py), 200 silent connections, and a greedy key B with the
          default limits (scripts/load/greedy.py). --minutes is the time with load; quiet phases take half of it more.
          --minutes 0 leaves this part out.
restarts  Two gateways behind a balancer. Each is restarted N times in turn by SIGTERM, while 8 clients call. The balancer
          sends no new connections to a gateway before its SIGTERM; open connections stay. A call is lost if it has no
          answer, or another one than the documented ones that allow to send it again: 503 of a gateway that ends, 404 of
          a session that ended with it. --store shares the sessions of both gateways; use an empty store.

Fails if the p99 of key A with load is more than twice the quiet one, if a gateway needs more than 300 MB, if a call of
key A fails, or if a restart loses a call. Needs Linux and Python 3.9, and target/release/picktools or another --program.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path

from balancer import Balancer
from gateway import Gateway, quantile
from mcp_client import Client, Refused

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parents[1]

ECHO_SERVER = ROOT / "crates/cli/tests/servers/upstream.py"
MAX_RATIO = 2
MAX_MEMORY_MB = 300
KEYS = {"a": "key-of-the-measured-client", "b": "key-of-the-greedy-client", "c": "key-of-another-greedy-client"}
PER_SECOND = 50
CONNECTIONS = 4
SILENT_CONNECTIONS = 200
RESTART_CLIENTS = 8
SEND_AGAIN_LIMIT = 20
SETTLE_S = 2


def say(text):
    print(f"measure-load: {text}", file=sys.stderr, flush=True)


def echo_gateway(program, folder, switch=None, store=None):
    """Returns a gateway in front of the echo server and, if there is a switch, of the hostile server."""
    servers = {"echo": {"command": sys.executable, "args": [str(ECHO_SERVER)]}}
    settings = {"mode": "search", **key_settings()}
    if switch:
        servers["hostile"] = {"command": sys.executable, "args": [str(SCRIPTS / "hostile.py"), str(switch)]}
        settings["upstreams"] = {"hostile": {"call_s": 10}}
    return Gateway(program, folder, servers, settings, ["--store", store] if store else [])


def key_settings():
    """Returns the settings of the keys. Greedy keys have the default limits."""
    digests = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in KEYS.items()}
    limits = {"a": {"role": "measured", "per_minute": 60_000, "burst": 1_000}}
    keys = [{"name": name, "sha256": digest, "role": "greedy", **limits.get(name, {})} for name, digest in digests.items()]
    return {"roles": {"measured": {"unsafe": "allow"}, "greedy": {"unsafe": "allow"}}, "keys": keys}


# The load.

class Load:
    """The hostile server, the silent connections and the greedy keys, while this context lasts."""

    def __init__(self, gateway, switch, keys=("b",), slow_tool=None):
        self.gateway = gateway
        self.switch = switch
        self.keys = keys
        self.slow_tool = [slow_tool] if slow_tool else []
        self.greedy = []

    def __enter__(self):
        self.switch.touch()
        for key in self.keys:
            command = [sys.executable, str(SCRIPTS / "greedy.py"), str(self.gateway.port), KEYS[key], str(SILENT_CONNECTIONS)]
            command += self.slow_tool
            self.greedy.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        time.sleep(SETTLE_S)

    def __exit__(self, *_error):
        for client in self.greedy:
            client.kill()
            client.wait()
        self.switch.unlink()
        time.sleep(SETTLE_S)


def measure_steady(gateway, seconds):
    command = [sys.executable, str(SCRIPTS / "steady.py"), str(gateway.port), KEYS["a"]]
    command += [str(seconds), str(PER_SECOND), str(CONNECTIONS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    gateway.note_memory()
    return json.loads(done.stdout)


def measure_load(options, folder):
    """Measures key A with and without load in turns. Returns the figures."""
    rounds = max(1, round(options.minutes / 2))
    loaded_s = options.minutes * 60 / rounds
    switch = folder / "hostile-is-active"
    gateway = echo_gateway(options.program, folder / "gateway", switch)
    times = {"quiet": [], "loaded": []}
    errors = Counter()
    with ExitStack() as stack:
        stack.callback(gateway.stop)
        gateway.start()
        for number in range(rounds):
            quiet = measure_steady(gateway, loaded_s / 2)
            with Load(gateway, switch):
                loaded = measure_steady(gateway, loaded_s)
            for name, measured in (("quiet", quiet), ("loaded", loaded)):
                times[name] += measured["times_ms"]
                errors.update(measured["errors"])
            of_round = [f"p99 {quantile(measured['times_ms'], 0.99):.1f} ms" for measured in (quiet, loaded)]
            say(f"round {number + 1} of {rounds}: quiet {of_round[0]}, loaded {of_round[1]}, {gateway.memory_mb:.0f} MB")
    figures = {}
    for name, values in times.items():
        figures[f"{name}_calls"] = len(values)
        figures[f"{name}_p50_ms"] = round(quantile(values, 0.5), 2)
        figures[f"{name}_p99_ms"] = round(quantile(values, 0.99), 2)
    figures["ratio"] = round(figures["loaded_p99_ms"] / figures["quiet_p99_ms"], 2)
    figures["errors"] = dict(errors)
    figures["memory_mb"] = round(gateway.memory_mb, 1)
    return figures


# The restarts.

class RestartClient:
    """A client that calls without pause, and counts what becomes of its calls."""

    def __init__(self, name, port, counts, lock):
        self.name = name
        self.client = Client(port, KEYS["a"], timeout=30)
        self.counts = counts
        self.lock = lock

    def count(self, outcome):
        with self.lock:
            self.counts[outcome] += 1

    def run(self, stop):
        number = 0
        while not stop.is_set():
            number += 1
            # One call in ten is under way for a while, so each SIGTERM meets some.
            self.count(self.call(f"{self.name}-{number}", 1 if number % 10 == 0 else 0))
            time.sleep(0.02)

    def call(self, text, seconds):
        """Calls until there is an answer, as the documentation allows it. Returns the outcome."""
        for _ in range(SEND_AGAIN_LIMIT):
            try:
                if not self.client.session:
                    self.client.begin()
                self.client.echo(text, seconds)
                return "answered"
            except Refused as refusal:
                if refusal.status not in (404, 503):
                    return f"lost: {refusal}"
                self.count(f"sent again after {refusal.status}")
                if refusal.status == 404:
                    self.client.session = None
            except (OSError, HTTPException, ValueError) as error:
                self.client.close()
                return f"lost: {type(error).__name__}: {error}"
        return f"lost: refused {SEND_AGAIN_LIMIT} times"


def restart_in_turn(gateways, balancer, times):
    """Restarts each gateway this many times. Returns the longest time that one took to end."""
    longest_end_s = 0
    for _ in range(times):
        for gateway in gateways:
            time.sleep(0.5)
            balancer.remove(gateway.port)
            longest_end_s = max(longest_end_s, gateway.stop())
            gateway.start()
            balancer.add(gateway.port)
    return longest_end_s


def measure_restarts(options, folder):
    """Restarts two gateways in turn while clients call. Returns the figures."""
    gateways = [echo_gateway(options.program, folder / f"gateway-{number}", store=options.store) for number in (1, 2)]
    counts, lock, stop = Counter(), threading.Lock(), threading.Event()
    with ExitStack() as stack:
        balancer = Balancer()
        for gateway in gateways:
            stack.callback(gateway.stop)
            balancer.add(gateway.start().port)
        clients = [RestartClient(name, balancer.port, counts, lock) for name in range(RESTART_CLIENTS)]
        threads = [threading.Thread(target=client.run, args=(stop,), daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        try:
            longest_end_s = restart_in_turn(gateways, balancer, options.restarts)
            time.sleep(1)
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
    lost = sum(count for outcome, count in counts.items() if outcome.startswith("lost"))
    return {
        "restarts": options.restarts * len(gateways),
        "lost_calls": lost,
        "calls": dict(counts),
        "longest_end_s": round(longest_end_s, 1),
        "memory_mb": round(max(gateway.memory_mb for gateway in gateways), 1),
    }


def broken_floors(figures):
    """Returns a sentence for each floor that is broken."""
    load, restarts = figures.get("load"), figures.get("restarts")
    broken = []
    if load and not load["ratio"] <= MAX_RATIO:
        broken.append(f"the p99 with load is {load['ratio']} times the quiet one; the limit is {MAX_RATIO}")
    if load and load["errors"]:
        broken.append(f"calls of key A failed: {load['errors']}")
    for part in filter(None, (load, restarts)):
        if part["memory_mb"] > MAX_MEMORY_MB:
            broken.append(f"a gateway needed {part['memory_mb']} MB; the limit is {MAX_MEMORY_MB} MB")
    if restarts and restarts["lost_calls"]:
        broken.append(f"restarts lost {restarts['lost_calls']} calls; the limit is 0")
    return broken


def print_figures(figures):
    if load := figures.get("load"):
        for name in ("quiet", "loaded"):
            p50, p99 = load[f"{name}_p50_ms"], load[f"{name}_p99_ms"]
            print(f"{name}: {load[f'{name}_calls']:,} calls, p50 {p50:.2f} ms, p99 {p99:.2f} ms")
        failed = sum(load["errors"].values())
        print(f"ratio of the p99: {load['ratio']:.2f}; failed calls of key A: {failed}; memory: {load['memory_mb']:.0f} MB")
    if restarts := figures.get("restarts"):
        print(
            f"{restarts['restarts']} restarts: {restarts['lost_calls']} calls lost; {json.dumps(restarts['calls'])}; "
            f"longest end {restarts['longest_end_s']} s; memory: {restarts['memory_mb']:.0f} MB"
        )


def main(given):
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--restarts", type=int, default=10)
    arguments.add_argument("--program", type=Path, default=ROOT / "target/release/picktools")
    arguments.add_argument("--store")
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args(given)
    figures = {}
    with tempfile.TemporaryDirectory(prefix="measure-load-") as work:
        if options.minutes:
            figures["load"] = measure_load(options, Path(work))
        if options.restarts:
            figures["restarts"] = measure_restarts(options, Path(work))
    print(json.dumps(figures)) if options.json else print_figures(figures)
    broken = broken_floors(figures)
    for sentence in broken:
        say(sentence)
    return 1 if broken else 0
