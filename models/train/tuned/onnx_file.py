"""The encoder as one ONNX file with int8 weights and its vocabulary: what `crates/tuned/src/embedder.rs` reads.

Input `input_ids`, int32, 1 x n, [CLS] and [SEP] included; output `vector`, float32, 384 numbers of unit length. Weights have
one scale a column (a row for the embeddings) and no zero point; activations are quantised as they come (one scale a tensor).
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def quantise(w, axis):
    s = np.abs(w).max(axis=axis, keepdims=True).astype(np.float32) / 127
    s[s == 0] = 1
    return np.clip(np.rint(w / s), -127, 127).astype(np.int8), s


def weights(path):
    """The weights in a file that `build` wrote, as float32. Token types are part of the positions there, so their weights are zero."""
    c = {x.name: numpy_helper.to_array(x) for x in onnx.load(path).graph.initializer}
    p = {k: x for k, x in c.items() if k.endswith((".bias", "LayerNorm.weight"))}
    for name in [k.removesuffix(".scale") for k in c if k.endswith(".scale") and k != "words.scale"]:
        p[f"{name}.weight"] = (c[f"{name}.weight"] * c[f"{name}.scale"]).T
    for name in [k.removesuffix(".weight") for k in p if k.endswith("qkv.weight")]:
        for part in ("weight", "bias"):
            for m, x in zip(("query", "key", "value"), np.split(p.pop(f"{name}.{part}"), 3)):
                p[f"{name.removesuffix('qkv')}attention.self.{m}.{part}"] = x
    e = "embeddings."
    p[e + "word_embeddings.weight"] = c["words"] * c["words.scale"]
    p[e + "position_embeddings.weight"] = c["positions"]
    p[e + "token_type_embeddings.weight"] = np.zeros((2, c["positions"].shape[1]))
    return {k: np.ascontiguousarray(x, np.float32) for k, x in p.items()}


def build(p, vocabulary, heads=12):
    p = {k: np.asarray(v, np.float32) for k, v in p.items()}
    nodes, consts = [], []

    def const(name, x):
        consts.append(numpy_helper.from_array(np.ascontiguousarray(x), name))
        return name

    def op(kind, *ins, n=1, **attrs):
        outs = [f"{kind}_{len(nodes)}_{i}" for i in range(n)]
        nodes.append(helper.make_node(kind, ins, outs, f"{kind}_{len(nodes)}", **attrs))
        return outs[0] if n == 1 else outs

    def linear(x, name, w, b):
        q, s = quantise(w.T, 0)
        xq, xs, xz = op("DynamicQuantizeLinear", x, n=3)
        y = op("MatMulInteger", xq, const(f"{name}.weight", q), xz)
        y = op("Cast", y, to=TensorProto.FLOAT)
        y = op("Mul", y, op("Mul", xs, const(f"{name}.scale", s[0])))
        return op("Add", y, const(f"{name}.bias", b))

    def norm(x, name):
        return op("LayerNormalization", x, const(f"{name}.weight", p[f"{name}.weight"]), const(f"{name}.bias", p[f"{name}.bias"]), epsilon=1e-12, axis=-1)

    e = "embeddings."
    q, s = quantise(p[e + "word_embeddings.weight"], 1)
    d = q.shape[1]
    x = op("Cast", op("Gather", const("words", q), "input_ids"), to=TensorProto.FLOAT)
    x = op("Mul", x, op("Gather", const("words.scale", s), "input_ids"))
    n = op("Slice", op("Shape", "input_ids"), const("one", np.array([1])), const("two", np.array([2])), const("zero", np.array([0])))
    pos = p[e + "position_embeddings.weight"] + p[e + "token_type_embeddings.weight"][0]
    x = op("Add", x, op("Slice", const("positions", pos), "zero", n, "zero"))
    x = norm(x, e + "LayerNorm")
    cut = const("heads", np.array([1, -1, heads, d // heads]))
    joined = const("joined", np.array([1, -1, d]))
    scale = const("head_scale", np.array((d // heads) ** -0.5, np.float32))
    for i in range(1 + max(int(k.split(".")[2]) for k in p if k.startswith("encoder.layer."))):
        l = f"encoder.layer.{i}."
        w = np.concatenate([p[f"{l}attention.self.{m}.weight"] for m in ("query", "key", "value")])
        b = np.concatenate([p[f"{l}attention.self.{m}.bias"] for m in ("query", "key", "value")])
        q, k, v = op("Split", linear(x, l + "qkv", w, b), n=3, axis=-1, num_outputs=3)
        q, k, v = (op("Transpose", op("Reshape", y, cut), perm=perm) for y, perm in ((q, [0, 2, 1, 3]), (k, [0, 2, 3, 1]), (v, [0, 2, 1, 3])))
        a = op("Softmax", op("Mul", op("MatMul", q, k), scale), axis=-1)
        a = op("Reshape", op("Transpose", op("MatMul", a, v), perm=[0, 2, 1, 3]), joined)
        name = l + "attention.output."
        x = norm(op("Add", x, linear(a, name + "dense", p[name + "dense.weight"], p[name + "dense.bias"])), name + "LayerNorm")
        name = l + "intermediate.dense"
        h = op("Gelu", linear(x, name, p[name + ".weight"], p[name + ".bias"]))
        name = l + "output."
        x = norm(op("Add", x, linear(h, name + "dense", p[name + "dense.weight"], p[name + "dense.bias"])), name + "LayerNorm")
    x = op("ReduceMean", x, const("axis", np.array([1])), keepdims=0)
    nodes.append(helper.make_node("LpNormalization", [x], ["vector"], "vector", axis=-1, p=2))
    graph = helper.make_graph(
        nodes,
        "tuned",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT32, [1, "n"])],
        [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [1, d])],
        consts,
    )
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9, producer_name="picktools")
    helper.set_model_props(m, {"vocabulary": "\n".join(vocabulary)})
    onnx.checker.check_model(m, full_check=True)
    return m.SerializeToString()
