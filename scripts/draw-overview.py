#!/usr/bin/env python3
"""Draws docs/overview.svg: the tools that go into picktools, what it does with them, and what the model sees.

usage: scripts/draw-overview.py [--check]      (--check fails if the file differs from the drawing)
"""

import html
import sys
from pathlib import Path

OUTPUT = Path(__file__).resolve().parent.parent / "docs/overview.svg"
WIDTH, HEIGHT = 880, 300
LEFT, MIDDLE, RIGHT = (10, 220), (290, 300), (650, 220)
STAGES = [
    ("access", "hides what the caller may not use"),
    ("retrieve", "keywords and vectors, on the CPU"),
    ("select", "the few that fit, part by part"),
    ("explain", "a reason for every decision"),
    ("validate", "checks the call against the schema"),
]
SOURCES = ["12 MCP servers", "OpenAPI documents", "function definitions", "skills"]
RESULTS = ["1. chat/post_message", "2. cloud/deploy_function", "3. cloud/list_instances"]
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2937 } .title { font-weight: 600; font-size: 15px }
.small { font-size: 12px; fill: #4b5563 } .mono { font-family: ui-monospace, monospace; font-size: 12px }
.box { fill: #ffffff; stroke: #cbd5e1 } .group { fill: #f8fafc; stroke: #94a3b8 } .arrow { stroke: #475569; stroke-width: 2; fill: none }
"""


def text(x, y, content, style=""):
    return f'<text x="{x}" y="{y}" class="{style}">{html.escape(content)}</text>'


def box(x, y, width, height, style="box"):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" class="{style}"/>'


def column(place, title, subtitle):
    x, width = place
    return [box(x, 30, width, HEIGHT - 50, "group"), text(x + 16, 56, title, "title"), text(x + 16, 76, subtitle, "small")]


def arrow(start, end):
    return f'<path d="M{start} 155H{end - 4}" class="arrow" marker-end="url(#head)"/>'


def draw():
    parts = column(LEFT, "Your tools", "thousands of definitions")
    for place, source in enumerate(SOURCES):
        parts += [box(LEFT[0] + 16, 92 + 44 * place, LEFT[1] - 32, 34), text(LEFT[0] + 30, 114 + 44 * place, source)]
    parts += column(MIDDLE, "picktools", "about a millisecond, no network, no GPU")
    for place, (name, detail) in enumerate(STAGES):
        y = 106 + 36 * place
        parts += [text(MIDDLE[0] + 16, y, name, "mono"), text(MIDDLE[0] + 84, y, detail, "small")]
    parts += column(RIGHT, "The model sees", "the few tools that it needs")
    for place, result in enumerate(RESULTS):
        y = 92 + 44 * place
        parts += [box(RIGHT[0] + 12, y, RIGHT[1] - 24, 34), text(RIGHT[0] + 20, y + 22, result, "mono")]
    parts.append(text(RIGHT[0] + 16, 248, "unsafe tools: out, with reason", "small"))
    parts += [arrow(LEFT[0] + LEFT[1], MIDDLE[0]), arrow(MIDDLE[0] + MIDDLE[1], RIGHT[0])]
    head = '<marker id="head" markerWidth="8" markerHeight="8" refX="4" refY="3" orient="auto"><path d="M0 0L5 3L0 6z" fill="#475569"/></marker>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Tools go into picktools, which selects the few that a request needs.">'
        f'<style>{STYLE}</style><defs>{head}</defs><rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
        + "\n".join(parts)
        + "</svg>\n"
    )


def main():
    drawing = draw()
    if "--check" in sys.argv[1:]:
        if not OUTPUT.exists() or OUTPUT.read_text(encoding="utf-8") != drawing:
            sys.exit("error: docs/overview.svg is not what scripts/draw-overview.py draws; run the script")
    else:
        OUTPUT.write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    main()
