"""Trains the reader: linear models on hashed features (features.py), in one file.

    python models/train/reader/train.py --written models/train/written --training ../shared/training --bench ../shared/benchmarks --out FILE

- scope: does a message ask for something that a tool could do?
- lines: is a line the request, or matter that was pasted beside it? With the structure of the text (lines.py). And are the
  lines beside the request pasted, or do they ask for more and give details?
- turns: what does a turn do, after the turn before it and the answer (turns.py)?

`--report` also measures each on data that took no part: half of the served requests in turn, and the conversations and
pasted requests of `talk`. `--keep FILE` takes the other weights of that file, and fits only those of the lines beside a request.
"""

import argparse, collections, hashlib, json, random, re, struct, sys
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, vstack
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parent))
from features import HASH_BITS, features, words
from lines import BESIDE_NAMES, NAMES, Line, beside_request, beside_values, structure
from turns import ACTS, TURN_BITS, context_features

VERSION = 3
SETS = "metatool metatool-multi bfcl seal-tools toolbench toolalpaca apibank nestful mcpproxy-golden rotbench-clean".split()
#: The mass of each group of requests that tools serve.
SERVED = {"sets": 0.25, "written": 0.25, "translations": 0.07, "tasks": 0.02, "voice": 0.07, "commands": 0.04, "parallel": 0.05, "served": 0.35, "keywords": 0.1, "searches": 0.01}
#: The number of requests of one or two words that are made of other requests.
KEYWORDS = 6000
#: The share of messages that say only that somebody wants something ("can you help me?") among those that no tool serves.
OPENINGS_MASS = 0.02
#: A word asks for something if it is so many times as frequent in requests as in small talk.
KEYWORD_RATIO = 1.5


def rows(path, columns):
    out = []
    for line in open(path, encoding="utf-8"):
        fields = line.rstrip("\n").split("\t")
        assert len(fields) == columns, (path, line)
        out.append(fields)
    return out


def load(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]


def served(a):
    """Pairs of group and text."""
    rng = random.Random(7)
    some = lambda texts, n: rng.sample(texts, min(n, len(texts)))
    groups = {
        "sets": [q["text"] for s in SETS for q in load(f"{a.bench}/{s}/queries.jsonl")],
        "written": [r["q"] for s in load(f"{a.training}/written/servers.jsonl") for r in s["requests"] if r["tools"]],
        "translations": [r["text"] for r in load(f"{a.training}/written/translations.jsonl")],
        "tasks": [r["text"] for r in load(f"{a.training}/written/tasks.jsonl")],
        "voice": some([r["text"] for r in load(f"{a.training}/voice.jsonl")], 6000),
        "commands": some([q for c in load(f"{a.training}/commands.jsonl") for q in c["requests"]], 4000),
        "parallel": some([r["text"] for r in load(f"{a.training}/parallel.jsonl") if not r.get("description")], 8000),
        "served": [t for *_, t in rows(f"{a.written}/served.tsv", 3)],
        "searches": [t for _, t in rows(f"{a.written}/searches.tsv", 2)],
    }
    groups["keywords"] = keywords([t for g in ("written", "commands", "voice", "served") for t in groups[g]], small_talk(a))
    return [(g, t) for g, texts in groups.items() for t in texts]


def keywords(requests, small_talk):
    """Words and pairs of words, as people type them into a search field: those of the requests, half of them the most frequent
    ones, without the words that are as frequent in small talk."""
    rng = random.Random(13)
    plain = lambda text: [word for _, word in words(text)]
    share = lambda texts: {w: n / len(texts) for w, n in collections.Counter(w for t in texts for w in set(plain(t))).items()}
    asked, talked = share(requests), share(small_talk)
    kept = lambda found: [w for w in found if len(w) > 3 and w.isalpha() and asked[w] > KEYWORD_RATIO * talked.get(w, 0)]
    texts = collections.Counter()
    for request in requests:
        found = kept(plain(request))
        texts.update(set(found))
        texts.update(" ".join(pair) for pair in zip(found, found[1:]))
    frequent = [text for text, _ in texts.most_common(KEYWORDS // 2)]
    others = sorted(texts.keys() - set(frequent))
    return frequent + rng.sample(others, KEYWORDS - len(frequent))


def small_talk(a):
    out = [t for *_, t in rows(f"{a.written}/small_talk.tsv", 3)]
    if not a.report:
        out += [d["text"] for d in load(f"{a.bench}/talk/smalltalk.dev.jsonl")]
    return out + [l.strip() for l in open(f"{a.written}/out_of_scope.txt", encoding="utf-8") if l.strip()]


def openings(a):
    return [t for _, t in rows(f"{a.written}/openings.tsv", 2)]


def matrix(texts):
    return sparse([[(1.0, features(words(t)))] for t in texts], HASH_BITS)


def sparse(records, bits):
    """A row per record of (weight, features) groups; each group has that length."""
    indices, data, ends = [], [], [0]
    for groups in records:
        for weight, found in groups:
            indices += [f & ((1 << bits) - 1) for f in found]
            data += [weight / max(len(found), 1) ** 0.5] * len(found)
        ends.append(len(indices))
    m = csr_matrix((data, indices, ends), shape=(len(records), 1 << bits), dtype=np.float32)
    m.sum_duplicates()
    return m


def masses(groups, table):
    count = collections.Counter(groups)
    return np.array([table[g] / count[g] for g in groups])


def logistic(X, y, mass, c):
    w = mass / mass.sum() * 10_000 if mass is not None else None
    return LogisticRegression(C=c, max_iter=400).fit(X, y, sample_weight=w)


# ---------------------------------------------------------------- scope
SCOPE_C = 2.0


def fit_scope(XP, wP, XN, wN):
    y = np.r_[np.ones(XP.shape[0]), np.zeros(XN.shape[0])]
    return logistic(vstack([XP, XN]), y, np.r_[wP / wP.sum(), wN / wN.sum()], SCOPE_C)


def report_scope(a, positive, XP, wP, XN, wN):
    dev = load(f"{a.bench}/talk/smalltalk.dev.jsonl")
    XD = matrix([d["text"] for d in dev])
    half = np.random.RandomState(2).rand(len(positive)) < 0.5
    of_dev, of_served = np.zeros(len(dev)), np.zeros(len(positive))
    for h in (half, ~half):
        m = fit_scope(XP[np.where(h)[0]], wP[h], XN, wN)
        of_dev += m.decision_function(XD) / 2
        of_served[~h] = m.decision_function(XP[np.where(~h)[0]])
    for group in SERVED:
        s = of_served[[i for i, (g, _) in enumerate(positive) if g == group]]
        auc = roc_auc_score(np.r_[np.ones(len(s)), np.zeros(len(dev))], np.r_[s, of_dev])
        below = " ".join(f"{100 * q:g}%: {(of_dev < np.quantile(s, q)).mean():.3f}" for q in (0.01, 0.02, 0.05))
        print(f"scope: {group:13} AUROC {auc:.4f}; small talk below the quantile {below}")
    for kind in sorted({d["kind"] for d in dev}):
        s = of_dev[[i for i, d in enumerate(dev) if d["kind"] == kind]]
        print(f"scope: {kind:16} over 0: {(s > 0).mean():.2f}")


# ---------------------------------------------------------------- lines
LINES_C, STRUCTURE_C = 2.0, 0.5


def sentences(text):
    return [s.strip() for s in re.split(r"(?<=[.!?;])\s+|\n", text) if s.strip()]


def pasted_texts(a):
    """Pairs of kind and lines of the written texts as people paste them."""
    out = []
    for line in open(f"{a.written}/pasted.txt", encoding="utf-8"):
        if line.startswith("====="):
            out.append((line.strip("=").split()[0], []))
        elif line.strip():
            out[-1][1].append(line.strip())
    return out


def code_lines():
    code = [l for f in sorted(Path(__file__).parents[3].glob("src/**/*.rs"))[::3] for l in f.read_text().split("\n")[::12]]
    code += [l for f in sorted(Path(__file__).parents[1].glob("*/*.py")) for l in f.read_text().split("\n")[::6]]
    return [l.strip() for l in code if l.strip()]


def asked_lines(positive, negative):
    rng = random.Random(11)
    asks = [t for g, t in positive if g not in ("parallel", "commands")]
    return asks + [rng.choice(s) for s in map(sentences, asks) if len(s) > 1] + negative


def fit_lines(asks, pasted, code):
    print(f"lines: {len(asks)} requests, {len(pasted)} pasted lines, {len(code)} lines of code")
    X = matrix([t[:300] for t in asks + pasted + code])
    y = np.r_[np.ones(len(asks)), np.zeros(len(pasted) + len(code))]
    mass = np.r_[np.full(len(asks), 0.5 / len(asks)), np.full(len(pasted), 0.42 / len(pasted)), np.full(len(code), 0.08 / len(code))]
    return logistic(X, y, mass, LINES_C)


def is_ask(line, ask):
    return ask in line or line in ask or (len(line) > 15 and line[:40] in ask)


def as_paragraph(text, ask):
    """The same text with what is before and after the request as one line each."""
    parts = text.partition(ask)
    return "\n\n".join(p for p in (" ".join(part.split()) if part != ask else ask for part in parts) if p)


#: The weights of texts whose pasted matter is made one line, of requests beside paragraphs, and of long requests with a greeting.
PARAGRAPH_WEIGHT, COMPOSED_WEIGHT, GREETED_WEIGHT = 0.5, 0.7, 0.1
#: The numbers of composed texts of each half, and the least length of a long request.
COMPOSED_TEXTS, GREETED_TEXTS, LONG_CHARACTERS = 300, 200, 250
#: The kinds of pasted texts that may be one paragraph.
PROSE = "email letter minutes notes call recipe leaflet story article forum chat abstract product ticket terms".split()
GREETINGS = ["Hello,", "Hi team,", "Hey there!", "Good morning,", "Hi,", "Hallo,", "Dear assistant,", "hey, quick one"]
ENDINGS = ["Thanks!", "Thank you in advance.", "Best regards,\nJo", "Cheers", "Thanks a lot, Ben", "many thanks", "Danke!"]


def some_sentences(paragraph, rng):
    """Some sentences in a row of a paragraph, or all of them."""
    found = re.split(r"(?<=[.!?])\s+", paragraph)
    count = rng.randint(3, 14)
    start = rng.randrange(max(1, len(found) - count + 1))
    part = " ".join(found[start : start + count])
    return part if len(part) >= 180 else paragraph


def beside_paragraphs(requests, pasted, rng):
    """Requests before or after pasted matter, most of which is a paragraph of one line."""
    paragraphs = [" ".join(lines) for kind, lines in pasted if kind in PROSE]
    for _ in range(COMPOSED_TEXTS):
        if rng.random() < 0.7:
            matter = some_sentences(rng.choice(paragraphs), rng)
            if rng.random() < 0.25:
                matter += "\n\n" + rng.choice(paragraphs)[:600]
        else:
            matter = "\n".join(rng.choice(pasted)[1])
        ask, gap = rng.choice(requests), rng.choice(["\n\n", "\n", "\n\n"])
        yield {"ask": ask, "text": gap.join(rng.choice([(ask, matter), (matter, ask)]))}


def greeted(requests, rng):
    """Long requests between a greeting and thanks, or with one of them."""
    for ask in rng.sample(requests, min(GREETED_TEXTS, len(requests))):
        before, after = rng.choice([(1, 1), (1, 1), (1, 0), (0, 1)])
        parts = before * [rng.choice(GREETINGS)] + [ask] + after * [rng.choice(ENDINGS)]
        yield {"ask": ask, "text": rng.choice(["\n", "\n\n"]).join(parts)}


def composed_data(a, asks):
    """Records of composed texts. The scores of their lines are of models that have not seen these lines."""
    rng = random.Random(41)
    half = lambda text: hashlib.md5(text.encode()).digest()[0] % 2
    pasted, code = pasted_texts(a), code_lines()
    served = [t for *_, t in rows(f"{a.written}/served.tsv", 3)]
    out = []
    for k in (0, 1):
        lines = fit_lines([t for t in asks if half(t) != k], [l for _, ls in pasted[1 - k :: 2] for l in ls], code)
        long = [t for t in asks if half(t) == k and LONG_CHARACTERS <= len(t) <= 6 * LONG_CHARACTERS and "\n" not in t]
        texts = list(beside_paragraphs([t for t in served if half(t) == k], pasted[k::2], rng))
        for weight, some in (COMPOSED_WEIGHT, texts), (GREETED_WEIGHT, list(greeted(long, rng))):
            out += [(x, y, weight) for x, y in zip(*structure_data(lines, some))]
    return out


def structure_data(lines, texts):
    """The values of each line, and whether it is the request."""
    data = [structure(t["text"], lambda ls: lines.decision_function(matrix(ls))) for t in texts]
    # In a fence stands no request, so fenced lines take no part.
    data = [[r for r in d if not r[2]] or d for d in data]
    labels = [[is_ask(line, t["ask"]) for _, line, *_ in d] for d, t in zip(data, texts)]
    return [np.array([v for *_, v in d]) for d in data], labels


def fit_structure(a, lines, asks):
    texts = load(f"{a.bench}/talk/paste.dev.jsonl")
    X, labels = structure_data(lines, texts)
    one_line = [i for i, t in enumerate(texts) if t["ask"] in t["text"] and "```" not in t["text"]]
    joined = [{"ask": texts[i]["ask"], "text": as_paragraph(texts[i]["text"], texts[i]["ask"])} for i in one_line]
    of_joined = dict(zip(one_line, zip(*structure_data(lines, joined))))
    composed = composed_data(a, asks)

    def fit(ids):
        records = [(X[i], labels[i], 1.0) for i in ids] + composed
        records += [(*of_joined[i], PARAGRAPH_WEIGHT) for i in ids if i in of_joined]
        weights = np.concatenate([np.full(len(x), weight) for x, _, weight in records])
        return fit_structure_on(np.concatenate([x for x, *_ in records]), np.concatenate([y for _, y, _ in records]), weights)

    if a.report:
        order, scores = np.random.RandomState(3).permutation(len(texts)), [None] * len(texts)
        for k in range(6):
            weights, intercept = fit(np.setdiff1d(np.arange(len(texts)), order[k::6]))
            for i in order[k::6]:
                scores[i] = X[i] @ weights + intercept
        best = sum(l[int(np.argmax(s))] for s, l in zip(scores, labels))
        print(f"lines: the best line is the request in {best} of {len(texts)} (6 folds)")
        for margin in (0.5, 1, 1.5, 2, 3):
            chosen = [s >= s.max() - margin for s in scores]
            found = sum(any(c & np.array(l)) for c, l in zip(chosen, labels))
            more = sum((c & ~np.array(l)).sum() for c, l in zip(chosen, labels)) / len(texts)
            print(f"lines: within {margin} of the best: request in {found}, {more:.2f} other lines a text")
    weights, intercept = fit(range(len(texts)))
    print("lines:", {n: round(float(w), 2) for n, w in zip(["score", *NAMES], weights)}, round(intercept, 2))
    return weights, intercept


def fit_structure_on(X, y, sample_weights):
    mean, spread = X.mean(0), X.std(0) + 1e-6
    m = LogisticRegression(C=STRUCTURE_C, max_iter=1000).fit((X - mean) / spread, y, sample_weight=sample_weights)
    weights = m.coef_[0] / spread
    return weights, float(m.intercept_[0] - weights @ mean)


# ---------------------------------------------------------------- lines beside the request
BESIDE_C = 0.2
#: The number of composed messages of each kind and half, and the weights of all messages of a kind.
BESIDE_TEXTS = 400
BESIDE_MASSES = {"pasted": 1.0, "beside_paragraph": 1.0, "turns": 0.6, "requests": 0.6, "sentences": 0.5, "paragraphs": 0.3}
#: What the turns of a user do that a message in several lines may do as well.
OWN_ACTS = ("value", "second_tool", "correction", "ellipsis", "topic_switch", "choice", "refusal", "consent")
LIST_MARKS = ["", "", "", "- ", "* ", "{}. "]


class OwnWords:
    """Messages in several lines without pasted matter: requests, their details, thanks and greetings between them."""

    def __init__(self, a, half, k):
        self.rng = random.Random(43 + k)
        chosen = lambda texts: [(lang, t) for lang, t in texts if half(t) == k]
        small_talk = rows(f"{a.written}/small_talk.tsv", 3)
        by_language = lambda texts: {lang: [t for l, t in texts if l == lang] for lang in sorted({l for l, _ in texts})}
        self.served = by_language(chosen((lang, t) for lang, _, t in rows(f"{a.written}/served.tsv", 3)))
        self.thanks = by_language([(lang, t) for lang, kind, t in small_talk if kind == "thanks"])
        self.greetings = by_language([(lang, t) for lang, kind, t in small_talk if kind == "greeting"])
        self.openings = by_language(rows(f"{a.written}/openings.tsv", 2))
        self.consents = by_language([(lang, t) for lang, act, t in rows(f"{a.written}/answers.tsv", 3) if act == "consent"])
        turns = [(lang, [t for t in (before, turn) if t]) for lang, act, before, _, turn in rows(f"{a.written}/turns.tsv", 5) if act in OWN_ACTS]
        self.turns = by_language([(lang, ts) for lang, ts in turns if half("".join(ts)) == k])
        long = [r["q"] for s in load(f"{a.training}/written/servers.jsonl") for r in s["requests"] if r["tools"]]
        long += [r["text"] for r in load(f"{a.training}/written/tasks.jsonl")]
        self.long = [t for t in long if half(t) == k and len(sentences(t)) > 2]

    def with_phrases(self, lang, lines):
        """The lines with thanks and consents, in lines of their own or not, and with a greeting, an opening and thanks around."""
        rng, out = self.rng, []
        for number, line in enumerate(lines):
            if number and rng.random() < 0.15:
                line = rng.choice(self.thanks[lang]) + rng.choice([" ", " ", "\n"]) + line
            elif number and rng.random() < 0.1:
                line = rng.choice(self.consents[lang]) + rng.choice([". ", ", ", "\n"]) + line
            out.append(line)
        if rng.random() < 0.2:
            out.insert(0, rng.choice(self.greetings[lang]))
        if rng.random() < 0.1:
            out.insert(0, rng.choice(self.openings[lang]))
        return out + ([rng.choice(self.thanks[lang])] if rng.random() < 0.2 else [])

    def messages(self):
        """Pairs of kind and text."""
        rng = self.rng
        languages = list(self.served)
        weights = [1 + len(self.turns[lang]) / 70 for lang in languages]
        for _ in range(BESIDE_TEXTS):
            lang = rng.choices(languages, weights)[0]
            turns = [line for _ in range(rng.randint(2, 5)) for line in rng.choice(self.turns[lang])]
            yield "turns", "\n".join(self.with_phrases(lang, turns))
        for _ in range(BESIDE_TEXTS):
            lang = rng.choices(languages, weights)[0]
            requests, mark = rng.sample(self.served[lang], rng.randint(3, 8)), rng.choice(LIST_MARKS)
            marked = [mark.format(number) + request for number, request in enumerate(requests, 1)]
            yield "requests", rng.choice(["\n", "\n", "\n\n"]).join(marked if mark else self.with_phrases(lang, requests))
        for _ in range(BESIDE_TEXTS):
            texts = rng.sample(self.long, rng.randint(1, 2))
            yield "sentences", "\n".join(self.with_phrases("en", [s for t in texts for s in sentences(t)]))
        for _ in range(BESIDE_TEXTS // 2):
            yield "paragraphs", rng.choice(["\n", "\n\n"]).join(self.with_phrases("en", rng.sample(self.long, rng.randint(2, 4))))


def scored_lines(text, lines, scope, shape):
    """The lines of a text with their scores; `lines` and `scope` give the scores of texts."""
    weights, intercept = shape
    found = structure(text, lines)
    scopes = scope([line[:300] for _, line, *_ in found])
    out = []
    for (_, line, fenced, values), line_scope in zip(found, scopes):
        best, _, mean, has_many, _ = values[-5:]
        of_sentences = (best, mean) if has_many else (values[0], values[0])
        out.append(Line(line, fenced, values[0], *of_sentences, intercept + float(np.dot(weights, values)), line_scope))
    return out


def beside_data(a, asks, heads):
    """Triples of kind, whether the lines beside the request are pasted, and their values. `heads` are scope, lines and structure.
    The lines of composed messages have scores of models that have not seen them."""
    scope, lines, shape = heads
    half = lambda text: hashlib.md5(text.encode()).digest()[0] % 2
    texts = [("pasted", 1, t["text"], lines) for t in load(f"{a.bench}/talk/paste.dev.jsonl")]
    pasted, code = pasted_texts(a), code_lines()
    served = [t for *_, t in rows(f"{a.written}/served.tsv", 3)]
    rng = random.Random(47)
    for k in (0, 1):
        model = fit_lines([t for t in asks if half(t) != k], [l for _, ls in pasted[1 - k :: 2] for l in ls], code)
        unseen = lambda ts, model=model: model.decision_function(matrix(ts))
        composed = beside_paragraphs([t for t in served if half(t) == k], pasted[k::2], rng)
        texts += [("beside_paragraph", 1, t["text"], unseen) for t in composed]
        texts += [(kind, 0, text, unseen) for kind, text in OwnWords(a, half, k).messages()]
    count, out = collections.Counter(kind for kind, *_ in texts), []
    for kind, is_pasted, text, scores in texts:
        found = beside_request(scored_lines(text, scores, scope, shape))
        if found:
            out.append((kind, is_pasted, beside_values(*found)))
    print("beside: messages of which lines are chosen:", {k: f"{sum(o[0] == k for o in out)} of {n}" for k, n in count.items()})
    return out


def fit_beside(a, asks, heads):
    data = beside_data(a, asks, heads)
    kinds, y = np.array([d[0] for d in data]), np.array([d[1] for d in data])
    X, mass = np.array([d[2] for d in data]), masses(kinds, BESIDE_MASSES)
    mean, spread = X.mean(0), X.std(0) + 1e-6
    fit = lambda ids: logistic((X[ids] - mean) / spread, y[ids], mass[ids], BESIDE_C)
    folds, scores = np.random.RandomState(5).randint(0, 6, len(y)), np.zeros(len(y))
    for k in range(6):
        scores[folds == k] = fit(np.where(folds != k)[0]).decision_function((X[folds == k] - mean) / spread)
    print("beside: right in 6 folds:", {k: round(float(((scores > 0) == y)[kinds == k].mean()), 3) for k in BESIDE_MASSES})
    model = fit(np.arange(len(y)))
    weights = model.coef_[0] / spread
    print("beside:", {n: round(float(w), 2) for n, w in zip(BESIDE_NAMES, model.coef_[0])})
    return weights, float(model.intercept_[0] - weights @ mean)


# ---------------------------------------------------------------- turns
TURNS_C, CONTEXT_WEIGHT = 20.0, 2.0


#: What an assistant says to somebody who asks for nothing yet.
OPENINGS = ["", "Hello! How can I help you?", "Hi! What can I do for you today?", "You're welcome! Anything else?", "Great. What do you need?", "Hallo! Wie kann ich helfen?", "Bonjour ! Que puis-je faire pour vous ?", "¡Hola! ¿En qué puedo ayudarte?"]  # fmt: skip
#: The number of composed turns of each kind.
COMPOSED = 150


def after_small_talk(a):
    """Turns after small talk: a request of its own, or more small talk."""
    rng = random.Random(19)
    requests = [text for *_, text in rows(f"{a.written}/served.tsv", 3)]
    talk = [text for *_, text in rows(f"{a.written}/small_talk.tsv", 3)]
    for act, texts in ("new_request", requests), ("small_talk", talk):
        yield from ((rng.choice(talk), rng.choice(OPENINGS), text, act) for text in rng.sample(texts, COMPOSED))


#: What an assistant says when a request is done; often nothing.
DONE = ["", "", "Done.", "Here it is.", "OK, that is done.", "I found three.", "Erledigt.", "C'est fait.", "Hecho.", "完成了。"]


def after_requests(a):
    """Requests that have nothing to do with the request before."""
    rng = random.Random(37)
    requests = [text for *_, text in rows(f"{a.written}/served.tsv", 3)]
    yield from ((rng.choice(requests), rng.choice(DONE), text, "new_request") for text in rng.sample(requests, 400))


def without_answer(turns):
    """Turns whose meaning comes from the user's turn before, without what the assistant said between."""
    plain = [turn for turn in turns if turn[3] in ("ellipsis", "correction", "second_tool", "topic_switch")]
    return [(before, "", turn, act) for before, _, turn, act in random.Random(29).sample(plain, 2 * COMPOSED) if before]


def short_answers(a, turns):
    """Consents and refusals of a few words, each after an offer."""
    rng = random.Random(31)
    offers = [turn[:2] for turn in turns if turn[3] == "consent"]
    for _, act, text in rows(f"{a.written}/answers.tsv", 3):
        yield (*rng.choice(offers), text, act)


def turn_record(before, answer, turn):
    found = features(words(turn))
    return [(1.0, found), (CONTEXT_WEIGHT, context_features(before, answer, turn))]


def fit_turns(a):
    turns = [(p, s, u, act) for _, act, p, s, u in rows(f"{a.written}/turns.tsv", 5)]
    turns += [*without_answer(turns), *short_answers(a, turns), *after_small_talk(a), *after_requests(a)]
    X = lambda data: sparse([turn_record(*d[:3]) for d in data], TURN_BITS)
    names = {"choose": "choice", "bare_value": "value", "smalltalk": "small_talk", "smalltalk_mid": "small_talk", "thanks_end": "thanks", "topic_switch": "new_request", "refuse_only": "refuse"}
    data = [(p, s, u, names.get(act, act)) for p, s, u, act in turns]
    m = LogisticRegression(C=TURNS_C, max_iter=600).fit(X(data), [d[3] for d in data])
    print(f"turns: {len(turns)}:", dict(collections.Counter(d[3] for d in data)))
    if a.report:
        dev = []
        for x in load(f"{a.bench}/talk/conversations.dev.jsonl"):
            said = [t["content"] for t in x["messages"] if t["role"] == "user"]
            answer = x["messages"][-2]["content"] if len(x["messages"]) > 1 and x["messages"][-2]["role"] == "assistant" else ""
            dev.append(((said[-2:-1] or [""])[0], answer, said[-1], names.get(x["kind"], x["kind"])))
        found = m.predict(X(dev))
        table = collections.Counter(zip([d[3] for d in dev], found))
        print(" " * 14, *[f"{k[:6]:>6}" for k in m.classes_])
        for k in m.classes_:
            print(f"{k:14}", *[f"{table[k, j]:6}" for j in m.classes_])
        idle = m.predict_proba(X(dev))[:, [list(m.classes_).index(k) for k in ("small_talk", "thanks", "refuse")]].sum(1)
        is_idle = [d[3] in ("small_talk", "thanks") for d in dev]
        print(f"turns: right {np.mean([f == d[3] for f, d in zip(found, dev)]):.3f}; idle AUROC {roc_auc_score(is_idle, idle):.4f}")
    return m


# ---------------------------------------------------------------- the file
HEADER = struct.Struct("<8sIIII")


def quantised(weights):
    """Values from -127 to 127, and the step between them."""
    step = float(np.abs(weights).max() / 127) or 1.0
    return np.rint(weights / step).astype(np.int8).tobytes(), step


def packed_heads(scope, lines, turns):
    assert list(turns.classes_) == sorted(ACTS), turns.classes_
    heads = [(scope.coef_[0], scope.intercept_[0]), (lines.coef_[0], lines.intercept_[0])]
    heads += [(turns.coef_[list(turns.classes_).index(act)], turns.intercept_[list(turns.classes_).index(act)]) for act in ACTS]
    body = b""
    for weights, intercept in heads:
        values, step = quantised(weights)
        body += struct.pack("<ff", step, intercept) + values
    return body


def packed_values(weights, intercept):
    return struct.pack(f"<I{len(weights) + 1}f", len(weights), *weights, intercept)


def write(path, heads, structure_weights, beside_weights):
    body = HEADER.pack(b"PTREADER", VERSION, HASH_BITS, TURN_BITS, len(ACTS)) + heads
    body += packed_values(*structure_weights) + packed_values(*beside_weights)
    Path(path).write_bytes(body + hashlib.sha256(body).digest())
    print(f"{path}: {len(body) + 32} bytes")


class KeptModel:
    """The heads of a file, as they are."""

    def __init__(self, path):
        self.body = Path(path).read_bytes()
        assert self.body.startswith(b"PTREADER"), path
        sizes = 2 * [1 << HASH_BITS] + len(ACTS) * [1 << TURN_BITS]
        end = HEADER.size + sum(sizes) + 8 * len(sizes)
        self.packed = self.body[HEADER.size : end]
        count = struct.unpack_from("<I", self.body, end)[0]
        *weights, intercept = struct.unpack_from(f"<{count + 1}f", self.body, end + 4)
        self.shape = np.array(weights), intercept
        self.scope, self.lines = (self.head(number) for number in range(2))

    def head(self, number):
        at = number * (8 + (1 << HASH_BITS))
        step, intercept = struct.unpack_from("<ff", self.packed, at)
        weights = step * np.frombuffer(self.packed, np.int8, 1 << HASH_BITS, at + 8)
        return lambda texts: matrix(texts) @ weights + intercept


def fitted_heads(a, positive, talk, opening, asks):
    """The scores of scope and of lines, the weights of the structure, and the heads as they are in the file."""
    negative = talk + opening
    print(f"scope: {len(positive)} served requests, {len(negative)} others")
    XP, XN, wP = matrix([t for _, t in positive]), matrix(negative), masses([g for g, _ in positive], SERVED)
    wN = np.r_[np.full(len(talk), (1 - OPENINGS_MASS) / len(talk)), np.full(len(opening), OPENINGS_MASS / len(opening))]
    if a.report:
        report_scope(a, positive, XP, wP, XN, wN)
    scope = fit_scope(XP, wP, XN, wN)
    lines = fit_lines(asks, [l for _, ls in pasted_texts(a) for l in ls], code_lines())
    shape = fit_structure(a, lines, asks)
    scores = lambda model: lambda texts: model.decision_function(matrix(texts))
    return scores(scope), scores(lines), shape, packed_heads(scope, lines, fit_turns(a))


def main():
    p = argparse.ArgumentParser()
    for name in ("written", "training", "bench", "out"):
        p.add_argument(f"--{name}", required=True)
    p.add_argument("--keep")
    p.add_argument("--report", action="store_true")
    a = p.parse_args()
    positive, talk = served(a), small_talk(a)
    asks = asked_lines(positive, talk)
    if a.keep:
        kept = KeptModel(a.keep)
        scope, lines, shape, packed = kept.scope, kept.lines, kept.shape, kept.packed
    else:
        scope, lines, shape, packed = fitted_heads(a, positive, talk, openings(a), asks)
    beside = fit_beside(a, asks, (scope, lines, shape))
    write(a.out, packed, shape, beside)


if __name__ == "__main__":
    main()
