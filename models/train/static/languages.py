"""Pieces of other languages, laid into the space of the English table: a text in another language gets the vector that its
English translation has as a request. Requests for real servers have no translation; they get the vectors of the tools that answer them.

Sentences of `training/parallel.jsonl` and `voice.jsonl`, requests of `training/written/translations.jsonl` and
`../written/requests-XX.tsv`, words of `../written/words-XX.tsv`, and names and keywords of everyday concepts (Unicode CLDR),
with the pictures that stand for them, and requests of `../real`.
"""

import collections, time, unicodedata
import numpy as np

from common import *
from real_servers import RealServers
from static_ref import ENGLISH, NEITHER, OTHER, Vocabulary, elsewhere, is_run, words

#: Pieces of a language; of all others `FEW`. The sum is what the model's size leaves room for.
PIECES = {
    "de": 2300, "fr": 2000, "es": 2100, "pt": 2000, "zh": 2900, "ja": 2800, "ko": 2200, "ru": 1200, "it": 2100, "nl": 1900,
    "pl": 700, "tr": 2200, "id": 1800, "da": 900, "sv": 700, "vi": 450, "ar": 400,
}  # fmt: skip
FEW = 170
#: Languages of CLDR's concepts; other languages have too little else here to be found by.
CONCEPTS = "de fr es pt zh ja it nl ko ru pl tr sv da no fi cs uk el hu ro id vi ar he hi th".split()
#: How often a word of each kind of text counts for the vocabulary, and the share of the kind in training.
KINDS = {
    "parallel": (1, 0.24), "voice": (1, 0.08), "translation": (4, 0.22), "request": (4, 0.15), "word": (3, 0.19), "concept": (1, 0.09),
    "picture": (1, 0.03), "real": (4, 0.06),
}  # fmt: skip
LANGUAGES = {"pt-br": "pt", "zh-cn": "zh", "zh-hk": "zh-tw", "nb": "no", "sr-latn": "sr"}
STEPS, RATE, DROP, TAU, BATCH = 4000, 0.01, 0.15, 0.07, 512
#: English texts that are this near are no negatives of each other.
ALIKE = 0.85
#: So many times more frequent, relative to all words, is a word of another language; and from so many on a word is seen in English.
MORE, SEEN = 5, 3
#: A word of which so large a share of the sentences has it in English as well is a name, or borrowed.
BORROWED = 0.3


def concepts(a, language):
    """The name and keywords of each picture."""
    f = f"{a.work}/dl/cldr-annotations-full/package/annotations/{language}/annotations.json"
    found = json.load(open(f, encoding="utf-8"))["annotations"]["annotations"]
    return {e: (v["tts"][0], v.get("default") or []) for e, v in found.items() if v.get("tts")}


def translations(a):
    """(kind, language, text, English), without those of the folds of written and real servers that are left out. The English of a request
    for real servers is the documents of its tools, one a line."""
    name = lambda language: LANGUAGES.get(language.replace("_", "-").lower(), language.replace("_", "-").lower())
    lines = lambda f: (json.loads(l) for l in open(f"{a.training}/{f}", encoding="utf-8"))
    plain = lambda text: re.sub(r"\{\{.*?\}\}", " ", text)
    for p in lines("parallel.jsonl"):
        yield "parallel", name(p["lang"]), plain(p["text"]), plain(p["english"])
    voice, english = list(lines("voice.jsonl")), {}
    for p in voice:
        if p["lang"] == "en":
            english.setdefault(p["intent"], []).append(p["text"])
    rng = random.Random(SEED)
    for p in voice:
        if p["lang"] != "en":
            for x in [p["description"], *rng.sample(english.get(p["intent"], []), min(1, len(english.get(p["intent"], []))))]:
                yield "voice", name(p["lang"]), p["text"], x
    folds = {s["id"]: s["fold"] for s in written_servers(a.written)}
    for p in lines("written/translations.jsonl"):
        if not any(folds[t.split("/")[0]] in WRITTEN_FOLDS.get(a.leave_out, ()) for t in p["tools"]):
            yield "translation", p["lang"], p["text"], p["english"]
    for kind in ("request", "word"):
        for f in sorted(glob.glob(f"{OWN}/{kind}s-*.tsv")):
            for l in open(f, encoding="utf-8"):
                x, forms = l.rstrip("\n").split("\t")
                for form in forms.split(";") if kind == "word" else [forms]:
                    yield kind, f[-6:-4], form.strip(), x
    known = concepts(a, "en")
    for language in CONCEPTS:
        for e, (n, keywords) in concepts(a, language).items():
            if e in known:
                yield "concept", name(language), n, known[e][0]
                yield "concept", name(language), " ".join(keywords), " ".join(known[e][1])
    for e, (n, keywords) in known.items():
        e = "".join(c for c in e if unicodedata.category(c) != "Mn" and c != "\u200d")
        if len(e) == 1 and is_run(e):
            yield "picture", "pictures", e, n
            yield "picture", "pictures", e, " ".join([n, *keywords[:4]])
    if a.real:
        for language, text, tools in RealServers(a.real, a.leave_out, a.unseen).requests():
            if language != "en":
                yield "real", language, text, "\n".join(" ".join(document(t).split()) for t in tools)


def letters(word):
    return any(c.isalpha() for c in word)


class Counts:
    """How often words stand in each language, and in English."""

    def __init__(s, a, data):
        s.of, s.english, s.same, s.all = {}, collections.Counter(), collections.Counter(), collections.Counter()
        s.beside = set()
        for kind, language, text, english in data:
            here, there = list(words(text)), list(words(english))
            s.beside.update(there)
            counts = s.of.setdefault(language, collections.Counter())
            for w in here:
                counts[w] += KINDS[kind][0]
            s.all.update(set(here))
            s.same.update(set(here) & set(there))
            if kind in ("parallel", "voice", "translation", "request"):
                s.english.update(there)
        for l in open(f"{a.work}/corpus.jsonl", encoding="utf-8"):
            kind, text = json.loads(l)
            here = list(words(text))
            s.beside.update(here)
            if kind in ("req", "doc", "multi", "ask", "ex"):
                s.english.update(here)
        s.sizes = {language: max(20000, c.total()) for language, c in s.of.items()}
        s.english_size = s.english.total()

    def borrowed(s, w):
        return w in s.beside and s.same[w] > BORROWED * s.all[w]

    def lean(s, w, english, others):
        """What a word says of a text's language, as it is an English piece or one of others."""
        here = s.english[w] / s.english_size
        there = 0 if w not in others or s.borrowed(w) else max(c[w] / s.sizes[x] for x, c in s.of.items())
        if there > MORE * here:
            return OTHER
        return ENGLISH if w in english and s.english[w] >= SEEN and here > MORE * there else NEITHER


def vocabulary(counts):
    """The pieces of all languages, by byte-pair encoding of each language's words."""
    from tokenizers import Tokenizer, models, trainers

    found = {}
    for w in counts.of["pictures"]:
        found.setdefault(w, len(found))
    for language in sorted(counts.of, key=lambda x: (-PIECES.get(x, 0), x)):
        own = {w: n for w, n in counts.of[language].items() if letters(w) and not counts.borrowed(w) and len(w) <= 60}
        if sum(own.values()) < 300:
            continue
        runs = 2 * sum(n for w, n in own.items() if is_run(w[0])) > sum(own.values())
        mark = {} if runs else {"continuing_subword_prefix": "##"}
        t = Tokenizer(models.BPE(**mark))
        size = PIECES.get(language, FEW)
        trainer = trainers.BpeTrainer(
            vocab_size=size, min_frequency=2, show_progress=False, limit_alphabet=3000, max_token_length=24, **mark
        )
        t.train_from_iterator((w for w, n in sorted(own.items()) for _ in range(min(n, 50))), trainer=trainer)
        for p in sorted(t.get_vocab(), key=t.get_vocab().get):
            bare = p.removeprefix("##")
            if letters(bare) and not (bare.isascii() and len(bare) < 2):
                found.setdefault(bare if is_run(bare[0]) else p, len(found))
    return list(found)


def beginning(rows, targets, english, first, n):
    """A piece begins as the mean of the English words that it translates alone, else as what its sentences have more than others."""
    init, times = np.zeros((n, english.shape[1]), np.float32), np.zeros(n)
    sums, seen = np.zeros_like(init), np.zeros(n)
    for (kind, _, x), v in zip(rows, targets):
        own = {i - first for i in x if i >= first}
        if kind in ("word", "picture") and len(x) == len(own) == 1:
            init[list(own)] += v
            times[list(own)] += 1
        else:
            sums[list(own)] += v / max(1e-6, np.linalg.norm(v))
            seen[list(own)] += 1
    init[times > 0] /= times[times > 0, None]
    rest = (times == 0) & (seen > 0)
    v = sums[rest] / seen[rest, None] - sums.sum(0) / max(1, seen.sum())
    init[rest] = v / np.maximum(1e-6, np.linalg.norm(v, axis=1, keepdims=True)) * np.median(np.linalg.norm(english, axis=1)) / 2
    return init


def speak(a, english_pieces, english, tools):
    """The pieces of other languages, what all pieces say of a text's language, and the vectors of the former; `english` and `tools` are
    the rows of the English pieces for requests and for tools, which stay as they are.

    Loss: cosine to the translation (weight 3), the translation among those of the batch (temperature 0.07), and the squared logarithm of
    how much longer the sum is (weight 0.1), so that a word weighs in a text what it weighs in English."""
    import torch
    import torch.nn.functional as F
    from lazy import Lazy

    data = list(translations(a))
    counts = Counts(a, data)
    others = vocabulary(counts)
    known, own = set(english_pieces), set(others)
    leans = [counts.lean(w, known, own) for w in english_pieces] + [counts.lean(w, known, own) for w in others]
    leans = [NEITHER if w.startswith("##") or not letters(w) else x for w, x in zip([*english_pieces, *others], leans)]
    V, first = Vocabulary(english_pieces, others, leans), len(english_pieces)
    share = np.mean([V.is_other(list(words(x))) for k, _, x, _ in data if k in ("translation", "request", "parallel")])
    wrong = np.mean([V.is_other(list(words(y))) for k, _, _, y in data if k in ("translation", "request", "parallel")])
    print(f"{len(others)} pieces; {share:.4f} of texts taken for another language, {wrong:.4f} of their translations", flush=True)
    english_ids = lambda text: [i for i in V.ids(text, False) if i < first]
    size = np.median(np.linalg.norm([english[english_ids(y)].sum(0) for k, _, _, y in data if k == "request"], axis=1))

    def target(kind, translation):
        if kind != "real":
            return english[english_ids(translation)].sum(0)
        v = np.stack([tools[english_ids(d)].sum(0) for d in translation.split("\n")])
        v = (v / np.maximum(1e-6, np.linalg.norm(v, axis=1, keepdims=True))).sum(0)
        return v / max(1e-6, np.linalg.norm(v)) * size

    rows = [((k, x, V.ids(text, True)), target(k, translation)) for k, x, text, translation in data]
    rows = [r for r in rows if r[1].any() and any(i >= first for i in r[0][2])]
    rows, targets = [r for r, _ in rows], np.stack([v for _, v in rows]).astype(np.float32)
    pool = {}
    for i, (kind, language, _) in enumerate(rows):
        pool.setdefault(kind, {}).setdefault(language, []).append(i)
    kinds = sorted(pool)
    shares = np.array([KINDS[k][1] for k in kinds])
    # A language by the root of its texts, twice where there are requests in it.
    weights = {k: np.array([len(y) ** 0.5 * (2 if x in pool["request"] else 1) for x, y in pool[k].items()]) for k in kinds}
    W0 = torch.from_numpy(english)
    table = Lazy(torch.from_numpy(beginning(rows, targets, english, first, len(others))))
    losses, t0 = [], time.time()
    for t in range(STEPS):
        r = np.random.default_rng([SEED, t])
        k = kinds[r.choice(len(kinds), p=shares / shares.sum())]
        of = list(pool[k].values())
        drawn = [of[r.choice(len(of), p=weights[k] / weights[k].sum())] for _ in range(8)]
        at = list(dict.fromkeys(i for d in drawn for i in r.choice(d, BATCH // 8)))
        keep = lambda x: [i for i in x if r.random() > DROP] or x
        x = table.begin(W0, [keep(rows[i][2]) for i in at])
        y = torch.from_numpy(targets[at])
        n, m = F.normalize(x, dim=1), F.normalize(y, dim=1)
        alike = (m @ m.T > ALIKE) & ~torch.eye(len(at), dtype=torch.bool)
        found = F.cross_entropy((n @ m.T / TAU).masked_fill(alike, -1e9), torch.arange(len(at)))
        apart = 1 - (n * m).sum(1).mean()
        longer = (x.norm(dim=1).clamp_min(1e-3) / y.norm(dim=1).clamp_min(1e-3)).log().square().mean()
        (3 * apart + found + 0.1 * longer).backward()
        table.step(RATE * min(1, (t + 1) / 40) * (0.5 + 0.5 * np.cos(np.pi * t / STEPS)))
        losses.append([apart.item(), found.item(), longer.item()])
        if (t + 1) % 250 == 0:
            print(t + 1, "apart, found, longer:", np.round(np.mean(losses[-250:], 0), 3), f"{time.time() - t0:.0f} s", flush=True)
    return others, leans, table.rows.numpy()
