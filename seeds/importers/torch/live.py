"""The module that a task was imported from, alive: a callable per case, on any device, in the
module's own types or in fp64. Used by scripts/torch_baseline.py (its time), scripts/live_check.py
and live_reference.py (its outputs, for inputs with fresh seeds).

Reads what the import left in the task's folder: problem.py (the text) or, of a competition, source/
with task.yml and reference.py; problem.json (which sizes or tests a case has, which arguments are
tensors of the task); data.safetensors (parameters and stored inputs). Without `fenced` the module
runs outside of the importer's fence, because torch.compile writes files and starts programs: whoever
asks for that runs the file as their own.
"""

import functools
import json
import os

import torch

import safetensors_file
from problem import Problem, flatten

VERSION = 2
SOURCE = "source"  # folder with a competition's own files


class NotAlive(Exception):
    """The folder has no module that could be asked; the text says why."""


def describe(problem, form, cases, tensor_names, parameter_names, output_names):
    """The contents of problem.json. `cases`: import_problem.Case."""
    names = iter(tensor_names)
    arguments = [{"tensor": next(names)} if isinstance(value, torch.Tensor) else {"value": value}
                 for value in cases[0].instance.inputs]
    entries = {}
    for case in cases:
        shapes = [list(t.shape) for t in case.instance.tensors()]
        entries[case.name] = {"sizes": case.instance.sizes, "seed": case.instance.seed,
                              "shapes": dict(zip(tensor_names, shapes))}
        if form == "gpumode":
            entries[case.name]["spec"] = case.spec
    return {"version": VERSION, "form": form, "arguments": arguments,
            "parameters": {name: key for key, name in parameter_names.items()},
            "outputs": output_names, "cases": entries}


class Live:
    """`folder`: of the task. NotAlive when it was not imported."""

    def __init__(self, folder, device="cpu", fenced=False):
        self.folder, self.device, self.fenced = folder, device, fenced
        path = os.path.join(folder, "problem.json")
        try:
            with open(path, encoding="utf-8") as file:
                self.facts = json.load(file)
        except OSError:
            raise NotAlive(f"{path} is missing: no imported task, or one of an older grove "
                           "(import it again with --replace)") from None
        except ValueError as error:
            raise NotAlive(f"{path}: {error}") from None
        if not isinstance(self.facts, dict) or self.facts.get("version") != VERSION:
            raise NotAlive(f"{path}: of another version of grove (import it again with --replace)")
        self.arguments = [a["tensor"] for a in self.facts["arguments"] if "tensor" in a]

    @functools.cached_property
    def problem(self):
        if self.facts["form"] == "gpumode":
            from foreign import GpuMode
            return GpuMode(os.path.join(self.folder, SOURCE), self.device, self.fenced)
        return Problem(os.path.join(self.folder, "problem.py"), self.fenced)

    def stored(self, key):
        return safetensors_file.load(os.path.join(self.folder, "data.safetensors"), key)

    def shaped(self, case, name, tensor):
        """A tensor of the task in the shape that the module knows: a number has no axis there."""
        return tensor.reshape(self._entry(case)["shapes"][name])

    def function(self, case, double=False):
        """A function of the tensors `arguments`, in order; gives its outputs."""
        entry, form = self._entry(case), self.facts["form"]
        if form == "kernelbench":
            call = self._module(case, entry, double)
        elif form == "gpumode":
            call = self.problem.make(entry["spec"]).model
        else:
            call = self._run()
        given = self.facts["arguments"]
        if all("tensor" in a for a in given):
            return call  # the module itself, for torch.compile

        def function(*tensors):
            rest = iter(tensors)
            return call(*[next(rest) if "tensor" in a else a["value"] for a in given])

        return function

    def _entry(self, case):
        entry = self.facts["cases"].get(case)
        if entry is None:
            raise NotAlive(f"case {case} is none of {', '.join(self.facts['cases'])}")
        return entry

    def _module(self, case, entry, double):
        problem = self.problem
        same = lambda a, b: (tuple(a) if isinstance(a, (list, tuple)) else a) == (
            tuple(b) if isinstance(b, (list, tuple)) else b)
        sizes = {name: type(problem.sizes[name])(value) for name, value in entry["sizes"].items()
                 if name in problem.sizes and not same(problem.sizes[name], value)}
        module = problem.module(sizes, entry["seed"])
        own = dict(module.named_parameters())
        own.update(module.named_buffers())
        with torch.no_grad():
            for name, key in self.facts["parameters"].items():
                if key in own:
                    own[key].copy_(self.stored(f"{case}/{name}"))
        module = module.to(self.device)
        return module.double() if double else module

    def _run(self):
        scope = {"__name__": "reference", "__file__": "problem.py"}
        self.problem.run("reading the reference", lambda: exec(
            compile(self.problem.text, "problem.py", "exec"), scope))
        names = self.facts["outputs"]

        def call(*tensors):
            result = scope["run"](*tensors)
            if isinstance(result, dict) and set(result) == set(names):
                return tuple(result[name] for name in names)
            return result

        return call


def outputs(function, *tensors):
    """What the function gives, as a flat list, without gradients."""
    with torch.no_grad():
        return flatten(function(*tensors))
