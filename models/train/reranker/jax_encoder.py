"""The encoder (BERT, mean pooling, unit length) in JAX, over texts packed into rows so that no time goes into padding."""

import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HEADS, ROW, CUT = 12, 128, 128


def load(path):
    return {k: jnp.asarray(v) for k, v in load_file(path).items() if not k.startswith("pooler") and v.dtype != np.int64}


def tokenizer(path, cut=CUT):
    t = Tokenizer.from_file(path)
    t.no_padding()
    t.enable_truncation(cut)
    return t


def pack(ids, rows, texts):
    """Texts (lists of token ids) into `rows` rows of ROW tokens: ids, positions and the number (from 1) of the text that a
    token is of, 0 for none. Longest first, each into the first row with room; None if they do not fit."""
    free = [ROW] * rows
    out = np.zeros((3, rows, ROW), np.int32)
    for i in sorted(range(len(ids)), key=lambda i: -len(ids[i])):
        n = len(ids[i])
        r = next((r for r in range(rows) if free[r] >= n), None)
        if r is None:
            return None
        at = ROW - free[r]
        out[0, r, at : at + n] = ids[i]
        out[1, r, at : at + n] = np.arange(n)
        out[2, r, at : at + n] = i + 1
        free[r] -= n
    assert len(ids) <= texts
    return out


def norm(p, name, x):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(v + 1e-12) * p[f"{name}.weight"] + p[f"{name}.bias"]


def linear(p, name, x):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def layers(p):
    return 1 + max(int(k.split(".")[2]) for k in p if k.startswith("encoder.layer."))


def forward(p, packed, texts):
    """Vectors of unit length, shape texts x 384."""
    ids, pos, of = packed
    e = "embeddings."
    x = p[e + "word_embeddings.weight"][ids] + p[e + "position_embeddings.weight"][pos]
    x = norm(p, e + "LayerNorm", x + p[e + "token_type_embeddings.weight"][0])
    mask = jnp.where((of[:, None, :, None] == of[:, None, None, :]), 0.0, -1e9)
    R, L, D = x.shape
    for i in range(layers(p)):
        n = f"encoder.layer.{i}."
        q, k, v = (
            linear(p, f"{n}attention.self.{m}", x).reshape(R, L, HEADS, D // HEADS).transpose(0, 2, 1, 3)
            for m in ("query", "key", "value")
        )
        a = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) * (D // HEADS) ** -0.5 + mask, axis=-1) @ v
        x = norm(p, n + "attention.output.LayerNorm", x + linear(p, n + "attention.output.dense", a.transpose(0, 2, 1, 3).reshape(R, L, D)))
        h = jax.nn.gelu(linear(p, n + "intermediate.dense", x), approximate=False)
        x = norm(p, n + "output.LayerNorm", x + linear(p, n + "output.dense", h))
    s = jax.ops.segment_sum(x.reshape(-1, D), of.reshape(-1), texts + 1)[1:]
    return s / jnp.maximum(jnp.linalg.norm(s, axis=1, keepdims=True), 1e-9)


_forward = jax.jit(forward, static_argnums=2)


def adamw(p, m, v, g, t, lr, rate=lambda name: 1.0):
    """One step (the t-th, from 1) of AdamW (0.9, 0.999, decay 0.01 of matrices), gradients cut at norm 1; `rate` times the rate
    for some. Returns weights and both moments."""
    n = jnp.sqrt(sum((x**2).sum() for x in g.values()))
    g = {k: x * jnp.minimum(1.0, 1.0 / n) for k, x in g.items()}
    m = {k: 0.9 * m[k] + 0.1 * g[k] for k in g}
    v = {k: 0.999 * v[k] + 0.001 * g[k] ** 2 for k in g}
    u = {k: (m[k] / (1 - 0.9**t)) / (jnp.sqrt(v[k] / (1 - 0.999**t)) + 1e-8) + (0.01 * p[k] if p[k].ndim == 2 else 0.0) for k in g}
    return {k: p[k] - lr * rate(k) * u[k] for k in p}, m, v


def encode(p, ids, rows=16, texts=256, progress=None):
    """Vectors of any number of texts (lists of token ids), shape n x 384."""
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    out = np.zeros((len(ids), p["embeddings.word_embeddings.weight"].shape[1]), np.float32)
    at = 0
    while at < len(order):
        n, total = 0, 0
        while at + n < len(order) and n < texts and total + len(ids[order[at + n]]) <= rows * ROW * 0.97:
            total += len(ids[order[at + n]])
            n += 1
        b = None
        while b is None:
            b = pack([ids[i] for i in order[at : at + n]], rows, texts)
            n -= b is None
        out[order[at : at + n]] = np.asarray(_forward(p, jnp.asarray(b), texts))[:n]
        at += n
        if progress:
            progress(at, len(order))
    return out
