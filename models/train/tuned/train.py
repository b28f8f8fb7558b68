#!/usr/bin/env python3
"""A sentence encoder tuned for tool retrieval: all-MiniLM-L6-v2 trained on request-tool pairs, in PyTorch. Registry packages only.

    python train.py STAGE --work DIR --bench BENCHMARKS_DIR --pairs pairs.jsonl --written WRITTEN_DIR [--leave-out FOLD]
    stages: fetch  corpus  train  score  export

Every stage is seeded and skips what it finds finished; `train` goes on from its last checkpoint. With `--leave-out` the sets of
that fold, the pairs that share their tools and its written servers take no part, and the held-out curve is theirs.
"""

import argparse, hashlib, os, sys, time
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import *
from encoder import *
from pairs import *

#: Documents whose MiniLM vectors are this near are no negatives of each other's requests.
GUARD = 0.9


def untrained(a, base, P):
    """MiniLM's vectors of the documents, kept in WORK from run to run."""
    f = f"{a.work}/documents.npz"
    z = np.load(f) if os.path.exists(f) else {"texts": [], "vectors": []}
    known = dict(zip(list(z["texts"]), z["vectors"]))
    key = [hashlib.sha256(d.encode()).hexdigest() for d in P.d]
    new = [j for j, k in enumerate(key) if k not in known]
    if new:
        known |= zip([key[j] for j in new], encode(base, [P.dt[j] for j in new]))
        np.savez(f + ".tmp.npz", texts=list(known), vectors=np.array(list(known.values())))
        os.replace(f + ".tmp.npz", f)
    return np.array([known[k] for k in key])


# ---------------------------------------------------------------- training
def loss(v, ok, tau):
    """In-batch contrast in both directions: cross-entropy of the pair against every allowed negative. `v`: requests, then tools."""
    q, d = v.chunk(2)
    s = (q @ d.T / tau).masked_fill(~ok, -1e9)
    n = torch.arange(len(q))
    return (F.cross_entropy(s, n) + F.cross_entropy(s.T, n)) / 2


def dev_sets(a, tok):
    """For the curve: a sample of the left-out sets (200 requests a set, 2,000 documents that hold their answers) and each left-out
    fold of written servers whole."""
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
    return out


def run_dir(a):
    return f"{a.work}/{a.run}{'' if not a.leave_out else f'-without-{a.leave_out}'}"


def train(a):
    d = run_dir(a)
    os.makedirs(d, exist_ok=True)
    if done(f"{d}/model.safetensors"):
        return
    p = load(f"{a.work}/dl/minilm/model.safetensors")
    P = Pairs(a)
    print({g: len(P.groups[g]) for g in P.names}, len(P.q), "requests;", {g: round(float(x), 3) for g, x in zip(P.names, P.share)}, flush=True)
    B = Batches(a, P, untrained(a, p, P), GUARD)
    dev = dev_sets(a, tokenizer(f"{a.work}/dl/minilm/tokenizer.json"))
    for x in p.values():
        x.requires_grad_()
    matrices, others = ([x for x in p.values() if (x.ndim == 2) == m] for m in (True, False))
    adam = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}])
    rate = lambda t: a.lr * min(1, (t + 1) / (0.1 * a.steps)) * (0.5 + 0.5 * np.cos(np.pi * t / a.steps))
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
        pairs, ok = B.batch(t)
        packed = pack([P.qt[i] for i, _ in pairs] + [P.dt[j] for _, j in pairs])
        for g in adam.param_groups:
            g["lr"] = rate(t)
        adam.zero_grad()
        l = loss(forward(p, packed, 2 * a.batch), torch.from_numpy(ok), a.tau)
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
    p.add_argument("--leave-out", type=int, default=0)
    p.add_argument("--run", default="tuned")
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--lr", type=float, default=5e-5)
    p.add_argument("--tau", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=SEED)
    p.add_argument("--every", type=int, default=100)
    p.add_argument("--blend", type=float, default=1.0)
    a = p.parse_args()
    stages = {"fetch": fetch, "corpus": corpus, "train": train, "score": score, "export": export}
    for s in a.stage.split(","):
        stages[s](a)
