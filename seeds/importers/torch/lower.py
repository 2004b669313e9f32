"""Turns a traced ATen graph into a plain kernel program: one simple kernel per operation.

Two programs come from one graph. The reference computes and keeps every intermediate in fp64; the
seed computes in fp32 (fp64 where the module does) and keeps intermediates in the module's types. A
pointwise result that is used once is computed where it is used; views are index arithmetic.
Kernels are written for one shape: a task has a variant per case.

What an operation means is taken from its ATen schema. An operation that is not known here raises
Unsupported; the caller may ask for its decomposition and try again.
"""

import dataclasses
import math
import operator

import torch


class Unsupported(Exception):
    def __init__(self, op):
        super().__init__(f"operation {op} is not known")
        self.op = op


NAMES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
         torch.int64: "i64", torch.int32: "i32", torch.int8: "i8", torch.uint8: "u8",
         torch.bool: "bool"}
_CPP = {"f64": "double", "f32": "float", "f16": "__half", "bf16": "__nv_bfloat16",
        "i64": "long long", "i32": "int", "i8": "signed char", "u8": "unsigned char",
        "bool": "bool"}


def is_float(dtype):
    return dtype.is_floating_point


@dataclasses.dataclass
class Buffer:
    name: str
    dtype: torch.dtype
    role: str  # tensor (of the task) or workspace
    elements: int


@dataclasses.dataclass
class View:
    """A strided window of a buffer; sizes and strides in elements."""

    buffer: Buffer
    shape: tuple
    strides: tuple
    offset: int

    @property
    def dtype(self):
        return self.buffer.dtype

    def load(self, code, coords):
        index = [str(self.offset)] if self.offset else []
        for coord, size, stride in zip(coords, self.shape, self.strides):
            if size == 1 or stride == 0:
                continue
            index.append(coord if stride == 1 else f"({coord}) * {stride}LL")
        text = f"{code.pointer(self.buffer)}[{' + '.join(index) or '0'}]"
        return f"Real({text})" if is_float(self.dtype) else (
            text if self.dtype == torch.bool else f"Whole({text})")


@dataclasses.dataclass
class Lazy:
    """A pointwise value that is not stored: `expression(code, coords)` computes it."""

    shape: tuple
    dtype: torch.dtype
    expression: object

    def load(self, code, coords):
        return self.expression(code, coords)


def contiguous(shape):
    strides, size = [], 1
    for extent in reversed(shape):
        strides.append(size)
        size *= max(extent, 1)
    return tuple(reversed(strides))


def number(value):
    """A C++ literal of a Python scalar, in the computing type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}LL" if value >= 0 else f"({value}LL)"
    if math.isinf(value):
        return "(-Infinity())" if value < 0 else "Infinity()"
    if math.isnan(value):
        return "(Infinity() - Infinity())"
    return f"Real({value!r})"


class Code:
    """The kernel being written: its parameters and lines."""

    def __init__(self, program):
        self.program = program
        self.buffers = []
        self.lines = []
        self._names = 0

    def pointer(self, buffer):
        for i, known in enumerate(self.buffers):
            if known is buffer:
                return f"b{i}"
        self.buffers.append(buffer)
        return f"b{len(self.buffers) - 1}"

    def fresh(self, stem="t"):
        self._names += 1
        return f"{stem}{self._names}"

    def let(self, expression, kind="Float"):
        name = self.fresh()
        self.lines.append(f"  const {kind} {name} = {expression};")
        return name

    def add(self, *lines):
        self.lines.extend("  " + line for line in lines)


def split_index(code, index, shape, stem="c"):
    """Coordinates of a flat index, outermost first."""
    coords = []
    rest = index
    for i in range(len(shape) - 1, -1, -1):
        if shape[i] == 1:
            coords.append("0")
        elif i == 0 or all(s == 1 for s in shape[:i]):
            coords.append(code.let(rest, "long long"))
        else:
            coords.append(code.let(f"{rest} % {shape[i]}LL", "long long"))
            rest = code.let(f"{rest} / {shape[i]}LL", "long long")
    return list(reversed(coords))


def broadcast(coords, from_shape, to_shape):
    """Coordinates into a value of shape `from_shape` for a result of `to_shape`."""
    offset = len(to_shape) - len(from_shape)
    return [("0" if size == 1 else coords[offset + i]) for i, size in enumerate(from_shape)]


class Program:
    """Kernels and launches under construction, for one of the two precisions."""

    def __init__(self, prefix, reference):
        self.prefix = prefix
        self.reference = reference
        self.kernels = []
        self.launches = []
        self.workspaces = []

    def store_type(self, dtype):
        return "f64" if self.reference and is_float(dtype) else NAMES[dtype]

    def workspace(self, shape, dtype, stem="w"):
        buffer = Buffer(f"{self.prefix}{stem}{len(self.workspaces)}", dtype, "workspace",
                        max(1, math.prod(shape)))
        self.workspaces.append(buffer)
        return View(buffer, tuple(shape), contiguous(shape), 0)

    def type_of(self, buffer):
        return f"tensor::{buffer.name}" if buffer.role == "tensor" else _CPP[
            self.store_type(buffer.dtype)]

    def kernel(self, stem, code, outputs, blocks, threads):
        name = f"{self.prefix}{stem}_{len(self.kernels)}"
        written = [view.buffer for view in outputs]
        for buffer in written:
            code.pointer(buffer)
        parameters = ", ".join(
            f"{'' if any(b is w for w in written) else 'const '}{self.type_of(b)}* __restrict__ b{i}"
            for i, b in enumerate(code.buffers))
        self.kernels.append(f'extern "C" __global__ void __launch_bounds__({threads}) '
                            f"{name}({parameters}) {{\n" + "\n".join(code.lines) + "\n}\n")
        blocks = max(1, blocks)
        grid = [blocks] if blocks <= 2147483647 else [2147483647]
        self.launches.append({"kernel": name, "grid": grid, "block": [threads],
                              "args": [b.name for b in code.buffers]})

    def put(self, code, view, flat, value):
        target = f"{code.pointer(view.buffer)}[{flat}]"
        kind = self.type_of(view.buffer)
        code.add(f"{target} = Cast<{kind}>({value});")

    # --- the shapes of kernels ---

    def pointwise(self, target, shape, expression, stem="map"):
        """target[i] = expression(code, coords), one thread per element."""
        count = math.prod(shape)
        if count == 0:
            return
        code = Code(self)
        code.add("const long long i = blockIdx.x * 256LL + threadIdx.x;",
                 f"if (i >= {count}LL) return;")
        coords = split_index(code, "i", shape)
        self.put(code, target, "i", expression(code, coords))
        self.kernel(stem, code, [target], -(-count // 256), 256)

    def reduce(self, targets, outer, inner, element, states, combine, finish, stem="reduce"):
        """One block per element of `outer` folds over `inner`.

        states: [(C++ type, initial)]; element(code, outer coords, inner coords) gives the values of
        one item; combine(a, b) the fold of two lists; finish(code, states) the values to store.
        """
        rows, length = math.prod(outer), math.prod(inner)
        if rows == 0:
            return
        threads = 256 if length > 64 else 32
        code = Code(self)
        for s, (kind, _) in enumerate(states):
            code.add(f"__shared__ {kind} part{s}[{threads}];")
        code.add("const long long row = blockIdx.x;")
        coords = split_index(code, "row", outer)
        for s, (kind, initial) in enumerate(states):
            code.add(f"{kind} s{s} = {initial};")
        code.add(f"for (long long j = threadIdx.x; j < {length}LL; j += {threads}) {{")
        at = split_index(code, "j", inner)
        values = element(code, coords, at)
        for s, (kind, _) in enumerate(states):
            code.add(f"const {kind} v{s} = {values[s]};")
        for line in combine([f"s{s}" for s in range(len(states))],
                            [f"v{s}" for s in range(len(states))]):
            code.add(line)
        code.add("}")
        for s in range(len(states)):
            code.add(f"part{s}[threadIdx.x] = s{s};")
        code.add(f"for (int width = {threads // 2}; width > 0; width /= 2) {{", "  __syncthreads();",
                 "  if (threadIdx.x < width) {")
        for s, (kind, _) in enumerate(states):
            code.add(f"    {kind} s{s} = part{s}[threadIdx.x];",
                     f"    const {kind} v{s} = part{s}[threadIdx.x + width];")
        for line in combine([f"s{s}" for s in range(len(states))],
                            [f"v{s}" for s in range(len(states))]):
            code.add("    " + line)
        for s in range(len(states)):
            code.add(f"    part{s}[threadIdx.x] = s{s};")
        code.add("  }", "}", "if (threadIdx.x != 0) return;")
        results = finish(code, [f"part{s}[0]" for s in range(len(states))])
        for target, result in zip(targets, results):
            self.put(code, target, "row", result)
        self.kernel(stem, code, targets, rows, threads)


def source_head(reference, types):
    real = "double" if reference or "f64" in types else "float"
    lines = []
    if "f16" in types:
        lines.append("#include <cuda_fp16.h>")
    if "bf16" in types:
        lines.append("#include <cuda_bf16.h>")
    lines += [f"using Float = {real};", "using Integer = long long;", "",
              "template <typename T>", "__device__ Float Real(T value) {"]
    if "f16" in types or "bf16" in types:
        small = [t for t, name in (("__half", "f16"), ("__nv_bfloat16", "bf16")) if name in types]
        test = " || ".join(f"std::is_same_v<T, {t}>" for t in small)
        lines[0:0] = ["#include <type_traits>"]
        lines += [f"  if constexpr ({test}) return static_cast<Float>(static_cast<float>(value));",
                  "  else return static_cast<Float>(value);"]
    else:
        lines += ["  return static_cast<Float>(value);"]
    lines += ["}", "template <typename T>", "__device__ long long Whole(T value) {",
              "  return static_cast<long long>(value);", "}",
              "template <typename To, typename T>", "__device__ To Cast(T value) {"]
    if "f16" in types or "bf16" in types:
        test = " || ".join(f"std::is_same_v<To, {t}>" for t in small)
        lines += [f"  if constexpr ({test}) return static_cast<To>(static_cast<float>(value));",
                  "  else return static_cast<To>(value);"]
    else:
        lines += ["  return static_cast<To>(value);"]
    lines += ["}", "__device__ Float Infinity() { return static_cast<Float>("
              "__int_as_float(0x7f800000)); }", ""]
    return "\n".join(lines)
