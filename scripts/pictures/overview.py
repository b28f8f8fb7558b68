"""The overview: the tools that go into picktools, what it does with them, and what the model sees."""

from .svg import arrow, box, picture, text

TITLE = "Tools go into picktools, which selects the few that a request needs."
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


def column(place, title, subtitle):
    x, width = place
    return [box(x, 30, width, HEIGHT - 50, "group"), text(x + 16, 56, title, "title"), text(x + 16, 76, subtitle, "small")]


def draw(_root):
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
    for start, end in ((LEFT[0] + LEFT[1], MIDDLE[0]), (MIDDLE[0] + MIDDLE[1], RIGHT[0])):
        parts.append(arrow([(start, 155), (end - 4, 155)]))
    return picture(WIDTH, HEIGHT, TITLE, parts)
