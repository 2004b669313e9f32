"""A problem file in KernelBench's form: class Model, get_inputs(), get_init_inputs().

The file runs several times: as it is, and with its module-level sizes made smaller, which gives the
small check cases (and, with `--scale`, the scored case). Every run happens inside the fence.
"""

import ast
import copy
import dataclasses
import io
import sys
import traceback

import torch

import draws
from confine import Confined, Fence

_SMALLEST = 16  # sizes below this (kernel widths, strides, groups) are left as they are


class Refused(Exception):
    """The problem cannot be a fair task; the text says why."""


class Broken(Exception):
    """The file does not run; the text says where and what."""


def sizes_of(text, name):
    """Module-level whole numbers, and tuples and lists of them: name -> value."""
    try:
        tree = ast.parse(text, name)
    except SyntaxError as error:
        raise Broken(f"{name}:{error.lineno}:{error.offset}: {error.msg}") from None
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(
                node.targets[0], ast.Name):
            try:
                value = ast.literal_eval(node.value)
            except (ValueError, SyntaxError):
                value = _product(node.value)
            whole = lambda v: isinstance(v, int) and not isinstance(v, bool)
            if whole(value) or (isinstance(value, (tuple, list)) and value and
                                all(whole(v) for v in value)):
                found[node.targets[0].id] = value
    return found


def _product(node):
    """`256 * 1024` and the like."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Add, ast.Pow)):
        left, right = _product(node.left), _product(node.right)
        if isinstance(left, int) and isinstance(right, int) and abs(left) < 1 << 40 and (
                abs(right) < (64 if isinstance(node.op, ast.Pow) else 1 << 40)):
            return {ast.Mult: left * right, ast.Add: left + right}.get(type(node.op)) if not (
                isinstance(node.op, ast.Pow)) else left ** right
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    return None


def shrunk(value, factor, odd):
    if isinstance(value, (tuple, list)):
        return type(value)(shrunk(v, factor, odd) for v in value)
    if value < _SMALLEST:
        return value
    small = max(min(value, _SMALLEST // 2), value // factor)
    return small + 1 if odd else small


class _Replace(ast.NodeTransformer):
    def __init__(self, values):
        self.values = values

    def visit_Module(self, node):
        for statement in node.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(
                    statement.targets[0], ast.Name) and statement.targets[0].id in self.values:
                statement.value = ast.copy_location(
                    ast.parse(repr(self.values[statement.targets[0].id]), mode="eval").body,
                    statement.value)
                ast.fix_missing_locations(statement)
        return node


@dataclasses.dataclass
class Instance:
    """The problem at one size: its module and one set of inputs."""

    sizes: dict
    model: torch.nn.Module
    inputs: list
    draws: list
    redraw: object  # () -> another list of inputs
    seed: int = 42  # that the module and the inputs were made with

    def tensors(self):
        return [v for v in self.inputs if isinstance(v, torch.Tensor)]


class Problem:
    """`fenced`: foreign text runs inside the fence; otherwise as a program of the user's own."""

    def __init__(self, path, fenced=True):
        self.path, self.fenced = path, fenced
        self.name = path.rsplit("/", 1)[-1]
        try:
            with open(path, encoding="utf-8") as file:
                self.text = file.read(1 << 20)
        except (OSError, UnicodeDecodeError) as error:
            raise Broken(f"{self.name}: {error}") from None
        if "\0" in self.text:
            raise Broken(f"{self.name}: not a Python file")
        self.sizes = sizes_of(self.text, self.name)
        self.fence = Fence(path)

    def run(self, what, function):
        """`function()` inside the fence, its failure as Broken or Refused."""
        if not self.fenced:
            return function()
        try:
            with self.fence:
                return function()
        except Confined as error:
            raise Refused(str(error)) from None
        except (Refused, Broken):
            raise
        except ModuleNotFoundError as error:
            raise Broken(f"{what}: needs the Python package {error.name}, which is not installed")
        except BaseException as error:  # SystemExit and KeyboardInterrupt of the module too
            cause = error
            while cause is not None:
                if isinstance(cause, Confined):
                    raise Refused(str(cause)) from None
                cause = cause.__cause__ or cause.__context__
            text = (str(error).strip().splitlines() or [""])[0][:300]
            if "NVIDIA" in text or "CUDA" in text or "cuda" in text:
                raise Broken(f"{what}: needs a GPU where there is none: {text}") from None
            where = ""
            for frame in traceback.extract_tb(error.__traceback__):
                if frame.filename == self.name:
                    where = f"{self.name}:{frame.lineno}: "
            raise Broken(f"{where}{what} raised {type(error).__name__}: {text}") from None

    def at(self, sizes, seed=42):
        """The problem with module-level `sizes` in place of its own."""

        def make():
            scope = self._scope(sizes)
            model = self._construct(scope, seed)
            torch.manual_seed(seed)
            inputs, drawn = draws.record(scope["get_inputs"])
            for value in inputs:
                if isinstance(value, torch.Tensor):
                    value.requires_grad_(False) if value.is_floating_point() else None
                elif not isinstance(value, (int, float, bool, type(None), str)):
                    raise Refused(f"an input is a {type(value).__name__}; only tensors and numbers "
                                  "can be inputs of a task")

            def redraw(again):
                torch.manual_seed(again)
                return list(scope["get_inputs"]())

            return Instance(dict(self.sizes, **sizes), model, inputs, drawn, redraw, seed)

        return self.run("making the module and its inputs", make)

    def module(self, sizes, seed=42):
        """The module alone, with module-level `sizes` in place of its own."""
        return self.run("making the module", lambda: self._construct(self._scope(sizes), seed))

    def _scope(self, sizes):
        tree = _Replace(sizes).visit(ast.parse(self.text, self.name))
        scope = {"__name__": "problem", "__file__": self.name}
        exec(compile(tree, self.name, "exec"), scope)
        for needed in ("Model", "get_inputs"):
            if needed not in scope:
                raise Broken(f"{self.name}: no {needed}: a problem has class Model, "
                             "get_inputs() and get_init_inputs()")
        return scope

    def _construct(self, scope, seed):
        torch.manual_seed(seed)
        init = scope["get_init_inputs"]() if "get_init_inputs" in scope else []
        torch.manual_seed(seed)
        model = scope["Model"](**init) if isinstance(init, dict) else scope["Model"](
            *copy.deepcopy(list(init)))
        if not isinstance(model, torch.nn.Module):
            raise Broken(f"{self.name}: Model is no torch.nn.Module")
        return model

    def forward(self, instance, inputs, seed=0, double=False):
        """Output tensors of a fresh copy of the module, as a list."""

        def call():
            model = copy.deepcopy(instance.model)
            given = [v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]
            if double:
                model = model.double()
                given = [v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v
                         for v in given]
            torch.manual_seed(seed)
            with torch.no_grad():
                return flatten(model(*given))

        return self.run("forward", call)


def flatten(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in flatten(part)]
    if isinstance(result, dict):
        return [t for part in result.values() for t in flatten(part)]
    return []


def same(left, right):
    return len(left) == len(right) and all(
        a.shape == b.shape and a.dtype == b.dtype and torch.equal(
            torch.nan_to_num(a.double()), torch.nan_to_num(b.double()))
        for a, b in zip(left, right))


def check_fair(problem, instance):
    """Raises Refused for what cannot be a fair task. Returns the outputs."""
    if not instance.tensors():
        raise Refused("it has no tensor input")
    outputs = problem.forward(instance, instance.inputs, seed=1)
    if not outputs:
        raise Refused("forward returns no tensor")
    if any(t.is_complex() for t in outputs + instance.tensors()):
        raise Refused("it has a complex tensor")
    if not same(outputs, problem.forward(instance, instance.inputs, seed=2)):
        raise Refused("forward draws random numbers: the same inputs give different outputs")
    fresh = problem.run("get_inputs", lambda: instance.redraw(7))
    other = problem.forward(instance, fresh, seed=1)
    for i, (a, b) in enumerate(zip(outputs, other)):
        which = f"output {i}" if len(outputs) > 1 else "the output"
        if a.numel() == 0:
            raise Refused(f"{which} is empty")
        if a.is_floating_point():
            if not torch.isfinite(a).all():
                raise Refused(f"{which} has elements that are not finite")
            if a.abs().max().item() < 1e-20:
                raise Refused(f"{which} is zero, or so near to zero that anything would pass")
        if a.numel() > 1 and a.double().std().item() <= 1e-7 * abs(a.double().mean().item()):
            raise Refused(f"{which} is constant: every element is the same")
        if a.shape == b.shape and torch.equal(a, b) and any(
                not torch.equal(x, y) for x, y in zip(instance.inputs, fresh)
                if isinstance(x, torch.Tensor)):
            raise Refused(f"{which} does not depend on the inputs")
    for i, value in enumerate(instance.inputs):
        if not isinstance(value, torch.Tensor) or value.numel() == 0:
            continue
        if torch.equal(value, fresh[i]):
            continue
        changed = list(instance.inputs)
        changed[i] = fresh[i]
        if same(outputs, problem.forward(instance, changed, seed=1)):
            raise Refused(f"no output depends on input {i}")
    return outputs
