#!/usr/bin/env python3
"""Kills `picktools index --out` at random moments, and fails where what is left is no whole index.

usage: scripts/kill-index.py [--picktools PROGRAM] [--rounds N] [--seed N] CATALOG CATALOG…

Each round writes one of the catalogs (two of them at least) over the one before and kills the writer, with all that it started, at a moment
drawn from the time that it takes and a quarter more. Then the index is opened, every definition is read and held to its digest, and it must
be that of one of the catalogs, and the one before unless the writer came as far as its rename. At most one temporary file may lie beside it.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def whole(picktools, index, copy):
    """The digest of the catalog in an index, of which everything is read."""
    command = [picktools, "index", "--index", index, "--out", copy, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"kill-index: the index is not whole: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)["catalog"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picktools", default=ROOT / "target/release/picktools", type=Path)
    parser.add_argument("--rounds", default=1000, type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("catalogs", metavar="CATALOG", nargs="+")
    given = parser.parse_args()
    if len(given.catalogs) < 2:
        parser.error("give two catalogs at least")
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as scratch:
        index, copy = Path(scratch, "index"), Path(scratch, "copy")
        digests, took = {}, {}
        for catalog in given.catalogs:
            started = time.monotonic()
            subprocess.run([given.picktools, "index", "--catalog", catalog, "--out", index], check=True, stdout=subprocess.DEVNULL)
            took[catalog] = time.monotonic() - started
            digests[catalog] = whole(given.picktools, index, copy)
        if len(set(digests.values())) < len(given.catalogs):
            sys.exit("kill-index: two of the catalogs are one")
        before, ends = digests[given.catalogs[-1]], Counter()
        for number in range(given.rounds):
            catalog = given.catalogs[number % len(given.catalogs)]
            command = [given.picktools, "index", "--catalog", catalog, "--out", index]
            writer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            time.sleep(chance.uniform(0, 1.25 * took[catalog]))
            ended = writer.poll() is not None
            if not ended:
                os.killpg(writer.pid, signal.SIGKILL)
                writer.wait()
            now = whole(given.picktools, index, copy)
            if now not in (before, digests[catalog]) or ended and now != digests[catalog]:
                sys.exit(f"kill-index: round {number} left the index of {now}")
            beside = sorted(path.name for path in index.iterdir())
            if not {"lock", "picktools.index"} <= set(beside) or len(beside) > 3:
                sys.exit(f"kill-index: round {number} left {beside}")
            ends["ended before it was killed" if ended else "killed, new index" if now == digests[catalog] else "killed, old index"] += 1
            ends["with a temporary file"] += len(beside) == 3
            before = now
    print(f"{given.rounds} rounds, every index whole: " + ", ".join(f"{count} {end}" for end, count in sorted(ends.items())))


if __name__ == "__main__":
    main()
