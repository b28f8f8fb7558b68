"""Pairs of a request and a tool that answers it, and the batches of them that both models are trained on."""

import json
import numpy as np
import torch
import torch.nn.functional as F

from common import *
from encoder import tokenizer
from real_servers import RealServers

REQUEST_CUT, TOOL_CUT = 48, 64
#: Shares of the pairs: real servers, written servers, operations, functions. The sets and training/pairs.jsonl have the rest, each by the
#: root of its number of tools.
SHARES = {"real": 0.3, "written": 0.2, "openapi": 0.1, "functions": 0.05}
#: Shares without real servers.
SHARES_WITHOUT = {"written": 0.35, "openapi": 0.1, "functions": 0.05}
#: Groups of which a batch takes whole parts: servers.
WHOLE = ("written", "real")
#: So many more answers of a request join its batch, together at most so large a share of the pairs.
MORE, MORE_SHARE = 2, 0.25


def shares_with(real):
    """The shares with so much for real servers; the others keep their proportions."""
    return {g: real if g == "real" else x * (1 - real) / (1 - SHARES["real"]) for g, x in SHARES.items()}


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
        if a.real:
            for lang, q, tools in RealServers(a.real, a.leave_out, a.unseen).requests():
                if lang == "en":
                    for t in tools:
                        s.add("real", q, document(t), t["source"])
        shares = shares_with(a.share_real) if a.real else SHARES_WITHOUT
        tok = tokenizer(f"{a.work}/dl/minilm/tokenizer.json", 512)
        s.qt, s.dt = shortened(tok, s.q, REQUEST_CUT), shortened(tok, s.d, TOOL_CUT)
        s.names = list(s.groups)
        root = np.array([len(s.groups[g]) ** 0.5 * (g not in shares) for g in s.names])
        s.share = root / root.sum() * (1 - sum(shares.values())) + np.array([shares.get(g, 0) for g in s.names])

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
    """Batch t, always the same for the same seed: pairs of distinct requests and documents, more answers of the requests with several,
    and which of the documents are positives and negatives of which requests. No negative is a document that has a cosine of `alike`
    or more with an answer, by the unit vectors `base` of the documents."""

    def __init__(s, a, P, base, alike):
        s.a, s.P, s.base, s.alike = a, P, base, alike
        s.docs = {g: np.array(sorted(x)) for g, x in P.groups.items()}
        s.parts = {}
        for g in ("openapi", *(g for g in WHOLE if g in P.groups)):
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
            elif g in WHOLE:
                for k in r.permutation(len(s.parts[g]))[: s.a.batch // 4]:
                    s.draw(r, r.permutation(s.parts[g][k]))
            else:
                s.draw(r, r.permutation(s.docs[g]))
        while len(s.pairs) < s.a.batch:
            g = P.names[r.choice(len(P.names), p=P.share)]
            s.draw(r, r.choice(s.docs[g], 1))
        requests, documents = map(list, zip(*s.pairs))
        more = [j for i in requests for j in r.permutation(sorted(P.good[i] - s.seen_d))[:MORE].tolist()]
        documents += list(dict.fromkeys(more))[: int(s.a.batch * MORE_SHARE)]
        positive, at = np.zeros((len(requests), len(documents)), bool), {j: n for n, j in enumerate(documents)}
        for n, i in enumerate(requests):
            positive[n, [at[j] for j in P.good[i] if j in at]] = True
        like = (s.base[documents] @ s.base[documents].T >= s.alike).astype(np.float32)
        return requests, documents, positive, ~positive & (positive.astype(np.float32) @ like == 0)


def contrast(q, d, positive, negative, tau):
    """Cross-entropy of each positive against the negatives of its request, and against those of its document: the mean over the positives
    of a row, then over the rows. `q` and `d` are unit vectors."""
    s = q @ d.T / tau
    masked = s + torch.from_numpy(np.where(negative, 0, -1e9).astype(np.float32))
    i, j = map(torch.from_numpy, np.nonzero(positive))

    def mean(against, at, n):
        count = torch.bincount(at, minlength=n)
        return (F.softplus(against[at] - s[i, j]) / count[at]).sum() / (count > 0).sum()

    return (mean(masked.logsumexp(1), i, len(q)) + mean(masked.logsumexp(0), j, len(d))) / 2
