"""PyTorch's own kernels (MKL and oneDNN on a CPU) against the thresholds of the classes of accuracy.

docs/trust.md derives what a kernel of a class may err from the length of its sums. A threshold that a vendor's honest
fp32 kernel missed would be too strict, and one that its operands rounded to 16 bits met too lax. Both are checked here
for every family of operations, in the measure of eval/check.h: relative L2 error of the worst row against fp64.

Usage: vendor_error_test.py [--table]
"""
import math
import sys

import torch
import torch.nn.functional as F


def threshold(kind, reduction):
    g = min(math.sqrt(reduction), 256)
    return {"fp32": 2.0**-24 * (16 + g), "fp16": 2.0**-9, "bf16": 2.0**-6}[kind]


def worst_row(got, want, row):
    got, want = got.double().reshape(-1, row), want.double().reshape(-1, row)
    return ((got - want).norm(dim=1) / want.norm(dim=1)).max().item()


def rms_norm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v


def mlp(x, gate, up, down):
    return (F.silu(x @ gate) * (x @ up)) @ down


def rotary(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def problems():
    """name, operation, inputs, elements of a row, length of the sums"""
    for k in (128, 1024, 8192):
        yield f"matmul K={k}", torch.matmul, [normal(64, k), normal(k, 64)], 64, k
    for n in (128, 8192, 65536):
        yield f"softmax N={n}", lambda x: torch.softmax(x, -1), [normal(16, n)], n, n
    n = 1 << 20
    yield f"layernorm N={n}", lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b), [normal(4, n), normal(n), normal(n)], n, n
    yield "rmsnorm N=8192", rms_norm, [normal(16, 8192), normal(8192)], 8192, 8192
    yield "reduce N=65536", lambda x: x.sum(-1), [normal(64, 65536)], 64, 65536
    targets = torch.randint(0, 32000, (64,))
    yield "cross_entropy V=32000", lambda x: F.cross_entropy(x, targets, reduction="none"), [normal(64, 32000)], 64, 32000
    yield "conv2d 3x11x11", lambda x, w: F.conv2d(x, w, stride=4, padding=2), [normal(2, 3, 224, 224), normal(96, 3, 11, 11)], 55 * 55, 363
    yield "attention S=512 D=128", attention, [normal(2, 512, 128) for _ in range(3)], 128, 512
    yield "fused_mlp H=1024", mlp, [normal(32, 1024), normal(1024, 1024) / 32, normal(1024, 1024) / 32,
                                    normal(1024, 1024) / 32], 1024, 1024
    angle = normal(256, 64)
    yield "rotary_embedding", lambda x: rotary(x, angle.to(x.dtype).cos(), angle.to(x.dtype).sin()), [normal(256, 128)], 128, 1


def main():
    torch.manual_seed(1)
    torch.set_num_threads(2)
    rows, failures = [], []
    for name, operation, inputs, row, reduction in problems():
        single = [x.float() for x in inputs]
        # Against fp64 on the very values that the fp32 kernel was given.
        want = operation(*[x.double() for x in single])
        fp32 = worst_row(operation(*single), want, row)
        halves = worst_row(operation(*[x.half().double() for x in inputs]), want, row)
        allowed = threshold("fp32", reduction)
        rows.append((name, fp32, allowed, halves))
        if not fp32 <= allowed:
            failures.append(f"{name}: fp32 errs by {fp32:.2g}, {allowed:.2g} is allowed")
        if not halves > allowed:
            failures.append(f"{name}: operands in fp16 err by {halves:.2g} and pass as fp32 ({allowed:.2g})")
        if not halves <= threshold("bf16", reduction):
            failures.append(f"{name}: operands in fp16 err by {halves:.2g}, which is no 16-bit class")
    if "--table" in sys.argv:
        print(f"| PyTorch {torch.__version__}, CPU | fp32 | allowed | share | operands in fp16 |\n|---|---|---|---|---|")
        for name, fp32, allowed, halves in rows:
            print(f"| {name} | {fp32:.1e} | {allowed:.1e} | {100 * fp32 / allowed:.0f}% | {halves:.1e} |")
    for failure in failures:
        print(failure)
    print(f"{len(rows)} operations, {len(failures)} failures")
    return 1 if failures or len(rows) < 14 else 0


if __name__ == "__main__":
    sys.exit(main())
