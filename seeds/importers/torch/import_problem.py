"""Makes a task folder of a PyTorch problem file. Run by `grove import kernelbench`.

    import_problem.py PROBLEM.py FOLDER --name NAME [--scale N]

FOLDER must exist and be empty. The last thing written is FOLDER/import.json:
{"status": "ok" | "refused" | "broken", "reason": "...", "notes": ["..."]}.
"""

import argparse
import copy
import json
import keyword
import math
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch

import confine
import safetensors_file
from lower import NAMES, Unsupported
from problem import Broken, Problem, Refused, check_fair, shrunk
from trace import lower, source, trace

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
    def __init__(self, name, role, problem, instance):
        self.name, self.role, self.instance = name, role, instance
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


def write_task(problem, cases, folder, name, notes, scale):
    used = set()
    scored = cases[0]
    tensor_inputs = [i for i, v in enumerate(scored.instance.inputs)
                     if isinstance(v, torch.Tensor)]
    import inspect
    try:
        argument_names = list(inspect.signature(scored.instance.model.forward).parameters)
    except (TypeError, ValueError):
        argument_names = []
    input_names = [identifier(argument_names[i] if i < len(argument_names) else f"x{i}", used, "x")
                   for i in tensor_inputs]
    parameter_keys = list(scored.parameters())
    parameter_names = {key: identifier(key.replace(".", "_"), used, "p") for key in parameter_keys}
    many = len(scored.outputs) > 1
    output_names = [identifier(f"out{i}" if many else "out", used, "out")
                    for i in range(len(scored.outputs))]

    by_case = [case.instance.tensors() + list(case.parameters().values()) + case.outputs
               for case in cases]
    shapes, dims = name_dims(cases, by_case, used)

    kernels = {False: [], True: []}
    variants = {False: [], True: []}
    types = {False: set(), True: set()}
    for c, case in enumerate(cases):
        for reference in (False, True):
            texts, variant, kinds = lower(
                case.traced, input_names, lambda v, case=case: parameter_names[
                    case.parameter_name(v)],
                [(n, t.dtype) for n, t in zip(output_names, case.outputs)],
                f"{case.name}_", reference)
            if len(cases) > 1:
                variant = {"when": " && ".join(f"{d} == {v[c]}" for d, v in dims.items()),
                           **variant}
            kernels[reference] += texts
            variants[reference].append(variant)
            types[reference] |= kinds

    data = {}
    lines = [
        "# Made by `grove import kernelbench`; problem.py is the module it was made from.",
        f"name = {quote(name)}", f"title = {quote(title(problem, name, scale))}",
        'family = "imported"',
        f"contract = {block(contract(problem, cases, input_names, parameter_names, output_names))}",
        f"dims = [{', '.join(quote(d) for d in dims)}]", ""]
    tensors = ([(n, "input", v.dtype) for n, v in zip(input_names, scored.instance.tensors())] +
               [(parameter_names[k], "input", p.dtype) for k, p in scored.parameters().items()] +
               [(n, "output", t.dtype) for n, t in zip(output_names, scored.outputs)])
    for (tensor, role, dtype), shape in zip(tensors, shapes):
        lines += ["[[tensor]]", f"name = {quote(tensor)}", f'role = "{role}"',
                  f'dtype = "{NAMES[dtype]}"',
                  f"shape = [{', '.join(quote(s) if isinstance(s, str) else str(s) for s in shape)}]",
                  ""]
    lines += ["[cost]", "flops = 0", ""]
    golden = []
    for c, case in enumerate(cases):
        entries = []
        for name_, index in zip(input_names, tensor_inputs):
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
        lines += case_lines(case.name, case.role, dims, c, case, entries, error)
        if case.role != "scored" or len(cases) == 1:
            for seed in _GOLDEN_SEEDS:
                golden += golden_lines(problem, case, c, seed, dims, input_names, tensor_inputs,
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


def case_lines(name, role, dims, c, case, entries, error, extra=()):
    lines = ["[[case]]", f"name = {quote(name)}", f'role = "{role}"',
             "dims = { " + ", ".join(f"{d} = {v[c]}" for d, v in dims.items()) + " }",
             f"flops = {case.flops}", f"reduction = {max(1, case.reduction)}"]
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
    text = f"PyTorch module of {problem.name}"
    return text + (f", sizes divided by {scale}" if scale > 1 else "")


def contract(problem, cases, input_names, parameter_names, output_names):
    scored = cases[0]
    say = lambda t: f"{NAMES[t.dtype]} {tuple(shape_of(t))}"
    lines = ["The operation is the forward pass of this PyTorch module, as it is after construction",
             "(training mode unless the module says otherwise), with the parameters given as inputs:",
             "", problem.text.rstrip(), "",
             "Tensors of the scored case, row-major and contiguous:"]
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("problem")
    parser.add_argument("folder")
    parser.add_argument("--name", required=True)
    parser.add_argument("--scale", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(max(1, min(4, os.cpu_count() or 1)))
    confine.limit_files(8 << 30)
    notes = []
    if not confine.drop_network():
        notes.append("the network could not be taken from the module on this machine")
    try:
        problem = Problem(options.problem)
        cases, more = pick_cases(problem, options.scale)
        notes += more
        write_task(problem, cases, options.folder, options.name, notes, options.scale)
        result = {"status": "ok", "reason": "", "notes": notes,
                  "cases": [c.name for c in cases]}
    except Refused as error:
        result = {"status": "refused", "reason": str(error), "notes": notes}
    except Broken as error:
        result = {"status": "broken", "reason": str(error), "notes": notes}
    except Unsupported as error:
        result = {"status": "unsupported", "reason": str(error), "notes": notes}
    with open(os.path.join(options.folder, "import.json"), "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
