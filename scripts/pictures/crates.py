"""The crates in layers, with their dependencies, from the Cargo.toml files."""

import sys
import tomllib

from .svg import arrow, box, picture, text

TITLE = "The crates in layers, with arrows to the crates that they use."
WIDTH = 900
# The layers from above, each with its rows of boxes: the crate, its column, its width in columns and its purpose.
LAYERS = [
    ("programs", [], [[("examples", 0, 2, "small programs"), ("cli", 2, 2, "the program picktools"), ("python", 4, 2, "the Python package")]]),
    (
        "serving",
        [],
        [[("http", 0, 1, "API, console"), ("proxy", 1, 1, "model proxy"), ("gateway", 2, 2, "MCP gateway: servers, approvals"), ("audit", 4, 1, "audit log")]],
    ),
    (
        "network",
        [],
        [
            [("shell", 1, 1, "built-in tools"), ("runtime", 2, 1, "tool manager")],
            [("llm", 1, 1, "model clients"), ("mcp", 2, 1, "MCP client"), ("state", 4, 1, "shared state"), ("store", 5, 1, "shared index")],
            [("net", 4, 2, "HTTP client and TLS")],
        ],
    ),
    (
        "no network",
        ["no TLS, C or", "C++ code,", "except onnx"],
        [
            [("tuned", 0, 1, "tuned model"), ("call", 1, 1, "valid calls"), ("import", 2, 1, "file formats"), ("check", 3, 1, "lint of catalogs"), ("onnx", 5, 1, "opt-in models")],
            [("learn", 0, 1, "readers of logs"), ("provider", 1, 1, "vendor formats"), ("eval", 2, 1, "rankings"), ("skills", 3, 1, "SKILL.md files")],
        ],
    ),
    ("engine", [], [[("models", 0, 2, "weights, token tables"), ("picktools", 2, 4, "the engine")]]),
]
PROGRAMS = "programs"
ENGINE = "picktools"
NOT_DRAWN = {"testing"}
CHANGE = "change LAYERS in scripts/pictures/crates.py"
EXPLANATION = [
    "An arrow means that a crate uses another; a dashed arrow is an optional use. Uses that follow from other arrows are not drawn,",
    "nor is testing, which only tests use.",
]
START, PITCH, SPACE = 128, 125, 16
ROW, ROW_SPACE, LAYER_SPACE, PADDING = 42, 26, 22, 12


def dependencies(root):
    """Returns the crates that each crate uses, as {crate: {used crate: whether it is optional}}."""
    members = [root, *sorted(path.parent for path in root.glob("crates/*/Cargo.toml")), root / "bindings/python", root / "examples"]
    used = {}
    for folder in members:
        manifest = tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8"))
        tables = [manifest, *manifest.get("target", {}).values()]
        found = {}
        for table in tables:
            for name, entry in table.get("dependencies", {}).items():
                if name.startswith(ENGINE):
                    found[short(name)] = isinstance(entry, dict) and entry.get("optional", False)
        used[short(manifest["package"]["name"])] = found
    return {name: found for name, found in used.items() if name not in NOT_DRAWN}


def short(name):
    return name.removeprefix("picktools-")


def reduced(used):
    """Returns the dependencies that do not follow from others, as pairs of crates. Optional ones imply nothing."""
    needed = {name: [other for other, optional in found.items() if not optional] for name, found in used.items()}

    def reach(name):
        return set(needed[name]).union(*(reach(other) for other in needed[name]))

    pairs = []
    for name, found in used.items():
        implied = set().union(*(reach(other) for other in needed[name]))
        pairs += [(name, other) for other in found if other not in implied]
    return pairs


class Grid:
    """The places of the boxes."""

    def __init__(self):
        self.boxes = {}
        self.layers = []
        y = 20
        for name, notes, rows in LAYERS:
            top = y
            y += PADDING
            height = ROW + 17 if name == PROGRAMS else ROW
            for row in rows:
                for crate, column, span, purpose in row:
                    self.boxes[crate] = (START + PITCH * column, y, PITCH * span - SPACE, height, purpose)
                y += height + ROW_SPACE
            y += PADDING - ROW_SPACE
            self.layers.append((name, notes, top, y - top))
            y += LAYER_SPACE
        self.bottom = y - LAYER_SPACE

    def sides(self, crate):
        x, y, width, height, _ = self.boxes[crate]
        return x, x + width, y, y + height

    def is_free(self, x1, y1, x2, y2, ends):
        """Returns whether a horizontal or vertical line meets no box other than those at its ends."""
        low_x, high_x, low_y, high_y = min(x1, x2), max(x1, x2), min(y1, y2), max(y1, y2)
        for crate in self.boxes.keys() - set(ends):
            left, right, top, bottom = self.sides(crate)
            if low_x < right + 4 and high_x > left - 4 and low_y < bottom and high_y > top:
                return False
        return True

    def route(self, source, target):
        """Returns the points of an arrow: the most direct line that meets no other box."""
        left, right, top, bottom = self.sides(source)
        to_left, to_right, to_top, _ = self.sides(target)
        middle, to_middle = (left + right) / 2, (to_left + to_right) / 2
        ends = (source, target)
        if to_top < top:
            sys.exit(f"error: {source} uses {target}, which is above it; {CHANGE}")
        start, end = (right, to_left - 3) if left < to_left else (left, to_right + 3)
        y = (top + bottom) / 2
        if top == to_top and self.is_free(start, y, end, y, ends):
            return [(start, y), (end, y)]
        for x in (to_middle, middle):
            if left < x < right and to_left < x < to_right and self.is_free(x, bottom, x, to_top, ends):
                return [(x, bottom), (x, to_top - 3)]
        if right < to_left:
            # Lines to the side of one box end below each other.
            x, y = right - 22, to_top + 12 + 14 * (left > START + PITCH)
            if self.is_free(x, bottom, x, y, ends) and self.is_free(x, y, to_left, y, ends):
                return [(x, bottom), (x, y), (to_left - 3, y)]
        return self.detour(source, target)

    def detour(self, source, target):
        """Returns the points of an arrow that runs between the columns."""
        left, right, _, bottom = self.sides(source)
        to_left, to_right, to_top, _ = self.sides(target)
        middle, to_middle = (left + right) / 2, (to_left + to_right) / 2
        above, below = bottom + 8, to_top - 19
        channels = [START - SPACE / 2 + PITCH * column for column in range(7)]
        channels.sort(key=lambda x: abs(x - middle) + abs(x - to_left))
        for x in channels:
            if self.is_free(x, above, x, below, ()):
                start = left + 22 if x < middle else right - 22
                end = to_left + 22 if x < to_middle else to_right - 22
                return [(start, bottom), (start, above), (x, above), (x, below), (end, below), (end, to_top - 3)]
        sys.exit(f"error: there is no way for an arrow from {source} to {target}; {CHANGE}")


def wrapped(words, length):
    """Splits a list of words into lines."""
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) + 1 > length:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def draw(root):
    used = dependencies(root)
    grid = Grid()
    if used.keys() != grid.boxes.keys():
        sys.exit(f"error: these crates have no manifest or no place: {', '.join(sorted(used.keys() ^ grid.boxes.keys()))}; {CHANGE}")
    programs = {crate for name, _, rows in LAYERS if name == PROGRAMS for row in rows for crate, *_ in row}
    listed = {crate: [] for crate in programs}
    arrows, crates = [], []
    for source, target in reduced(used):
        optional = used[source][target]
        if source in programs:
            listed[source].append(target + (" (opt-in)" if optional else ""))
        elif target != ENGINE:
            arrows.append(arrow(grid.route(source, target), "flow", "thin dashed" if optional else "thin"))
    for crate, (x, y, width, height, purpose) in grid.boxes.items():
        if crate == ENGINE:
            without = sorted(name for name, found in used.items() if ENGINE not in found and name != ENGINE)
            purpose = f"the engine; used by every crate except {' and '.join(without)}"
        crates += [box(x, y, width, height, "value" if crate == ENGINE else "box"), text(x + 9, y + 18, crate, "name")]
        lines = [purpose]
        if crate in programs:
            crates.append(text(x + width - 9, y + 18, purpose, "small end"))
            lines = wrapped(["uses", *", ".join(sorted(listed[crate])).split(" ")], 36)
        crates += [text(x + 9, y + 34 + 16 * place, line, "small") for place, line in enumerate(lines)]
    layers = []
    for name, notes, top, height in grid.layers:
        layers += [box(20, top, WIDTH - 40, height, "group"), text(32, top + 24, name, "head")]
        layers += [text(32, top + 42 + 16 * place, line, "small") for place, line in enumerate(notes)]
    notes = [text(20, grid.bottom + 24 + 17 * place, line, "small") for place, line in enumerate(EXPLANATION)]
    return picture(WIDTH, grid.bottom + 57, TITLE, layers + arrows + crates + notes)
