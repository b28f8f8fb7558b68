#!/usr/bin/env python3
"""A sentence encoder tuned for tool retrieval: all-MiniLM-L6-v2 trained on request-tool pairs. Registry packages only.

    python train.py STAGE --work DIR --bench BENCHMARKS_DIR --pairs pairs.jsonl [--leave-out FOLD]
    stages: fetch  corpus  train  score  export

Every stage is seeded and skips what it finds finished; `train` goes on from its last checkpoint. With `--leave-out` the
sets of that fold, and the pairs that share their tools, take no part, and the held-out curve is theirs.
"""

import argparse, json, os, sys, time
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import *
from encoder import *
from safetensors.numpy import save_file

REQUEST_CUT, TOOL_CUT = 48, 64
#: Documents whose MiniLM vectors are this near are no negatives of each other's requests.
GUARD = 0.9
#: Shares of a batch: pairs of the sets and of training/pairs.jsonl (each by the root of its number of tools), operations, functions.
SHARES = {"openapi": 0.25, "functions": 0.1}


# ---------------------------------------------------------------- data
class Pairs:
    """Requests, documents, the documents that answer each request, and the documents of each group (a set or a source)."""

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
        t = tokenizer(f"{a.work}/dl/minilm/tokenizer.json", 512)
        sep = t.token_to_id("[SEP]")
        short = lambda e, n: e.ids if len(e.ids) <= n else e.ids[: n - 1] + [sep]
        s.qt = [short(e, REQUEST_CUT) for e in t.encode_batch(s.q)]
        s.dt = [short(e, TOOL_CUT) for e in t.encode_batch(s.d)]
        names = list(s.groups)
        root = np.array([len(s.groups[g]) ** 0.5 * (g not in SHARES) for g in names])
        s.names = names
        s.share = root / root.sum() * (1 - sum(SHARES.values())) + np.array([SHARES.get(g, 0) for g in names])

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
    may serve as negatives of which requests."""

    def __init__(s, a, P, base):
        s.a, s.P = a, P
        s.base = encode(base, P.dt)
        s.docs = {g: np.array(sorted(x)) for g, x in P.groups.items()}
        parts = {}
        for j, t in P.groups["openapi"].items():
            parts.setdefault(t, []).append(j)
        s.stretch = np.array([j for t in sorted(parts) for j in sorted(parts[t])])

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
            else:
                s.draw(r, r.permutation(s.docs[g]))
        while len(s.pairs) < s.a.batch:
            g = P.names[r.choice(len(P.names), p=P.share)]
            s.draw(r, r.choice(s.docs[g], 1))
        q, d = [i for i, _ in s.pairs], [j for _, j in s.pairs]
        ok = np.array([[j == k or k not in P.good[i] for k in d] for i, j in s.pairs])
        ok &= (s.base[d] @ s.base[d].T < GUARD) | np.eye(len(d), dtype=bool)
        ids = [P.qt[i] for i in q] + [P.dt[j] for j in d]
        rows = -(-sum(map(len, ids)) // ROW // 4) * 4
        b = None
        while b is None:
            b = pack(ids, rows, 2 * s.a.batch)
            rows += 4
        return b, ok


# ---------------------------------------------------------------- training
def loss(p, packed, ok, batch, tau):
    """In-batch contrast in both directions: cross-entropy of the pair against every allowed negative."""
    v = forward(p, packed, 2 * batch)
    s = v[:batch] @ v[batch:].T / tau
    s = jnp.where(ok, s, -1e9)
    n = jnp.arange(batch)
    row = jax.nn.logsumexp(s, axis=1) - s[n, n]
    col = jax.nn.logsumexp(s, axis=0) - s[n, n]
    return (row.mean() + col.mean()) / 2


def step(p, m, v, t, lr, packed, ok, batch, tau):
    l, g = jax.value_and_grad(loss)(p, packed, ok, batch, tau)
    return *adamw(p, m, v, g, t, lr), l


_step = jax.jit(step, static_argnums=(7, 8), donate_argnums=(0, 1, 2))


def dev_sets(a, tok):
    """A sample of the left-out sets for the curve: 200 requests a set, 2,000 documents that hold their answers."""
    out = {}
    for s in SETS:
        if FOLD[s] != a.leave_out:
            continue
        D, Q, rel = load_set(a.bench, s)
        r = np.random.default_rng(SEED)
        qs = sorted(r.permutation(len(Q))[:200].tolist())
        gold = {j for i in qs for j in rel[i]}
        ds = sorted(gold | set(r.permutation(len(D))[: max(0, 2000 - len(gold))].tolist()))
        at = {j: n for n, j in enumerate(ds)}
        enc = lambda L: [e.ids for e in tok.encode_batch(L)]
        out[s] = enc([D[j] for j in ds]), enc([Q[i] for i in qs]), [{at[j]: g for j, g in rel[i].items()} for i in qs]
    return out


def run_dir(a):
    return f"{a.work}/{a.run}{'' if not a.leave_out else f'-without-{a.leave_out}'}"


def train(a):
    d = run_dir(a)
    os.makedirs(d, exist_ok=True)
    if done(f"{d}/model.safetensors"):
        return
    base = load(f"{a.work}/dl/minilm/model.safetensors")
    P = Pairs(a)
    print({g: len(P.groups[g]) for g in P.names}, len(P.q), "requests;", {g: round(float(x), 3) for g, x in zip(P.names, P.share)}, flush=True)
    B = Batches(a, P, base)
    dev = dev_sets(a, tokenizer(f"{a.work}/dl/minilm/tokenizer.json"))
    p = {k: jnp.array(x) for k, x in base.items()}
    m = {k: jnp.zeros_like(x) for k, x in p.items()}
    v = {k: jnp.zeros_like(x) for k, x in p.items()}
    t0, start, ck = time.time(), 0, f"{d}/checkpoint.npz"
    if os.path.exists(ck):
        z = np.load(ck)
        p, m, v = ({k: jnp.asarray(z[f"{n}/{k}"]) for k in p} for n in "pmv")
        start = int(z["step"])
        print("from step", start, flush=True)
    log = open(f"{d}/curve.tsv", "a")

    def curve(t, l):
        r = [ndcg(encode(p, q) @ encode(p, x).T, rel) for x, q, rel in dev.values()]
        line = "\t".join([str(t), f"{l:.4f}", f"{time.time() - t0:.0f}", *(f"{x:.4f}" for x in r), f"{np.mean(r) if r else 0:.4f}"])
        print("step loss seconds", *dev, "mean:", line.replace("\t", " "), flush=True)
        log.write(line + "\n")
        log.flush()

    ls = []
    if not start:
        log.write("\t".join(["step", "loss", "seconds", *dev, "mean"]) + "\n")
        curve(0, 0)
    for t in range(start, a.steps):
        packed, ok = B.batch(t)
        lr = a.lr * min(1, (t + 1) / (0.1 * a.steps)) * (0.5 + 0.5 * np.cos(np.pi * t / a.steps))
        p, m, v, l = _step(p, m, v, t + 1.0, lr, jnp.asarray(packed), jnp.asarray(ok), a.batch, a.tau)
        ls.append(float(l))
        if (t + 1) % 25 == 0:
            print(t + 1, f"{np.mean(ls[-25:]):.4f}", f"{time.time() - t0:.0f} s", flush=True)
        if (t + 1) % a.every == 0 or t + 1 == a.steps:
            curve(t + 1, np.mean(ls[-a.every :]))
            np.savez(ck + ".tmp.npz", step=t + 1, **{f"{n}/{k}": np.asarray(x) for n, s in zip("pmv", (p, m, v)) for k, x in s.items()})
            os.replace(ck + ".tmp.npz", ck)
    save_file({k: np.asarray(x) for k, x in p.items()}, f"{d}/model.safetensors")


def blend(a):
    """The trained weights, `--blend` of them, the rest of the weight MiniLM's own."""
    base = load(f"{a.work}/dl/minilm/model.safetensors")
    if a.blend == 0:
        return base
    p = load(f"{run_dir(a)}/model.safetensors")
    return {k: a.blend * p[k] + (1 - a.blend) * base[k] for k in p}


def score(a):
    """nDCG@10 of the fp32 weights, cosine alone; with --leave-out, the sets left out."""
    p, tok = blend(a), tokenizer(f"{a.work}/dl/minilm/tokenizer.json")
    enc = lambda L: encode(p, [e.ids for e in tok.encode_batch(L)])
    score_sets(a, enc, f"{run_dir(a)}/score-{a.blend:g}.json")


def export(a):
    """The file that the program reads: int8 weights, with the vocabulary."""
    from onnx_file import build

    t = tokenizer(f"{a.work}/dl/minilm/tokenizer.json")
    b = build(blend(a), [x for x, _ in sorted(t.get_vocab().items(), key=lambda x: x[1])])
    with open(f"{run_dir(a)}/model.onnx", "wb") as f:
        f.write(b)
    print("model.onnx", len(b), "bytes", sha(f"{run_dir(a)}/model.onnx"), flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("stage")
    p.add_argument("--work", default="work")
    p.add_argument("--bench", default="../shared/benchmarks")
    p.add_argument("--pairs", default="../shared/training/pairs.jsonl")
    p.add_argument("--leave-out", type=int, default=0)
    p.add_argument("--run", default="tuned")
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=3e-5)
    p.add_argument("--tau", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=SEED)
    p.add_argument("--every", type=int, default=50)
    p.add_argument("--blend", type=float, default=1.0)
    a = p.parse_args()
    F = {"fetch": fetch, "corpus": corpus, "train": train, "score": score, "export": export}
    for s in a.stage.split(","):
        F[s](a)
