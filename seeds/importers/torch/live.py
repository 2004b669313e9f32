"""The module that a task was imported from, alive: a callable per case, on any device, in the
module's own types or in fp64. Used by scripts/torch_baseline.py (its time) and scripts/live_check.py
(its outputs, for inputs with fresh seeds).

Reads what the import left in the task's folder: problem.py (the text), problem.json (which sizes a
case has, which arguments are tensors of the task) and data.safetensors (parameters and stored
inputs). The module runs without the importer's fence, because CUDA and torch.compile write files and
start programs: whoever asks for it runs that file as their own.
"""

import json
import os

import torch

import safetensors_file
from problem import Problem, flatten

VERSION = 1


class NotAlive(Exception):
    """The folder has no module that could be asked; the text says why."""


class _Open(Problem):
    """A problem that runs without a fence."""

    def run(self, what, function):
        return function()


def describe(problem, form, cases, tensor_names, parameter_names, output_names):
    """The contents of problem.json. `cases`: import_problem.Case."""
    names = iter(tensor_names)
    arguments = [{"tensor": next(names)} if isinstance(value, torch.Tensor) else {"value": value}
                 for value in cases[0].instance.inputs]
    return {"version": VERSION, "form": form, "arguments": arguments,
            "parameters": {name: key for key, name in parameter_names.items()},
            "outputs": output_names,
            "cases": {case.name: {"sizes": case.instance.sizes} for case in cases}}


class Live:
    """`folder`: of the task. NotAlive when it was not imported, or from a form that has no module."""

    def __init__(self, folder):
        self.folder = folder
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
            raise NotAlive(f"{path}: not of version {VERSION}")
        if self.facts["form"] == "gpumode":
            raise NotAlive("a competition task keeps no module beside its reference.py")
        self.arguments = [a["tensor"] for a in self.facts["arguments"] if "tensor" in a]

    def stored(self, key):
        return safetensors_file.load(os.path.join(self.folder, "data.safetensors"), key)

    def function(self, case, device="cpu", double=False):
        """A function of the tensors `arguments`, in order; gives the list of outputs."""
        entry = self.facts["cases"].get(case)
        if entry is None:
            raise NotAlive(f"case {case} is none of {', '.join(self.facts['cases'])}")
        call = (self._module(case, entry, device, double) if self.facts["form"] == "kernelbench"
                else self._run())
        given = self.facts["arguments"]
        if all("tensor" in a for a in given):
            return call  # the module itself, for torch.compile

        def function(*tensors):
            rest = iter(tensors)
            return call(*[next(rest) if "tensor" in a else a["value"] for a in given])

        return function

    def _module(self, case, entry, device, double):
        problem = _Open(os.path.join(self.folder, "problem.py"))
        same = lambda a, b: (tuple(a) if isinstance(a, (list, tuple)) else a) == (
            tuple(b) if isinstance(b, (list, tuple)) else b)
        sizes = {name: type(problem.sizes[name])(value) for name, value in entry["sizes"].items()
                 if name in problem.sizes and not same(problem.sizes[name], value)}
        module = problem.module(sizes)
        own = dict(module.named_parameters())
        own.update(module.named_buffers())
        with torch.no_grad():
            for name, key in self.facts["parameters"].items():
                if key in own:
                    own[key].copy_(self.stored(f"{case}/{name}"))
        module = module.to(device)
        return module.double() if double else module

    def _run(self):
        with open(os.path.join(self.folder, "problem.py"), encoding="utf-8") as file:
            text = file.read()
        scope = {"__name__": "reference", "__file__": "problem.py"}
        exec(compile(text, "problem.py", "exec"), scope)
        return scope["run"]


def outputs(function, *tensors):
    """What the function gives, as a flat list, without gradients."""
    with torch.no_grad():
        return flatten(function(*tensors))
