#!/usr/bin/env python3
"""The constants of the fusion: weights, score and answerable estimate for each combination of signals. NumPy and SciPy.

    python fit.py                                  fit on signals.npz, print the constants and the figures on left-out folds
    python fit.py unserved WRITTEN BENCHMARKS OUT  make evaluation folders of requests that nothing serves
    python fit.py pack SIGNALS BENCHMARKS WRITTEN  make signals.npz of what `picktools eval --signals-out SIGNALS` wrote

Each set's signals come from models that were trained without its fold, and each set's figures from constants that were
fitted without its fold. README.md tells how the signals are made.
"""

import copy, json, os, shutil, sys
import numpy as np
from scipy.optimize import minimize

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from common import FOLD, SETS, WRITTEN_FOLDS, out_of_scope

#: The sets, and the folds of written servers.
FOLD = {s: FOLD[s] for s in SETS} | {f"written-{n}": f for f, folds in WRITTEN_FOLDS.items() for n in folds}
SETS = [*SETS, *(f"written-{n}" for n in range(1, 6))]
#: Sets whose tools are asked for what is out of scope as well.
UNSERVED = ("metatool", "bfcl", "seal-tools", "toolalpaca")
#: Signals in the order of the program's `Fit`, of tools and of their sources; each is divided by its unit, so that weights
#: are of one size.
SIGNALS = ("keyword", "static", "model", "keyword-sources", "static-sources", "model-sources")
UNIT = np.array([10.0, 0.1, 0.1] * 2)
#: Combinations of signals, in the order of the program's table.
COMBINATIONS = {
    "keyword": (0,),
    "static": (1,),
    "keyword, static": (0, 1),
    "model": (2,),
    "keyword, model": (0, 2),
    "static, model": (1, 2),
    "keyword, static, model": (0, 1, 2),
}
#: Candidates kept of a request: the best of each signal, and the relevant ones.
DEPTH = 30
NDCG_AT = 10
BINS = 15
FLOOR = 0.03
#: The share of requests that a tool answers, for the estimates.
ANSWERABLE = 0.8
#: What the static model says of a request that it cannot tell of: tools serve such.
TOLD_NOTHING = 30.0
#: Of requests that no tool serves, the share that does not merely lack its tool, where there are such.
OTHERS = 0.25
#: How sure the kind of what nothing serves must be to be told: `MIN_KIND_PROBABILITY` in `src/engine/ranking.rs`.
TOLD = 0.7


# ---------------------------------------------------------------- data
def unserved(written, bench, out):
    """Folders for `picktools eval`: each fold of written servers, and each set of UNSERVED, asked for what is out of scope; the
    former for what lies near their servers' subjects and none serves, too. A static model that was trained without a fold has not
    seen what its sets are asked."""
    for s in SETS:
        if not s.startswith("written") and s not in UNSERVED:
            continue
        d = f"{out}/unserved-{s}"
        os.makedirs(d, exist_ok=True)
        shutil.copy(f"{written if s.startswith('written') else bench}/{s}/tools.jsonl", d)
        near = f"{written}/{s}/nothing.jsonl"
        texts = [("near", json.loads(l)["text"]) for l in open(near, encoding="utf-8")] if os.path.exists(near) else []
        scope = out_of_scope(FOLD[s])
        with open(f"{d}/queries.jsonl", "w", encoding="utf-8") as f:
            for n, (kind, text) in enumerate([*texts, *(("scope", x) for x in scope)]):
                f.write(json.dumps({"id": f"{kind}-{n}", "text": text}, ensure_ascii=False) + "\n")
        open(f"{d}/qrels.tsv", "w").close()


def pack(signals, bench, written):
    """For each set: the best candidates of each request (signals, gain), and the request's keyword ceiling; of requests that nothing
    serves the same, with whether they lie near a subject."""
    out = {}
    for s in [*SETS, *(f"unserved-{s}" for s in SETS)]:
        if not os.path.exists(f"{signals}/{s}/ids.json"):
            continue
        tools, queries = json.load(open(f"{signals}/{s}/ids.json", encoding="utf-8"))
        at = {t: i for i, t in enumerate(tools)}
        rel = {q: {} for q in queries}
        if not s.startswith("unserved"):
            for l in open(f"{written if s.startswith('written') else bench}/{s}/qrels.tsv", encoding="utf-8"):
                q, t, g = l.rstrip("\n").split("\t")
                if q in rel and t in at and int(g) > 0:
                    rel[q][at[t]] = 2 ** int(g) - 1
        have = lambda n: os.path.exists(f"{signals}/{s}/{n}.npy")
        X = [np.load(f"{signals}/{s}/{n}.npy", mmap_mode="r") if have(n) else None for n in SIGNALS]
        ceiling, scope = (np.load(f"{signals}/{s}/{n}.npy") for n in ("ceiling", "scope"))
        rows = [i for i, q in enumerate(queries) if rel[q] or s.startswith("unserved")]
        cand = []
        best_of = lambda x: np.argpartition(-x, min(DEPTH, len(tools) - 1))[:DEPTH]
        for i in rows:
            x = {n: x[i] / u for n, x, u in zip(SIGNALS, X, UNIT) if x is not None}
            # A model may have been asked of some tools alone.
            asked = np.flatnonzero(~np.isnan(x["model"])) if "model" in x else ()
            if len(asked) < len(tools):
                x = {n: y for n, y in x.items() if not n.startswith("model")}
            else:
                asked = ()
            best = [best_of(y) for y in [*(y for n, y in x.items() if "sources" not in n), sum(x.values())]]
            cand.append(sorted({*np.concatenate(best).tolist(), *map(int, asked), *rel[queries[i]]}))
        out[f"{s}/count"] = np.array([len(c) for c in cand], np.uint8)
        flat = [(i, j) for i, c in zip(rows, cand) for j in c]
        r, c = np.array(flat).T
        for n, x in zip(SIGNALS, X):
            if x is not None:
                out[f"{s}/{n}"] = x[r, c].astype(np.float16)
        out[f"{s}/gain"] = np.array([rel[queries[i]].get(j, 0) for i, j in flat], np.uint8)
        out[f"{s}/ceiling"] = ceiling[rows].astype(np.float16)
        out[f"{s}/scope"] = scope[rows].astype(np.float16)
        out[f"{s}/tools"] = np.array(len(tools))
        if s.startswith("unserved"):
            out[f"{s}/near"] = np.array([q.startswith("near") for q in queries])
    np.savez_compressed(f"{HERE}/signals.npz", **out)
    print(os.path.getsize(f"{HERE}/signals.npz"), "bytes")


class Set:
    """Signals (requests x candidates x 6, in units), which candidates there are, gains, ceilings, and what the static model says of the
    requests alone, of one set."""

    def __init__(s, z, name):
        n = z[f"{name}/count"].astype(int)
        s.ok = np.arange(n.max())[None] < n[:, None]
        spread = lambda x: _spread(x.astype(np.float64), s.ok)
        column = lambda k: spread(z[f"{name}/{k}"]) if f"{name}/{k}" in z else np.zeros(s.ok.shape)
        x = np.stack([column(k) for k in SIGNALS], -1) / UNIT
        s.asked = ~np.isnan(x[..., 2])
        s.x = np.nan_to_num(x)
        s.gain = spread(z[f"{name}/gain"])
        s.sources = s.x[..., 3:].any()
        s.near = z[f"{name}/near"] if f"{name}/near" in z else None
        s.ceiling = np.maximum(z[f"{name}/ceiling"].astype(np.float64), 1) / UNIT[0]
        s.scope = z[f"{name}/scope"].astype(np.float64)

    def of(s, which):
        """The candidates of which all of these signals are known."""
        known = copy.copy(s)
        known.ok = s.ok & s.asked if 2 in which else s.ok
        known.scope = np.minimum(s.scope, TOLD_NOTHING)
        return known

    def part(s, rows):
        """Some of the requests."""
        some = copy.copy(s)
        for k in ("x", "ok", "gain", "ceiling", "scope", "asked"):
            setattr(some, k, getattr(s, k)[rows])
        return some

    def without_relevant(s):
        """The requests that have candidates without their relevant tools, which are gone."""
        gone = copy.copy(s)
        gone.ok, gone.gain = s.ok & (s.gain == 0), np.zeros_like(s.gain)
        return gone.part(gone.ok.any(1))


def _spread(flat, ok):
    out = np.zeros(ok.shape)
    out[ok] = flat
    return out


# ---------------------------------------------------------------- the model
def value(t, x, ok, which):
    """k K + k' K' + (s S + m M + s' S' + m' M') / (1 + c max K), those with a stroke of the tool's source, and its derivatives by the
    weights and log c. `t`: weights of the tool's signals, of its source's, log c."""
    columns = [*which, *(i + 3 for i in which)]
    soft = 0 in which and len(which) > 1
    c = np.exp(t[-1]) if soft else 0.0
    top = np.where(ok, x[..., 0], 0).max(1)[:, None]
    f = 1 / (1 + c * top)
    d = x[..., columns] * np.stack([np.ones_like(f) if i in (0, 3) else f for i in columns], -1)
    v = d @ t[: len(columns)]
    g = [d[..., i] for i in range(len(columns))]
    if soft:
        softened = [n for n, i in enumerate(columns) if i not in (0, 3)]
        g.append(-(d[..., softened] @ t[softened]) * f * c * top)
    return np.where(ok, v, -1e9), np.stack(g, -1)


def fit_weights(sets, which):
    """Listwise: cross-entropy of the softmax over candidates to the gains, each set with the same weight. What a request
    can lose is bounded by FLOOR, so that those which no ranking answers do not drown the others."""
    start = [1.0] * len(which) + [0.1] * len(which) + ([-0.5] if 0 in which and len(which) > 1 else [])

    def loss(t):
        total, grad = 1e-3 * (t**2).sum(), 2e-3 * t
        for s in sets:
            v, d = value(t, s.x, s.ok, which)
            v = v - v.max(1, keepdims=True)
            e = np.exp(v)
            p, want = e / e.sum(1, keepdims=True), s.gain / s.gain.sum(1, keepdims=True)
            total -= (want * np.log(p + FLOOR)).sum(1).mean() / len(sets)
            dp = -want / (p + FLOOR)
            dv = p * (dp - (dp * p).sum(1, keepdims=True))
            grad = grad + np.einsum("qc,qcp->p", dv, np.where(s.ok[..., None], d, 0)) / len(v) / len(sets)
        return total, grad

    return minimize(loss, np.array(start), jac=True, method="L-BFGS-B").x


def top(v, n):
    o = np.argsort(-v, axis=1, kind="stable")[:, :n]
    return o, np.take_along_axis(v, o, 1)


def crowd(v):
    """The logarithm of how many of the best ten rival the best one."""
    _, x = top(v, NDCG_AT)
    return np.log(np.exp(x - x[:, :1]).sum(1))


def relevance(s, v, evidence):
    """Features of the returned top ten (distance below the best, evidence that the request can be answered, crowd, 1), of which request
    each is, and which are relevant."""
    o, x = top(v, NDCG_AT)
    ok = np.take_along_axis(s.ok, o, 1)
    same = lambda y: np.broadcast_to(y[:, None], x.shape)
    f = np.stack([x - x[:, :1], same(evidence), same(crowd(v)), np.ones_like(x)], -1)
    return f[ok], same(np.arange(len(v)))[ok], np.take_along_axis(s.gain, o, 1)[ok] > 0


def request(s, t, which):
    """Features of each request: signals of the best tool, coverage, signals of its source, whether there are sources, signals of the best
    tool times coverage, crowd, 1."""
    v = value(t, s.x, s.ok, which)[0]
    x = s.x[np.arange(len(v)), v.argmax(1)]
    coverage = np.where(s.ok, s.x[..., 0], 0).max(1) / s.ceiling * (0 in which)
    there = np.full(len(v), float(s.sources))
    own, sources = x[:, list(which)], x[:, [i + 3 for i in which]]
    return np.c_[own, coverage, sources, there, coverage[:, None] * own, crowd(v), np.ones(len(v))]


def unserved_kinds(data, name):
    """Requests that nothing of a set's tools serves, by kind: those whose relevant tools are gone, those near a subject, and what is out of
    scope of any tool."""
    yield "removed", data[name].without_relevant()
    s = data.get(f"unserved-{name}")
    if s is not None:
        for kind, which in (("near", s.near), ("scope", ~s.near)):
            if which.any():
                yield kind, s.part(which)


def outcomes(data, name):
    """A set's requests, and as many that nothing of its tools serves."""
    yield 1, data[name], True
    kinds = list(unserved_kinds(data, name))
    for n, (_, s) in enumerate(kinds):
        yield 1 if len(kinds) == 1 else 1 - OTHERS if n == 0 else OTHERS / (len(kinds) - 1), s, False


def logistic(z):
    return 1 / (1 + np.exp(-z))


def fit_logistic(parts):
    """Logistic regression on (features, labels), each part with the same weight."""

    def loss(t):
        total, grad = 1e-4 * (t**2).sum(), 2e-4 * t
        for f, y in parts:
            z = f @ t
            total += (np.logaddexp(0, z) - y * z).mean() / len(parts)
            grad = grad + f.T @ (logistic(z) - y) / len(y) / len(parts)
        return total, grad

    return minimize(loss, np.zeros(parts[0][0].shape[1]), jac=True, method="L-BFGS-B").x


def fit_product(parts, scope=None):
    """The probability of a label as a product of two logistic functions: of what is said of the request alone, and of features.
    `parts`: weight, what is said, features, label. Returns slope and intercept of the first, which may be given, and the weights
    of the features."""
    total, free = sum(w for w, *_ in parts), 2 * (scope is None)

    def loss(t):
        of_scope, weights = t[:free] if free else scope, t[free:]
        sum_, grad, outer = 1e-4 * (weights**2).sum(), 2e-4 * weights, np.zeros(2)
        for w, said, f, label in parts:
            said = np.stack([said, np.ones_like(said)], -1)
            p, q = logistic(said @ of_scope), logistic(f @ weights)
            both = np.clip(p * q, 1e-9, 1 - 1e-9)
            sum_ -= w * (np.log(both) if label else np.log1p(-both)).mean() / total
            # By the logarithm of both.
            d = w * (-np.ones_like(both) if label else both / (1 - both)) / len(f) / total
            outer += said.T @ (d * (1 - p))
            grad = grad + f.T @ (d * (1 - q))
        return sum_, np.concatenate([outer[:free], grad])

    t = minimize(loss, np.r_[np.ones(free), np.zeros(parts[0][2].shape[1])], jac=True, method="L-BFGS-B").x
    return t[:free] if free else scope, t[free:]


class Constants:
    """Weights; and a score and an estimate of `answerable` for catalogs without sources, fitted on those, and for catalogs with sources,
    fitted on all: requests to the written servers alone share too few words with their tools to stand for all requests."""

    def __init__(s, data, names, which):
        s.which = which
        s.weights = fit_weights([data[n] for n in names], which)
        without = [n for n in names if not data[n].sources]
        with_sources = s.calibrate(data, names, True)
        s.fits = [s.calibrate(data, without, False, with_sources[0]), with_sources]
        kinds = [(kind, u) for n in names if n.startswith("written") for kind, u in unserved_kinds(data, n) if kind != "removed"]
        s.near = fit_logistic([(s.kind_features(u), np.full(len(u.x), float(kind == "near"))) for kind, u in kinds])

    def calibrate(s, data, names, of_sources, scope=None):
        """What requests alone say is fitted once; how many tools rival the best one tells something where there are sources."""
        parts = [(w, x.scope, request(x, s.weights, s.which), served) for n in names for w, x, served in outcomes(data, n)]
        for _, _, f, _ in parts:
            f[:, -2] *= of_sources
        scope, answerable = fit_product(parts, scope if 1 in s.which else (0.0, TOLD_NOTHING))
        return scope, answerable, fit_logistic([s.returned(data[n], answerable)[::2] for n in names])

    def kind_features(s, x):
        """What tells requests near a source's subject from those that are out of scope: signals of the best tool, coverage, signals of its
        source, 1."""
        f, n = request(x, s.weights, s.which), len(s.which)
        return np.c_[f[:, : 2 * n + 1], np.ones(len(f))]

    def fit_of(s, x):
        return s.fits[int(x.sources)]

    def returned(s, x, answerable):
        v, _ = value(s.weights, x.x, x.ok, s.which)
        return relevance(x, v, request(x, s.weights, s.which) @ answerable)

    def answerable(s, x):
        """Of each request the evidence, the most that a tool's score can be, and the estimate. As many requests were fitted on that have no
        tool; of all, ANSWERABLE have one, which shifts the odds and nothing else (King and Zeng 2001)."""
        (slope, intercept), answerable, _ = s.fit_of(x)
        evidence, odds = request(x, s.weights, s.which) @ answerable, ANSWERABLE / (1 - ANSWERABLE)
        at_large = lambda p: odds * p / (1 + (odds - 1) * p)
        of_tools, in_scope = logistic(evidence), logistic(slope * x.scope + intercept)
        return evidence, at_large(of_tools), at_large(in_scope * of_tools)

    def scores(s, x):
        """The scores of the returned ten, and which of them are relevant."""
        _, answerable, relevant = s.fit_of(x)
        f, of, y = s.returned(x, answerable)
        _, most, _ = s.answerable(x)
        return np.minimum(logistic(f @ relevant), most[of]), y

    def estimates(s, x):
        """`answerable` of each request, which is no less than any score, and the score of its best tool."""
        v, _ = value(s.weights, x.x, x.ok, s.which)
        evidence, most, answerable = s.answerable(x)
        z = np.c_[np.zeros(len(v)), evidence, crowd(v), np.ones(len(v))] @ s.fit_of(x)[2]
        best = np.minimum(logistic(z), most)
        return np.maximum(answerable, best), best

    def rust(s, name):
        n = len(s.which)
        weights = lambda x: np.bincount(s.which, x, 3) / UNIT[:3]
        c = np.exp(s.weights[-1]) / UNIT[0] if len(s.weights) > 2 * n else 0
        row = lambda x: "[" + ", ".join(f"{y:.4f}" for y in x) + "]"
        lines = [f"    // {name}", f"    fit({row(weights(s.weights[:n]))}, {row(weights(s.weights[n : 2 * n]))}, {c:.4f}, ["]
        for of_sources, (scope, a, r) in enumerate(s.fits):
            own, coverage, sources, covered = a[:n], a[n], a[n + 1 : 2 * n + 1] * of_sources, a[2 * n + 2 : -2]
            intercept = a[-1] + of_sources * a[2 * n + 1]
            rows = ", ".join(row(weights(x)) for x in (own, covered, sources))
            lines.append(f"        calibration({row(scope)}, {row(r)}, {rows}, [{coverage:.4f}, {a[-2]:.4f}, {intercept:.4f}]),")
        own, coverage, sources, intercept = s.near[:n], s.near[n], s.near[n + 1 : -1], s.near[-1]
        lines.append(f"    ], near({row(weights(own))}, {row(weights(sources))}, [{coverage:.4f}, {intercept:.4f}])),")
        return "\n".join(lines)


# ---------------------------------------------------------------- figures
def measures(s, v):
    """nDCG@10, R@5, Success@1 and completeness in ten, means over requests."""
    disc = 1 / np.log2(np.arange(2, NDCG_AT + 2))
    got = np.take_along_axis(s.gain, top(v, NDCG_AT)[0], 1)
    best, relevant = -np.sort(-s.gain, axis=1)[:, :NDCG_AT], (s.gain > 0).sum(1)
    hits = (got > 0).cumsum(1)
    ndcg = (got * disc[: got.shape[1]]).sum(1) / (best * disc[: best.shape[1]]).sum(1)
    return np.mean([ndcg, hits[:, 4] / relevant, hits[:, 0] > 0, hits[:, -1] == relevant], axis=1)


def reliability(p, y, w):
    """Mean estimate, share of relevant, and weight, of bins of equal mass."""
    o = np.argsort(p, kind="stable")
    b = np.minimum((np.cumsum(w[o]) / w.sum() * BINS).astype(int), BINS - 1)
    rows = []
    for i in range(BINS):
        j = o[b == i]
        if len(j):
            rows.append((np.average(p[j], weights=w[j]), np.average(y[j], weights=w[j]), w[j].sum() / w.sum()))
    return rows


def ece(rows):
    return sum(w * abs(p - y) for p, y, w in rows)


def auroc(yes, no):
    x = np.concatenate([yes, no])
    _, at, n = np.unique(x, return_inverse=True, return_counts=True)
    rank = (np.cumsum(n) - (n - 1) / 2)[at][: len(yes)]
    return (rank.sum() - len(yes) * (len(yes) + 1) / 2) / len(yes) / len(no)


def left_out(data, which, name):
    """Prints the figures of constants fitted without the set's fold."""
    rows, pooled, kinds, told = {}, [], {}, []
    for fold in (1, 2, 3):
        c = Constants(data, [s for s in SETS if FOLD[s] != fold], which)
        for n in (s for s in SETS if FOLD[s] == fold):
            s = data[n]
            v, _ = value(c.weights, s.x, s.ok, which)
            p, y = c.scores(s)
            w = np.full(len(p), 1 / len(p))
            rows[n] = *measures(s, v), ece(reliability(p, y, w)), ((p - y) ** 2).mean(), y.mean() * (1 - y.mean())
            pooled.append((p, y, w))
            unserved = dict(unserved_kinds(data, n))
            for kind, u in unserved.items():
                figures = [auroc(yes, no) for yes, no in zip(c.estimates(s), c.estimates(u))]
                kinds.setdefault(kind + (" (written)" if n.startswith("written") else ""), []).append(figures)
            if n.startswith("written"):
                near, scope = (logistic(c.kind_features(unserved[k]) @ c.near) for k in ("near", "scope"))
                told.append([auroc(near, scope), *(np.mean(x) for p in (near, scope) for x in (p >= TOLD, p <= 1 - TOLD))])
    bins = reliability(*map(np.concatenate, zip(*pooled)))
    print(f"\n{name}, left out: nDCG@10, R@5, Success@1, complete in 10, ECE, Brier score, that of the base rate")
    line = lambda n, x: print(f"{n:16s} " + " ".join(f"{y:.4f}" for y in x))
    for n in SETS:
        line(n, rows[n])
    line("mean of ten", np.mean([rows[s] for s in SETS[:10]], 0))
    line("mean of written", np.mean([rows[s] for s in SETS[10:]], 0))
    print(f"ECE of all sets together {ece(bins):.4f}")
    for kind, x in kinds.items():
        print(f"AUROC, {kind}: answerable {np.mean(x, 0)[0]:.4f}, best score {np.mean(x, 0)[1]:.4f}")
    print("near a subject or out of scope: AUROC {:.4f}; near called near {:.3f}, out of scope {:.3f}; out of scope called near {:.3f}, "
          "out of scope {:.3f}".format(*np.mean(told, 0)))
    print("reliability (estimated, seen): " + " ".join(f"{p:.3f}/{y:.3f}" for p, y, _ in bins))


def main():
    if sys.argv[1:2] == ["unserved"]:
        return unserved(*sys.argv[2:])
    if sys.argv[1:2] == ["pack"]:
        return pack(*sys.argv[2:])
    z = np.load(f"{HERE}/signals.npz")
    data = {s: Set(z, s) for s in [*SETS, *(f"unserved-{s}" for s in SETS)] if f"{s}/count" in z}
    only = sys.argv[1:]
    for name, which in COMBINATIONS.items():
        if only and name not in only:
            continue
        left_out({n: s.of(which) for n, s in data.items()}, which, name)
    print()
    for name, which in COMBINATIONS.items():
        if not only or name in only:
            print(Constants({n: s.of(which) for n, s in data.items()}, SETS, which).rust(name))


if __name__ == "__main__":
    main()
