#!/usr/bin/env python3
"""Puts kernels back into a PyTorch model, checks it and says what the whole gains.

    apply_model.py MODEL --kernel TASK:CASE=FILE ... [--device cuda] [--dtype f16] [--json OUT.json]

A kernel is for the exact shapes, types and constants of its case. Calls of the model that have them
take it; all others go to PyTorch. Both are counted, with the shapes that no kernel was given for.
Outputs are compared with those of the untouched model over several inputs, at a tolerance by the
model's type (relative L2 error of each output). Times are medians, of the untouched model, of the
model with all kernels, and with those of one operation at a time, which take turns. FILE is what `grove export` writes
for PyTorch, what `grove compile` writes, or (--emulate, no GPU needed) the kernel's source, which
then runs in the emulator: that proves the replacement right, and no time is given.
Exit code 0: every output agrees. 1: one does not. 2: bad input.
"""
import argparse
import contextlib
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter

import torch
import torch.nn.functional as F

import kernel_file
import model_operations as ops
import model_source

# Relative L2 error of an output against the untouched model in the same type: a few roundings of
# every layer, which differ between any two right kernels.
TOLERANCE = {"f64": 1e-10, "f32": 1e-4, "f16": 2e-2, "bf16": 1e-1}


class Kernels:
    """Kernels by key, and what became of every call."""

    def __init__(self):
        self.by_key, self.cases = {}, {}
        self.enabled = set()
        self.applied, self.fallen = Counter(), Counter()
        self.reasons = {}
        self.weights = ops.Weights()
        self._inside = False

    def add(self, task, case, function):
        key = ops.key_of_case(task, case)
        self.by_key[key] = function
        self.cases[key] = [t for t in case["tensors"] if t["role"] == "input"]
        self.enabled.add(key[0])

    def take(self, kind, call):
        """The result of the kernel for a call, or None: then PyTorch's. `call` gives its parts."""
        if self._inside or kind not in self.enabled:
            return None
        self._inside = True
        try:
            parts = call()
            if isinstance(parts, str):
                return self._fall(kind, parts)
            key, given, finish = parts
            function = self.by_key.get(key)
            if function is None:
                return self._fall(kind, "no kernel for " + " ".join(str(k) for k in key[1:]))
            tensors = [t.detach().reshape(d["shape"]).contiguous()
                       for t, d in zip(given(), self.cases[key])]
            result = finish(function(*tensors))
            self.applied[kind] += 1
            return result
        finally:
            self._inside = False

    def _fall(self, kind, reason):
        self.fallen[kind] += 1
        self.reasons.setdefault(kind, Counter())[reason] += 1
        return None

    def reset(self):
        self.applied.clear()
        self.fallen.clear()
        self.reasons.clear()


class Patches(contextlib.ExitStack):
    """PyTorch's functions and the model's modules, with ours in front while it is entered."""

    def __init__(self, kernels, model):
        super().__init__()
        self.kernels, self.model = kernels, model

    def __enter__(self):
        k = self.kernels
        functions = [(F, "linear", "matmul", ops.call_linear),
                     (torch, "matmul", "matmul", ops.call_matmul),
                     (torch, "mm", "matmul", ops.call_matmul),
                     (torch, "bmm", "matmul", ops.call_matmul),
                     (torch, "addmm", "matmul", ops.call_addmm),
                     (F, "layer_norm", "layernorm", ops.call_layer_norm),
                     (F, "rms_norm", "rmsnorm", ops.call_rms_norm),
                     (F, "softmax", "softmax", ops.call_softmax),
                     (torch, "softmax", "softmax", ops.call_softmax),
                     (F, "scaled_dot_product_attention", "attention", ops.call_attention),
                     (F, "cross_entropy", "cross_entropy", ops.call_cross_entropy),
                     (torch, "sum", "reduce", ops.call_sum),
                     (torch.Tensor, "matmul", "matmul", ops.call_matmul),
                     (torch.Tensor, "__matmul__", "matmul", ops.call_matmul),
                     (torch.Tensor, "mm", "matmul", ops.call_matmul),
                     (torch.Tensor, "bmm", "matmul", ops.call_matmul),
                     (torch.Tensor, "softmax", "softmax", ops.call_softmax),
                     (torch.Tensor, "sum", "reduce", ops.call_sum)]
        replaced = {}
        for owner, name, kind, call in functions:
            original = getattr(owner, name, None)
            if original is None:  # of a newer release
                continue
            wrapper = self._wrap(original, kind, functools.partial(call, k.weights))
            self._set(owner, name, wrapper)
            if owner is not torch.Tensor:
                replaced[id(original)] = (original, wrapper)
        names = {type(m).__module__ for m in self.model.modules()}
        for scope in [sys.modules[n] for n in names if n in sys.modules and
                      not n.startswith("torch.")] + [getattr(self, "scope", None)]:
            if scope is None:
                continue
            for name, value in list(vars(scope).items()):
                known = replaced.get(id(value))
                if known is not None and known[0] is value:  # `from ... import softmax`
                    self._set(scope, name, known[1])
            for name, kind, call in (
                    ("scaled_dot_product_attention", "attention", ops.call_attention),
                    ("rms_norm", "rmsnorm", ops.call_rms_norm)):
                original = vars(scope).get(name)
                if callable(original) and not hasattr(original, "grove"):  # the model's own
                    self._set(scope, name, self._wrap(original, kind,
                                                      functools.partial(call, k.weights)))
            for name, halves in (("apply_rotary_pos_emb", True), ("apply_rotary_emb", False)):
                original = vars(scope).get(name)
                if callable(original):
                    self._set(scope, name, self._rotary(original, halves))
        for module in self.model.modules():
            mlp, rms = ops.mlp_parts(module), ops.rms_parts(module)
            if mlp is not None:
                self._set(module, "forward", self._wrap(
                    module.forward, "fused_mlp", functools.partial(ops.call_mlp, mlp)))
            elif rms is not None:
                weight, eps = rms
                self._set(module, "forward", self._wrap(
                    module.forward, "rmsnorm",
                    lambda x, w=weight, e=eps: ops.call_rms_norm(None, x, w.shape, w, e)))
        return super().__enter__()

    def _set(self, owner, name, value):
        own = name in vars(owner)
        original = vars(owner).get(name)
        setattr(owner, name, value)
        self.callback(setattr if own else lambda o, n, _: delattr(o, n), owner, name, original)

    def _wrap(self, original, kind, call):
        kernels = self.kernels

        @functools.wraps(original, assigned=("__name__", "__doc__"), updated=())
        def wrapper(*args, **kwargs):
            def parts():
                try:
                    return call(*args, **kwargs)
                except (TypeError, AttributeError, IndexError):
                    return "arguments of another form"

            result = kernels.take(kind, parts)
            return original(*args, **kwargs) if result is None else result

        wrapper.grove = True
        return wrapper

    def _rotary(self, original, halves):
        """apply_rotary_pos_emb(q, k, cos, sin) turns two tensors, apply_rotary_emb(x, cos, sin) one."""
        kernels = self.kernels

        def one(x, cosine, sine):
            def parts():
                if x.dim() != 4:
                    return "not four dims"
                tables = ops.rotary_tables(cosine, sine, x, halves)
                return tables if isinstance(tables, str) else ops.rotate_call(x, *tables, halves)

            return kernels.take("rotary_embedding", parts)

        @functools.wraps(original)
        def wrapper(*args, **kwargs):
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            if "cos" in kwargs and "sin" in kwargs:
                tensors += [kwargs["cos"], kwargs["sin"]]
            if len(tensors) not in (3, 4):
                return original(*args, **kwargs)
            *turned, cosine, sine = tensors
            results = [one(x, cosine, sine) for x in turned]
            if any(r is None for r in results):
                whole = original(*args, **kwargs)
                whole = whole if isinstance(whole, tuple) else (whole,)
                results = [r if r is not None else w for r, w in zip(results, whole)]
            return results[0] if len(results) == 1 else tuple(results)

        return wrapper


def error_of(got, expected):
    """Relative L2 error; whole numbers must be equal."""
    if got.shape != expected.shape:
        return float("inf")
    if not expected.is_floating_point():
        return 0.0 if torch.equal(got, expected) else float("inf")
    got, expected = got.double(), expected.double()
    if not torch.isfinite(got).all() and torch.isfinite(expected).all():
        return float("inf")
    scale = expected.norm().item()
    return (got - expected).norm().item() / scale if scale else got.norm().item()


def one_time(call, device):
    """Milliseconds of one call, by events on a GPU, where the call before it keeps the GPU busy
    while the host enqueues this one: as in a loop."""
    call()
    if device.startswith("cuda"):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def median_times(variants, call, device, runs):
    """Milliseconds of one call under each of these contexts, medians.

    They take turns, since a GPU that has worked for a second runs at another clock than one that
    starts: one after the other they would not compare.
    """
    samples = [[] for _ in variants]
    for number in range(runs + 1):  # the first is for warming up
        order = range(len(variants)) if number % 2 else reversed(range(len(variants)))
        for i in order:
            with variants[i]():
                taken = one_time(call, device)
            if number > 0:
                samples[i].append(taken)
    return [statistics.median(taken) for taken in samples]


def find_grove(given):
    here = os.path.dirname(os.path.abspath(__file__))
    for place in (given, os.path.join(here, "grove"), shutil.which("grove")):
        if place and os.access(place, os.X_OK):
            return place
    raise kernel_file.BadKernel("no grove here: name it with --grove")


def task_cases(grove, task, tasks):
    done = subprocess.run([grove] + (["--tasks", tasks] if tasks else []) +
                          ["--json", "tasks", "show", task], capture_output=True, text=True)
    if done.returncode != 0:
        raise kernel_file.BadKernel(done.stderr.strip())
    return {case["name"]: case for case in json.loads(done.stdout)["cases"]}


def load_kernels(options):
    kernels, grove, shown = Kernels(), find_grove(options.grove), {}
    for text in options.kernel:
        name, _, path = text.partition("=")
        task, _, case = name.partition(":")
        if not (task and case and path):
            raise kernel_file.BadKernel(f"--kernel {text}: expected TASK:CASE=FILE")
        if ops.kind_of(task) is None:
            raise kernel_file.BadKernel(f"--kernel {text}: {task} is none of {', '.join(ops.KINDS)}")
        if not os.path.exists(path):
            raise kernel_file.BadKernel(f"--kernel {text}: {path} is not there")
        if path.endswith(".cu") and not options.emulate:
            raise kernel_file.BadKernel(
                f"{path}: a source runs with --emulate only; grove export makes it PyTorch's")
        if task not in shown:
            shown[task] = task_cases(grove, task, options.tasks)
        if case not in shown[task]:
            raise kernel_file.BadKernel(f"--kernel {text}: task {task} has no case {case}")
        kernels.add(task, shown[task][case],
                    kernel_file.load(path, task, shown[task][case], grove, options.tasks))
    return kernels


def compare(source, kernels, options, reference):
    """The largest error of an output over all inputs, and whether each is within its tolerance."""
    worst, agrees = 0.0, True
    for inputs, expected in reference:
        got = source.call(inputs)
        if len(got) != len(expected):
            return float("inf"), False
        for mine, theirs in zip(got, expected):
            error = error_of(mine, theirs)
            limit = options.tolerance or TOLERANCE.get(model_source.NAMES.get(theirs.dtype), 1e-4)
            worst, agrees = max(worst, error), agrees and error <= limit
    return worst, agrees


def run(options):
    source = model_source.Source(options)
    kernels = load_kernels(options)
    floating = [p for p in source.model.parameters() if p.is_floating_point()]
    dtype = options.dtype or (model_source.NAMES.get(floating[0].dtype, "f32") if floating else "f32")
    reference = []
    for i in range(options.inputs):
        inputs = source.inputs(options.seed + 1 + i)
        reference.append((inputs, source.call(inputs)))
    if not reference[0][1]:
        raise model_source.BadModel("the model returns no tensor")

    device = str(options.device)
    timed = not options.emulate
    inputs = reference[0][0]
    report = {"model": options.model, "device": device, "dtype": dtype, "inputs": options.inputs,
              "tolerance": options.tolerance or TOLERANCE, "emulated": bool(options.emulate), "operations": {}}
    kinds = sorted(kernels.enabled)
    choices = [kinds] + ([[kind] for kind in kinds] if len(kinds) > 1 else [])
    entries = []

    def with_kernels(chosen):
        kernels.enabled = set(chosen)
        patches = Patches(kernels, source.model)
        patches.scope = getattr(source, "scope", None)
        return patches

    for chosen in choices:
        kernels.reset()
        with with_kernels(chosen):
            error, agrees = compare(source, kernels, options, reference)
            entry = {"error": error, "agrees": agrees}
            entry["applied"] = sum(kernels.applied.values())
            entry["fallback"] = sum(kernels.fallen.values())
            counts = {kind: {"applied": kernels.applied[kind], "fallback": kernels.fallen[kind],
                             "reasons": dict(kernels.reasons.get(kind, {}))} for kind in chosen}
        entries.append(entry)
        if chosen is kinds:
            report["whole"], report["counts"] = entry, counts
        if len(chosen) == 1:
            report["operations"][chosen[0]] = entry
    if timed:
        report["untouched_ms"], *times = median_times(
            [contextlib.nullcontext] + [functools.partial(with_kernels, chosen) for chosen in choices],
            lambda: source.call(inputs), device, options.runs)
        for entry, taken in zip(entries, times):
            entry["ms"], entry["speedup"] = taken, report["untouched_ms"] / taken
    return report


def show(report):
    tolerance = report["tolerance"]
    if isinstance(tolerance, dict):
        tolerance = ", ".join(f"{limit:g} for {dtype}" for dtype, limit in tolerance.items())
    print(f"{report['model']} on {report['device']}, {report['dtype']}, {report['inputs']} inputs; "
          f"tolerance {tolerance}")
    if report["emulated"]:
        print("kernels ran in the emulator: outputs are proven, times are not")
    else:
        print(f"untouched       {report['untouched_ms']:.3f} ms")
    lines = [("all kernels", report["whole"])] + sorted(report["operations"].items())
    for name, entry in lines:
        timing = f"{entry['ms']:.3f} ms  {entry['speedup']:.3f}x  " if "ms" in entry else ""
        print(f"{name:<16}{timing}error {entry['error']:.2g} "
              f"{'agrees' if entry['agrees'] else 'DIFFERS'}  "
              f"{entry['applied']} calls taken, {entry['fallback']} left to PyTorch")
    for kind, counts in sorted(report["counts"].items()):
        for reason, count in sorted(counts["reasons"].items(), key=lambda item: -item[1])[:5]:
            print(f"  {kind}: {count} x {reason}")


def main():
    parser = argparse.ArgumentParser(description="put kernels back into a model")
    model_source.add_arguments(parser)
    parser.add_argument("--kernel", action="append", default=[], metavar="TASK:CASE=FILE")
    parser.add_argument("--emulate", action="store_true", help="run .cu kernels in the emulator")
    parser.add_argument("--inputs", type=int, default=3, help="different inputs compared (default 3)")
    parser.add_argument("--runs", type=int, default=20, help="timed runs (default 20)")
    parser.add_argument("--tolerance", type=float, help="relative L2 error (default by type)")
    parser.add_argument("--tasks", help="folder of the tasks")
    parser.add_argument("--grove", help="the program (default: beside this script, or on PATH)")
    parser.add_argument("--json", help="write the report here too")
    options = parser.parse_args()
    if not options.kernel:
        parser.error("which kernels? --kernel TASK:CASE=FILE")
    try:
        report = run(options)
    except (model_source.BadModel, kernel_file.BadKernel) as error:
        print(f"apply_model: {error}", file=sys.stderr)
        return 2
    show(report)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    return 0 if report["whole"]["agrees"] and all(
        entry["agrees"] for entry in report["operations"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
