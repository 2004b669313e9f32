#!/usr/bin/env python3
"""Compares a kernel with the PyTorch module that its task was imported from, in fp64, on inputs
drawn with fresh seeds.

    live_check.py TASKS/NAME KERNEL [--case CASE] [--seeds N] [--device auto|cpu|cuda]

KERNEL is what `grove compile` (.json) or `grove export --to torch` (.py) wrote, or a CUDA source with
its plan beside it (.cu), which the emulator runs. The module runs without a fence, as a program of
yours. Exit code 0: it agrees; 1: it differs; 2: bad input.
"""
import argparse
import json
import os
import subprocess
import sys

import torch

import kernel_file  # also finds the importer's folder
import live

# Relative L2 error of a row against fp64, by the output's type; more where the module's own
# arithmetic is worse.
LIMITS = {torch.float64: 1e-12, torch.float32: 5e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def draw(tensor, module, seed, device):
    how, dtype = tensor["distribution"], kernel_file.DTYPES[tensor["dtype"]]
    if how["kind"] == "file":
        return module.stored(how["key"]).reshape(tensor["shape"]).to(device)
    generator = torch.Generator(device=device).manual_seed(seed)
    shape, a, b = tensor["shape"], how["a"], how["b"]
    if how["kind"] == "constant":
        return torch.full(shape, a, device=device).to(dtype)
    if how["kind"] == "uniform":
        value = torch.rand(shape, device=device, generator=generator) * (b - a) + a
        return (value if dtype.is_floating_point else value.floor()).to(dtype)
    return (torch.randn(shape, device=device, generator=generator) * b + a).to(dtype)


def error_of(got, exact):
    """Largest relative L2 error of a row; of integers the share that differs."""
    if not got.is_floating_point():
        return (got.reshape(-1) != exact.reshape(-1)).double().mean().item()
    rows = lambda t: t.double().reshape(-1, exact.shape[-1] if exact.dim() else 1)
    difference = (rows(got) - rows(exact)).norm(dim=1) / rows(exact).norm(dim=1).clamp_min(1e-300)
    return difference.max().item() if torch.isfinite(difference).all() else float("inf")


def compare(got, exact, own):
    """(agrees, error, the module's own error) over all outputs."""
    agrees, worst, worst_own = len(got) == len(exact), 0.0, 0.0
    for ours, right, theirs in zip(got, exact, own):
        error, its = error_of(ours.reshape(right.shape), right), error_of(theirs, right)
        limit = max(LIMITS.get(ours.dtype, 0.0), 8 * its)
        agrees = agrees and error <= limit
        worst, worst_own = max(worst, error), max(worst_own, its)
    return agrees, worst, worst_own


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="of the imported task")
    parser.add_argument("kernel")
    parser.add_argument("--case", help="default: the first scored one")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--grove", default="grove")
    options = parser.parse_args()
    tasks, name = os.path.split(os.path.abspath(options.folder))
    try:
        device = options.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        module = live.Live(os.path.join(tasks, name), device)
        shown = subprocess.run([options.grove, "--tasks", tasks, "--json", "tasks", "show", name],
                               capture_output=True, text=True, timeout=60)
        if shown.returncode != 0:
            raise live.NotAlive(shown.stderr.strip()[-300:])
        cases = json.loads(shown.stdout)["cases"]
        case = next((c for c in cases if c["name"] == options.case or
                     options.case is None and c["role"] == "scored"), None)
        if case is None:
            raise live.NotAlive(f"no case {options.case}")
        kernel = kernel_file.load(options.kernel, name, case, options.grove, tasks)
        exact_of = module.function(case["name"], double=True)
        own_of = module.function(case["name"])
    except (live.NotAlive, kernel_file.BadKernel, OSError, subprocess.SubprocessError) as error:
        print(f"live_check: {error}", file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    wrong = 0
    for seed in range(1, options.seeds + 1):
        inputs = {t["name"]: draw(t, module, 1000 * seed + i, device)
                  for i, t in enumerate(case["tensors"]) if t["role"] == "input"}
        given = [module.shaped(case["name"], n, inputs[n]) for n in module.arguments]
        exact = live.outputs(exact_of, *[v.double() if v.is_floating_point() else v for v in given])
        own = live.outputs(own_of, *given)
        try:
            got = kernel(*inputs.values())
        except kernel_file.BadKernel as error:
            print(f"live_check: {error}", file=sys.stderr)
            return 1
        agrees, error, its = compare(got, exact, own)
        wrong += not agrees
        print(f"{case['name']} seed {seed} on {device}: error {error:.1e}, the module's own {its:.1e}  "
              f"{'agrees' if agrees else 'DIFFERS'}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
