"""Makes crates/models/tokens/*.bin of the vocabularies that OpenAI publishes: python3 merges.py NAME.tiktoken NAME.bin

A vocabulary lists its tokens, each with its rank. A text is cut by merging, again and again, the two neighbours that make
the token of least rank; so of each token it is enough to know which two make it, and those are what the last merge of its
own bytes finds. The file: the bytes that the first 256 tokens stand for; then of each further token, in the order of
ranks, the ranks of the two that make it, three bytes each, little-endian. Needs Python alone.
"""

import base64
import gzip
import sys


def last_merge(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """Returns the two tokens that stand when one merge is left to do."""
    parts = [token[at : at + 1] for at in range(len(token))]
    while len(parts) > 2:
        places = range(len(parts) - 1)
        at = min(places, key=lambda at: (ranks.get(parts[at] + parts[at + 1], len(ranks)), at))
        if parts[at] + parts[at + 1] not in ranks:
            raise ValueError(f"nothing makes {token!r}")
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts[0], parts[1]


def main() -> None:
    source, target = sys.argv[1:]
    with gzip.open(source) if source.endswith(".gz") else open(source, "rb") as lines:
        ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line.strip())}
    tokens = sorted(ranks, key=ranks.__getitem__)
    if [ranks[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError("ranks are missing")
    if {len(token) for token in tokens[:256]} != {1} or any(len(token) == 1 for token in tokens[256:]):
        raise ValueError("the first 256 tokens are not the bytes")
    with open(target, "wb") as merges:
        merges.write(b"".join(tokens[:256]))
        for token in tokens[256:]:
            for part in last_merge(token, ranks):
                merges.write(ranks[part].to_bytes(3, "little"))


if __name__ == "__main__":
    main()
