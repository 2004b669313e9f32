#!/usr/bin/env python3
"""Runs exported modules and compares them with PyTorch's own operation (scripts/gpu-exports).

  check_exports.py build FILE          compiles the load_inline extension of an exported file
  check_exports.py table OUT TASK...   runs everything that was built and prints one table
"""
import glob
import importlib.util
import json
import os
import re
import statistics
import sys


def load(path, name=None):
    spec = importlib.util.spec_from_file_location(name or os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(path):
    load(path)._module()
    return 0


# fp32: what a different order of the same sums may do; the exact check is the .cu's, against fp64.
TOLERANCES = {"f32": 2e-5, "f16": 4e-3, "bf16": 2e-2}


def relative(got, want):
    import torch
    got, want = got.double(), want.double()
    return float(torch.linalg.vector_norm(got - want) / torch.linalg.vector_norm(want).clamp_min(1e-300))


def cold(call, torch, budget_ms=150.0):
    """Cold times; long plans are not hidden behind the flush, as in any program that calls them."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    # Long enough to enqueue the call behind it.
    flush = torch.empty(8 * l2, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    pairs, spent = [], 0.0
    while len(pairs) < 10 or (spent < budget_ms and len(pairs) < 60):
        flush.zero_()
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        stop.record()
        stop.synchronize()
        pairs.append(1e3 * start.elapsed_time(stop))
        spent += pairs[-1] / 1e3
    return statistics.median(pairs)


def case_lines(path):
    """(name, [(tensor, dtype, shape, is output)]) from the comment lines of an exported file."""
    cases = []
    for line in open(path):
        match = re.match(r"# case ([^:]+):(.*)", line)
        if not match:
            if cases:
                break
            continue
        tensors = [(name, dtype, [int(x) for x in shape.split(",") if x.strip()], bool(arrow))
                   for arrow, name, dtype, shape in
                   re.findall(r"(-> )?(\w+) (\w+) \{([^}]*)\}", match.group(2))]
        cases.append((match.group(1), tensors))
    return cases


def qr_error(a, h, tau, torch):
    """Share of the published gate: |R - Qt A|_1 over 20 n eps |A|_1, on at most four matrices."""
    worst = 0.0
    n = a.shape[-1]
    for b in range(min(4, a.shape[0])):
        q = torch.linalg.householder_product(h[b].double(), tau[b].double())
        r = torch.triu(h[b].double())
        error = (r - q.T @ a[b].double()).abs().sum(0).max() / a[b].double().abs().sum(0).max()
        worst = max(worst, float(error) / (20 * n * 2.0 ** -23))
    return worst


def run_times(out, task):
    """Cold measured times of the kernel by grove: case -> (microseconds, whether they compare).

    From `grove eval --json`, or from a gallery's result.json. Short kernels do not compare: a call from Python is not
    hidden behind them.
    """
    with open(f"{out}/files/{task}.json") as file:
        data = json.load(file)
    if "times" in data:
        rows = [row for row in data["times"] if row["kind"] == "measured"]
    else:
        rows = [row for row in data["cases"] if row["mode"] == "cold"]
    return {row["case"]: (row["time_ns"] / 1e3, row["time_ns"] > 50e3) for row in rows}


def program_times(out, task, form):
    """What the stand-alone program printed: case -> (right, microseconds)."""
    found = {}
    try:
        for line in open(f"{out}/program-{task}-{form}.log"):
            match = re.match(r"(\S+)\s+(ok|WRONG)\b.*?(?:; ([0-9.]+) us cold)?", line)
            timed = re.search(r"; ([0-9.]+) us cold", line)
            if match:
                found[match.group(1)] = (match.group(2) == "ok", float(timed.group(1)) if timed else None)
    except FileNotFoundError:
        pass
    return found


def last_line(path):
    try:
        lines = [line.strip() for line in open(path, errors="replace") if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        return (errors or lines or ["no output"])[-1][:150]
    except FileNotFoundError:
        return "not built"


def table(out, tasks):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import torch
    import torch_baseline
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    rows, failed = [], 0

    def add(task, case, form, right, error, microseconds, wanted, eager=None, large=True):
        nonlocal failed
        ratio = microseconds / wanted if microseconds and wanted else None
        note = ""
        if right is False:
            note = "WRONG"
        elif not wanted:
            note = "NO RUN TIME"
        elif ratio and large and abs(ratio - 1) > 0.05:
            note = "OVER 5%"
        failed += bool(note)
        rows.append((task, case, form, note or "ok", error,
                     f"{microseconds:.1f}" if microseconds else "-", f"{wanted:.1f}" if wanted else "-",
                     f"{ratio:.3f}" if ratio else "-", f"{eager:.1f}" if eager else "-"))

    def broken(task, form, log):
        nonlocal failed
        failed += 1
        rows.append((task, "-", form, "FAILED", last_line(log), "-", "-", "-", "-"))

    for task in tasks:
        try:
            wanted = run_times(out, task)
        except (OSError, ValueError) as problem:
            broken(task, "export", f"{out}/export-{task}-cu.log")
            continue
        for form in ("cu", "cu-nvcc") if task == "matmul" else ("cu",):
            programs = program_times(out, task, form)
            if not programs:
                log = f"{out}/program-{task}-{form}.log"
                broken(task, form, log if os.path.exists(log) else f"{out}/nvcc-{task}-{form}.log")
            for case, (right, microseconds) in programs.items():
                time, large = wanted.get(case, (None, False))
                # Another compiler's machine code: shown, not held to the run's time.
                add(task, case, form, right, "fp64", microseconds, time, None, large and form == "cu")
        for form in ("torch", "kernelbench", "gpumode", "torch-cpp"):
            paths = glob.glob(f"{out}/files/{task}/{form}/*.py")
            if form == "torch-cpp":
                libraries = glob.glob(f"{out}/files/{task}/{form}/*.so")
                if not libraries:
                    if os.path.exists(f"{out}/setup-{task}.log"):
                        broken(task, form, f"{out}/setup-{task}.log")
                    continue
            elif not paths or not os.path.exists(f"{out}/build-{task}-{form}.log"):
                continue
            log = f"{out}/build-{task}-{form}.log" if form != "torch-cpp" else f"{out}/setup-{task}.log"
            try:
                if form == "torch-cpp":
                    name = os.path.basename(libraries[0]).split(".")[0]
                    extension = load(libraries[0], name)
                    call = lambda *x: (lambda y: y[0] if len(y) == 1 else tuple(y))(extension.run(list(x)))
                    source = f"{out}/files/{task}/{form}/setup.py"
                else:
                    if not open(log).read().rstrip().endswith("built"):
                        raise RuntimeError("not built (or not within the time limit)")
                    module = load(paths[0])
                    source = paths[0]
                    call = {"torch": module.run,
                            "kernelbench": lambda *x: module.ModelNew()(*x),
                            "gpumode": lambda *x: module.custom_kernel(*x)}[form]
                    if form == "kernelbench":
                        model = module.ModelNew()
                        call = model
            except Exception as problem:
                open(log, "a").write(f"\n{type(problem).__name__}: {problem}\n")
                broken(task, form, log)
                continue
            limit = 4 if form == "torch" else 1
            shown = [c for c in case_lines(source) if c[0] in wanted] or case_lines(source)
            for case, tensors in shown[:limit]:
                try:
                    torch.manual_seed(0)
                    inputs = {}
                    for name, dtype, shape, is_output in tensors:
                        if is_output:
                            continue
                        kind = {"kind": "normal", "a": 0, "b": 1}
                        if dtype.startswith("i"):
                            kind = {"kind": "uniform", "a": 0, "b": 2}
                        inputs[name] = torch_baseline.draw({"dtype": dtype, "shape": shape, "distribution": kind})
                    values = list(inputs.values())
                    got = call(*values)
                    first = got[0] if isinstance(got, tuple) else got
                    eager = None
                    if task == "qr":
                        share = qr_error(values[0], got[0], got[1], torch)
                        right, error = share <= 1, f"{share:.3f} of gate"
                    else:
                        function, arguments = torch_baseline.operation(
                            {"task": task, "dims": {}, "scalars": {}}, inputs)
                        with torch.no_grad():
                            difference = relative(first, function(*arguments))
                        dtype = next(t[1] for t in tensors if t[3])
                        right, error = difference <= TOLERANCES.get(dtype, 2e-5), f"{difference:.1e}"
                        if form == "torch":
                            eager = cold(lambda: function(*arguments), torch, 60.0)
                    time, large = wanted.get(case, (None, False))
                    add(task, case, form, right, error, cold(lambda: call(*values), torch), time, eager, large)
                    del got, first, values, inputs
                    torch.cuda.empty_cache()
                except Exception as problem:
                    open(log, "a").write(f"\n{case}: {type(problem).__name__}: {problem}\n")
                    broken(task, form, log)
        scripts = glob.glob(f"{out}/files/{task}/cupy/*.py")
        if scripts:
            if importlib.util.find_spec("cupy") is None:
                rows.append((task, "-", "cupy", "skipped", "no CuPy here", "-", "-", "-", "-"))
            else:
                import subprocess
                done = subprocess.run([sys.executable, scripts[0]], capture_output=True, text=True, timeout=90)
                for case, microseconds in re.findall(r"^(\S+)\s+([0-9.]+) us cold", done.stdout, re.M):
                    time, large = wanted.get(case, (None, False))
                    add(task, case, "cupy", None, "-", float(microseconds), time, None, large)
                if done.returncode != 0:
                    open(f"{out}/cupy-{task}.log", "w").write(done.stderr)
                    broken(task, "cupy", f"{out}/cupy-{task}.log")
    head = ("task", "case", "format", "verdict", "error", "us", "run us", "ratio", "eager us")
    widths = [max(len(str(row[i])) for row in rows + [head]) for i in range(len(head))]
    for row in [head] + rows:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())
    print(f"{len(rows)} rows, {failed} failed")
    return min(failed, 100)


def main():
    if len(sys.argv) >= 3 and sys.argv[1] == "build":
        return build(sys.argv[2])
    if len(sys.argv) >= 4 and sys.argv[1] == "table":
        return table(sys.argv[2], sys.argv[3:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
