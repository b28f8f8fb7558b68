"""The features of a text, by the rules of `src/reading/features.rs`."""

import unicodedata

HASH_BITS = 16
MAX_WORDS = 64
EXACT_LENGTHS = 12


def hashed(text):
    """FNV-1a, folded to HASH_BITS bits."""
    h = 0x811C9DC5
    for byte in text.encode("utf-8"):
        h = ((h ^ byte) * 0x01000193) & 0xFFFFFFFF
    return (h ^ (h >> 15)) & ((1 << HASH_BITS) - 1)


def is_ideograph(c):
    o = ord(c)
    return 0x3040 <= o <= 0x30FF or 0x3400 <= o <= 0x9FFF or 0xF900 <= o <= 0xFAFF or 0x20000 <= o <= 0x2FFFF


def words(text):
    """Pairs of kind ("plain", "ideograph", "symbol") and text, in lower case; the first 64."""
    out, plain = [], ""
    for c in (d for c in text[: 64 * 1024] for d in c.lower()):
        if len(out) >= MAX_WORDS:
            break
        if is_ideograph(c):
            if plain:
                out.append(("plain", plain))
                plain = ""
            out.append(("ideograph", c))
        elif c.isalnum() or unicodedata.category(c) in ("Mn", "Mc"):
            plain += c
        elif c in "'’" and plain:
            plain += "'"
        else:
            if plain:
                out.append(("plain", plain))
                plain = ""
            if not c.isspace():
                out.append(("symbol", c))
    if plain:
        out.append(("plain", plain))
    return out[:MAX_WORDS]


def without_digits(text):
    return "".join("0" if unicodedata.category(c) == "Nd" else c for c in text)


def length(words):
    return sum(kind != "symbol" for kind, _ in words)


def length_class(n):
    return n if n <= EXACT_LENGTHS else EXACT_LENGTHS + min((n - EXACT_LENGTHS) // 8, 4)


def features(words):
    texts = [without_digits(text) for _, text in words]
    found = set()
    for position, (kind, _) in enumerate(words):
        text = texts[position]
        found.add(hashed("w" + text))
        if position + 1 < len(texts):
            found.add(hashed("b" + text + " " + texts[position + 1]))
        if kind == "plain" and len(text) > 2:
            marked = f"<{text}>"
            for size in (3, 4):
                for start in range(len(marked) - size + 1):
                    found.add(hashed("n" + marked[start : start + size]))
    if texts:
        found.add(hashed("^" + texts[0]))
        found.add(hashed("$" + texts[-1]))
        if len(texts) > 1:
            found.add(hashed("^^" + texts[0] + " " + texts[1]))
    found.add(hashed("l" + str(length_class(length(words)))))
    return sorted(found)
