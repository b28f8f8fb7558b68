#!/usr/bin/env python3
"""Which words have one stem and no meaning in common: src/text/split_stems.txt. NumPy and snowballstemmer 3.1.

    python split.py [LEAST]          print the table; words nearer than LEAST (0.3) stay together

The words are those of the static model (crates/models/static). Words of one Snowball stem that differ by a regular ending only
(-s, -es, -ed, -ing) are one family, whose vector is the mean direction of its words. Families are joined from the
nearest on, by the mean cosine between them, down to LEAST (average linkage, after Xu and Croft 1998, who cut the classes
of stemmers by what stands together in a corpus). The group that has the stem itself as a word keeps it, or else the
largest. The others get a line each: the stem, and their words, the first of which stands for them.
"""

import collections, os, sys
import numpy as np
import snowballstemmer

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "static"))
from static_ref import Static

LEAST = 0.3
ENDINGS = (("ies", "y"), ("ied", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", ""), ("s", ""))


def family(word):
    """The word without a regular ending; only told apart from words of the same stem."""
    for ending, instead in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word.rstrip("e")


def groups(of_stem, words, unit, least):
    """The words of one stem in groups of one meaning; the one that keeps the stem first."""
    families = collections.defaultdict(list)
    for word in words:
        families[family(word)].append(word)
    families = list(families.values())
    centre = np.array([sum(unit[word] for word in f) for f in families])
    centre /= np.linalg.norm(centre, axis=1, keepdims=True)
    near = centre @ centre.T
    joined = [[at] for at in range(len(families))]
    while len(joined) > 1:
        mean = lambda a, b: np.mean(near[np.ix_(joined[a], joined[b])])
        best, a, b = max((mean(a, b), -a, -b) for b in range(len(joined)) for a in range(b))
        if best < least:
            break
        joined[-a] += joined.pop(-b)
    found = [sorted((w for at in g for w in families[at]), key=lambda w: (len(w), w)) for g in joined]
    return sorted(found, key=lambda g: (of_stem not in g, -len(g), g))


def main(least):
    model = Static(os.path.join(HERE, "..", "..", "..", "crates", "models", "static", "model.bin"))
    stem = snowballstemmer.stemmer("english").stemWord
    classes = collections.defaultdict(list)
    for word in model.pieces:
        if word.isascii() and word.isalpha() and len(word) > 2:
            classes[stem(word)].append(word)
    unit = {word: model.vector(word) for words in classes.values() for word in words}
    for of_stem, words in sorted(classes.items()):
        for group in groups(of_stem, words, unit, least)[1:]:
            print(of_stem, *group)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else LEAST)
