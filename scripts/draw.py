#!/usr/bin/env python3
"""Draws the pictures of the documents: docs/overview.svg, and pick, call and crates in docs/images.

usage: scripts/draw.py [--check]

`--check` fails if a picture differs from its drawing, or names a function that its file does not have. The crates come from the
Cargo.toml files.
"""

import re
import sys
from pathlib import Path

from pictures import call, crates, overview, pick

ROOT = Path(__file__).resolve().parent.parent
PICTURES = {
    "docs/overview.svg": overview,
    "docs/images/pick.svg": pick,
    "docs/images/call.svg": call,
    "docs/images/crates.svg": crates,
}


def defines(source, name):
    """Returns whether a file has a function or type, which may be `Type::function`."""
    if not source.exists():
        return False
    code = source.read_text(encoding="utf-8")
    return all(re.search(rf"\b{'fn ' if part[0].islower() else ''}{part}\b", code) for part in name.split("::"))


def check(path, picture, drawing):
    """Returns the faults of a picture."""
    faults = []
    file = ROOT / path
    if not file.exists() or file.read_text(encoding="utf-8") != drawing:
        faults.append(f"{path} is out of date; run scripts/draw.py")
    for source, name in getattr(picture, "NAMES", []):
        if not defines(ROOT / source, name):
            faults.append(f"{path} shows {name} of {source}, which does not exist; change scripts/{picture.__name__.replace('.', '/')}.py")
    return faults


def main():
    faults = []
    for path, picture in PICTURES.items():
        drawing = picture.draw(ROOT)
        if "--check" in sys.argv[1:]:
            faults += check(path, picture, drawing)
        else:
            (ROOT / path).write_text(drawing, encoding="utf-8")
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
