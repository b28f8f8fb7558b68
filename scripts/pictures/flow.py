"""A flow from top to bottom in three columns: what goes in on the left, stages in the middle, and early ends on the right."""

from .svg import arrow, box, card, card_height, text

WIDTH = 900
LEFT, MIDDLE, RIGHT = (20, 196), (254, 350), (642, 238)
CENTRE = MIDDLE[0] + MIDDLE[1] / 2
# The space between the boxes of a stack.
SPACE = 5


class Flow:
    """The parts of a flow that is drawn from top to bottom."""

    def __init__(self, y):
        self.parts = []
        self.y = y
        self.bottom = None
        # How far from the middle of a stage its arrows may be.
        self.reach = 0

    def step(self, lines, style, gap=18, label=None, aside=None):
        """Adds a box of the middle column below the last one. `label` is beside the arrow to it, and `aside` at the right of its
        first line. Returns the vertical place of its centre."""
        x, width = MIDDLE
        if self.bottom is not None:
            self.y = self.bottom + gap
            self.parts.append(arrow([(CENTRE, self.bottom), (CENTRE, self.y - 3)]))
        if label:
            self.parts.append(text(CENTRE + 12, self.bottom + 20, label, "name"))
        self.parts += card(x, self.y, width, lines, style)
        if aside:
            self.parts.append(text(x + width - 10, self.y + 19, aside, "small end"))
        self.bottom = self.y + card_height(lines)
        self.reach = card_height(lines) / 2 - 4
        return (self.y + self.bottom) / 2

    def inputs(self, y, *cards):
        """Adds boxes of the left column around `y`. Their arrows go to the middle column, those of the audit log away from it."""
        edge, side = MIDDLE[0], LEFT[0] + LEFT[1]
        for place, style in self.stack(LEFT, y, cards):
            if style == "audit":
                self.parts.append(arrow([(edge, place), (side + 3, place)], "audit"))
            else:
                self.parts.append(arrow([(side, place), (edge - 3, place)]))

    def ends(self, y, *cards):
        """Adds boxes of the right column around `y`, with arrows to them. Returns the places of the arrows."""
        places = self.stack(RIGHT, y, cards)
        for place, style in places:
            colour = "stop" if style == "stop" else "flow"
            self.parts.append(arrow([(MIDDLE[0] + MIDDLE[1], place), (RIGHT[0] - 3, place)], colour))
        return [place for place, _ in places]

    def stack(self, column, y, cards):
        """Draws boxes below each other, with the middle at `y`. Returns the places of their arrows with their styles."""
        places = []
        top = y - (sum(card_height(lines) for lines, _ in cards) + SPACE * (len(cards) - 1)) / 2
        for lines, style in cards:
            height = card_height(lines)
            self.parts += card(column[0], top, column[1], lines, style)
            places.append((min(max(top + height / 2, y - self.reach), y + self.reach), style))
            top += height + SPACE
        return places


def note(*lines, style="box"):
    """Returns a box of small text."""
    return [(line, "small") for line in lines], style


def headed(name, *lines, style="box"):
    """Returns a box with a name and small text."""
    return [(name, "head")] + note(*lines)[0], style


def headings(*titles):
    return [text(column[0], 30, title, "title") for column, title in zip((LEFT, MIDDLE, RIGHT), titles)]


def legend(y, entries):
    """Returns a line that explains the styles. Its entries are a horizontal place, a style and its meaning."""
    parts = []
    for x, style, meaning in entries:
        parts += [box(x, y - 11, 18, 14, f"{style} mark"), text(x + 25, y, meaning, "small")]
    return parts
