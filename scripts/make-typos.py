#!/usr/bin/env python3
"""Writes benchmark sets whose requests have one typo in each content word, to measure a ranking on misspelt requests.

usage: scripts/make-typos.py OUT SET...        (a SET is a folder with tools.jsonl, queries.jsonl and qrels.tsv)

A content word has four or more letters, no digits, and is not in src/function_words/english.txt. A typo swaps two letters, drops
one, doubles one, or replaces one by its neighbour on the keyboard, each as often. The first letter stays, unless it is swapped with
the second. The choice depends on nothing but the word and the id of the request, so everybody gets the same files.

Needs Python 3 and nothing else.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = ["qwertyuiop", "asdfghjkl", "zxcvbnm"]
WORD = re.compile(r"(?<![\w/@.#-])[A-Za-z]{4,}(?![\w/@-]|\.\w)")


def function_words():
    """The function words of English."""
    lines = (ROOT / "src/function_words/english.txt").read_text(encoding="utf-8").splitlines()
    return {word for line in lines if not line.startswith("#") for word in line.split()}


def neighbours(letter):
    """The letters beside a letter on the keyboard."""
    for row in ROWS:
        place = row.find(letter)
        if place >= 0:
            return [row[other] for other in (place - 1, place + 1) if 0 <= other < len(row)]
    return []


def typos(word, number):
    """The four typos of a word, of which `number` selects the places."""
    place = 1 + number % (len(word) - 1)
    swap = number % (len(word) - 1)
    beside = neighbours(word[place].lower())
    return [
        word[:swap] + word[swap + 1] + word[swap] + word[swap + 2:],
        word[:place] + word[place + 1:],
        word[:place] + word[place] + word[place:],
        word[:place] + beside[number // 64 % len(beside)] + word[place + 1:],
    ]


def misspell(word, request):
    """The word with one typo. If the typo changes nothing, such as a swap of two equal letters, the next kind is taken."""
    number = int.from_bytes(hashlib.sha256(f"{request} {word}".encode()).digest()[:8], "big")
    choices = typos(word, number // 4)
    for turn in range(4):
        typo = choices[(number + turn) % 4]
        if typo.lower() != word.lower():
            return typo
    return word


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    out, skipped = Path(sys.argv[1]), function_words()
    for folder in map(Path, sys.argv[2:]):
        target = out / folder.name
        target.mkdir(parents=True, exist_ok=True)
        for name in ("tools.jsonl", "qrels.tsv"):
            (target / name).write_bytes((folder / name).read_bytes())
        with (folder / "queries.jsonl").open(encoding="utf-8") as requests, \
                (target / "queries.jsonl").open("w", encoding="utf-8") as misspelt:
            for line in requests:
                request = json.loads(line)

                def replace(match, request=request):
                    word = match.group()
                    return word if word.lower() in skipped else misspell(word, request["id"])

                request["text"] = WORD.sub(replace, request["text"])
                misspelt.write(json.dumps(request, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
