"""The encoder (BERT, mean pooling, unit length) in PyTorch, over texts packed into rows so that no time goes into padding."""

import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

HEADS, ROW, CUT = 12, 128, 128


def load(path):
    """The weights of a model, without its pooling layer, which mean pooling has no use for."""
    return {k: v.float() for k, v in load_file(path).items() if not k.startswith("pooler") and v.is_floating_point()}


def tokenizer(path, cut=CUT):
    t = Tokenizer.from_file(path)
    t.no_padding()
    t.enable_truncation(cut)
    return t


def pack(ids):
    """Texts (lists of token ids) in rows of ROW tokens: ids, positions and the number (from 1) of the text that a token is of, 0 for
    none. Longest first, each into the first row with room."""
    free, places = [], []
    for i in sorted(range(len(ids)), key=lambda i: -len(ids[i])):
        n = len(ids[i])
        r = next((r for r, f in enumerate(free) if f >= n), len(free))
        if r == len(free):
            free.append(ROW)
        places.append((i, r, ROW - free[r], n))
        free[r] -= n
    out = np.zeros((3, len(free), ROW), np.int64)
    for i, r, at, n in places:
        out[0, r, at : at + n] = ids[i]
        out[1, r, at : at + n] = np.arange(n)
        out[2, r, at : at + n] = i + 1
    return torch.from_numpy(out)


def layers(p):
    return 1 + max(int(k.split(".")[2]) for k in p if k.startswith("encoder.layer."))


def forward(p, packed, texts, dtype=torch.bfloat16):
    """Vectors of unit length, shape texts x 384, computed in `dtype`."""
    ids, pos, of = packed
    p = {k: v.to(dtype) for k, v in p.items()}
    norm = lambda name, x: F.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"], 1e-12)
    linear = lambda name, x: F.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])
    e = "embeddings."
    x = F.embedding(ids, p[e + "word_embeddings.weight"]) + F.embedding(pos, p[e + "position_embeddings.weight"])
    x = norm(e + "LayerNorm", x + p[e + "token_type_embeddings.weight"][0])
    R, L, D = x.shape
    apart = (of[:, None, :, None] != of[:, None, None, :]).expand(R, HEADS, L, L)
    for i in range(layers(p)):
        n = f"encoder.layer.{i}."
        q, k, v = (linear(f"{n}attention.self.{m}", x).view(R, L, HEADS, D // HEADS).transpose(1, 2) for m in ("query", "key", "value"))
        a = ((q * (D // HEADS) ** -0.5) @ k.transpose(2, 3)).masked_fill(apart, -1e9).softmax(-1) @ v
        x = norm(n + "attention.output.LayerNorm", x + linear(n + "attention.output.dense", a.transpose(1, 2).reshape(R, L, D)))
        x = norm(n + "output.LayerNorm", x + linear(n + "output.dense", F.gelu(linear(n + "intermediate.dense", x))))
    s = torch.zeros(texts + 1, D).index_add(0, of.reshape(-1), x.reshape(-1, D).float())[1:]
    return F.normalize(s, dim=1)


@torch.no_grad()
def encode(p, ids, dtype=torch.bfloat16, tokens=4096, progress=None):
    """Vectors of any number of texts (lists of token ids), shape n x 384."""
    p = {k: v.to(dtype) for k, v in p.items()}
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    out = np.zeros((len(ids), p["embeddings.word_embeddings.weight"].shape[1]), np.float32)
    at = 0
    while at < len(order):
        n, total = 0, 0
        while at + n < len(order) and (n == 0 or total + len(ids[order[at + n]]) <= tokens):
            total += len(ids[order[at + n]])
            n += 1
        part = order[at : at + n]
        out[part] = forward(p, pack([ids[i] for i in part]), n, dtype).numpy()
        at += n
        if progress:
            progress(at, len(order))
    return out
