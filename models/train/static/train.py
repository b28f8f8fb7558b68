#!/usr/bin/env python3
"""Static token-embedding model for tool retrieval: distilled from a sentence encoder, then trained on requests and the tools that
answer them. Registry packages only.

    python train.py STAGE --work DIR --bench BENCHMARKS_DIR --training TRAINING_DIR --real REAL_DIR \
        [--leave-out FOLD] [--unseen SET_DIR]
    stages: fetch  corpus  encode  init  distill  tune  meet  speak  scope  export  score   (or: all)

The teacher is MiniLM or, with --teacher, the tuned encoder (../tuned). Every stage is seeded and skips what it finds
finished; `encode` and `distill` go on from their last chunk / checkpoint. With `--leave-out` the sets of that fold, the pairs that
share their tools and its written servers take no part (give a teacher that has not seen them either), and `score` scores them.
`meet` begins where `tune` ended, or with `--start` at a table in the file's form; `speak` adds other languages (languages.py); `scope`
learns what requests are asked of tools at all.
"""

import os

for _k in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_k, "1")
import argparse, hashlib, json, struct, sys, time, unicodedata
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import *
from encoder import encode as encoded, load, tokenizer
from real_servers import RealServers


def run_dir(a):
    return f"{a.work}/{a.run}{'' if not a.leave_out else f'-without-{a.leave_out}'}"


CH = 16384


def encode(a):
    """The teacher's vectors of every piece alone and of every text."""
    d = run_dir(a)
    os.makedirs(f"{d}/enc", exist_ok=True)
    p, T = load(a.teacher or f"{a.work}/dl/minilm/model.safetensors"), tokenizer(f"{a.work}/dl/minilm/tokenizer.json", 96)
    enc = lambda X: encoded(p, [e.ids for e in T.encode_batch(X)]).astype(np.float16)
    if not done(f"{d}/enc/vocab.npy"):
        V = sorted(T.get_vocab().items(), key=lambda x: x[1])
        np.save(f"{d}/enc/vocab.npy", enc([t[2:] if t.startswith("##") else t for t, _ in V]))
    for c, X in (("c", corpus_texts(a)), ("d", tool_texts(a))):
        for i in range(0, len(X), CH):
            f = f"{d}/enc/{c}{i // CH:03d}.npy"
            if os.path.exists(f):
                continue
            t0 = time.time()
            np.save(f + ".tmp.npy", enc(X[i : i + CH]))
            os.replace(f + ".tmp.npy", f)
            print(f"chunk {i // CH + 1} of {-(-len(X) // CH)}: {len(X[i:i + CH]) / (time.time() - t0):.0f} texts/s", flush=True)


# ---------------------------------------------------------------- vocabulary

def keep(t):
    """Pieces kept: no [special], no letters beyond Latin, no CJK."""
    if t.startswith("[") and t.endswith("]") and len(t) > 1:
        return False
    s = t[2:] if t.startswith("##") and len(t) > 2 else t
    for c in s:
        if ord(c) < 128:
            continue
        n = unicodedata.name(c, "")
        if not n or (c.isalpha() and not n.startswith("LATIN")) or (not c.isalpha() and ord(c) > 0x2FFF):
            return False
    return True


class Vocab:
    def __init__(s, a):
        s.tok = tokenizer(f"{a.work}/dl/minilm/tokenizer.json", 1 << 20)
        s.all = [t for t, _ in sorted(s.tok.get_vocab().items(), key=lambda x: x[1])]
        s.keep = [i for i, t in enumerate(s.all) if keep(t)]
        s.pieces = [s.all[i] for i in s.keep]
        s.map = -np.ones(len(s.all), np.int64)
        s.map[s.keep] = np.arange(len(s.keep))
        s.n = len(s.keep)

    def ids(s, texts):
        return [[j for j in s.map[e.ids] if j >= 0] for e in s.tok.encode_batch(texts, add_special_tokens=False)]

    def counts(s, texts):
        import scipy.sparse as sp

        l = s.ids(texts)
        ip = np.zeros(len(l) + 1, np.int64)
        ip[1:] = np.cumsum([len(x) for x in l])
        m = sp.csr_matrix(
            (np.ones(ip[-1], np.float32), np.concatenate([np.asarray(x, np.int64) for x in l]), ip), shape=(len(l), s.n)
        )
        m.sum_duplicates()
        return m


def nrm(x):
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)


# ---------------------------------------------------------------- data of the stages
HOLD = 1500  # the first texts of the (shuffled) corpus are held out for the curve


def corpus_texts(a):
    return [json.loads(l)[1] for c in ("corpus", "corpus2") for l in open(f"{a.work}/{c}.jsonl", encoding="utf-8")]


def tool_texts(a):
    """With a tuned teacher, the tools and requests of the benchmark sets and of training/pairs.jsonl, without the fold that is
    left out; without one none, so that the table has seen nothing of the sets."""
    if not a.teacher:
        return []
    X, out = [], set()
    for s in FOLD:
        D, Q, _ = load_set(a.bench, s)
        if FOLD[s] == a.leave_out:
            out |= set(D) | set(Q)
        else:
            X += D + Q
    for l in open(a.pairs, encoding="utf-8"):
        p = json.loads(l)
        if p["fold"] and p["fold"] != a.leave_out:
            X.append(p["query"])
    return [x for x in dict.fromkeys(X) if x not in out]


def load_corpus(a, V):
    """Word pieces and teacher's vectors of all texts; the first HOLD of them are for the curve alone."""
    import scipy.sparse as sp

    X, Y = corpus_texts(a), tool_texts(a)
    T = np.concatenate(
        [np.load(f).astype(np.float32) for c in "cd" for f in sorted(glob.glob(f"{run_dir(a)}/enc/{c}[0-9]*.npy"))]
    )
    assert len(T) == len(X) + len(Y)
    f = f"{run_dir(a)}/counts.npz"
    if not os.path.exists(f):
        sp.save_npz(f + ".tmp.npz", V.counts(X + Y))
        os.replace(f + ".tmp.npz", f)
    B = benchmark_texts(a)
    ok = np.array([clear(x, B) for x in X] + [True] * len(Y))
    print(int((~ok).sum()), "texts left out that stand in the benchmarks", flush=True)
    return sp.load_npz(f)[ok], T[ok]


def load_pairs(a, V):
    """Weak pairs of tool text (operations, AWS/NumPy/pandas functions): request, document, group (the API they come from)."""
    P = [p for p in map(json.loads, open(f"{a.work}/weak.jsonl")) if not p[0].startswith("wn")]
    B = benchmark_texts(a)
    P = [p for p in P if clear(p[1], B) and clear(p[2], B)]
    g = {}
    G = np.array([g.setdefault(p[0], len(g)) for p in P])
    Q, D = V.counts([p[1] for p in P]), V.counts([p[2] for p in P])
    ok = np.flatnonzero((np.diff(Q.indptr) > 0) & (np.diff(D.indptr) > 0))
    return Q[ok], D[ok], G[ok]


# ---------------------------------------------------------------- learning, by hand in numpy
class Adam:
    """Only the rows a batch touches move (their own step counts)."""

    def __init__(s, W):
        s.W = W
        s.m = np.zeros_like(W)
        s.v = np.zeros_like(W)
        s.t = np.zeros(len(W), np.int64)

    def step(s, rows, g, lr):
        s.t[rows] += 1
        t = s.t[rows][:, None]
        m = s.m[rows] = 0.9 * s.m[rows] + 0.1 * g
        v = s.v[rows] = 0.999 * s.v[rows] + 0.001 * g * g
        s.W[rows] -= (lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)).astype(np.float32)


def softmax(x):
    x = np.exp(x - x.max(1, keepdims=True))
    return x / x.sum(1, keepdims=True)


def fwd(C, W):
    import scipy.sparse as sp

    cols = np.unique(C.indices)
    lut = np.zeros(C.shape[1], np.int64)
    lut[cols] = np.arange(len(cols))
    Cs = sp.csr_matrix((C.data, lut[C.indices], C.indptr), shape=(C.shape[0], len(cols)))
    u = Cs @ W[cols]
    n = np.maximum(np.linalg.norm(u, axis=1, keepdims=True), 1e-6)
    return cols, Cs, u / n, n


def learn(
    a, stage, C, T, P, W, steps, lr, pairs=None, lam=0.0, tau=0.05, ctau=0.1, B=512, seed=SEED, every=250
):
    """Per step: 512 texts against the teacher (cosine to its projected vector + KL of the in-batch similarity rows), and,
    with `pairs`, 512 weak pairs with in-batch negatives in both directions (half of the batches from 8 stretches of one API each).
    """
    import scipy.sparse as sp

    rng = np.random.default_rng(seed)
    W = W.astype(np.float32).copy()
    o = Adam(W)
    N = C.shape[0]
    Tn = nrm(T @ P)
    ck = f"{run_dir(a)}/{stage}.ckpt.npz"
    s0 = 0
    t0 = time.time()
    log = open(f"{run_dir(a)}/{stage}.curve.tsv", "a")
    if pairs:
        Q, D, G = pairs
        order = np.argsort(G, kind="stable")
        grp = np.concatenate([rng.permutation(x) for x in np.split(order, np.flatnonzero(np.diff(G[order])) + 1)])
    if os.path.exists(ck):
        z = np.load(ck, allow_pickle=True)
        W[:] = z["W"]
        o.m[:] = z["m"]
        o.v[:] = z["v"]
        o.t[:] = z["t"]
        s0 = int(z["step"])
        rng.bit_generator.state = z["rng"].item()
        print(f"{stage}: from step {s0}", flush=True)
    H = C[:HOLD]
    iu = np.triu_indices(HOLD, 1)
    sh = (T[:HOLD] @ T[:HOLD].T)[iu]
    for s in range(s0, steps):
        ix = HOLD + rng.choice(N - HOLD, B, replace=False)
        parts = [C[ix]]
        if pairs:
            if rng.random() < 0.5:
                st = rng.integers(0, len(grp) - B // 8, 8)
                jx = np.unique(np.concatenate([grp[x : x + B // 8] for x in st]))
            else:
                jx = rng.choice(Q.shape[0], B, replace=False)
            parts += [Q[jx], D[jx]]
            b = len(jx)
        cols, Cs, v, n = fwd(sp.vstack(parts).tocsr(), W)
        dv = np.zeros_like(v)
        x = v[:B]
        dv[:B] = -10 * Tn[ix] / B
        tt = T[ix] @ T[ix].T
        ss = x @ x.T
        np.fill_diagonal(tt, -1e4)
        np.fill_diagonal(ss, -1e4)
        g = (softmax(ss / ctau) - softmax(tt / ctau)) / B
        dv[:B] += (g + g.T) @ x / ctau * 0.5
        if pairs:
            q, d = v[B : B + b], v[B + b :]
            ss = q @ d.T / tau
            I = np.eye(b, dtype=np.float32)
            g = lam * ((softmax(ss) - I) + (softmax(ss.T) - I).T) / (2 * b) / tau
            dv[B : B + b] = g @ d
            dv[B + b :] = g.T @ q
        o.step(
            cols,
            Cs.T @ ((dv - v * (v * dv).sum(1, keepdims=True)) / n),
            lr * min(1, (s + 1) / 50) * (0.5 + 0.5 * np.cos(np.pi * s / steps)) + 1e-5,
        )
        if (s + 1) % every == 0 or s + 1 == steps:
            vh = nrm(H @ W)
            l = f"{stage}\t{s + 1}\t{(vh * Tn[:HOLD]).sum(1).mean():.4f}\t{np.corrcoef((vh @ vh.T)[iu], sh)[0, 1]:.4f}\t{time.time() - t0:.0f}"
            print("stage step heldout-cos heldout-similarity-r seconds: " + l.replace("\t", " "), flush=True)
            log.write(l + "\n")
            log.flush()
            np.savez(
                ck + ".tmp.npz",
                W=W,
                m=o.m,
                v=o.v,
                t=o.t,
                step=s + 1,
                rng=np.array(rng.bit_generator.state, dtype=object),
            )
            os.replace(ck + ".tmp.npz", ck)
    return W


def init(a):
    """Recipe 1: every piece through the teacher alone, SIF weights from the corpus, projected (uncentred PCA of the corpus vectors)."""
    if done(f"{run_dir(a)}/init.npz"):
        return
    V = Vocab(a)
    C, T = load_corpus(a, V)
    n = np.asarray(C.sum(0)).ravel()
    p = (n + 0.5) / n.sum()
    P = np.linalg.eigh(T[HOLD:].T @ T[HOLD:])[1][:, ::-1][:, : a.dims].astype(np.float32)
    P *= np.sign(P[np.abs(P).argmax(0), np.arange(P.shape[1])])
    W = np.load(f"{run_dir(a)}/enc/vocab.npy").astype(np.float32)[V.keep] * (1e-4 / (1e-4 + p))[:, None]
    np.savez(f"{run_dir(a)}/init.npz", W=(W @ P).astype(np.float32), P=P, n=n)
    print(V.n, "pieces,", int((n == 0).sum()), "of them not in the corpus", flush=True)


def inputs(a):
    V = Vocab(a)
    return V, *load_corpus(a, V), np.load(f"{run_dir(a)}/init.npz")


def distill(a):
    """Recipe 2."""
    if done(f"{run_dir(a)}/distill.npy"):
        return
    _, C, T, z = inputs(a)
    np.save(f"{run_dir(a)}/distill.npy", learn(a, "distill", C, T, z["P"], z["W"], 3000, 0.03))


def fill(a, W, n, V, k=5):
    """Rare whole words: a ridge map from the teacher's vector of the word alone to the learned row (fitted on words seen 8 to 1000
    times; cosine 0.87 on words left out) gives each word a second estimate; the row becomes (n*row + k*estimate)/(n+k), n = times seen.
    """
    F = np.load(f"{run_dir(a)}/enc/vocab.npy").astype(np.float32)[V.keep]
    F = np.c_[F, np.ones(len(F), np.float32)].astype(np.float64)
    word = np.array([len(t) > 1 and not t.startswith("##") and any(c.isalpha() for c in t) for t in V.pieces])
    tr = word & (n >= 8) & (n <= 1000)
    B = np.linalg.solve(F[tr].T @ F[tr] + np.eye(F.shape[1]), F[tr].T @ W[tr])
    c = (n / (n + k))[:, None]
    R = W.copy()
    R[word] = (c * W + (1 - c) * (F @ B))[word].astype(np.float32)
    return R


def tune(a):
    """Recipe 3."""
    if done(f"{run_dir(a)}/tune.npy"):
        return
    V, C, T, z = inputs(a)
    np.save(
        f"{run_dir(a)}/tune.npy",
        learn(
            a,
            "tune",
            C,
            T,
            z["P"],
            fill(a, np.load(f"{run_dir(a)}/distill.npy"), z["n"], V),
            600,
            0.005,
            load_pairs(a, V),
            lam=1.0,
            every=100,
            seed=SEED + 7,
        ),
    )


# ---------------------------------------------------------------- requests and tools
DROP, TAU, STEPS, RATE, BATCH, TEXTS_AT_ONCE = 0.2, 0.05, 600, 0.005, 1024, 512
#: The share that is kept of the way from the distilled table: all of it serves the requests of training, half of it others better.
WAY = 0.6
#: So many pieces get a second row, for tools: those that training moved most.
SECOND = 8000
#: Documents whose distilled vectors are this near are no negatives of each other's requests.
ALIKE = 0.93


def start(a, V):
    """The distilled table, shape pieces x dims."""
    if not a.start:
        return np.load(f"{run_dir(a)}/tune.npy")
    from static_ref import Static

    M = Static(a.start)
    at = {p: i for i, p in enumerate(M.names)}
    return M.rows()[[at[p] for p in V.pieces]]


def meet(a):
    """Recipe 4: the table twice, for requests and for tools, trained on pairs of both as the tuned model is (../pairs.py). Beside that,
    both copies keep to what the distilled table says of the corpus: the cosine (weight 3) and the similarities in a batch
    (weight 0.5, temperature 0.1)."""
    import torch
    import torch.nn.functional as F
    from lazy import Lazy, bags
    from pairs import Batches, Pairs, contrast

    f = f"{run_dir(a)}/meet.npz"
    if done(f):
        return
    a.batch, a.seed = BATCH, 1
    V = Vocab(a)
    P = Pairs(a)
    Q, D = V.ids(P.q), V.ids(P.d)
    distilled = start(a, V).astype(np.float32)
    B = Batches(a, P, nrm(np.stack([distilled[x].sum(0) for x in D])), ALIKE)
    seen = benchmark_texts(a)
    C = [x for x in V.ids([x for x in corpus_texts(a) if clear(x, seen)]) if len(x) > 1]
    W0, none = torch.from_numpy(distilled), torch.zeros(0, distilled.shape[1])
    requests, tools = Lazy(W0.clone()), Lazy(W0.clone())
    kl = lambda x, y: F.kl_div(F.log_softmax(x, 1), F.log_softmax(y, 1), log_target=True, reduction="batchmean")
    eye = torch.eye(TEXTS_AT_ONCE, dtype=torch.bool)
    t0, ls = time.time(), []
    for t in range(STEPS):
        r = np.random.default_rng([a.seed, 1, t])
        drop = lambda x: [j for j in x if r.random() > DROP] or x
        asked, tooled, positive, negative = B.batch(t)
        rows, columns = [n for n, i in enumerate(asked) if Q[i]], [n for n, j in enumerate(tooled) if D[j]]
        X = [C[i] for i in r.integers(0, len(C), TEXTS_AT_ONCE)]
        q, x = (F.normalize(y, dim=1) for y in requests.begin(none, [drop(Q[asked[n]]) for n in rows], X))
        d, y = (F.normalize(y, dim=1) for y in tools.begin(none, [drop(D[tooled[n]]) for n in columns], X))
        met = contrast(q, d, *(x[np.ix_(rows, columns)] for x in (positive, negative)), TAU)
        c = F.normalize(bags(W0, X), dim=1)
        near, now = ((z / 0.1).masked_fill(eye, -1e4) for z in (c @ c.T, x @ y.T))
        kept = ((x * c).sum(1).mean() + (y * c).sum(1).mean()) / 2
        (met + 0.25 * (kl(now, near) + kl(now.T, near)) - 3 * kept).backward()
        for table in (requests, tools):
            table.step(RATE * min(1, (t + 1) / 40) * (0.5 + 0.5 * np.cos(np.pi * t / STEPS)))
        ls.append(met.item())
        if (t + 1) % 100 == 0:
            print(t + 1, f"loss {np.mean(ls[-100:]):.3f}, cosine to the start {kept:.3f}, {time.time() - t0:.0f} s", flush=True)
    W, T = (distilled + WAY * (x.rows.numpy() - distilled) for x in (requests, tools))
    moved = ((T - W) ** 2).sum(1)
    second = np.sort(np.argsort(-moved, kind="stable")[:SECOND])
    print(f"second rows have {moved[second].sum() / moved.sum():.4f} of what separates requests and tools", flush=True)
    np.savez(f, W=W, T=T[second], second=second)


def speak(a):
    """Recipe 5: other languages."""
    from languages import speak as spoken

    f = f"{run_dir(a)}/speak.npz"
    if done(f):
        return
    met = np.load(f"{run_dir(a)}/meet.npz")
    tools = met["W"].copy()
    tools[met["second"]] = met["T"]
    others, leans, rows = spoken(a, Vocab(a).pieces, met["W"], tools)
    np.savez(f, others=np.array(others), leans=np.array(leans, np.uint8), rows=rows)


#: Shares of the requests that tools serve, of all.
SERVED = {"sets": 0.1, "written": 0.05, "real": 0.05, "beside": 0.125, "commands": 0.05, "operations": 0.05, "tools": 0.05, "voice": 0.025}
#: How strongly the weights of dimensions, and those of pieces, are held to zero.
SHRINK = 1e-4, 1e-5


def scope(a):
    """Recipe 6: the weight of each English piece, and an intercept, for the logarithm of the odds that tools serve such a request at all: the
    sum over a request's distinct pieces by the root of their number. A logistic regression on requests that tools serve (those of the
    sets, of the written and of the real servers, of command-line pages, spoken to a home, made of operations, and what tools say that they do), and as many by their weight that no tool is for: near
    the subject of a server (those of its writers, and of scope.tsv, as many as are served there), and out of any scope. A weight is the piece's own and what
    its row says, so that pieces which no request has have one too."""
    import scipy.sparse as sp
    from scipy.optimize import minimize

    f = f"{run_dir(a)}/scope.npz"
    if done(f):
        return
    V, W = Vocab(a), np.load(f"{run_dir(a)}/meet.npz")["W"]
    without = WRITTEN_FOLDS.get(a.leave_out, ())
    seen = benchmark_texts(a)
    sets = [load_set(a.bench, s)[:2] for s in SETS if FOLD[s] != a.leave_out]
    asked = list(written_requests(a.written, without))
    served, near = ([q for q, tools in asked if bool(tools) == x] for x in (True, False))
    real = RealServers(a.real, a.leave_out, a.unseen)
    near += real.unanswered()
    real = [q for lang, q, _ in real.requests() if lang == "en"]
    commands = [q for l in open(f"{a.training}/commands.jsonl", encoding="utf-8") for q in json.loads(l)["requests"]]
    operations = [q for title, q, _ in map(json.loads, open(f"{a.work}/weak.jsonl", encoding="utf-8")) if title != "t2v" and not title.startswith("wn")]
    operations = [q for q in np.random.default_rng(SEED).permutation(operations)[:20_000].tolist() if clear(q, seen)]
    out = [q for n in (1, 2, 3) if n != a.leave_out for q in out_of_scope(n)]
    groups = [(SERVED["sets"] / len(sets), 1, x) for _, x in sets]
    # What a tool says that it does is a request that it serves.
    tools = [t["description"] for s in written_servers(a.written) if s["fold"] not in without for t in s["tools"]]
    tools += [d.partition(": ")[2] for documents, _ in sets for d in documents]
    tools = [first_sentence(x) for x in tools if x]
    voice = [v["text"] for v in map(json.loads, open(f"{a.training}/voice.jsonl", encoding="utf-8")) if v["lang"] == "en"]
    more = {"written": served, "real": real, "beside": beside(True), "commands": commands, "operations": operations, "tools": tools, "voice": voice}
    groups += [(SERVED[k], 1, x) for k, x in more.items() if x]
    groups += [(0.125, 0, near), (0.125, 0, beside(False)), (0.25, 0, out)]
    C = V.counts([q for *_, x in groups for q in x])
    C.data[:] = 1
    C = sp.diags(np.maximum(np.diff(C.indptr), 1) ** -0.5) @ C
    X = sp.hstack([sp.csr_matrix(C @ W), C]).tocsr()
    y = np.concatenate([np.full(len(x), label) for _, label, x in groups])
    w = np.concatenate([np.full(len(x), share / len(x)) for share, _, x in groups])
    held = np.repeat(SHRINK, (W.shape[1], V.n))

    def loss(t):
        z = X @ t[:-1] + t[-1]
        d = w * (1 / (1 + np.exp(-z)) - y)
        return w @ (np.logaddexp(0, z) - y * z) + held @ t[:-1] ** 2, np.r_[X.T @ d + 2 * held * t[:-1], d.sum()]

    t = minimize(loss, np.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    print(f"scope of {len(y)} requests, right of {w @ ((X @ t[:-1] + t[-1] > 0) == y):.4f}", flush=True)
    of_rows, own = np.split(t[:-1], [W.shape[1]])
    np.savez(f, weights=W @ of_rows + own, intercept=t[-1])


# ---------------------------------------------------------------- the file
#: Values of a row go from minus so many to so many, for English and for other languages. 31 for both measure the same, and these pack
#: into half the bytes, so that the library fits into its registry.
LEVELS, LEVELS_OF_OTHERS = 15, 7


def quantise(W, levels):
    sc = (np.abs(W).max(1, keepdims=True) / levels).astype(np.float32)
    sc[sc == 0] = 1
    return np.clip(np.rint(W / sc), -levels, levels).astype(np.int8), sc.ravel()


TEXTS = [
    "get weather: Get the current weather for a city",
    "What's the weather like in Paris tomorrow?",
    "Send an email to Alice about the meeting",
    "create calendar event",
    "readFile",
    "read_file: Read the complete contents of a file from the file system.",
    "Convert 100 USD to EUR",
    "Find cheap flights from Los Angeles to Tokyo departing in December 2024.",
    "crème brûlée recipe, naïve café",
    "DELETE /users/{userId}?force=true",
    "I'm looking for a good Italian restaurant!",
    "Zusammenfassung des Dokuments",
    "你好 world",
    "Quel temps fera-t-il demain à Lyon ?",
    "die Datei notes.txt auf den Server kopieren",
    "把会议改到明天下午三点",
    "明日の天気を教えて",
    "какая погода в Москве?",
    "order a 🍕 for me",
    "42",
    "",
    "   \t\n ",
    "antidisestablishmentarianism",
    "x" * 120,
    "the the the the weather",
    "“smart quotes” — and… emoji here🎉 10Ω",
]


def export(a):
    V = Vocab(a)
    z, spoken = np.load(f"{run_dir(a)}/meet.npz"), np.load(f"{run_dir(a)}/speak.npz")
    second, others = list(z["second"]), list(spoken["others"])
    order = second + sorted(set(range(V.n)) - set(second))
    parts = quantise(np.concatenate([z["W"][order], z["T"]]), LEVELS), quantise(spoken["rows"], LEVELS_OF_OTHERS)
    q, sc = (np.concatenate(x) for x in zip(*parts))
    leans = spoken["leans"][order + list(range(V.n, V.n + len(others)))]
    v = "\n".join([V.pieces[i] for i in order] + others).encode()
    numbers = struct.pack("<IIIIII", 3, q.shape[1], V.n, len(second), len(others), len(v))
    x = np.load(f"{run_dir(a)}/scope.npz")
    step = np.abs(x["weights"]).max() / 127
    scope = struct.pack("<ff", step, x["intercept"]) + np.rint(x["weights"][order] / step).astype(np.int8).tobytes()
    b = b"PTSTATIC" + numbers + sc.astype("<f4").tobytes() + q.tobytes() + leans.tobytes() + scope + v
    b += hashlib.sha256(b).digest()
    with open(f"{run_dir(a)}/static.bin", "wb") as f:
        f.write(b)
    from static_ref import Static

    M = Static(f"{run_dir(a)}/static.bin")
    eight = lambda x: [round(float(y), 6) for y in x[:8]]
    rows = [
        json.dumps(
            {"text": x, "pieces": [M.names[j] for j in M.vocabulary.ids(x)], "request": eight(M.vector(x, False)), "tool": eight(M.vector(x, True)), "scope": M.scope(x)},
            ensure_ascii=False,
        )
        for x in TEXTS
    ]
    with open(f"{run_dir(a)}/reference.json", "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(rows) + "\n]\n")
    print("static.bin", len(b), "bytes", sha(f"{run_dir(a)}/static.bin"), flush=True)


# ---------------------------------------------------------------- the measure
def score(a):
    """nDCG@10 of static.bin, cosine alone."""
    from static_ref import Static

    M = Static(f"{run_dir(a)}/static.bin")
    R = M.rows()
    embed = lambda tools: lambda L: nrm(np.stack([R[M.ids(x, tools)].sum(0) for x in L]))
    score_sets(a, embed(False), f"{run_dir(a)}/score.json", embed(True))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("stage")
    p.add_argument("--work", default="work")
    p.add_argument("--bench", default="../shared/benchmarks")
    p.add_argument("--training", default="../shared/training")
    p.add_argument("--real", default="", help="folder of the definitions that ../real/collect.py wrote")
    p.add_argument("--unseen", default="", help="folder of an evaluation set whose servers are left out")
    p.add_argument("--share-real", type=float, default=0.3, help="share of the pairs for real servers")
    p.add_argument("--start", default="")
    p.add_argument("--run", default="static")
    p.add_argument("--teacher", default="")
    p.add_argument("--dims", type=int, default=256)
    p.add_argument("--leave-out", type=int, default=0)
    a = p.parse_args()
    a.pairs, a.written = f"{a.training}/pairs.jsonl", f"{a.training}/written"
    os.makedirs(run_dir(a), exist_ok=True)
    F = {
        "fetch": fetch,
        "corpus": corpus,
        "encode": encode,
        "init": init,
        "distill": distill,
        "tune": tune,
        "meet": meet,
        "speak": speak,
        "scope": scope,
        "export": export,
        "score": score,
    }
    for s in (list(F) if a.stage == "all" else a.stage.split(",")):
        F[s](a)
