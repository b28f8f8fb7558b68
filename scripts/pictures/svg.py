"""The elements of a picture: texts, boxes and arrows."""

import html

COLOURS = {"flow": "#475569", "stop": "#b91c1c", "audit": "#15803d"}
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2937 } .title { font-weight: 600; font-size: 15px }
.small { font-size: 12px; fill: #4b5563 } .mono { font-family: ui-monospace, monospace; font-size: 12px }
.name { font-family: ui-monospace, monospace; font-size: 12px; font-weight: 600 } .end { text-anchor: end } .middle { text-anchor: middle }
.box { fill: #ffffff; stroke: #cbd5e1 } .group { fill: #f8fafc; stroke: #94a3b8 }
.stage { fill: #e2e8f0; stroke: #64748b } .value { fill: #eff6ff; stroke: #3b82f6 } .audit { fill: #f0fdf4; stroke: #15803d }
.stop { fill: #fef2f2; stroke: #b91c1c } .warning { fill: #fffbeb; stroke: #d97706 } .wide { fill: none; stroke-width: 2 } .thin { fill: none; stroke-width: 1.5 }
.dashed { stroke-dasharray: 5 4 } .mark { rx: 3 } .head { font-size: 13px; font-weight: 600 }
"""


def text(x, y, content, style=""):
    return f'<text x="{x:g}" y="{y:g}" class="{style}">{html.escape(content)}</text>'


def box(x, y, width, height, style="box"):
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" class="{style}"/>'


def arrow(points, colour="flow", style="wide", head=True):
    """Returns a line along `points`, with a head at the end."""
    path = "L".join(f"{x:g} {y:g}" for x, y in points)
    end = f' marker-end="url(#{colour})"' if head else ""
    return f'<path d="M{path}" class="{style}" stroke="{COLOURS[colour]}"{end}/>'


def card_height(lines):
    return 12 + 17 * len(lines)


def card(x, y, width, lines, style="box"):
    """Returns a box around lines, which are pairs of a text and a style. A line without text is left free."""
    parts = [box(x, y, width, card_height(lines), style)]
    for place, (content, line_style) in enumerate(lines):
        if content:
            parts.append(text(x + 10, y + 19 + 17 * place, content, line_style))
    return parts


def picture(width, height, title, parts):
    """Returns the document. It has a background of its own, for dark pages."""
    heads = "".join(
        f'<marker id="{name}" markerWidth="8" markerHeight="8" refX="4" refY="3" orient="auto" markerUnits="userSpaceOnUse" '
        f'viewBox="0 0 5 6"><path d="M0 0L5 3L0 6z" fill="{colour}"/></marker>'
        for name, colour in COLOURS.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(title)}">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style><defs>{heads}</defs>"
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>' + "\n".join(parts) + "</svg>\n"
    )
