"""The operations of the shipped tasks in NumPy, in fp64: a second opinion on the references.

Reads FOLDER/*.json (task, case, dims, scalars, tensors with file, role and shape; the files hold fp64)
and prints one line per output: task, case, output, relative L2 error of the reference against NumPy.
"""
import json
import pathlib
import sys

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(t, causal):
    scores = t["q"] @ np.swapaxes(t["k"], -1, -2) / np.sqrt(t["q"].shape[-1])
    if causal:
        s = scores.shape[-1]
        scores = np.where(np.tril(np.ones((s, s), bool)), scores, -np.inf)
    return {"o": softmax(scores) @ t["v"]}


def convolve(t, dims):
    stride, pad, size = dims["S"], dims["P"], dims["R"]
    x = np.pad(t["x"], ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    return np.einsum("bcijrs,fcrs->bfij", windows, t["w"]) + t["bias"][:, None, None]


def maxpool(x):
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    return windows.max(axis=(-1, -2))


def layernorm(t, eps):
    x = t["x"].reshape(t["x"].shape[0], -1)
    centred = x - x.mean(axis=1, keepdims=True)
    y = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps)
    y = y * t["gamma"].reshape(-1) + t["beta"].reshape(-1)
    return {"y": y.reshape(t["x"].shape)}


def rmsnorm(t, eps):
    x = t["x"]
    return {"y": x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps) * t["weight"]}


def cross_entropy(t):
    x, target = t["logits"], t["target"].astype(np.int64)
    top = x.max(axis=1)
    log_sum = np.log(np.exp(x - top[:, None]).sum(axis=1)) + top
    return {"loss": np.array([(log_sum - x[np.arange(len(x)), target]).mean()])}


def rotary(t):
    even, odd = t["x"][..., 0::2], t["x"][..., 1::2]
    y = np.empty_like(t["x"])
    y[..., 0::2] = even * t["cosine"] - odd * t["sine"]
    y[..., 1::2] = even * t["sine"] + odd * t["cosine"]
    return {"y": y}


def fused_mlp(t):
    gate = t["x"] @ t["gate"].T
    with np.errstate(over="ignore"):
        hidden = gate / (1 + np.exp(-gate)) * (t["x"] @ t["up"].T)
    return {"y": hidden @ t["down"].T}


OPERATIONS = {
    "attention": lambda t, d, s: attention(t, False),
    "flash_attention": lambda t, d, s: attention(t, True),
    "conv2d": lambda t, d, s: {"y": convolve(t, d)},
    "conv2d_relu_maxpool": lambda t, d, s: {"y": maxpool(np.maximum(convolve(t, d), 0))},
    "cross_entropy": lambda t, d, s: cross_entropy(t),
    "fused_mlp": lambda t, d, s: fused_mlp(t),
    "layernorm": lambda t, d, s: layernorm(t, s["eps"]),
    "matmul": lambda t, d, s: {"c": t["a"] @ t["b"]},
    "reduce": lambda t, d, s: {"y": t["x"].sum(axis=1)},
    "rmsnorm": lambda t, d, s: rmsnorm(t, s["eps"]),
    "rotary_embedding": lambda t, d, s: rotary(t),
    "softmax": lambda t, d, s: {"y": softmax(t["x"])},
}

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    case = json.loads(path.read_text())
    if case["task"] not in OPERATIONS:
        sys.exit(f"no operation for task {case['task']}: add it to {__file__}")
    tensors, outputs = {}, {}
    for tensor in case["tensors"]:
        values = np.fromfile(path.parent / tensor["file"], np.float64).reshape(tensor["shape"])
        (tensors if tensor["role"] == "input" else outputs)[tensor["name"]] = values
    expected = OPERATIONS[case["task"]](tensors, case["dims"], case["scalars"])
    for name, got in outputs.items():
        right = expected[name]
        assert right.shape == got.shape, (case["task"], name, right.shape, got.shape)
        error = np.linalg.norm(got - right) / max(np.linalg.norm(right), 1e-300)
        print(case["task"], case["case"], name, error)
