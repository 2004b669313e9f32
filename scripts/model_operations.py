"""The nine operation kinds whose kernels apply_model.py puts into a model.

Each kind has a key, made of everything that a kernel is specialised for (exact sizes, element type,
constants). A call of the model has a key and a declared case of a task has one: a kernel takes a call
only when the two are equal. `call_*` functions give (key, tensors in the task's order, function that
turns the kernel's outputs into the call's result), or a text that says why the call cannot be taken.

  matmul            linear, matmul, mm, bmm of one, addmm     weights are laid out as K x N once
  layernorm         layer_norm with weight and bias
  rmsnorm           rms_norm; modules whose class is named *RMSNorm
  softmax           over the last dim
  attention         scaled_dot_product_attention, no mask     (flash_attention: causal)
  rotary_embedding  apply_rotary_pos_emb of transformers (halves), apply_rotary_emb (interleaved)
  cross_entropy     mean over rows, class indices, no weights
  fused_mlp         modules with gate_proj, up_proj, down_proj (or w1, w3, w2) and SiLU
  reduce            sum over the last dim
"""
import math

import torch
import torch.nn.functional as F

from model_source import NAMES

KINDS = ("matmul", "layernorm", "rmsnorm", "softmax", "attention", "rotary_embedding",
         "cross_entropy", "fused_mlp", "reduce")


def kind_of(task):
    """The kind that a task's kernels are for."""
    if task == "flash_attention":
        return "attention"
    return task if task in KINDS else None


# --- keys of declared cases -----------------------------------------------------------------------


def key_of_case(task, case):
    inputs = [t for t in case["tensors"] if t["role"] == "input"]
    scalars, shapes = case.get("scalars", {}), [t["shape"] for t in inputs]
    dtype = inputs[0]["dtype"]
    kind = kind_of(task)
    if kind == "matmul":
        return (kind, dtype, shapes[0][0], shapes[1][1], shapes[0][1])
    if kind == "layernorm":
        row = math.prod(shapes[1])
        return (kind, dtype, math.prod(shapes[0]) // row, row, eps_key(scalars.get("eps", 1e-5)))
    if kind == "rmsnorm":
        return (kind, dtype, *shapes[0], eps_key(scalars.get("eps", 1e-6)))
    if kind == "attention":
        return (kind, dtype, *shapes[0], task == "flash_attention")
    if kind == "cross_entropy":
        return (kind, dtype, *shapes[0], inputs[1]["dtype"])
    if kind == "fused_mlp":
        return (kind, dtype, shapes[0][0], shapes[0][1], shapes[1][0])
    return (kind, dtype, *shapes[0])  # softmax, rotary_embedding, reduce


def eps_key(eps):
    return f"{float(eps):.3g}"


# --- calls ----------------------------------------------------------------------------------------


def name_of(tensor):
    return NAMES.get(tensor.dtype, str(tensor.dtype))


class Weights:
    """Weights in the layout of the task, made once: key is the tensor itself and its version."""

    def __init__(self):
        self._made = {}

    def transposed(self, weight):
        key = id(weight)
        known = self._made.get(key)
        if known is None or known[0] is not weight or known[1] != weight._version:
            known = (weight, weight._version, weight.detach().t().contiguous())
            self._made[key] = known
        return known[2]


def call_linear(weights, x, weight, bias=None):
    rows = x.numel() // x.shape[-1]
    key = ("matmul", name_of(x), rows, weight.shape[0], x.shape[-1])
    shape = x.shape[:-1] + (weight.shape[0],)

    def finish(outputs):
        y = outputs[0].reshape(shape)
        return y if bias is None else y + bias

    return key, lambda: [x.reshape(rows, x.shape[-1]), weights.transposed(weight)], finish


def call_matmul(weights, a, b):
    if a.dim() == 2 and b.dim() == 2:
        pass
    elif b.dim() == 2 and a.dim() > 2:
        pass
    elif a.dim() == b.dim() and math.prod(a.shape[:-2]) == 1 == math.prod(b.shape[:-2]):
        pass
    else:
        return "a batch of products"
    rows, k = a.numel() // a.shape[-1], a.shape[-1]
    shape = a.shape[:-1] + (b.shape[-1],)
    return (("matmul", name_of(a), rows, b.shape[-1], k),
            lambda: [a.reshape(rows, k), b.reshape(k, b.shape[-1])],
            lambda outputs: outputs[0].reshape(shape))


def call_addmm(weights, bias, a, b, beta=1, alpha=1):
    if beta != 1 or alpha != 1:
        return "a scaled product"
    key, given, finish = call_matmul(weights, a, b)
    return key, given, lambda outputs: finish(outputs) + bias


def call_layer_norm(weights, x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if weight is None or bias is None:
        return "no weight or bias"
    row = math.prod(normalized_shape)
    return (("layernorm", name_of(x), x.numel() // row, row, eps_key(eps)),
            lambda: [x, weight, bias], lambda outputs: outputs[0].reshape(x.shape))


def call_rms_norm(weights, x, normalized_shape, weight=None, eps=None):
    if weight is None or eps is None:
        return "no weight, or an epsilon by type"
    row = math.prod(normalized_shape)
    return (("rmsnorm", name_of(x), x.numel() // row, row, eps_key(eps)),
            lambda: [x, weight], lambda outputs: outputs[0].reshape(x.shape))


def call_softmax(weights, x, dim=None, _stacklevel=3, dtype=None, **_):
    if dim is None or dim % x.dim() != x.dim() - 1:
        return "not over the last dim"
    if dtype is not None and dtype != x.dtype:
        return "a change of type"
    columns = x.shape[-1]
    return (("softmax", name_of(x), x.numel() // columns, columns),
            lambda: [x], lambda outputs: outputs[0].reshape(x.shape))


def call_attention(weights, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                   **rest):
    if attn_mask is not None or dropout_p or rest.get("enable_gqa") or rest.get("need_attn_weights"):
        return "a mask, dropout, grouped heads or weights"
    if scale is not None and abs(scale * math.sqrt(q.shape[-1]) - 1) > 1e-6:
        return "a scale of its own"
    if q.dim() != 4 or q.shape != k.shape or k.shape != v.shape:
        return "lengths that differ"
    return (("attention", name_of(q), *q.shape, bool(is_causal)), lambda: [q, k, v],
            lambda outputs: outputs[0].reshape(q.shape))


def call_cross_entropy(weights, logits, target, weight=None, size_average=None, ignore_index=-100,
                       reduce=None, reduction="mean", label_smoothing=0.0):
    if weight is not None or reduction != "mean" or label_smoothing or logits.dim() != 2 or (
            target.is_floating_point() or size_average is not None or reduce is not None):
        return "weights, smoothing, another reduction or more dims"
    if ignore_index >= 0 or bool((target < 0).any()):
        return "ignored targets"
    return (("cross_entropy", name_of(logits), *logits.shape, name_of(target)),
            lambda: [logits, target],
            lambda outputs: outputs[0].reshape(()).to(logits.dtype))


def call_sum(weights, x, dim=None, keepdim=False, dtype=None):
    dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
    if not isinstance(dim, int) or dim % max(1, x.dim()) != x.dim() - 1:
        return "not over the last dim"
    if (dtype is not None and dtype != x.dtype) or not x.is_floating_point():
        return "a change of type, or integers"
    columns = x.shape[-1]
    shape = x.shape[:-1] + ((1,) if keepdim else ())
    return (("reduce", name_of(x), x.numel() // columns, columns), lambda: [x],
            lambda outputs: outputs[0].reshape(shape))


def rotate_call(x, cosine, sine, halves):
    """x (B, H, S, D); cosine and sine of its pairs (S, D / 2)."""
    pairs = x.shape[-1] // 2

    def given():
        if not halves:
            return [x, cosine, sine]
        return [x.unflatten(-1, (2, pairs)).transpose(-1, -2).reshape(x.shape), cosine, sine]

    def finish(outputs):
        y = outputs[0].reshape(x.shape)
        if halves:
            y = y.unflatten(-1, (pairs, 2)).transpose(-1, -2).reshape(x.shape)
        return y

    return ("rotary_embedding", name_of(x), *x.shape), given, finish


def rotary_tables(cosine, sine, x, halves):
    """(S, D / 2) each; a text when they are not the same for every batch and head."""
    pairs = x.shape[-1] // 2
    tables = []
    for table in (cosine, sine):
        while table.dim() > 2:
            if table.shape[0] != 1 and not bool((table == table[:1]).all()):
                return "angles that differ in a batch"
            table = table[0]
        if table.shape[-1] == 2 * pairs:
            table = table[..., :pairs] if halves else table[..., 0::2]
        if tuple(table.shape) != (x.shape[-2], pairs):
            return "tables of another shape"
        tables.append(table.to(x.dtype))
    return tables


def mlp_parts(module):
    """(gate, up, down) of a SwiGLU module, or None."""
    for names in (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"),
                  ("gate", "up", "down")):
        parts = [getattr(module, name, None) for name in names]
        if all(isinstance(p, torch.nn.Linear) and p.bias is None for p in parts):
            act = next((getattr(module, n) for n in ("act_fn", "act", "activation")
                        if hasattr(module, n)), None)
            if act is None or isinstance(act, torch.nn.SiLU) or act in (F.silu,) or (
                    type(act).__name__ in ("SiLU", "SiLUActivation")):
                return parts
    return None


def call_mlp(module_parts, x):
    gate, up, down = module_parts
    rows = x.numel() // x.shape[-1]
    return (("fused_mlp", name_of(x), rows, x.shape[-1], gate.weight.shape[0]),
            lambda: [x, gate.weight, up.weight, down.weight],
            lambda outputs: outputs[0].reshape(x.shape))


def rms_parts(module):
    """(weight, eps) of a module that is an RMSNorm by its name, or None."""
    if "rmsnorm" not in type(module).__name__.lower():
        return None
    weight = getattr(module, "weight", None)
    eps = next((getattr(module, n) for n in ("variance_epsilon", "eps", "epsilon")
                if getattr(module, n, None) is not None), None)
    if weight is None or weight.dim() != 1 or eps is None:
        return None
    return weight, eps
