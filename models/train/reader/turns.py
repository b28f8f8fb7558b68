"""What a turn's features are, besides those of its text, by the rules of `src/reading/turn.rs`."""

from features import hashed, is_ideograph, length, words

TURN_BITS = 14
ACTS = ["choice", "consent", "correction", "ellipsis", "new_request", "refusal", "refuse", "second_tool", "small_talk", "thanks", "value"]
STEM = 5


def stems(words):
    """What shows that two texts speak of the same: long words by their beginning, numbers, and ideographs."""
    out = set()
    for kind, text in words:
        if kind == "ideograph" or (kind == "plain" and (len(text) > 3 or any(c.isdecimal() for c in text))):
            out.add(text[:STEM])
    return out


def context_features(before, answer, turn):
    w, answer_words = words(turn), words(answer)
    answer = answer.strip()
    asks = "none" if not answer else "end" if answer.endswith(("?", "？")) else "inside" if "?" in answer or "？" in answer else "no"
    n = length(w)
    said, replied, first = stems(w), stems(answer_words), stems(words(before))
    known = len(said & (replied | first))
    found = [
        f"asks {asks}", f"length {asks} {n if n <= 12 else 13 + min((n - 13) // 8, 3)}",
        f"of answer {min(len(said & replied), 3)}", f"of before {min(len(said & first), 3)}",
        f"new {min(len(said) - known, 8)}", f"known {4 * known // max(len(said), 1)}",
        f"question {'?' in turn or '？' in turn}", f"digits {any(c.isdecimal() for c in turn)} {asks}", f"before {bool(before.strip())}",
    ]  # fmt: skip
    found += [f"word {asks} {text}" for _, text in w[:3]]
    return sorted({hashed("@" + f) for f in found})
