"""Reference reader of static.bin: nothing but the rules of crates/models/static/README.md (numpy and the standard library). The Rust port must
agree with it.

python static_ref.py static.bin reference.json    checks what the training wrote
"""

import hashlib, json, struct, sys, unicodedata
import numpy as np

MAX_WORD = 100
NEITHER, ENGLISH, OTHER = 0, 1, 2
#: Letters of scripts that put no blanks between words, and pictures.
WITHOUT_BLANKS = [
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x2600, 0x27BF), (0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF), (0x1F000, 0x1FAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B81F), (0x2B920, 0x2CEAF), (0x2F800, 0x2FA1F),
]  # fmt: skip


def space(c):
    return c in " \t\n\r" or unicodedata.category(c) == "Zs" or c in "\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"


def control(c):
    return c not in "\t\n\r" and unicodedata.category(c) in ("Cc", "Cf", "Cn", "Co", "Cs")


def punct(c):
    return (
        33 <= ord(c) <= 47 or 58 <= ord(c) <= 64 or 91 <= ord(c) <= 96 or 123 <= ord(c) <= 126
    ) or unicodedata.category(c)[0] == "P"


def is_run(c):
    return ord(c) > 0xDFF and any(a <= ord(c) <= b for a, b in WITHOUT_BLANKS)


def elsewhere(word):
    """Not in Latin letters."""
    c = word[0]
    return not c.isascii() and not unicodedata.name(c, "").startswith(("LATIN", "FULLWIDTH LATIN", "MODIFIER LETTER SMALL"))


def words(t):
    t = "".join(" " if space(c) else c for c in t if not (c == "\0" or c == "\ufffd" or control(c)))
    w, run = "", False
    for c in unicodedata.normalize("NFD", t):
        if unicodedata.category(c) == "Mn":
            continue
        ends = space(c) or punct(c)
        if w and (ends or is_run(c) != run):
            yield w
            w = ""
        if not ends:
            run = is_run(c)
            w += c.lower()
        elif not space(c):
            yield c
    if w:
        yield w


class Vocabulary:
    """Pieces of English, of other languages (numbered behind them), and what each says of a text's language."""

    def __init__(s, english, others=(), leans=None):
        s.english = {p: i for i, p in enumerate(english)}
        s.others = {p: len(s.english) + i for i, p in enumerate(others)}
        assert len(s.english) == len(english) and len(s.others) == len(others), "a piece stands twice"
        s.leans = leans if leans is not None else [NEITHER] * (len(english) + len(others))
        s.longest = max(map(len, [*english, *others]))

    def cut(s, word, known, covering=False):
        """The longest pieces from the left. Covering, None where they are not all of it; of a run what no piece begins with is left out."""
        run = is_run(word[0])
        if len(word) > MAX_WORD and not (covering and run):
            return None if covering else []
        out, i = [], 0
        while i < len(word):
            mark = "##" if i and not (covering and run) else ""
            for j in range(min(len(word), i + s.longest), i, -1):
                x = known.get(mark + word[i:j])
                if x is not None:
                    out.append(x)
                    i = j
                    break
            else:
                if covering and not run:
                    return None
                i += 1
        return out

    def is_other(s, read):
        """More words speak for another language than for English."""
        t = 0
        for w in read:
            if elsewhere(w):
                t += w[0].isalpha()
            else:
                x = s.english.get(w, s.others.get(w))
                t += 0 if x is None else {NEITHER: 0, ENGLISH: -1, OTHER: 1}[s.leans[x]]
        return t > 0

    def pieces(s, word, other):
        if other or elsewhere(word):
            x = s.others.get(word, s.english.get(word))
            found = [x] if x is not None else s.cut(word, s.others, True)
            if found:
                return found
        return s.cut(word, s.english)

    def ids(s, text, other=None):
        """The pieces of a text, whose language may be given."""
        read = list(words(text))
        other = s.is_other(read) if other is None else other
        return [x for w in read for x in s.pieces(w, other)]


class Static:
    def __init__(s, path):
        b = open(path, "rb").read()
        assert b[:8] == b"PTSTATIC" and hashlib.sha256(b[:-32]).digest() == b[-32:], "not a static model, or damaged"
        (version,) = struct.unpack_from("<I", b, 8)
        assert version in (1, 2, 3)  # the first had neither second rows nor other languages, the second no scope
        s.d, s.n = struct.unpack_from("<II", b, 12)
        s.second, others, m = struct.unpack_from("<III", b, 20) if version > 1 else (0, 0, *struct.unpack_from("<I", b, 20))
        o = 32 if version > 1 else 24
        rows = s.n + s.second + others
        s.scale = np.frombuffer(b, "<f4", rows, o)
        o += 4 * rows
        s.q = np.frombuffer(b, np.int8, rows * s.d, o).reshape(rows, s.d)
        o += rows * s.d
        leans = list(b[o : o + s.n + others]) if version > 1 else None
        o += len(leans or ())
        if version > 2:
            step, s.intercept = struct.unpack_from("<ff", b, o)
            s.weights = np.frombuffer(b, np.int8, s.n, o + 8) * step
            o += 8 + s.n
        s.names = b[o : o + m].decode().split("\n")
        assert o + m + 32 == len(b) and len(s.names) == s.n + others
        s.vocabulary = Vocabulary(s.names[: s.n], s.names[s.n :], leans)

    def row(s, piece, tool):
        return piece + s.second if piece >= s.n else s.n + piece if tool and piece < s.second else piece

    def rows(s):
        return s.q.astype(np.float32) * s.scale[:, None]

    def ids(s, text, tool=False):
        """The rows of a request's, or a tool's, pieces."""
        return [s.row(x, tool) for x in s.vocabulary.ids(text)]

    def vector(s, text, tool=False):
        i = s.ids(text, tool)
        u = (s.q[i].astype(np.float32) * s.scale[i][:, None]).astype(np.float64).sum(0) if i else np.zeros(s.d)
        k = np.linalg.norm(u)
        return u / k if k else u

    def scope(s, text):
        """Whether a request in English is one that tools serve at all: the logarithm of the odds. None of other languages."""
        i = sorted(x for x in {*s.vocabulary.ids(text)} if x < s.n)
        other = s.vocabulary.is_other(list(words(text)))
        return None if other or not i else round(float(s.intercept + s.weights[i].sum() / len(i) ** 0.5), 5)


if __name__ == "__main__":
    M = Static(sys.argv[1])
    bad = 0
    for x in json.load(open(sys.argv[2], encoding="utf-8")):
        same = lambda tool, y: np.abs(M.vector(x["text"], tool)[:8] - np.array(y)).max() < 1e-5
        if [M.names[j] for j in M.vocabulary.ids(x["text"])] != x["pieces"] or not same(False, x["request"]) or not same(True, x["tool"]) or M.scope(x["text"]) != x["scope"]:
            bad += 1
            print("DIFFERS", repr(x["text"]))
    print("reference.json:", f"{bad} differ" if bad else "all same")
    sys.exit(bool(bad))
