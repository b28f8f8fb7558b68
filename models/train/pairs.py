"""Pairs of a request and a tool that answers it, and the batches of them that both models are trained on."""

import json
import numpy as np

from common import *
from encoder import tokenizer

REQUEST_CUT, TOOL_CUT = 48, 64
#: Shares of the pairs: written servers, operations, functions. The sets and training/pairs.jsonl have the rest, each by the root of its
#: number of tools.
SHARES = {"written": 0.35, "openapi": 0.1, "functions": 0.05}


def shortened(tok, texts, n):
    """The token ids of texts, at most `n` of each."""
    sep = tok.token_to_id("[SEP]")
    return [e.ids if len(e.ids) <= n else e.ids[: n - 1] + [sep] for e in tok.encode_batch(texts)]


class Pairs:
    """Requests, documents, the documents that answer each request, and the documents of each group (a set or a source) with the part
    (a server, an API) that each is of."""

    def __init__(s, a):
        s.q, s.d, s.qi, s.di = [], [], {}, {}
        s.good, s.asks, s.groups = [], {}, {}
        for x in FOLD:
            if FOLD[x] == a.leave_out:
                continue
            D, Q, rel = load_set(a.bench, x)
            for q, r in zip(Q, rel):
                for j, g in r.items():
                    if g > 0:
                        s.add({"metatool-multi": "metatool"}.get(x, x), q, D[j])
        for l in open(a.pairs, encoding="utf-8"):
            p = json.loads(l)
            if p["fold"] != a.leave_out or p["fold"] == 0:
                t = p["tool"] | {"description": cut(p["tool"]["description"], 400)}
                s.add({0: "functions", 1: "metatool", 3: "seal-tools"}[p["fold"]], p["query"], document(t))
        B = benchmark_texts(a)
        for title, q, d in map(json.loads, open(f"{a.work}/weak.jsonl", encoding="utf-8")):
            if title != "t2v" and not title.startswith("wn") and clear(q, B) and clear(d, B):
                s.add("openapi", q, d, title)
        for q, tools in written_requests(a.written, WRITTEN_FOLDS.get(a.leave_out, ())):
            for t in tools:
                s.add("written", q, document(t), t["server"])
        tok = tokenizer(f"{a.work}/dl/minilm/tokenizer.json", 512)
        s.qt, s.dt = shortened(tok, s.q, REQUEST_CUT), shortened(tok, s.d, TOOL_CUT)
        s.names = list(s.groups)
        root = np.array([len(s.groups[g]) ** 0.5 * (g not in SHARES) for g in s.names])
        s.share = root / root.sum() * (1 - sum(SHARES.values())) + np.array([SHARES.get(g, 0) for g in s.names])

    def add(s, group, q, d, part=""):
        i = s.qi.setdefault(q, len(s.q))
        if i == len(s.q):
            s.q.append(q)
            s.good.append(set())
        j = s.di.setdefault(d, len(s.d))
        if j == len(s.d):
            s.d.append(d)
        s.good[i].add(j)
        s.asks.setdefault(j, []).append(i)
        s.groups.setdefault(group, {}).setdefault(j, part)


class Batches:
    """Batch t, always the same for the same seed: pairs of distinct requests and documents, and which of the documents
    may serve as negatives of which requests: none that a cosine of `alike` or more says to be like the answer, by the unit vectors
    `base` of the documents."""

    def __init__(s, a, P, base, alike):
        s.a, s.P, s.base, s.alike = a, P, base, alike
        s.docs = {g: np.array(sorted(x)) for g, x in P.groups.items()}
        s.parts = {}
        for g in ("openapi", "written"):
            parts = {}
            for j, t in P.groups[g].items():
                parts.setdefault(t, []).append(j)
            s.parts[g] = [sorted(parts[t]) for t in sorted(parts)]
        s.stretch = np.concatenate(s.parts["openapi"])

    def draw(s, r, pool):
        for j in pool:
            if len(s.pairs) == s.a.batch:
                return
            i = s.P.asks[j][r.integers(len(s.P.asks[j]))]
            if j not in s.seen_d and i not in s.seen_q:
                s.seen_d.add(j)
                s.seen_q.add(i)
                s.pairs.append((i, int(j)))

    def batch(s, t):
        P, r = s.P, np.random.default_rng([s.a.seed, t])
        s.pairs, s.seen_d, s.seen_q = [], set(), set()
        if t % 2:
            g = P.names[r.choice(len(P.names), p=P.share)]
            if g == "openapi":
                for at in r.integers(0, len(s.stretch) - 16, s.a.batch // 16 + 1):
                    s.draw(r, s.stretch[at : at + 16])
            elif g == "written":
                for k in r.permutation(len(s.parts[g]))[: s.a.batch // 4]:
                    s.draw(r, r.permutation(s.parts[g][k]))
            else:
                s.draw(r, r.permutation(s.docs[g]))
        while len(s.pairs) < s.a.batch:
            g = P.names[r.choice(len(P.names), p=P.share)]
            s.draw(r, r.choice(s.docs[g], 1))
        d = [j for _, j in s.pairs]
        ok, at = np.ones((len(d), len(d)), bool), {j: n for n, j in enumerate(d)}
        for n, (i, j) in enumerate(s.pairs):
            ok[n, [at[k] for k in P.good[i] if k != j and k in at]] = False
        ok &= (s.base[d] @ s.base[d].T < s.alike) | np.eye(len(d), dtype=bool)
        return s.pairs, ok
