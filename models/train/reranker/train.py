#!/usr/bin/env python3
"""Local rerankers that were tried: the tuned model, trained further to read a request and a tool together. JAX.

    python train.py KIND --leave-out FOLD --signals DIR --work WORK --bench BENCHMARKS --pairs pairs.jsonl
    kinds: joint      the tool's tokens attend to the request's; the score stands alone
           residual   the same, and what is learned is added to the fused value
           late       nothing attends to the other text; each token of the request takes its best token of the tool

Prints, on the sets left out, nDCG@10 of the fused ranking, of its best 20 in the order of the score alone, and of their
fused value plus the score by several weights. README.md has what came of it.
"""

import argparse, json, os, sys, time
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import *
from jax_encoder import *

REQUEST_CUT, TOOL_CUT = 32, 48
WINDOW, DEPTH, DEV = 20, 30, 120
#: The fused value: weights of keyword, static and tuned, and the softening (`KEYWORD_STATIC_MODEL` in src/fuse/fits.rs).
FUSION = 0.1313, 6.9145, 26.0372, 0.0460
#: Documents whose MiniLM vectors are this near to an answer are no negatives.
GUARD = 0.9
#: Shares of operations and functions; the rest goes to the sets and pairs by the root of their number of tools.
SHARES = {"openapi": 0.2, "functions": 0.1}
#: A bias on attention from the tool to the request, to begin nearer to the model that has none; learned.
CROSS_BIAS = -1.0
TEMPERATURE = 0.05
FLOOR = 0.03
WEIGHTS = (0.1, 0.2, 0.3, 0.5, 1.0)
FAST = 20.0


# ---------------------------------------------------------------- the model
def heads(x):
    return jnp.moveaxis(x.reshape(*x.shape[:-1], HEADS, x.shape[-1] // HEADS), -2, -3)


def joined(x):
    x = jnp.moveaxis(x, -3, -2)
    return x.reshape(*x.shape[:-2], -1)


def embedded(p, ids):
    e = "embeddings."
    x = p[e + "word_embeddings.weight"][ids] + p[e + "position_embeddings.weight"][jnp.arange(ids.shape[-1])]
    return norm(p, e + "LayerNorm", x + p[e + "token_type_embeddings.weight"][0])


def block(p, n, x, a):
    x = norm(p, n + "attention.output.LayerNorm", x + linear(p, n + "attention.output.dense", a))
    h = jax.nn.gelu(linear(p, n + "intermediate.dense", x), approximate=False)
    return norm(p, n + "output.LayerNorm", x + linear(p, n + "output.dense", h))


def score(p, q, d, kind):
    """Scores, requests x candidates, of token ids q (requests x REQUEST_CUT) and d (requests x candidates x TOOL_CUT), padded by 0."""
    n_tool, size = d.shape[-1], p["embeddings.word_embeddings.weight"].shape[1] // HEADS
    no_q, no_d = jnp.where(q > 0, 0.0, -1e9)[:, None, None, :], jnp.where(d > 0, 0.0, -1e9)[:, :, None, None, :]
    x, y = embedded(p, q), embedded(p, d)
    for i in range(layers(p)):
        n = f"encoder.layer.{i}."
        (xq, xk, xv), (yq, yk, yv) = ([heads(linear(p, f"{n}attention.self.{m}", z)) for m in ("query", "key", "value")] for z in (x, y))
        ax = jax.nn.softmax(xq @ jnp.swapaxes(xk, -1, -2) * size**-0.5 + no_q, -1) @ xv
        a = yq @ jnp.swapaxes(yk, -1, -2) * size**-0.5 + no_d
        if kind == "late":
            ay = jax.nn.softmax(a, -1) @ yv
        else:
            other = jnp.einsum("bchnd,bhmd->bchnm", yq, xk) * size**-0.5 + no_q[:, None] + p["cross.bias"][i][:, None, None]
            a = jax.nn.softmax(jnp.concatenate([a, other], -1), -1)
            ay = a[..., :n_tool] @ yv + jnp.einsum("bchnm,bhmd->bchnd", a[..., n_tool:], xv)
        x, y = block(p, n, x, joined(ax)), block(p, n, y, joined(ay))
    unit = lambda z: z / (jnp.linalg.norm(z, axis=-1, keepdims=True) + 1e-9)
    if kind == "late":
        best = jnp.where((d > 0)[:, :, None, :], jnp.einsum("bmd,bcnd->bcmn", unit(x), unit(y)), -1.0).max(-1)
        # [CLS] and [SEP] are 101 and 102.
        own = ((q > 0) & (q != 101) & (q != 102))[:, None, :]
        return (best * own).sum(-1) / jnp.maximum(own.sum(-1), 1) / TEMPERATURE * p["head.cos"]
    mean = lambda z, ids: (z * (ids > 0)[..., None]).sum(-2) / jnp.maximum((ids > 0).sum(-1), 1)[..., None]
    u, v = mean(x, q), mean(y, d)
    cos = (unit(u)[:, None] * unit(v)).sum(-1)
    return cos / TEMPERATURE * p["head.cos"] + jax.nn.gelu(linear(p, "head.dense", v), approximate=False) @ p["head.out"]


def begin(path, kind):
    p = {k: np.asarray(x) for k, x in load(path).items()}
    width = p["embeddings.word_embeddings.weight"].shape[1]
    p["cross.bias"] = np.full((layers(p), HEADS), CROSS_BIAS, np.float32)
    # The residual begins at nothing, the others at the tuned model's cosine.
    p["head.cos"] = np.float32(kind != "residual")
    p["head.dense.weight"] = (np.random.default_rng(SEED).standard_normal((width, width)) * 0.02).astype(np.float32)
    p["head.dense.bias"], p["head.out"] = np.zeros(width, np.float32), np.zeros(width, np.float32)
    return {k: jnp.asarray(x) for k, x in p.items()}


# ---------------------------------------------------------------- data
class Ranked:
    """A set: token ids of its requests and tools, and the best DEPTH tools of each request by the fused value, with value and gain."""

    def __init__(s, a, name, ids):
        docs, queries, rel = load_set(a.bench, name)
        signal = lambda n: np.load(f"{a.signals}/{name}/{n}.npy")
        keyword = signal("keyword")
        k, st, m, c = FUSION
        s.value = k * keyword + (st * signal("static") + m * signal("model")) / (1 + c * keyword.max(1))[:, None]
        s.docs, s.queries = ids(docs, TOOL_CUT), ids(queries, REQUEST_CUT)
        s.rel = [{j: g for j, g in r.items() if g > 0} for r in rel]
        s.best = np.argsort(-s.value, axis=1, kind="stable")[:, :DEPTH]

    def ndcg(s, rows, scores):
        """nDCG@10 of the requests `rows` whose best WINDOW are put into the order of `scores`."""
        sim = s.value[rows].copy()
        for r, i in enumerate(rows):
            window = s.best[i, :WINDOW]
            sim[r, window] = 1e6 - np.argsort(np.argsort(-scores[r, : len(window)], kind="stable"))
        return ndcg(sim, [s.rel[i] for i in rows])


class Data:
    """Requests with their answers, hard negatives, and the value that each candidate begins with."""

    def __init__(s, a, ids):
        s.docs, s.queries, s.items = [], [], {}
        base = load(f"{a.work}/dl/minilm/model.safetensors")
        for name in (x for x in SETS if FOLD[x] != a.leave_out):
            r = Ranked(a, name, ids)
            s.add(name, r.docs, r.queries, r.rel, r.best, lambda i, j, r=r: r.value[i, j], encode(base, r.docs))
        groups = {}
        for l in open(a.pairs, encoding="utf-8"):
            p = json.loads(l)
            if p["fold"] == 0 or p["fold"] != a.leave_out:
                tool = p["tool"] | {"description": cut(p["tool"]["description"], 400)}
                groups.setdefault({0: "functions", 1: "p-metatool", 3: "p-seal"}[p["fold"]], []).append((p["query"], document(tool)))
        seen = benchmark_texts(a)
        weak = [w for w in map(json.loads, open(f"{a.work}/weak.jsonl", encoding="utf-8")) if w[0] != "t2v" and not w[0].startswith("wn")]
        weak = sorted((w for w in weak if clear(w[1], seen) and clear(w[2], seen)), key=lambda w: w[0])
        draw = np.random.default_rng(SEED)
        # Whole stretches, so that operations of one API stay together.
        groups["openapi"] = [tuple(w[1:]) for i in range(0, len(weak), 100) if draw.random() < 12000 / len(weak) for w in weak[i : i + 100]]
        for name, pairs in groups.items():
            texts = list(dict.fromkeys(d for _, d in pairs))
            at = {d: j for j, d in enumerate(texts)}
            asked = {}
            for q, d in pairs:
                asked.setdefault(q, {})[at[d]] = 1
            docs, queries = ids(texts, TOOL_CUT), ids(list(asked), REQUEST_CUT)
            v, u = encode(base, docs), encode(base, queries)
            best = np.concatenate([np.argsort(-u[b : b + 256] @ v.T, axis=1)[:, :DEPTH] for b in range(0, len(u), 256)])
            s.add(name, docs, queries, list(asked.values()), best, lambda i, j, u=u, v=v: FUSION[2] * (u[i] @ v[j]), v)
        root = np.array([len(s.tools(g)) ** 0.5 * (g not in SHARES) for g in s.items])
        s.share = root / root.sum() * (1 - sum(SHARES.values())) + np.array([SHARES.get(g, 0) for g in s.items])

    def add(s, name, docs, queries, rel, best, value, vectors):
        o, items = len(s.docs), []
        s.docs += docs
        for i, r in enumerate(rel):
            near = (vectors[best[i]] @ vectors[list(r)].T).max(1) if r else np.ones(len(best[i]))
            negatives = [int(j) for j, n in zip(best[i], near) if j not in r and n < GUARD]
            if r and len(negatives) > 1:
                items.append((queries[i], [(o + j, value(i, j)) for j in r], [(o + j, value(i, j)) for j in negatives]))
        s.items[name] = items

    def tools(s, group):
        by = {}
        for n, (_, answers, _) in enumerate(s.items[group]):
            for at, (j, _) in enumerate(answers):
                by.setdefault(j, []).append((n, at))
        return by

    def batches(s, a):
        """Endless batches: requests, candidates (the answer first), the values they begin with."""
        names, by = list(s.items), {g: list(s.tools(g).values()) for g in s.items}
        draw = np.random.default_rng(a.seed)
        while True:
            q, d, v = np.zeros((a.batch, REQUEST_CUT), np.int32), np.zeros((a.batch, a.candidates, TOOL_CUT), np.int32), np.zeros((a.batch, a.candidates), np.float32)
            for b in range(a.batch):
                g = names[draw.choice(len(names), p=s.share)]
                # A tool first, so that frequent ones count no more; harder negatives more often.
                asks = by[g][draw.integers(len(by[g]))]
                n, at = asks[draw.integers(len(asks))]
                request, answers, negatives = s.items[g][n]
                w = np.arange(2, len(negatives) + 2) ** -0.5
                chosen = draw.choice(len(negatives), size=min(a.candidates - 1, len(negatives)), replace=False, p=w / w.sum())
                q[b, : len(request)] = request
                for c, (j, value) in enumerate([answers[at]] + [negatives[x] for x in chosen]):
                    d[b, c, : len(s.docs[j])], v[b, c] = s.docs[j], value
            yield q, d, v


# ---------------------------------------------------------------- training
def loss(p, q, d, v, kind):
    """Listwise cross-entropy of the answer; what a request can lose is bounded by FLOOR."""
    z = jnp.where((d > 0).any(-1), score(p, q, d, kind) + (v if kind == "residual" else 0), -1e9)
    return -jnp.log(jax.nn.softmax(z, -1)[:, 0] * (1 - FLOOR) + FLOOR).mean()


def step(p, m, v, t, lr, q, d, values, kind):
    l, g = jax.value_and_grad(loss)(p, q, d, values, kind)
    return *adamw(p, m, v, g, t, lr, lambda k: FAST if k.startswith(("head", "cross")) else 1.0), l


_step = jax.jit(step, static_argnums=8, donate_argnums=(0, 1, 2))
_score = jax.jit(score, static_argnums=3)


def predicted(p, r, rows, kind, at_once=8):
    out = np.zeros((len(rows), WINDOW), np.float32)
    for b in range(0, len(rows), at_once):
        q, d = np.zeros((at_once, REQUEST_CUT), np.int32), np.zeros((at_once, WINDOW, TOOL_CUT), np.int32)
        for n, i in enumerate(rows[b : b + at_once]):
            q[n, : len(r.queries[i])] = r.queries[i]
            for c, j in enumerate(r.best[i, :WINDOW]):
                d[n, c, : len(r.docs[j])] = r.docs[j]
        out[b : b + at_once] = np.asarray(_score(p, jnp.asarray(q), jnp.asarray(d), kind))[: len(rows) - b]
    return out


def main():
    o = argparse.ArgumentParser()
    o.add_argument("kind", choices=["joint", "residual", "late"])
    o.add_argument("--leave-out", type=int, required=True)
    o.add_argument("--signals", required=True)
    o.add_argument("--work", default="work")
    o.add_argument("--bench", default="../shared/benchmarks")
    o.add_argument("--pairs", default="../shared/training/pairs.jsonl")
    o.add_argument("--run", default="tuned")
    o.add_argument("--steps", type=int, default=150)
    o.add_argument("--batch", type=int, default=16)
    o.add_argument("--candidates", type=int, default=8)
    o.add_argument("--lr", type=float, default=3e-5)
    o.add_argument("--every", type=int, default=50)
    o.add_argument("--seed", type=int, default=SEED)
    a = o.parse_args()
    tok = tokenizer(f"{a.work}/dl/minilm/tokenizer.json", 512)
    sep = tok.token_to_id("[SEP]")
    ids = lambda texts, n: [e.ids if len(e.ids) <= n else e.ids[: n - 1] + [sep] for e in tok.encode_batch(texts)]
    p = begin(f"{a.work}/{a.run}-without-{a.leave_out}/model.safetensors", a.kind)
    dev = {x: Ranked(a, x, ids) for x in SETS if FOLD[x] == a.leave_out}
    rows = {x: np.sort(np.random.default_rng(0).permutation(len(r.queries))[:DEV]) for x, r in dev.items()}
    data = Data(a, ids)
    print({g: len(x) for g, x in data.items.items()}, flush=True)

    def curve(t, l):
        out = []
        for x, r in dev.items():
            z = predicted(p, r, rows[x], a.kind)
            first = np.take_along_axis(r.value[rows[x]], r.best[rows[x], :WINDOW], 1)
            z = z[:, : first.shape[1]]
            out.append([r.ndcg(rows[x], y) for y in (first, z, *(first + w * z for w in WEIGHTS))])
        print("\t".join([str(t), f"{l:.3f}", f"{time.time() - t0:.0f}", *(f"{y:.4f}" for y in np.mean(out, 0))]), flush=True)

    print("\t".join(["step", "loss", "seconds", "fused", "alone", *(f"+{w}" for w in WEIGHTS)]), flush=True)
    t0, losses = time.time(), []
    curve(0, 0)
    m, v = ({k: jnp.zeros_like(x) for k, x in p.items()} for _ in range(2))
    for t, (q, d, values) in zip(range(a.steps), data.batches(a)):
        lr = a.lr * min(1, (t + 1) / (0.1 * a.steps)) * (0.5 + 0.5 * np.cos(np.pi * t / a.steps))
        p, m, v, l = _step(p, m, v, t + 1.0, lr, jnp.asarray(q), jnp.asarray(d), jnp.asarray(values), a.kind)
        losses.append(float(l))
        if (t + 1) % a.every == 0 or t + 1 == a.steps:
            curve(t + 1, np.mean(losses[-a.every :]))


if __name__ == "__main__":
    main()
