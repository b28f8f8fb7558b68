#!/usr/bin/env python3
"""Draws benches/history.jsonl as docs/speed.svg: a small chart for each measure, on a logarithmic scale, commits from left to right.

usage: scripts/draw-history.py [PART …]      (measures that have one of these in their names; default: those of LISTED)

Each machine and corpus has a line of its own, as figures of two do not compare.
"""

import html
import json
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTED = ["pick/keyword/all", "pick/hybrid/all", "index/hybrid", "once/hybrid", "rival"]
WIDTH, HEIGHT, ACROSS = 290, 130, 3
LEFT, RIGHT, TOP, BOTTOM = 10, 74, 30, 22
COLOURS = ["#2563eb", "#c2410c", "#15803d", "#7c3aed", "#525252"]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def chart(measure, lines, commits, x, y):
    """`lines`: {(machine, corpus): [(commit, value)]}."""
    unit = lines[next(iter(lines))][0][2]
    values = [math.log(value) for points in lines.values() for _, value, _ in points]
    low, high = min(values) - 0.1, max(values) + 0.1
    across = lambda commit: x + LEFT + (WIDTH - LEFT - RIGHT) * commits.index(commit) / max(len(commits) - 1, 1)
    upward = lambda value: y + HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log(value) - low) / (high - low)
    drawn = [f'<text x="{x + LEFT}" y="{y + 16}" class="name">{html.escape(measure)}, {unit}</text>']
    drawn.append(f'<path d="M{x + LEFT} {y + HEIGHT - BOTTOM + 6}h{WIDTH - LEFT - RIGHT}" class="axis"/>')
    for which, points in enumerate(lines.values()):
        colour = COLOURS[which % len(COLOURS)]
        spots = [(across(commit), upward(value), f"{commit}: {number(value)} {unit}") for commit, value, _ in points]
        drawn.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b, _ in spots)}" stroke="{colour}"/>')
        drawn += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{colour}"><title>{text}</title></circle>' for a, b, text in spots]
        a, b, _ = spots[-1]
        drawn.append(f'<text x="{a + 6:.1f}" y="{b + 4:.1f}" style="fill:{colour}">{number(points[-1][1])}</text>')
    return drawn


def main():
    wanted = sys.argv[1:] or LISTED
    found, commits = {}, []
    with open(ROOT / "benches/history.jsonl", encoding="utf-8") as file:
        for line in map(json.loads, file):
            if any(part in line["measure"] for part in wanted):
                if line["commit"] not in commits:
                    commits.append(line["commit"])
                lines = found.setdefault(line["measure"], {})
                lines.setdefault((line["machine"], line["corpus"]), []).append((line["commit"], line["value"], line["unit"]))
    if not found:
        sys.exit(f"error: benches/history.jsonl has no measure with {' or '.join(wanted)} in its name")
    drawn = []
    for place, (measure, lines) in enumerate(found.items()):
        drawn += chart(measure, lines, commits, place % ACROSS * WIDTH, place // ACROSS * HEIGHT)
    width, height = ACROSS * WIDTH, math.ceil(len(found) / ACROSS) * HEIGHT + 24
    drawn.append(f'<text x="{LEFT}" y="{height - 8}">{commits[0]} to {commits[-1]}</text>')
    style = "text{font:11px sans-serif;fill:#444}.name{font-weight:bold}.axis{stroke:#bbb}polyline{fill:none;stroke-width:1.5}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="Speed by commit">'
    text = "\n".join([head, f"<style>{style}</style>", f'<rect width="{width}" height="{height}" fill="#fff"/>', *drawn, "</svg>"])
    (ROOT / "docs/speed.svg").write_text(text + "\n", encoding="utf-8")
    print(f"docs/speed.svg: {len(found)} measures of {len(commits)} commits")


if __name__ == "__main__":
    main()
