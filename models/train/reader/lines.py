"""The structure of a text in lines, by the rules of `src/reading/paste.rs`."""

import math, re
from dataclasses import dataclass

FENCES = ("```", "~~~", '"""')
RULES = "-=*_#"
#: The prefixes of quoted or listed matter.
MARKS = (">", "|", "#", "//", "- ", "* ", "+", "<", "{", '"', "“")
#: What `structure` tells of a line besides its own score.
NAMES = "mark first second last second_last single paragraph near others question length long symbols digits full_stop indented first_paragraph last_paragraph".split()
NAMES += "best_sentence worst_sentence mean_sentence sentences many_sentences".split()
#: What `beside_values` tells of the lines beside the request.
BESIDE_NAMES = "mean_score best_score length many_lines request_share best_request request_score scope longest".split()
MAX_LINE = 300
#: The rules by which lines are chosen as the request, and the largest length of a line that counts.
MIN_PASTED_BYTES, MIN_SCOPE, MARGIN, CERTAIN, MAX_BESIDE_CHARS = 180, -1.0, 1.5, 0.0, 500
#: How many characters and sentences of a line are read as sentences, and from how many on their scores count.
MAX_SENTENCE_CHARS, MAX_SENTENCES, MIN_SENTENCES = 600, 12, 3


def is_rule(line):
    s = line.strip()
    return len(s) >= 5 and s[0] in RULES and all(c == s[0] for c in s)


def is_fence(line):
    return line.strip()[:3] in FENCES


def fenced(raw):
    """Which lines are in a fence, with the lines that open and close it."""
    inside, opened = [False] * len(raw), None
    for i, line in enumerate(raw):
        mark = line.strip()[:3]
        if opened and mark not in FENCES and line.rstrip().endswith(opened[0]):
            mark = opened[0]
        if mark not in FENCES:
            continue
        if opened is None:
            opened = (mark, i)
        elif opened[0] == mark:
            for j in range(opened[1], i + 1):
                inside[j] = True
            opened = None
    if opened and opened[0] != '"""':
        for j in range(opened[1], len(raw)):
            inside[j] = True
    return inside


def sentences(line):
    found = re.split(r"(?<=[.!?。！？;])\s+", line[:MAX_SENTENCE_CHARS])
    return [s[:MAX_LINE] for s in found if any(c.isalnum() for c in s)][:MAX_SENTENCES]


def sentence_values(line, score):
    """The best, worst and mean score of the sentences of a line, whether it has many, and how many."""
    found = sentences(line)
    if len(found) < MIN_SENTENCES:
        return [0.0, 0.0, 0.0, 0.0, len(found) / 8]
    scores = score(found)
    return [max(scores), min(scores), sum(scores) / len(scores), 1.0, min(len(found), 8) / 8]


def structure(text, score):
    """(number, stripped line, fenced, values) of each line with letters or digits; `score` gives the scores of lines."""
    raw = text.split("\n")
    inside = fenced(raw)
    ends = [not l.strip() or is_rule(l) or is_fence(l) for l in raw]
    kept = [i for i, l in enumerate(raw) if any(c.isalnum() for c in l) and not is_fence(l)]
    scores = dict(zip(kept, score([raw[i].strip()[:MAX_LINE] for i in kept])))
    total = sum(scores.values())
    out = []
    for p, i in enumerate(kept):
        line = raw[i].strip()
        a = b = i
        while a > 0 and not ends[a - 1]:
            a -= 1
        while b + 1 < len(raw) and not ends[b + 1]:
            b += 1
        near = [scores[j] for j in kept[max(0, p - 2) : p] + kept[p + 1 : p + 3]]
        n = len(line)
        values = [
            line.startswith(MARKS), p == 0, p == 1, p == len(kept) - 1, p == len(kept) - 2, a == b, min(b - a, 6) / 6,
            sum(near) / len(near) if near else 0.0, (total - scores[i]) / (len(kept) - 1) if len(kept) > 1 else 0.0,
            "?" in line or "？" in line, min(n, 200) / 200, min(math.log2(max(n, 100) / 100), 4) / 4, sum(not c.isalnum() and not c.isspace() for c in line) / n,
            sum(c.isdigit() for c in line) / n, line.endswith("."), raw[i][:1] in (" ", "\t"),
            all(j not in scores for j in range(a)), all(j not in scores for j in range(b + 1, len(raw))),
        ]  # fmt: skip
        out.append((i, line, inside[i], [scores[i], *map(float, values), *sentence_values(line, score)]))
    return out


@dataclass
class Line:
    text: str
    fenced: bool
    #: The score of its words, the best and mean score of its sentences (of its words if they are few), the log-odds that
    #: it is the request, and those that its words ask for something.
    score: float
    best_sentence: float
    mean_sentence: float
    request: float
    scope: float


def beside_request(lines):
    """The lines that are chosen as the request, and the others outside of fences, if those may be pasted matter; else None."""
    outside = [l for l in lines if not l.fenced] or lines
    eligible = [l for l in outside if l.scope >= MIN_SCOPE] or outside
    best = max((l.request for l in eligible), default=0.0)
    request = [l for l in eligible if l.request >= min(best - MARGIN, CERTAIN)]
    beside = [l for l in outside if not any(l is other for other in request)]
    return (request, beside) if sum(len(l.text.encode()) for l in beside) >= MIN_PASTED_BYTES else None


def beside_values(request, beside):
    lengths = [min(len(l.text), MAX_BESIDE_CHARS) for l in beside]
    mean = lambda values: sum(values) / len(values)
    return [
        sum(l.mean_sentence * n for l, n in zip(beside, lengths)) / sum(lengths), max(l.best_sentence for l in beside), math.log2(mean(lengths)), math.log2(len(beside)),
        len(request) / (len(request) + len(beside)), max(l.request for l in request), mean([l.score for l in request]), mean([l.scope for l in beside]),
        max(lengths) / 100,
    ]  # fmt: skip
