"""A client that calls at a constant rate and prints the times as JSON.

usage: steady.py PORT KEY SECONDS PER_SECOND CONNECTIONS

Each time is measured from when the call was due, so a late answer also counts for the calls behind it.
"""

import json
import sys
import threading
import time
from collections import Counter
from http.client import HTTPException

from mcp_client import Client, Refused

WARM_UP_CALLS = 5
BEGIN_ATTEMPTS = 10


def run(client, name, due_times, times_ms, errors):
    for number, due in enumerate(due_times):
        time.sleep(max(0, due - time.monotonic()))
        try:
            client.echo(f"{name}-{number}")
        except (OSError, HTTPException, Refused, ValueError) as error:
            errors[f"{type(error).__name__}: {error}"] += 1
            client.close()
            continue
        times_ms.append((due, (time.monotonic() - due) * 1e3))


def begin(client, errors):
    """Begins a session and warms it up. Tries again if the gateway refuses it."""
    for _ in range(BEGIN_ATTEMPTS):
        try:
            client.begin()
            for _ in range(WARM_UP_CALLS):
                client.echo("warm up")
            return
        except (OSError, HTTPException, Refused, ValueError) as error:
            errors[f"at the begin: {type(error).__name__}: {error}"] += 1
            client.close()
            time.sleep(1)


def main():
    port, key = int(sys.argv[1]), sys.argv[2]
    seconds, per_second, connections = float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
    clients = [Client(port, key) for _ in range(connections)]
    errors = Counter()
    for client in clients:
        begin(client, errors)
    start = time.monotonic() + 0.1
    due_times = [start + number / per_second for number in range(int(seconds * per_second))]
    times_ms = []
    threads = []
    for name, client in enumerate(clients):
        arguments = (client, name, due_times[name::connections], times_ms, errors)
        threads.append(threading.Thread(target=run, args=arguments))
        threads[-1].start()
    for thread in threads:
        thread.join()
    due_s = [due - start for due, _ in times_ms]
    print(json.dumps({"due_s": due_s, "times_ms": [time_ms for _, time_ms in times_ms], "errors": errors}))


main()
