#!/usr/bin/env python3
"""Times PyTorch eager and torch.compile (max-autotune) on a task's cases.

Reads JSON from standard input and writes JSON to standard output:

  in   {"cases": [{"task": "softmax", "case": "crfm", "scalars": {"eps": 1e-5}, "dims": {"M": 4096},
                   "tensors": [{"name": "x", "role": "input", "dtype": "f32", "shape": [4096, 65536],
                                "distribution": {"kind": "normal", "a": 0, "b": 1}}, ...]}],
        "modes": ["eager", "compile"]}
  out  {"device": ..., "uuid": ..., "torch": ..., "cuda": ..., "results": [
         {"task": ..., "case": ..., "mode": "eager", "median_us": ..., "min_us": ..., "q3_us": ...,
          "samples_us": [...], "error": null}]}

The rule is that of our own cold timer: the L2 cache is written over before every call, events around
the call, the median counts. TF32 is off for fp32 tasks unless a case says "allow_tf32": true. An
operation that is not known here, or that fails, has its message in "error" and no times.

A case with "folder" is of a task that was imported (grove import): the module of that folder is
measured, with the parameters and stored inputs that the task has. With a folder as its argument,
    torch_baseline.py TASKS/NAME [--grove GROVE]
it measures that task by itself and prints a table.
"""
import argparse
import json
import os
import subprocess
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
for place in ("../seeds/importers/torch", "../share/grove/importers/torch", "../importers/torch"):
    sys.path.append(os.path.join(HERE, place))

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
}


def draw(tensor, module=None):
    dtype = DTYPES[tensor["dtype"]]
    shape = tensor["shape"]
    how = tensor.get("distribution", {"kind": "normal", "a": 0, "b": 1})
    kind, a, b = how["kind"], how["a"], how["b"]
    if kind == "file":
        if module is None:
            raise ValueError(f"{tensor['name']} is stored with its task, and no folder is given")
        return module.stored(how["key"]).reshape(shape).to(device="cuda", dtype=dtype)
    if kind == "constant":
        return torch.full(shape, a, device="cuda").to(dtype)
    if kind == "uniform":
        value = torch.rand(shape, device="cuda") * (b - a) + a
        return (value.floor() if not dtype.is_floating_point else value).to(dtype)
    value = torch.randn(shape, device="cuda")
    if kind == "mixed":
        return (value * torch.where(torch.rand(shape, device="cuda") < 0.5, a, b)).to(dtype)
    value = value * b + a
    if kind == "tail":
        keep = max(1, shape[-1] // 100)
        value[..., :-keep] = 0
    return value.to(dtype)


def operation(case, inputs):
    """The operation as a function of its inputs, and those in order."""
    functional = torch.nn.functional
    task, scalars = case["task"], case.get("scalars", {})
    values = list(inputs.values())
    if task.startswith("softmax"):
        return (lambda x: torch.softmax(x, dim=-1)), values
    if task.startswith("matmul"):
        return (lambda a, b: a @ b), values
    if task.startswith("layernorm"):
        x, weight, bias = values[:3]
        shape = tuple(weight.shape)
        if len(shape) == 1 and shape[0] != x.shape[-1]:  # the affine part given flat
            normalised = x.shape[1:]
            weight, bias = weight.reshape(normalised), bias.reshape(normalised)
            shape = tuple(normalised)
        eps = scalars.get("eps", 1e-5)
        return (lambda x, w, b: functional.layer_norm(x, shape, w, b, eps)), [x, weight, bias]
    if task.startswith("rmsnorm"):
        x, weight = values[:2]
        eps = scalars.get("eps", 1e-6)
        return (lambda x, w: functional.rms_norm(x, tuple(w.shape), w, eps)), [x, weight]
    if task.startswith("reduce"):
        return (lambda x: x.sum(dim=-1)), values
    if task.startswith("cross_entropy"):
        return (lambda x, t: functional.cross_entropy(x.float(), t.long())), values
    dims = case.get("dims", {})
    stride, padding = dims.get("S", 4), dims.get("P", 2)
    if task.startswith("conv2d_relu_maxpool"):
        return (lambda x, w, b: functional.max_pool2d(
            functional.relu(functional.conv2d(x, w, b, stride=stride, padding=padding)), 3, 2)), values
    if task.startswith("conv2d"):
        return (lambda x, w, b: functional.conv2d(x, w, b, stride=stride, padding=padding)), values
    if task.startswith(("attention", "flash_attention")):
        causal = task.startswith("flash")
        return (lambda q, k, v: functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal)), values
    if task.startswith("rotary_embedding"):
        def rotate(x, cosine, sine):
            even, odd = x[..., 0::2], x[..., 1::2]
            turned = torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1)
            return turned.flatten(-2)
        return rotate, values
    if task.startswith("fused_mlp"):
        return (lambda x, gate, up, down: functional.linear(
            functional.silu(functional.linear(x, gate)) * functional.linear(x, up), down)), values
    if task.startswith("qr"):
        return (lambda a: torch.geqrf(a)), values[:1]
    raise ValueError(f"no PyTorch operation is known for task {task}")


def measure(call, budget_ms=300.0, least=10):
    """Cold times in microseconds."""
    flush = torch.empty(2 * torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.uint8,
                        device="cuda")
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(3):
        call()
    stop.record()
    stop.synchronize()
    estimate = max(start.elapsed_time(stop) / 3, 1e-3)
    count = max(least, min(1000, int(budget_ms / estimate)))
    pairs = []
    for _ in range(count):
        flush.zero_()
        pair = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        pair[0].record()
        call()
        pair[1].record()
        pairs.append(pair)
    torch.cuda.synchronize()
    return [1e3 * a.elapsed_time(b) for a, b in pairs]


def run(case, mode):
    result = {"task": case["task"], "case": case["case"], "mode": mode, "error": None}
    try:
        torch.manual_seed(0)
        allow = bool(case.get("allow_tf32", False))
        torch.backends.cuda.matmul.allow_tf32 = allow
        torch.backends.cudnn.allow_tf32 = allow
        module = None
        if case.get("folder"):
            import live
            module = live.Live(case["folder"], "cuda")
        inputs = {t["name"]: draw(t, module) for t in case["tensors"] if t["role"] == "input"}
        if module is not None:
            function = module.function(case["case"])
            values = [module.shaped(case["case"], name, inputs[name]) for name in module.arguments]
        else:
            function, values = operation(case, inputs)
        if mode == "compile":
            torch._dynamo.reset()
            function = torch.compile(function, mode="max-autotune-no-cudagraphs")
        with torch.no_grad():
            samples = measure(lambda: function(*values))
        ordered = sorted(samples)
        result.update(median_us=ordered[len(ordered) // 2], min_us=ordered[0],
                      q3_us=ordered[len(ordered) * 3 // 4], samples_us=samples)
    except Exception as problem:  # one case that fails must not cost the others
        result["error"] = f"{type(problem).__name__}: {problem}".splitlines()[0][:300]
    finally:
        torch.cuda.empty_cache()
    return result


def of_folder(folder, grove):
    """The request for the task in `folder`, as `grove tasks show` describes it."""
    folder = os.path.abspath(folder)
    tasks, name = os.path.split(folder)
    done = subprocess.run([grove, "--tasks", tasks, "--json", "tasks", "show", name],
                          capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise SystemExit(f"torch_baseline: {done.stderr.strip()[-300:]}")
    imported = os.path.exists(os.path.join(folder, "problem.json"))
    task = json.loads(done.stdout)
    return {"cases": [{**case, "task": name, "case": case["name"], "folder": folder if imported else None,
                       "allow_tf32": case.get("demanded_class", task["demanded_class"]) not in (
                           "fp64", "fp32")}
                      for case in task["cases"] if case["role"] == "scored"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="of a task; else a request is read from stdin")
    parser.add_argument("--grove", default="grove")
    options = parser.parse_args()
    request = of_folder(options.folder, options.grove) if options.folder else json.load(sys.stdin)
    if not torch.cuda.is_available():
        print("torch_baseline: this PyTorch sees no GPU", file=sys.stderr)
        return 1
    properties = torch.cuda.get_device_properties(0)
    results = [run(case, mode) for case in request["cases"]
               for mode in request.get("modes", ["eager", "compile"])]
    if options.folder:
        for row in results:
            time = row["error"] or f"{row['median_us']:.1f} us  (min {row['min_us']:.1f})"
            print(f"{row['case']:<16} torch_{row['mode']:<8} {time}")
        return int(any(row["error"] for row in results))
    reply = {
        "device": properties.name,
        "uuid": f"GPU-{properties.uuid}" if hasattr(properties, "uuid") else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "results": results,
    }
    json.dump(reply, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
