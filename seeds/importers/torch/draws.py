"""Recognises how a problem's inputs are drawn, so that they can be drawn again with fresh seeds.

`record(get_inputs)` runs the function and follows each tensor from the call that made it (rand,
randn, randint, zeros, ...) through affine arithmetic, casts and copies. What it cannot follow (a
softmax of a draw, a triangular mask) keeps its contents as they are.
"""

import dataclasses
import math

import torch
from torch.overrides import TorchFunctionMode


@dataclasses.dataclass(frozen=True)
class Draw:
    """normal(a, b), uniform [a, b), integers [a, b), or constant a."""

    kind: str
    a: float
    b: float = 0.0

    def affine(self, scale, shift):
        if not (math.isfinite(scale) and math.isfinite(shift)):
            return None
        if self.kind == "normal":
            return Draw("normal", self.a * scale + shift, abs(self.b * scale))
        if self.kind == "uniform":
            ends = sorted((self.a * scale + shift, self.b * scale + shift))
            return Draw("uniform", *ends)
        if self.kind == "constant":
            return Draw("constant", self.a * scale + shift)
        return self if scale == 1 and shift == 0 else None


def _name(func):
    return getattr(func, "__name__", "").rstrip("_").strip("_")


_KEEP = {"to", "float", "half", "double", "bfloat16", "cuda", "cpu", "contiguous", "clone",
         "detach", "requires_grad", "view", "reshape", "t", "transpose", "permute", "T",
         "unsqueeze", "squeeze", "flatten", "long", "int", "type", "expand", "narrow", "select",
         "swapaxes", "swapdims", "movedim", "moveaxis", "mT"}


def _slices(index):
    """Whether an index takes some of the elements, each once: slices and whole numbers."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, slice) or
               (isinstance(part, int) and not isinstance(part, bool)) for part in parts)


class _Follow(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self._draws = {}  # id -> (Draw, tensor): the tensor is kept so that the id stays its own

    def of(self, tensor):
        entry = self._draws.get(id(tensor))
        return entry[0] if entry else None

    def _put(self, tensor, draw):
        if draw is not None and isinstance(tensor, torch.Tensor):
            self._draws[id(tensor)] = (draw, tensor)
        elif isinstance(tensor, torch.Tensor):
            self._draws.pop(id(tensor), None)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        before = self.of(args[0]) if args else None
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            name = _name(func)
            if func is torch.Tensor.T.__get__:
                name = "T"
            self._put(result, self._after(name, before, args, kwargs, result))
        return result

    def _after(self, name, before, args, kwargs, result):
        if name in ("rand", "rand_like"):
            return Draw("uniform", 0.0, 1.0)
        if name in ("randn", "randn_like"):
            return Draw("normal", 0.0, 1.0)
        if name in ("randint", "randint_like"):
            numbers = [a for a in args if isinstance(a, int) and not isinstance(a, bool)]
            low, high = kwargs.get("low"), kwargs.get("high")
            if high is None:
                if not numbers:
                    return None
                low, high = (numbers[0], numbers[1]) if len(numbers) > 1 else (0, numbers[0])
            elif low is None:
                low = numbers[0] if numbers else 0
            return Draw("integers", float(low), float(high))
        if name in ("zeros", "zeros_like", "zero"):
            return Draw("constant", 0.0)
        if name in ("ones", "ones_like"):
            return Draw("constant", 1.0)
        if name in ("full", "full_like", "fill"):
            value = kwargs.get("fill_value", args[1] if len(args) > 1 else None)
            return Draw("constant", float(value)) if isinstance(value, (int, float)) else None
        if name == "normal" and isinstance(args[0], torch.Tensor):
            mean = args[1] if len(args) > 1 else kwargs.get("mean", 0.0)
            std = args[2] if len(args) > 2 else kwargs.get("std", 1.0)
            return Draw("normal", float(mean), float(std))
        if name == "uniform":
            low = args[1] if len(args) > 1 else kwargs.get("from", 0.0)
            high = args[2] if len(args) > 2 else kwargs.get("to", 1.0)
            return Draw("uniform", float(low), float(high))
        other = args[1] if len(args) > 1 else None
        number = float(other) if isinstance(other, (int, float)) else None
        if before is None:
            # scalar op tensor: the tensor is the second argument.
            if isinstance(other, torch.Tensor) and isinstance(args[0], (int, float)):
                before, number = self.of(other), float(args[0])
                if before is None:
                    return None
                return {"mul": lambda: before.affine(number, 0.0),
                        "rmul": lambda: before.affine(number, 0.0),
                        "add": lambda: before.affine(1.0, number),
                        "radd": lambda: before.affine(1.0, number),
                        "sub": lambda: before.affine(-1.0, number)}.get(name, lambda: None)()
            return None
        if name in _KEEP or name == "get" or (name == "getitem" and _slices(args[1])):
            return before
        if before.kind == "uniform" and (before.a, before.b) == (0.0, 1.0) and number is not None:
            # rand() > p and the like: a coin; only the fair one has a distribution of ours.
            if name in ("gt", "lt", "ge", "le") and number == 0.5:
                return Draw("integers", 0.0, 2.0)
        if number is None:
            return before.affine(-1.0, 0.0) if name == "neg" else None
        if kwargs.get("alpha", 1) != 1:
            return None
        if name in ("mul", "rmul", "multiply"):
            return before.affine(number, 0.0)
        if name in ("div", "truediv", "divide") and number != 0:
            return before.affine(1.0 / number, 0.0)
        if name in ("add", "radd"):
            return before.affine(1.0, number)
        if name in ("sub", "subtract"):
            return before.affine(1.0, -number)
        if name in ("rsub",):
            return before.affine(-1.0, number)
        return None


def record(get_inputs):
    """Returns (inputs, draws): draws[i] belongs to inputs[i]; None for what was not recognised."""
    with _Follow() as follow:
        inputs = list(get_inputs())
    draws = []
    for value in inputs:
        draw = follow.of(value) if isinstance(value, torch.Tensor) else None
        draws.append(draw if draw is not None and agrees(draw, value) else None)
    return inputs, draws


def agrees(draw, tensor):
    """Whether the contents could have come from `draw`: a wrongly followed draw is not used."""
    if tensor.numel() == 0:
        return True
    values = tensor.detach().double()
    low, high = values.min().item(), values.max().item()
    if draw.kind == "constant":
        return low == high and abs(low - draw.a) <= 1e-2 * max(1.0, abs(draw.a))
    if draw.kind in ("uniform", "integers"):
        slack = 1e-2 * max(1e-30, draw.b - draw.a)
        return draw.a - slack <= low and high <= draw.b + slack
    spread = max(draw.b, 1e-30)
    return draw.a - 8 * spread <= low and high <= draw.a + 8 * spread
