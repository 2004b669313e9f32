"""Makes task folders of PyTorch problem files. Run by `grove import kernelbench`.

    import_problem.py JOBS.json

JOBS.json: {"deadline": seconds, "jobs": processes at a time, "problems": [{"problem": FILE, "folder":
FOLDER, "name": NAME, "scale": N, "kind": "kernelbench" | "gpumode" | "flashinfer", "workloads": FILE
or null, "live": whether the task is judged by the module itself}]}. Every FOLDER must exist and be empty. torch is loaded once; each
problem then runs in a child of its own, which is killed at the deadline with all that it started.
The last thing written for a problem is FOLDER/import.json: {"status": "ok" | "refused" | "broken" |
"unsupported", "reason": "...", "notes": ["..."], "cases": ["..."]}.
"""

import copy
import json
import keyword
import math
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch

import confine
import live
import safetensors_file
from foreign import FlashInfer, Foreign, GpuMode, label, names_of
from lower import NAMES, Unsupported
from problem import Broken, Problem, Refused, check_fair, shrunk
from trace import lower, source, trace, warm_up

_CHECK_ELEMENTS = 40_000   # of a check case: it runs in an emulator for every candidate
_CHECK_WORK = 4_000_000    # operations of a check case
_GOLDEN_SEEDS = (1001, 1002)
_RESERVED = set(keyword.kwlist) | {
    "min", "max", "ceil_div", "sm_count", "max_shared", "l2_bytes", "auto", "char", "const",
    "double", "float", "int", "long", "short", "signed", "unsigned", "void", "static", "struct",
    "union", "switch", "case", "default", "do", "goto", "enum", "extern", "inline", "register",
    "sizeof", "typedef", "volatile", "bool", "new", "delete", "this", "template", "typename",
    "using", "namespace", "operator", "private", "public", "protected", "friend", "virtual",
    "throw", "catch", "mutable", "export", "asm", "dim", "tensor", "scalar", "warpSize"} | set(
        NAMES.values())


def identifier(text, used, stem):
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)[:48].strip("_") or stem
    if not re.match(r"[A-Za-z]", name) or name in _RESERVED:
        name = f"{stem}_{name}"
    base, n = name, 2
    while name in used or name in _RESERVED:
        name, n = f"{base}{n}", n + 1
    used.add(name)
    return name


def work_of(traced):
    """(operations, longest sum) of a graph, from its shapes."""
    operations, longest = 0, 1
    for node, (shape, _) in traced.facts.items():
        if node.op != "call_function":
            continue
        name = str(node.target).replace("aten.", "").split(".")[0].strip("_")
        size = math.prod(shape) if shape else 1
        sources = [traced.facts[a][0] for a in node.args
                   if isinstance(a, torch.fx.Node) and a in traced.facts]
        if name in ("mm", "bmm"):
            length = sources[0][-1]
            operations += 2 * size * length
        elif name in ("addmm", "baddbmm"):
            length = sources[1][-1]
            operations += 2 * size * length
        elif name == "convolution":
            weight, transposed, groups = sources[1], node.args[6], node.args[8]
            length = math.prod(weight[2:]) * (sources[0][1] // groups)
            operations += 2 * length * (size if not transposed else size)
        else:
            largest = max([math.prod(s) for s in sources] + [size])
            length = max(1, largest // max(size, 1))
            views = ("view", "reshape", "permute", "transpose", "t", "expand", "slice", "select",
                     "unsqueeze", "squeeze", "unsafe_view", "reshape_alias", "clone", "detach")
            operations += 0 if name in views else largest
        longest = max(longest, length)
    return operations, longest


class Case:
    def __init__(self, name, role, problem, instance, spec=None):
        self.name, self.role, self.instance, self.spec = name, role, instance, spec
        self._parameters = None
        self.outputs = problem.forward(instance, instance.inputs, seed=1)
        try:
            self.traced = problem.run("tracing forward", lambda: trace(
                copy.deepcopy(instance.model), instance.inputs))
        except Broken as error:
            if "data-dependent" in str(error) or "tracing tensor" in str(error):
                raise Refused("what forward computes depends on the values of its inputs") from None
            raise
        self.flops, self.reduction = work_of(self.traced)
        self.elements = sum(t.numel() for t in instance.tensors() + self.outputs)

    def parameters(self):
        if self._parameters is not None:
            return self._parameters
        return self._find_parameters()

    def _find_parameters(self):
        """Tensors that the traced module reads besides its inputs, with their names."""
        own = list(self.instance.model.named_parameters()) + list(
            self.instance.model.named_buffers())
        found = {}
        for node, value in self.traced.constants.items():
            if not node.users:
                continue
            name = next((n for n, p in own if p.shape == value.shape and p.dtype == value.dtype and
                         torch.equal(p.detach(), value)), str(node.target).strip("_"))
            found.setdefault(name, value.detach())
        self._parameters = found
        return found

    def parameter_name(self, value):
        for name, known in self.parameters().items():
            if known.shape == value.shape and known.dtype == value.dtype and torch.equal(known,
                                                                                        value):
                return name
        raise Unsupported("a constant of the module")


def shape_of(tensor):
    return list(tensor.shape) or [1]


def pick_cases(problem, scale):
    """The scored case first, then the check cases that could be made."""
    notes = []
    own = {n: shrunk(v, scale, False) for n, v in problem.sizes.items()} if scale > 1 else {}
    scored = problem.at(own)
    check_fair(problem, scored)
    cases = [Case("full", "scored", problem, scored)]
    structure = signature(cases[0])

    def attempt(name, role, odd):
        for factor in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 1 << 14, 1 << 17, 1 << 20):
            sizes = {n: shrunk(v, factor * max(scale, 1), odd) for n, v in problem.sizes.items()}
            try:
                instance = problem.at(sizes, seed=43)
                elements = sum(t.numel() for t in instance.tensors())
                if elements > 4 * _CHECK_ELEMENTS:
                    continue
                case = Case(name, role, problem, instance)
            except (Broken, Refused):
                continue
            if case.elements > _CHECK_ELEMENTS or case.flops > _CHECK_WORK:
                continue
            if signature(case) != structure:
                continue
            try:
                check_fair(problem, instance)
            except (Broken, Refused):
                continue
            return case
        return None

    seen = {shapes_key(cases[0])}
    for name, role, odd in (("small", "smoke", False), ("odd", "sweep", True)):
        case = attempt(name, role, odd)
        if case is not None and shapes_key(case) not in seen:
            seen.add(shapes_key(case))
            cases.append(case)
    if len(cases) == 1:
        notes.append("no smaller version of the module runs, so its only case is the scored one")
    return cases, notes


def given_cases(problem):
    """The cases that a foreign problem lists itself, the first scored one first."""
    cases, seen, names, tried = [], {}, set(), None
    for name, role, spec in problem.cases:
        instance = problem.make(spec)
        check = role in ("smoke", "sweep")
        elements = sum(t.numel() for t in instance.tensors())
        if check and elements > 4 * _CHECK_ELEMENTS:
            problem.notes.append(f"check case {name} {spec} is too large for the emulator; left out")
            continue
        if not cases or check:
            check_fair(problem, instance)
            problem.check(instance)
        base, n = f"{name}_" + label("_".join(str(v) for k, v in spec.items() if k != "seed" and
                                              isinstance(v, (int, str)))) if (
            "axes" not in spec) else name, 2
        unique = base = base.strip("_")
        while unique in names:
            unique, n = f"{base}_{n}", n + 1
        case = Case(unique, role, problem, instance, spec)
        if check and case.flops > 10 * _CHECK_WORK:
            problem.notes.append(f"check case {unique} is too much work for the emulator; left out")
            continue
        if tried is not None and signature(case)[:2] != tried[:2]:
            problem.notes.append(f"case {unique} differs in ranks or types; left out")
            continue
        tried = tried or signature(case)
        if shapes_key(case) in seen:
            if check and role == "smoke" and seen[shapes_key(case)].role == "sweep":
                seen[shapes_key(case)].role = "smoke"
            continue
        names.add(unique)
        seen[shapes_key(case)] = case
        cases.append(case)
    if not any(c.role in ("smoke", "sweep") for c in cases):
        problem.notes.append("no check case is small enough for the emulator")
    return cases, problem.notes


def signature(case):
    """What must agree between the cases of one task: tensors by rank and type."""
    return ([(t.dim(), t.dtype) for t in case.instance.tensors()],
            [(t.dim(), t.dtype) for t in case.outputs],
            [(n, p.dim(), p.dtype) for n, p in case.parameters().items()],
            [v for v in case.instance.inputs if not isinstance(v, torch.Tensor)])


def shapes_key(case):
    return str([list(t.shape) for t in case.instance.tensors() + case.outputs] +
               [list(p.shape) for p in case.parameters().values()])


def name_dims(cases, tensors_by_case, used):
    """Shapes as text over dims: ([[expression]], {dim: [value per case]})."""
    dims, shapes = {}, []
    sizes = [c.instance.sizes for c in cases]
    flat = []
    for s in sizes:
        values = {}
        for name, value in s.items():
            if isinstance(value, (tuple, list)):
                values.update({f"{name}_{i}": v for i, v in enumerate(value)})
            else:
                values[name] = value
        flat.append(values)
    for index in range(len(tensors_by_case[0])):
        shape = []
        for axis in range(len(shape_of(tensors_by_case[0][index]))):
            vector = tuple(shape_of(t[index])[axis] for t in tensors_by_case)
            if len(set(vector)) == 1:
                shape.append(vector[0])
                continue
            if vector not in dims:
                name = next((n for n in flat[0]
                             if tuple(f.get(n) for f in flat) == vector), f"n{len(dims)}")
                dims[vector] = identifier(name, used, "n")
            shape.append(dims[vector])
        shapes.append(shape)
    if not dims:
        dims[tuple(1 for _ in cases)] = identifier("one", used, "n")
    return shapes, {name: vector for vector, name in dims.items()}


def quote(text):
    return json.dumps(text)  # a TOML basic string is a JSON string


def block(text):
    """A TOML multi-line string."""
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    text = "".join(c if c == "\n" or c == "\t" or ord(c) >= 32 and ord(c) != 127
                   else f"\\u{ord(c):04x}" for c in text)
    return f'"""\n{text}"""'


def distribution(draw, key):
    if draw is None:
        return f'{{ kind = "file", key = {quote(key)} }}'
    number = lambda v: repr(float(v))
    if draw.kind == "constant":
        return f'{{ kind = "constant", value = {number(draw.a)} }}'
    if draw.kind == "normal":
        return f'{{ kind = "normal", mean = {number(draw.a)}, std = {number(draw.b)} }}'
    return f'{{ kind = "uniform", low = {number(draw.a)}, high = {number(draw.b)} }}'


# Relative L2 error of a row that a kernel of the class may have, from docs/trust.md, is scaled by
# the program itself; here only a tolerance that the module's own arithmetic needs is written.
def own_error(problem, case):
    """The module's own error against itself in fp64: largest relative L2 over rows, or None."""
    try:
        exact = problem.forward(case.instance, case.instance.inputs, seed=1, double=True)
    except (Broken, Refused):
        return None, None
    worst = 0.0
    for got, expected in zip(case.outputs, exact):
        if not got.is_floating_point():
            continue
        rows = lambda t: t.double().reshape(-1, t.shape[-1] if t.dim() else 1)
        scale = rows(expected).norm(dim=1).clamp_min(1e-300)
        worst = max(worst, ((rows(got) - rows(expected)).norm(dim=1) / scale).max().item())
    return worst, exact


def write_task(problem, cases, folder, name, notes, scale, alive):
    used = set()
    scored = cases[0]
    tensor_inputs = [i for i, v in enumerate(scored.instance.inputs)
                     if isinstance(v, torch.Tensor)]
    import inspect
    try:
        argument_names = list(inspect.signature(scored.instance.model.forward).parameters)
    except (TypeError, ValueError):
        argument_names = []
    given = names_of(problem, "inputs")
    if given:
        argument_names = given
    elif isinstance(problem, Foreign):
        argument_names = []
    tensor_names = [identifier(argument_names[i] if i < len(argument_names) else f"x{i}", used, "x")
                   for i in tensor_inputs]
    parameter_keys = list(scored.parameters())
    parameter_names = {key: identifier(key.replace(".", "_"), used, "p") for key in parameter_keys}
    many = len(scored.outputs) > 1
    said = names_of(problem, "outputs") or [f"out{i}" if many else "out"
                                            for i in range(len(scored.outputs))]
    output_names = [identifier(said[i], used, "out") for i in range(len(scored.outputs))]

    by_case = [case.instance.tensors() + list(case.parameters().values()) + case.outputs
               for case in cases]
    shapes, dims = name_dims(cases, by_case, used)

    kernels = {False: [], True: []}
    variants = {False: [], True: []}
    types = {False: set(), True: set()}
    for c, case in enumerate(cases):
        for reference in (False, True):
            texts, variant, kinds = lower(
                case.traced, tensor_names, lambda v, case=case: parameter_names[
                    case.parameter_name(v)],
                [(n, t.dtype) for n, t in zip(output_names, case.outputs)],
                f"{case.name}_", reference)
            if len(cases) > 1:
                variant = {"when": " && ".join(f"{d} == {v[c]}" for d, v in dims.items()),
                           **variant}
            kernels[reference] += texts
            variants[reference].append(variant)
            types[reference] |= kinds

    if not any(scored.instance.draws[i] is not None for i in tensor_inputs):
        notes.append("how its inputs are drawn was not recognised: they are the same in every check")
    data = {}
    lines = [
        "# Made by `grove import`; problem.py is the text it was made from.",
        f"name = {quote(name)}", f"title = {quote(title(problem, name, scale))}",
        'family = "imported"',
        f"contract = {block(contract(problem, cases, tensor_names, parameter_names, output_names))}",
        'baselines = ["torch_eager", "torch_compile"]',
        f"dims = [{', '.join(quote(d) for d in dims)}]",
        *(['reference = "live"'] if alive else []), ""]
    tensors = ([(n, "input", v.dtype) for n, v in zip(tensor_names, scored.instance.tensors())] +
               [(parameter_names[k], "input", p.dtype) for k, p in scored.parameters().items()] +
               [(n, "output", t.dtype) for n, t in zip(output_names, scored.outputs)])
    for (tensor, role, dtype), shape in zip(tensors, shapes):
        lines += ["[[tensor]]", f"name = {quote(tensor)}", f'role = "{role}"',
                  f'dtype = "{NAMES[dtype]}"',
                  f"shape = [{', '.join(quote(s) if isinstance(s, str) else str(s) for s in shape)}]",
                  ""]
    golden = []
    for c, case in enumerate(cases):
        entries = []
        for name_, index in zip(tensor_names, tensor_inputs):
            key = f"{case.name}/{name_}"
            draw = case.instance.draws[index]
            if draw is None:
                data[key] = case.instance.inputs[index]
            entries.append((name_, distribution(draw, key)))
        for key_, value in case.parameters().items():
            key = f"{case.name}/{parameter_names[key_]}"
            data[key] = value
            entries.append((parameter_names[key_], distribution(None, key)))
        error, _ = own_error(problem, case)
        if alive and error is None:
            raise Refused("PyTorch cannot run it in fp64, so it cannot be a live reference")
        lines += case_lines(case.name, case.role, dims, c, case, entries, error)
        if case.role != "scored" or len(cases) == 1:
            for seed in _GOLDEN_SEEDS:
                golden += golden_lines(problem, case, c, seed, dims, tensor_names, tensor_inputs,
                                       output_names, parameter_names, data, notes)
    lines += golden
    with open(os.path.join(folder, "task.toml"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    for reference, stem in ((True, "reference"), (False, "seed")):
        with open(os.path.join(folder, f"{stem}.cu"), "w", encoding="utf-8") as file:
            what = ("// The module's operations one by one, in fp64.\n" if reference else
                    "// The module's operations one by one, each a simple kernel.\n")
            file.write(what + source(kernels[reference], reference, types[reference]))
        with open(os.path.join(folder, f"{stem}.json"), "w", encoding="utf-8") as file:
            if len(cases) == 1:
                plan = {"version": 1, **variants[reference][0]}
            else:
                plan = {"version": 1, "variants": variants[reference]}
            json.dump(plan, file, indent=1)
    if data:
        safetensors_file.save(os.path.join(folder, "data.safetensors"), data)
    with open(os.path.join(folder, "problem.py"), "w", encoding="utf-8") as file:
        file.write(problem.text)
    if isinstance(problem, GpuMode):
        problem.keep(os.path.join(folder, live.SOURCE))
    form = ("flashinfer" if isinstance(problem, FlashInfer) else
            "gpumode" if isinstance(problem, Foreign) else "kernelbench")
    with open(os.path.join(folder, "problem.json"), "w", encoding="utf-8") as file:
        json.dump(live.describe(problem, form, cases, tensor_names, parameter_names, output_names),
                  file, indent=1)


def case_lines(name, role, dims, c, case, entries, error, extra=()):
    lines = ["[[case]]", f"name = {quote(name)}", f'role = "{role}"',
             "dims = { " + ", ".join(f"{d} = {v[c]}" for d, v in dims.items()) + " }",
             f"flops = {max(1, case.flops)}", f"reduction = {max(1, case.reduction)}"]
    if error is not None and error > 2e-7 and case.outputs[0].dtype in (torch.float32,
                                                                        torch.float64):
        lines += [f"# The module's own fp32 arithmetic has an error of {error:.2g} here.",
                  f"tolerance = {max(8 * error, 2e-6):.3g}"]
    lines += [f"inputs = {{ {', '.join(f'{n} = {d}' for n, d in entries)} }}", *extra, ""]
    return lines


def golden_lines(problem, case, c, seed, dims, input_names, tensor_inputs, output_names,
                 parameter_names, data, notes):
    """A check case with the outputs that PyTorch itself computed in fp64."""
    inputs = problem.run("get_inputs", lambda: case.instance.redraw(seed))
    try:
        outputs = problem.forward(case.instance, inputs, seed=1, double=True)
        precise = True
    except (Broken, Refused) as error:
        outputs = problem.forward(case.instance, inputs, seed=1)
        precise = False
        note = f"PyTorch cannot run the module in fp64 ({error}); golden outputs are its own"
        if note not in notes:
            notes.append(note)
    if [tuple(t.shape) for t in outputs] != [tuple(t.shape) for t in case.outputs]:
        raise Refused("the shapes of its outputs depend on the values of its inputs")
    name = f"golden_{case.name}_{seed - 1000}"
    entries = []
    for tensor, index in zip(input_names, tensor_inputs):
        data[f"{name}/{tensor}"] = inputs[index]
        entries.append((tensor, distribution(None, f"{name}/{tensor}")))
    for key in case.parameters():
        entries.append((parameter_names[key],
                        distribution(None, f"{case.name}/{parameter_names[key]}")))
    golden = []
    for tensor, value in zip(output_names, outputs):
        data[f"{name}/{tensor}"] = value.double()
        golden.append(f"{tensor} = {quote(f'{name}/{tensor}')}")
    error, _ = own_error(problem, case) if precise else (None, None)
    if not precise:
        error = 1e-5
    return case_lines(name, "sweep", dims, c, case, entries, error,
                      [f"golden = {{ {', '.join(golden)} }}"])


def title(problem, name, scale):
    if isinstance(problem, Foreign):
        return problem.title
    text = f"PyTorch module of {problem.name}"
    return text + (f", sizes divided by {scale}" if scale > 1 else "")


def contract(problem, cases, input_names, parameter_names, output_names):
    scored = cases[0]
    say = lambda t: f"{NAMES[t.dtype]} {tuple(shape_of(t))}"
    lines = ["The operation is the forward pass of this PyTorch module, as it is after construction",
             "(training mode unless the module says otherwise), with the parameters given as inputs:",
             "", problem.text.rstrip(), ""]
    if isinstance(problem, Foreign):
        lines = [*problem.intro, "", "The operation is the function " +
                 ("run" if isinstance(problem, FlashInfer) else "ref_kernel") + " of this text:", "",
                 problem.text.rstrip(), ""] + ([f"The competition is {problem.ranking}.", ""]
                                               if problem.ranking else [])
    lines.append("Tensors of the first scored case, row-major and contiguous:")
    tensors = scored.instance.tensors()
    lines += [f"  {n}: {say(t)}, input" for n, t in zip(input_names, tensors)]
    lines += [f"  {parameter_names[k]}: {say(p)}, parameter {k} of the module"
              for k, p in scored.parameters().items()]
    lines += [f"  {n}: {say(t)}, output" for n, t in zip(output_names, scored.outputs)]
    scalars = [v for v in scored.instance.inputs if not isinstance(v, torch.Tensor)]
    if scalars:
        lines.append(f"Other arguments of forward, in order, are fixed: {scalars!r}.")
    if any(t.dim() and not t.is_contiguous() for t in tensors):
        lines.append("Inputs that are views in get_inputs() arrive as contiguous copies.")
    lines += ["Every output element is written; inputs are not changed.", ""]
    return "\n".join(lines)


def make(job):
    """One problem, in a process of its own."""
    torch.set_num_threads(1)
    confine.limit_files(8 << 30)
    notes = []
    if not confine.drop_network():
        notes.append("the network could not be taken from the module on this machine")
    warm_up()
    scale = job.get("scale", 1)
    try:
        kind = job.get("kind", "kernelbench")
        if kind == "kernelbench":
            problem = Problem(job["problem"])
            cases, more = pick_cases(problem, scale)
        else:
            problem = (GpuMode(job["problem"]) if kind == "gpumode"
                       else FlashInfer(job["problem"], job.get("workloads")))
            cases, more = given_cases(problem)
        notes += more
        write_task(problem, cases, job["folder"], job["name"], notes, scale, job.get("live", False))
        result = {"status": "ok", "reason": "", "notes": notes, "cases": [c.name for c in cases]}
    except Refused as error:
        result = {"status": "refused", "reason": str(error), "notes": notes}
    except Broken as error:
        result = {"status": "broken", "reason": str(error), "notes": notes}
    except Unsupported as error:
        result = {"status": "unsupported", "reason": str(error), "notes": notes}
    except MemoryError:
        result = {"status": "broken", "reason": "it needs more memory than it may have",
                  "notes": notes}
    tell(job, result)


def tell(job, result):
    path = os.path.join(job["folder"], "import.json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(result, file)
    os.replace(path + ".new", path)


def start(job):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setsid()
        confine.end_with_parent()
        make(job)
        code = 0
    except BaseException as error:  # ours: said, not lost
        tell(job, {"status": "broken", "notes": [],
                   "reason": f"the importer failed: {type(error).__name__}: {error}"[:500]})
    finally:
        os._exit(code)


def end(job, deadline, waited):
    """What is said of a problem whose process ended without a word."""
    if os.path.exists(os.path.join(job["folder"], "import.json")):
        return
    if waited is None:
        reason = f"it ran longer than {deadline} s (--deadline)"
    elif os.WIFSIGNALED(waited):
        number = os.WTERMSIG(waited)
        reason = f"its process was killed by {signal.Signals(number).name}" + (
            ", perhaps for want of memory" if number == signal.SIGKILL else "")
    else:
        reason = f"its process ended itself with exit code {os.WEXITSTATUS(waited)}"
    tell(job, {"status": "broken", "reason": reason, "notes": []})


def stop(child):
    for kill in (os.killpg, os.kill):
        try:
            kill(child, signal.SIGKILL)
        except OSError:
            pass


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        work = json.load(file)
    waiting, running = list(reversed(work["problems"])), {}
    while waiting or running:
        while waiting and len(running) < work["jobs"]:
            job = waiting.pop()
            running[start(job)] = (job, time.monotonic() + work["deadline"])
        for child, (job, until) in list(running.items()):
            pid, waited = os.waitpid(child, os.WNOHANG)
            if pid == 0 and time.monotonic() < until:
                continue
            stop(child)  # also what it left behind
            if pid == 0:
                os.waitpid(child, 0)
            end(job, work["deadline"], waited if pid else None)
            del running[child]
        time.sleep(0.01)


if __name__ == "__main__":
    main()
