"""Problems that bring their own cases: GPU MODE task folders and flashinfer-bench definitions.

Both become what problem.Problem is: a text, instances with modules and inputs, and forward(). The
module is a wrapper around the foreign reference function.
"""

import contextlib
import copy
import json
import math
import os
import sys
import types

import torch
from torch.overrides import TorchFunctionMode

import draws
from confine import NOWHERE, Fence
from problem import Broken, Instance, Problem, Refused, flatten

_MAX_TEXT = 4 << 20       # bytes of a foreign file
_MAX_CASES = 32
_MAX_FILES = 64           # Python files beside a competition's reference
_DEFAULT_AXIS = 64        # of a variable axis when no workload says its size
DTYPES = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16,
          "bfloat16": torch.bfloat16, "int64": torch.int64, "int32": torch.int32,
          "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool}


class OnCpu(TorchFunctionMode):
    """Tensors that a reference asks for on a GPU are made here."""

    def __torch_function__(self, func, types_, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if _is_gpu(kwargs.get("device")):
            kwargs["device"] = "cpu"
        name = getattr(func, "__name__", "")
        if name == "cuda":
            return args[0]
        if name in ("to", "empty", "zeros", "ones"):
            args = tuple("cpu" if _is_gpu(a) else a for a in args)
        return func(*args, **kwargs)


def _is_gpu(device):
    return isinstance(device, (str, torch.device)) and str(device).startswith("cuda")


def without_gpu():
    """For the rest of this process: what asks for a GPU gets the CPU."""
    generator = torch.Generator
    torch.Generator = lambda device="cpu": generator("cpu")
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.empty_cache = lambda: None


def read(path, what):
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_TEXT + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise Broken(f"{what}: {error}") from None
    if len(text) > _MAX_TEXT:
        raise Broken(f"{what}: larger than {_MAX_TEXT >> 20} MiB")
    return text


def label(text):
    return "".join(c if c.isalnum() and c.isascii() or c in "_." else "_" for c in text)[:48]


class Function(torch.nn.Module):
    """A foreign function as a module over the flat list of its arguments, without those that it only
    writes to: `places` has their index, shape and type (fp64 when the others are)."""

    def __init__(self, function, tree, places, where):
        super().__init__()
        self.function, self.tree, self.places, self.where = function, tree, places, where

    def arguments(self, values):
        values = list(values)
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        device = tensors[0].device if tensors else None
        double = any(v.dtype == torch.float64 for v in tensors)
        for index, shape, dtype in self.places:
            kind = torch.float64 if double and dtype.is_floating_point else dtype
            values.insert(index, torch.zeros(shape, dtype=kind, device=device))
        return rebuild(self.tree, iter(values))

    def forward(self, *values):
        with self.where():
            return self.function(self.arguments(values))

    def __deepcopy__(self, _):
        return self  # it has no state


def take_apart(value, leaves):
    """The structure of nested arguments; its tensors and scalars go to `leaves`."""
    if isinstance(value, (tuple, list)):
        return (type(value), [take_apart(v, leaves) for v in value])
    if isinstance(value, dict):
        return (dict, [(k, take_apart(v, leaves)) for k, v in value.items()])
    leaves.append(value)
    return None


def rebuild(tree, values):
    if tree is None:
        return next(values)
    kind, parts = tree
    if kind is dict:
        return {key: rebuild(part, values) for key, part in parts}
    return kind(rebuild(part, values) for part in parts) if kind in (tuple, list) else kind(
        *[rebuild(part, values) for part in parts])


def written_places(function, tree, inputs, where):
    """The tensors among the arguments that the function writes its results to."""
    given = [v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]
    with torch.no_grad(), where():
        function(rebuild(tree, iter(given)))
    return [(i, tuple(old.shape), old.dtype) for i, (old, new) in enumerate(zip(inputs, given))
            if isinstance(old, torch.Tensor) and not torch.equal(torch.nan_to_num(old.double()),
                                                                 torch.nan_to_num(new.double()))]


class Foreign(Problem):
    """`cases`: [(name, role, axes)]; `notes`: what a user should know. `device`: "cpu", where what
    asks for a GPU gets the CPU, or "cuda", where it gets what it asks for."""

    def __init__(self, path, text, device="cpu", fenced=True):
        self.path, self.name, self.text = path, os.path.basename(path), text
        self.fenced, self.device = fenced, device
        self.sizes, self.notes, self.cases = {}, [], []
        sys.pycache_prefix = NOWHERE
        if device == "cpu":
            without_gpu()

    def where(self):
        return OnCpu() if self.device == "cpu" else contextlib.nullcontext()

    def instance(self, axes, function, make, seed):
        """make(seed) -> the arguments as the foreign function takes them."""
        def record():
            leaves = []
            torch.manual_seed(seed)
            with self.where():
                tree = take_apart(make(seed), leaves)
            self._tree = tree
            return leaves

        def without_places(values, places):
            written = {index for index, _, _ in places}
            return [v for i, v in enumerate(values) if i not in written]

        def built():
            inputs, drawn = draws.record(record)
            places = written_places(function, self._tree, inputs, self.where)
            inputs, drawn = without_places(inputs, places), without_places(drawn, places)
            for value in inputs:
                if not isinstance(value, (torch.Tensor, int, float, bool, str, type(None))):
                    raise Refused(f"an input is a {type(value).__name__}; only tensors and numbers "
                                  "can be inputs of a task")

            def redraw(again):
                leaves = []
                torch.manual_seed(again)
                with self.where():
                    take_apart(make(again), leaves)
                return without_places(leaves, places)

            return Instance({k: v for k, v in axes.items() if isinstance(v, int)},
                            Function(function, self._tree, places, self.where), inputs, drawn,
                            redraw, seed)

        return self.run("making the inputs", built)


# --- GPU MODE -------------------------------------------------------------------------------------


class GpuMode(Foreign):
    """task.yml and reference.py (generate_input, ref_kernel, check_implementation)."""

    def __init__(self, folder, device="cpu", fenced=True):
        reference = os.path.join(folder, "reference.py")
        super().__init__(reference, read(reference, "reference.py"), device, fenced)
        self.task = self._task(read(os.path.join(folder, "task.yml"), "task.yml"))
        around = [os.path.join(where, name) for where in (folder, os.path.dirname(folder))
                  for name in sorted(os.listdir(where)) if name.endswith(".py")]
        self.around = around
        sys.path[0:0] = [folder, os.path.dirname(folder)]
        self.fence = Fence(reference, files=around)
        self.run("reading reference.py", self._load)
        self.title = f"GPU MODE task {os.path.basename(folder)}"
        self.intro = [str(self.task.get("description") or "").strip()]
        self._ranking()

    @staticmethod
    def _task(text):
        try:
            import yaml
        except ImportError:
            raise Broken("task.yml: reading it needs the Python package yaml (python3-yaml)") from None
        try:
            task = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise Broken("task.yml: " + " ".join(str(error).split())[:300]) from None
        if not isinstance(task, dict):
            raise Broken("task.yml: expected a table at its top")
        for key in ("tests", "benchmarks"):
            if not isinstance(task.get(key), list) or not task[key] or not all(
                    isinstance(spec, dict) for spec in task[key]):
                raise Broken(f"task.yml: '{key}' is no list of tables")
        return task

    def _load(self):
        if "utils" not in sys.modules and not any(
                os.path.exists(os.path.join(p, "utils.py")) for p in sys.path[:2]):
            sys.modules["utils"] = own_utils(self.device)
        self.scope = {"__name__": "reference", "__file__": "reference.py"}
        with self.where():
            exec(compile(self.text, self.name, "exec"), self.scope)
        for needed in ("generate_input", "ref_kernel", "check_implementation"):
            if not callable(self.scope.get(needed)):
                raise Broken(f"reference.py: no {needed}()")

    def _ranking(self):
        rule = str(self.task.get("ranking_by", "geom"))
        tests, benchmarks = self.task["tests"], self.task["benchmarks"]
        scored = benchmarks[-1:] if rule == "last" else benchmarks
        self.ranking = f"ranked by {rule} over {len(scored)} of {len(benchmarks)} benchmarks"
        if rule == "mean":
            self.notes.append("the competition ranks by the arithmetic mean of times; this task by "
                              "the geometric mean, so that no case drowns the others")
        elif rule not in ("geom", "last"):
            self.notes.append(f"ranking_by {rule!r} is not known; the geometric mean is taken")
        for spec in scored:
            self.cases.append(("bench", "scored", spec))
        for i, spec in enumerate(tests):
            self.cases.append(("test", "smoke" if i == 0 else "sweep", spec))
        for spec in benchmarks:
            if spec not in scored:
                self.cases.append(("bench", "extra", spec))
        self.cases = self.cases[:_MAX_CASES]

    def make(self, spec, seed=None):
        def draw(again):
            given = dict(spec)
            if "seed" in given and seed is not None:
                given["seed"] = again
            return self.scope["generate_input"](**given)

        return self.instance(spec, lambda data: self.scope["ref_kernel"](data), draw,
                             seed if seed is not None else spec.get("seed", 42))

    def keep(self, folder):
        """What it takes to run the reference again: task.yml, reference.py and the Python files
        beside them, or one folder up where these have no other of that name."""
        os.mkdir(folder)
        texts = {"task.yml": read(os.path.join(os.path.dirname(self.path), "task.yml"), "task.yml")}
        for path in self.around[:_MAX_FILES]:
            name = os.path.basename(path)
            if name not in texts and name != "submission.py":
                texts[name] = read(path, name)
        for name, text in texts.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)

    def check(self, instance):
        """Whether its own check takes the reference's outputs and refuses zeros."""
        def judge(outputs):
            data = instance.model.arguments(
                [v.clone() if isinstance(v, torch.Tensor) else v for v in instance.inputs])
            with self.where():
                verdict = self.scope["check_implementation"](data, outputs)
            if isinstance(verdict, tuple):
                verdict = verdict[0]
            return verdict is True or verdict == "" or verdict == []

        right = self.run("ref_kernel", lambda: instance.model(*copy.deepcopy(instance.inputs)))
        if not self.run("check_implementation", lambda: judge(right)):
            raise Refused("check_implementation refuses the reference's own outputs")
        zeros = [torch.zeros_like(t) for t in flatten(right)]
        nothing = zeros[0] if isinstance(right, torch.Tensor) else type(right)(zeros)
        if self.run("check_implementation", lambda: judge(nothing)):
            self.notes.append("its own check_implementation takes zeros for right; this task does not")


def own_utils(device):
    """What reference files import from the competition's utils.py, in our words."""
    module = types.ModuleType("utils")

    def allclose(got, expected, rtol=1e-5, atol=1e-8, max_print=5):
        if got.shape != expected.shape:
            return [f"shape {tuple(got.shape)}, expected {tuple(expected.shape)}"]
        good = torch.isclose(got.double(), expected.double(), rtol=rtol, atol=atol, equal_nan=True)
        return [] if good.all() else [f"{int((~good).sum())} elements differ"]

    def match(data, output, reference=None, rtol=1e-5, atol=1e-8):
        reasons = allclose(output, reference(data), rtol, atol)
        return (not reasons, " ".join(reasons))

    def make(reference, **limits):
        return lambda data, output: match(data, output, reference=reference, **limits)

    module.verbose_allclose, module.verbose_allequal = allclose, allclose
    module.match_reference, module.make_match_reference = match, make
    module.set_seed = torch.manual_seed
    module.get_device = lambda use_cuda=True: torch.device(device)

    class DeterministicContext:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

    module.DeterministicContext = DeterministicContext
    return module


# --- flashinfer-bench -----------------------------------------------------------------------------


class FlashInfer(Foreign):
    """A definition, and the workloads of a JSONL file."""

    def __init__(self, path, workloads):
        definition = self._json(read(path, "definition"), "definition")
        for key, kind in (("name", str), ("axes", dict), ("inputs", dict), ("outputs", dict),
                          ("reference", str)):
            if not isinstance(definition.get(key), kind):
                raise Broken(f"definition: '{key}' is missing or no {kind.__name__}")
        super().__init__(path, definition["reference"])
        self.name = f"{definition['name']}.py"
        self.definition = definition
        self.folder = os.path.dirname(os.path.abspath(workloads or path))
        self.fence = Fence(path, files=[])
        self.scope = {"__name__": "reference", "__file__": self.name}
        self.run("reading the reference", lambda: exec(
            compile(self.text, self.name, "exec"), self.scope))
        if not callable(self.scope.get("run")):
            raise Broken("definition: the reference defines no run()")
        for part in ("inputs", "outputs"):
            for name, entry in definition[part].items():
                if not isinstance(entry, dict) or "shape" not in entry or "dtype" not in entry:
                    raise Broken(f"definition: {part} {name} lacks shape or dtype")
                if entry["dtype"] not in DTYPES:
                    raise Refused(f"{part} {name} is {entry['dtype']}, a type that tasks do not have")
                for axis in entry["shape"] or []:
                    if axis not in definition["axes"]:
                        raise Broken(f"definition: {name} has the axis {axis}, which is not declared")
        self.title = f"flashinfer-bench definition {definition['name']}"
        self.intro = [str(definition.get("description") or "").strip(),
                      *[f"Constraint: {c}" for c in definition.get("constraints") or []]]
        self.ranking = ""
        self._workloads(workloads)

    @staticmethod
    def _json(text, what):
        try:
            value = json.loads(text)
        except ValueError as error:
            raise Broken(f"{what}: not JSON: {error}") from None
        if not isinstance(value, dict):
            raise Broken(f"{what}: expected an object")
        return value

    def _workloads(self, path):
        variable = [n for n, a in self.definition["axes"].items() if a.get("type") == "var"]
        found = []
        if path is None:
            found.append({"uuid": "default", "axes": {n: _DEFAULT_AXIS for n in variable},
                          "inputs": {}})
            if variable:
                self.notes.append("no workloads: variable axes (" + ", ".join(variable) +
                                  f") are {_DEFAULT_AXIS} in the scored case")
        else:
            for number, line in enumerate(read(path, "workloads").splitlines(), 1):
                if not line.strip():
                    continue
                entry = self._json(line, f"workloads, line {number}")
                workload = entry.get("workload", entry)
                if entry.get("definition", self.definition["name"]) != self.definition["name"]:
                    continue
                if not isinstance(workload, dict) or not isinstance(workload.get("axes"), dict):
                    raise Broken(f"workloads, line {number}: no axes")
                missing = [n for n in variable if not isinstance(workload["axes"].get(n), int) or
                           not 0 < workload["axes"][n] < 1 << 31]
                if missing:
                    raise Broken(f"workloads, line {number}: no size for axis {missing[0]}")
                found.append(workload)
            if not found:
                raise Broken(f"workloads: none for {self.definition['name']}")
        for workload in found[:_MAX_CASES]:
            self.cases.append((label(str(workload.get("uuid", "w"))[:12]), "scored", workload))
        if len(found) > _MAX_CASES:
            self.notes.append(f"{len(found) - _MAX_CASES} further workloads are left out")
        # Check cases: the first workload with variable axes made small.
        for name, role, sizes in (("small", "smoke", (2, 4, 1)), ("odd", "sweep", (3, 5, 7))):
            if variable:
                axes = {n: min(found[0]["axes"][n], sizes[i % 3]) for i, n in enumerate(variable)}
                inputs = {n: v for n, v in (found[0].get("inputs") or {}).items()
                          if v.get("type") != "safetensors"}
                self.cases.append((name, role, {"axes": axes, "inputs": inputs}))

    def size_of(self, axis, axes):
        declared = self.definition["axes"][axis]
        if declared.get("type") == "const":
            value = declared.get("value")
            if not isinstance(value, int) or value < 1:
                raise Broken(f"definition: axis {axis} has no value")
            return value
        return axes[axis]

    def make(self, workload, seed=None):
        axes = {n: self.size_of(n, workload["axes"]) for n in self.definition["axes"]}

        def draw(again):
            values = []
            for name, entry in self.definition["inputs"].items():
                how = (workload.get("inputs") or {}).get(name, {"type": "random"})
                values.append(self._input(name, entry, how, axes))
            return tuple(values)

        return self.instance(axes, lambda values: self._call(values), draw,
                             42 if seed is None else seed)

    def _call(self, values):
        result = self.scope["run"](*values)
        if isinstance(result, dict):
            return tuple(result[name] for name in self.definition["outputs"])
        return result

    def _input(self, name, entry, how, axes):
        dtype, kind = DTYPES[entry["dtype"]], how.get("type", "random")
        if entry["shape"] is None:
            if "value" not in how:
                raise Broken(f"input {name} is a scalar, and the workload gives no value")
            return how["value"]
        shape = [axes[a] for a in entry["shape"]]
        if kind == "scalar":
            return torch.full(shape, how["value"], dtype=dtype)
        if kind == "safetensors":
            return self._stored(name, how, shape, dtype)
        if dtype.is_floating_point:
            return torch.randn(shape).to(dtype)
        return torch.randint(0, 2, shape).to(dtype)

    def _stored(self, name, how, shape, dtype):
        import safetensors_file
        path = os.path.realpath(os.path.join(self.folder, str(how.get("path", ""))))
        if not path.startswith(os.path.realpath(self.folder) + os.sep):
            raise Refused(f"input {name}: its file lies outside the folder of the workloads")
        try:
            self.fence.allow(path)
            tensor = safetensors_file.load(path, how.get("tensor_key"))
        except (OSError, ValueError, KeyError) as error:
            raise Broken(f"input {name}: {how.get('path')}: {error}") from None
        if list(tensor.shape) != shape or tensor.dtype != dtype:
            raise Broken(f"input {name}: {how.get('path')} has shape {list(tensor.shape)} and type "
                         f"{tensor.dtype}; the definition says {shape} and {dtype}")
        return tensor

    def check(self, instance):
        outputs = self.forward(instance, instance.inputs, seed=1)
        declared = self.definition["outputs"]
        if len(outputs) != len(declared):
            raise Broken(f"run() returns {len(outputs)} tensors; the definition has {len(declared)}")
        for got, (name, entry) in zip(outputs, declared.items()):
            shape = [self.size_of(a, instance.sizes) for a in entry["shape"] or []]
            if list(got.shape) != shape or got.dtype != DTYPES[entry["dtype"]]:
                raise Broken(f"output {name} is {list(got.shape)} {got.dtype}; the definition says "
                             f"{shape} {entry['dtype']}")


def names_of(problem, part):
    """Names of the flat "inputs" or "outputs", or None when the foreign form has none."""
    return list(problem.definition[part]) if isinstance(problem, FlashInfer) else None
