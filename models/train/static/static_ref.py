"""Reference reader of static.bin: nothing but the rules of README.md (numpy and the standard library). The Rust port must agree with it.

python static_ref.py [BENCHMARKS_DIR WORK_DIR]    checks reference.json; with folders also counts the benchmark texts on
                                                  which the tokenizer that trained (full BERT vocabulary) cuts otherwise
"""

import sys, json, struct, hashlib, unicodedata, os
import numpy as np


def space(c):
    return c in " \t\n\r" or unicodedata.category(c) == "Zs" or c in "\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"


def control(c):
    return c not in "\t\n\r" and unicodedata.category(c) in ("Cc", "Cf", "Cn", "Co", "Cs")


def punct(c):
    return (
        33 <= ord(c) <= 47 or 58 <= ord(c) <= 64 or 91 <= ord(c) <= 96 or 123 <= ord(c) <= 126
    ) or unicodedata.category(c)[0] == "P"


def cjk(c):
    x = ord(c)
    return (
        0x4E00 <= x <= 0x9FFF
        or 0x3400 <= x <= 0x4DBF
        or 0x20000 <= x <= 0x2A6DF
        or 0x2A700 <= x <= 0x2B73F
        or 0x2B740 <= x <= 0x2B81F
        or 0x2B920 <= x <= 0x2CEAF
        or 0xF900 <= x <= 0xFAFF
        or 0x2F800 <= x <= 0x2FA1F
    )


def words(t):
    t = "".join(" " if space(c) else c for c in t if not (c == "\0" or c == "\ufffd" or control(c)))
    t = "".join(f" {c} " if cjk(c) else c for c in t)
    t = "".join(c for c in unicodedata.normalize("NFD", t) if unicodedata.category(c) != "Mn")
    t = "".join(c.lower() for c in t)
    w = ""
    for c in t:
        if space(c):
            if w:
                yield w
            w = ""
        elif punct(c):
            if w:
                yield w
            yield c
            w = ""
        else:
            w += c
    if w:
        yield w


class Static:
    def __init__(s, path):
        b = open(path, "rb").read()
        assert b[:8] == b"PTSTATIC" and hashlib.sha256(b[:-32]).digest() == b[-32:], "not a static model, or damaged"
        ver, s.d, s.n, m = struct.unpack_from("<IIII", b, 8)
        assert ver == 1
        o = 24
        s.scale = np.frombuffer(b, "<f4", s.n, o)
        o += 4 * s.n
        s.q = np.frombuffer(b, np.int8, s.n * s.d, o).reshape(s.n, s.d)
        o += s.n * s.d
        s.pieces = b[o : o + m].decode().split("\n")
        s.id = {p: i for i, p in enumerate(s.pieces)}
        assert o + m + 32 == len(b) and len(s.pieces) == s.n == len(s.id)

    def ids(s, text):
        out = []
        for w in words(text):
            if len(w) > 100:
                continue
            i = 0
            while i < len(w):
                for j in range(len(w), i, -1):
                    x = s.id.get(("##" if i else "") + w[i:j])
                    if x is not None:
                        out.append(x)
                        i = j
                        break
                else:
                    i += 1  # no piece starts here: skip this one character
        return out

    def rows(s):
        return s.q.astype(np.float32) * s.scale[:, None]

    def vector(s, text):
        i = s.ids(text)
        u = (s.q[i].astype(np.float32) * s.scale[i][:, None]).astype(np.float64).sum(0) if i else np.zeros(s.d)
        k = np.linalg.norm(u)
        return u / k if k else u


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    M = Static(f"{here}/static.bin")
    bad = 0
    for x in json.load(open(f"{here}/reference.json")):
        if M.ids(x["text"]) != x["ids"] or np.abs(M.vector(x["text"]) - np.array(x["vector"])).max() > 1e-6:
            bad += 1
            print("DIFFERS", repr(x["text"]))
    print("reference.json:", f"{bad} differ" if bad else "all same")
    if len(sys.argv) > 2:
        import train, argparse, glob

        V = train.Vocab(argparse.Namespace(work=sys.argv[2]))
        t = [json.loads(l) for f in glob.glob(sys.argv[1] + "/*/*.jsonl") for l in open(f)]
        t = [x.get("text") or f"{x['name']}: {x.get('description')}" for x in t]
        w = 0
        for x, y in zip(t, V.ids(t)):
            if M.ids(x) != [int(j) for j in y]:
                w += 1
                print([M.pieces[j] for j in set(M.ids(x)) ^ set(int(j) for j in y)], repr(x[:100])) if w < 6 else 0
        print(len(t), "texts,", w, "cut otherwise")
