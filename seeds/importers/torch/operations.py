"""What each ATen operation means, as kernels of `lower.Program`."""

import math
import operator

import torch

from lower import (Lazy, Program, Unsupported, View, broadcast, contiguous, is_float, number,
                   split_index)

_UNARY = {  # on Float
    "relu": "({0} > 0 || {0} != {0} ? {0} : Float(0))", "neg": "(-{0})", "exp": "exp({0})",
    "exp2": "exp2({0})", "expm1": "expm1({0})", "log": "log({0})", "log2": "log2({0})",
    "log10": "log10({0})", "log1p": "log1p({0})", "sqrt": "sqrt({0})",
    "rsqrt": "(Float(1) / sqrt({0}))", "reciprocal": "(Float(1) / {0})", "sin": "sin({0})",
    "cos": "cos({0})", "tan": "tan({0})", "tanh": "tanh({0})", "asin": "asin({0})",
    "acos": "acos({0})", "atan": "atan({0})", "sinh": "sinh({0})", "cosh": "cosh({0})",
    "sigmoid": "(Float(1) / (Float(1) + exp(-{0})))", "abs": "fabs({0})",
    "sign": "Float(({0} > 0) - ({0} < 0))", "floor": "floor({0})", "ceil": "ceil({0})",
    "round": "rint({0})", "trunc": "trunc({0})", "erf": "erf({0})", "erfc": "erfc({0})",
    "silu": "({0} / (Float(1) + exp(-{0})))",
    "hardswish": "({0} * fmin(fmax({0} + Float(3), Float(0)), Float(6)) / Float(6))",
    "hardsigmoid": "(fmin(fmax({0} + Float(3), Float(0)), Float(6)) / Float(6))",
    "mish": "({0} * tanh(fmax({0}, Float(0)) + log1p(exp(-fabs({0})))))",
}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class Lowering:
    """Walks a traced graph and fills a Program. `facts[node]` is (shape, dtype) of its result."""

    def __init__(self, program: Program, facts):
        self.program = program
        self.facts = facts
        self.values = {}

    # --- values ---

    def resolve(self, argument):
        if isinstance(argument, torch.fx.Node):
            return self.values[argument]
        if isinstance(argument, (list, tuple)):
            return [self.resolve(a) for a in argument]
        return argument

    def stored(self, value):
        """The value in memory."""
        if isinstance(value, View):
            return value
        view = self.program.workspace(value.shape, value.dtype)
        self.program.pointwise(view, value.shape, value.load)
        return view

    def packed(self, value):
        view = self.stored(value)
        return view if view.strides == contiguous(view.shape) else self.stored(
            Lazy(view.shape, view.dtype, view.load))

    def result(self, node, value):
        """A pointwise result is stored when several use it."""
        if isinstance(value, Lazy) and len(node.users) > 1:
            return self.stored(value)
        return value

    def map(self, shape, dtype, function, *operands):
        """function(code, expressions) of broadcast operands; Python scalars are literals."""
        shape = tuple(shape)

        def expression(code, coords):
            parts = []
            for operand in operands:
                if isinstance(operand, (View, Lazy)):
                    parts.append(operand.load(code, broadcast(coords, operand.shape, shape)))
                else:
                    parts.append(number(operand))
            return function(code, parts)

        return Lazy(shape, dtype, expression)

    @staticmethod
    def floating(*operands):
        return any((isinstance(o, (View, Lazy)) and is_float(o.dtype)) or isinstance(o, float)
                   for o in operands)

    # --- the graph ---

    def run(self, graph, leaves):
        """`leaves`: placeholder or get_attr node -> View or Python scalar. Returns the outputs."""
        for node in graph.nodes:
            if node in leaves:
                self.values[node] = leaves[node]
            elif node.op == "call_function":
                self.values[node] = self.result(node, self.call(node))
            elif node.op == "output":
                return self.resolve(node.args[0])
            else:
                raise Unsupported(f"{node.op} {node.target}")
        raise Unsupported("a graph without output")

    def call(self, node):
        args = [self.resolve(a) for a in node.args]
        kwargs = {k: self.resolve(v) for k, v in node.kwargs.items()}
        if node.target is operator.getitem:
            return args[0][args[1]]
        if not isinstance(node.target, torch._ops.OpOverload):
            raise Unsupported(str(node.target))
        name = node.target._schema.name.split("::")[-1]
        overload = node.target._overloadname
        for argument, declared in zip(args, node.target._schema.arguments):
            kwargs.setdefault(declared.name, argument)
        for declared in node.target._schema.arguments:
            if declared.name not in kwargs and declared.has_default_value():
                kwargs[declared.name] = declared.default_value
        if name.endswith("_") and not name.startswith("_"):
            value = self.operation(name[:-1], overload, kwargs, node)
            # The tensor that was changed is the result from here on.
            target = node.args[0]
            if isinstance(self.values.get(target), View) and self.is_window(target):
                raise Unsupported(f"{name} on a view")
            self.values[target] = value = self.stored(value)
            return value
        return self.operation(name, overload, kwargs, node)

    def is_window(self, node):
        view = self.values[node]
        return view.buffer.elements != math.prod(view.shape) or view.buffer.role == "tensor"

    def operation(self, name, overload, a, node):
        shape, dtype = self.facts.get(node, (None, None))
        method = getattr(self, "op_" + name, None)
        if method is not None:
            return method(a, shape, dtype, overload)
        if name in _UNARY:
            x = a["self"]
            if not is_float(dtype):
                whole = {"neg": "(-{0})", "abs": "({0} < 0 ? -{0} : {0})",
                         "sign": "(({0} > 0) - ({0} < 0))", "relu": "({0} > 0 ? {0} : 0)"}
                if name not in whole:
                    raise Unsupported(str(node.target))
                return self.map(shape, dtype,
                                lambda code, p: whole[name].format(code.let(p[0], "long long")), x)
            return self.map(shape, dtype,
                            lambda code, p: _UNARY[name].format(code.let(f"Float({p[0]})")), x)
        if name in _COMPARE:
            y = a["other"]
            kind = "Float" if self.floating(a["self"], y) else "Integer"
            return self.map(shape, dtype,
                            lambda code, p: f"({kind}({p[0]}) {_COMPARE[name]} {kind}({p[1]}))",
                            a["self"], y)
        raise Unsupported(str(node.target))

    # --- pointwise ---

    def arithmetic(self, form, shape, dtype, *operands):
        kind = "Float" if is_float(dtype) else "Integer"
        return self.map(shape, dtype, lambda code, p: form.format(
            *(f"{kind}({part})" for part in p)), *operands)

    def op_add(self, a, shape, dtype, _):
        if a.get("alpha", 1) != 1:
            return self.arithmetic("({0} + {1} * {2})", shape, dtype, a["self"], a["other"],
                                   a["alpha"])
        return self.arithmetic("({0} + {1})", shape, dtype, a["self"], a["other"])

    def op_sub(self, a, shape, dtype, _):
        return self.arithmetic("({0} - {1} * {2})", shape, dtype, a["self"], a["other"],
                               a.get("alpha", 1))

    def op_rsub(self, a, shape, dtype, _):
        return self.arithmetic("({1} - {0} * {2})", shape, dtype, a["self"], a["other"],
                               a.get("alpha", 1))

    def op_mul(self, a, shape, dtype, _):
        if dtype == torch.bool:
            return self.map(shape, dtype, lambda c, p: f"({p[0]} && {p[1]})", a["self"], a["other"])
        return self.arithmetic("({0} * {1})", shape, dtype, a["self"], a["other"])

    def op_div(self, a, shape, dtype, overload):
        mode = a.get("rounding_mode")
        if mode is None:
            return self.arithmetic("({0} / {1})", shape, dtype, a["self"], a["other"])
        if is_float(dtype):
            form = {"floor": "floor({0} / {1})", "trunc": "trunc({0} / {1})"}[mode]
        else:
            form = {"trunc": "({0} / {1})",
                    "floor": "({0} / {1} - (({0} % {1} != 0) && (({0} < 0) != ({1} < 0))))"}[mode]
        return self.arithmetic(form, shape, dtype, a["self"], a["other"])

    def op_floor_divide(self, a, shape, dtype, overload):
        return self.op_div({**a, "rounding_mode": "floor"}, shape, dtype, overload)

    def op_remainder(self, a, shape, dtype, _):
        form = ("({0} - {1} * floor({0} / {1}))" if is_float(dtype) else
                "((({0} % {1}) + {1}) % {1})")
        return self.arithmetic(form, shape, dtype, a["self"], a["other"])

    def op_fmod(self, a, shape, dtype, _):
        return self.arithmetic("fmod({0}, {1})" if is_float(dtype) else "({0} % {1})", shape, dtype,
                               a["self"], a["other"])

    def op_atan2(self, a, shape, dtype, _):
        return self.arithmetic("atan2({0}, {1})", shape, dtype, a["self"], a["other"])

    def extreme(self, sign, shape, dtype, x, y):
        def function(code, p):
            kind = "Float" if is_float(dtype) else "Integer"
            u, v = code.let(f"{kind}({p[0]})", kind), code.let(f"{kind}({p[1]})", kind)
            return f"({u} {sign} {v} || {u} != {u} ? {u} : {v})"
        return self.map(shape, dtype, function, x, y)

    def op_maximum(self, a, shape, dtype, _):
        return self.extreme(">", shape, dtype, a["self"], a["other"])

    def op_minimum(self, a, shape, dtype, _):
        return self.extreme("<", shape, dtype, a["self"], a["other"])

    def op_clamp(self, a, shape, dtype, _):
        value = a["self"]
        if a.get("min") is not None:
            value = self.extreme(">", shape, dtype, value, a["min"])
        if a.get("max") is not None:
            value = self.extreme("<", shape, dtype, value, a["max"])
        return value

    def op_clamp_min(self, a, shape, dtype, _):
        return self.op_clamp({"self": a["self"], "min": a["min"]}, shape, dtype, _)

    def op_clamp_max(self, a, shape, dtype, _):
        return self.op_clamp({"self": a["self"], "max": a["max"]}, shape, dtype, _)

    def op_hardtanh(self, a, shape, dtype, _):
        return self.op_clamp({"self": a["self"], "min": a["min_val"], "max": a["max_val"]}, shape,
                             dtype, _)

    def unary(self, form, shape, dtype, x, *scalars):
        return self.map(shape, dtype, lambda code, p: form.format(
            code.let(f"Float({p[0]})"), *(f"Float({s})" for s in p[1:])), x, *scalars)

    def op_leaky_relu(self, a, shape, dtype, _):
        return self.unary("({0} > 0 ? {0} : {0} * {1})", shape, dtype, a["self"],
                          float(a["negative_slope"]))

    def op_prelu(self, a, shape, dtype, _):
        x, w = a["self"], a["weight"]
        return self._prelu(x, w, shape, dtype)

    op__prelu_kernel = op_prelu

    def _prelu(self, x, weight, shape, dtype):
        weight = self.stored(weight)
        if len(weight.shape) == 1 and weight.shape[0] > 1 and len(shape) > 2:
            weight = View(weight.buffer, weight.shape + (1,) * (len(shape) - 2),
                          weight.strides + (0,) * (len(shape) - 2), weight.offset)
        return self.map(shape, dtype, lambda c, p: "({0} > 0 ? {0} : {0} * Float({1}))".format(
            c.let(f"Float({p[0]})"), p[1]), x, weight)

    def op_elu(self, a, shape, dtype, _):
        return self.unary("({0} > 0 ? {0} * {2} : expm1({0} * {3}) * {1} * {2})", shape, dtype,
                          a["self"], float(a["alpha"]), float(a["scale"]), float(a["input_scale"]))

    def op_celu(self, a, shape, dtype, _):
        alpha = float(a["alpha"])
        return self.unary("({0} > 0 ? {0} : {1} * expm1({0} / {1}))", shape, dtype, a["self"],
                          alpha)

    def op_selu(self, a, shape, dtype, _):
        return self.unary("({0} > 0 ? {0} * {2} : expm1({0}) * {1} * {2})", shape, dtype, a["self"],
                          1.6732632423543772, 1.0507009873554805)

    def op_gelu(self, a, shape, dtype, _):
        form = ("({0} * Float(0.5) * (Float(1) + erf({0} * Float(0.70710678118654752))))"
                if a.get("approximate", "none") == "none" else
                "({0} * Float(0.5) * (Float(1) + tanh(Float(0.79788456080286536) * ({0} + "
                "Float(0.044715) * {0} * {0} * {0}))))")
        return self.unary(form, shape, dtype, a["self"])

    def op_softplus(self, a, shape, dtype, _):
        return self.unary("({0} * {1} > {2} ? {0} : log1p(exp({0} * {1})) / {1})", shape, dtype,
                          a["self"], float(a["beta"]), float(a["threshold"]))

    def op_threshold(self, a, shape, dtype, _):
        return self.unary("({0} > {1} ? {0} : {2})", shape, dtype, a["self"],
                          float(a["threshold"]), float(a["value"]))

    def op_hardshrink(self, a, shape, dtype, _):
        return self.unary("(fabs({0}) > {1} ? {0} : Float(0))", shape, dtype, a["self"],
                          float(a["lambd"]))

    def op_softshrink(self, a, shape, dtype, _):
        return self.unary("({0} > {1} ? {0} - {1} : ({0} < -{1} ? {0} + {1} : Float(0)))", shape,
                          dtype, a["self"], float(a["lambd"]))

    def op_log_sigmoid_forward(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        return (self.unary("(fmin({0}, Float(0)) - log1p(exp(-fabs({0}))))", x.shape, x.dtype, x),
                None)

    def op_pow(self, a, shape, dtype, overload):
        base, power = a["self"], a["exponent"]
        if isinstance(power, (int, float)) and power in (2, 3) and is_float(dtype):
            return self.unary("({0} * {0})" if power == 2 else "({0} * {0} * {0})", shape, dtype,
                              base)
        if isinstance(power, (int, float)) and power == 0.5:
            return self.unary("sqrt({0})", shape, dtype, base)
        if not is_float(dtype):
            raise Unsupported("pow of integers")
        return self.arithmetic("pow({0}, {1})", shape, dtype, base, power)

    def op_addcmul(self, a, shape, dtype, _):
        return self.arithmetic("({0} + {3} * {1} * {2})", shape, dtype, a["self"], a["tensor1"],
                               a["tensor2"], a.get("value", 1))

    def op_addcdiv(self, a, shape, dtype, _):
        return self.arithmetic("({0} + {3} * {1} / {2})", shape, dtype, a["self"], a["tensor1"],
                               a["tensor2"], a.get("value", 1))

    def op_lerp(self, a, shape, dtype, _):
        return self.arithmetic("({0} + {2} * ({1} - {0}))", shape, dtype, a["self"], a["end"],
                               a["weight"])

    def op_where(self, a, shape, dtype, overload):
        kind = "Float" if is_float(dtype) else "Integer"
        return self.map(shape, dtype,
                        lambda c, p: f"({p[0]} ? {kind}({p[1]}) : {kind}({p[2]}))",
                        a["condition"], a["self"], a["other"])

    def op_masked_fill(self, a, shape, dtype, _):
        return self.op_where({"condition": a["mask"], "self": a["value"], "other": a["self"]},
                             shape, dtype, _)

    def op_logical_not(self, a, shape, dtype, _):
        return self.map(shape, dtype, lambda c, p: f"(!({p[0]}))", a["self"])

    def op_bitwise_not(self, a, shape, dtype, _):
        if dtype != torch.bool:
            return self.map(shape, dtype, lambda c, p: f"(~({p[0]}))", a["self"])
        return self.op_logical_not(a, shape, dtype, _)

    def logical(self, sign, a, shape, dtype):
        return self.map(shape, dtype, lambda c, p: f"(({p[0]}) {sign} ({p[1]}))", a["self"],
                        a["other"])

    def op_logical_and(self, a, shape, dtype, _):
        return self.logical("&&", a, shape, dtype)

    def op_logical_or(self, a, shape, dtype, _):
        return self.logical("||", a, shape, dtype)

    def op_bitwise_and(self, a, shape, dtype, _):
        return self.logical("&", a, shape, dtype)

    def op_bitwise_or(self, a, shape, dtype, _):
        return self.logical("|", a, shape, dtype)

    def op_bitwise_xor(self, a, shape, dtype, _):
        return self.logical("!=" if dtype == torch.bool else "^", a, shape, dtype)

    def op_logical_xor(self, a, shape, dtype, _):
        return self.map(shape, dtype, lambda c, p: f"(!({p[0]}) != !({p[1]}))", a["self"], a["other"])

    def op_bitwise_left_shift(self, a, shape, dtype, _):
        return self.arithmetic("({0} << {1})", shape, dtype, a["self"], a["other"])

    def op_bitwise_right_shift(self, a, shape, dtype, _):
        return self.arithmetic("({0} >> {1})", shape, dtype, a["self"], a["other"])

    # What Python's operators call with a number.
    op___and__, op___or__, op___xor__ = op_bitwise_and, op_bitwise_or, op_bitwise_xor
    op___lshift__, op___rshift__ = op_bitwise_left_shift, op_bitwise_right_shift

    def op__to_copy(self, a, shape, dtype, _):
        x = a["self"]
        kind = "Float" if is_float(dtype) else ("bool" if dtype == torch.bool else "Integer")
        if x.dtype == dtype:
            return x
        if is_float(x.dtype) and is_float(dtype) and dtype != torch.float64:
            # Rounding to a narrower type is part of the module's meaning, but not of its exact
            # value: the reference keeps the exact value, as every other step does.
            if self.program.reference:
                return Lazy(tuple(shape), dtype, x.load)
        return Lazy(tuple(shape), dtype, lambda code, coords: f"{kind}({x.load(code, coords)})")

    def op_clone(self, a, shape, dtype, _):
        return a["self"]

    op_contiguous = op_alias = op_detach = op_lift_fresh_copy = op_lift_fresh = op_clone

    def op_copy(self, a, shape, dtype, _):
        return self.op__to_copy({"self": self.op_expand(
            {"self": a["src"], "size": list(a["self"].shape)}, a["self"].shape, None, None)},
            a["self"].shape, a["self"].dtype, None)

    # --- creation ---

    def constant(self, shape, dtype, value):
        kind = "Float" if is_float(dtype) else ("bool" if dtype == torch.bool else "Integer")
        return Lazy(tuple(shape), dtype, lambda code, coords: f"{kind}({number(value)})")

    def op_full(self, a, shape, dtype, _):
        return self.constant(shape, dtype, a["fill_value"])

    op_full_like = op_new_full = op_full

    def op_scalar_tensor(self, a, shape, dtype, _):
        return self.constant(shape, dtype, a["s"])

    def op_fill(self, a, shape, dtype, _):
        return self.constant(shape, dtype, a["value"])

    def op_zeros(self, a, shape, dtype, _):
        return self.constant(shape, dtype, 0)

    op_zeros_like = op_new_zeros = op_zero = op_zeros

    def op_ones(self, a, shape, dtype, _):
        return self.constant(shape, dtype, 1)

    op_ones_like = op_new_ones = op_ones

    def op_arange(self, a, shape, dtype, overload):
        start, step = a.get("start", 0) or 0, a.get("step", 1) or 1
        kind = "Float" if is_float(dtype) else "Integer"
        return Lazy(tuple(shape), dtype, lambda code, coords:
                    f"({kind}({number(start)}) + {kind}({coords[0]}) * {kind}({number(step)}))")

    def triangle(self, a, shape, dtype, sign):
        x, k = a["self"], a.get("diagonal", 0)
        kind = "Float" if is_float(dtype) else ("bool" if dtype == torch.bool else "Integer")
        return Lazy(tuple(shape), dtype, lambda code, coords:
                    f"(({coords[-1]}) - ({coords[-2]}) {sign} {k}LL ? {kind}({x.load(code, coords)})"
                    f" : {kind}(0))")

    def op_tril(self, a, shape, dtype, _):
        return self.triangle(a, shape, dtype, "<=")

    def op_triu(self, a, shape, dtype, _):
        return self.triangle(a, shape, dtype, ">=")

    # --- views ---

    def op_view(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        shape = tuple(shape)
        if x.strides != contiguous(x.shape):
            x = self.packed(x)
        return View(x.buffer, shape, contiguous(shape), x.offset)

    op__unsafe_view = op_reshape = op_view

    def op__reshape_alias(self, a, shape, dtype, _):
        return self.op_view(a, shape, dtype, _)

    def op_permute(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        order = [d % len(x.shape) for d in a["dims"]]
        return View(x.buffer, tuple(x.shape[d] for d in order),
                    tuple(x.strides[d] for d in order), x.offset)

    def op_transpose(self, a, shape, dtype, _):
        rank = len(a["self"].shape)
        order = list(range(rank))
        if rank:
            i, j = a["dim0"] % rank, a["dim1"] % rank
            order[i], order[j] = order[j], order[i]
        return self.op_permute({"self": a["self"], "dims": order}, shape, dtype, _)

    def op_t(self, a, shape, dtype, _):
        rank = len(a["self"].shape)
        return self.op_permute({"self": a["self"], "dims": list(range(rank))[::-1]}, shape, dtype,
                               _)

    def op_expand(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        lead = len(shape) - len(x.shape)
        strides = [0] * lead + [0 if x.shape[i] == 1 and shape[lead + i] != 1 else x.strides[i]
                                for i in range(len(x.shape))]
        return View(x.buffer, tuple(shape), tuple(strides), x.offset)

    op_broadcast_to = op_expand

    def op_slice(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        d, step = a.get("dim", 0) % len(x.shape), a.get("step", 1) or 1
        start = a.get("start") or 0
        start = max(0, min(start + x.shape[d] if start < 0 else start, x.shape[d]))
        strides = list(x.strides)
        strides[d] *= step
        return View(x.buffer, tuple(shape), tuple(strides), x.offset + start * x.strides[d])

    def op_select(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        d = a["dim"] % len(x.shape)
        index = a["index"] % x.shape[d]
        return View(x.buffer, x.shape[:d] + x.shape[d + 1:], x.strides[:d] + x.strides[d + 1:],
                    x.offset + index * x.strides[d])

    def op_unsqueeze(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        d = a["dim"] % (len(x.shape) + 1)
        return View(x.buffer, x.shape[:d] + (1,) + x.shape[d:], x.strides[:d] + (0,) + x.strides[d:],
                    x.offset)

    def op_squeeze(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        dims = a.get("dim", None)
        dims = list(range(len(x.shape))) if dims is None else (
            [dims] if isinstance(dims, int) else list(dims))
        drop = {d % max(1, len(x.shape)) for d in dims}
        keep = [i for i in range(len(x.shape)) if not (i in drop and x.shape[i] == 1)]
        return View(x.buffer, tuple(x.shape[i] for i in keep), tuple(x.strides[i] for i in keep),
                    x.offset)

    def op_as_strided(self, a, shape, dtype, _):
        x = self.packed(a["self"])
        return View(x.buffer, tuple(a["size"]), tuple(a["stride"]),
                    x.offset + (a.get("storage_offset") or 0))

    def op_unfold(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        d = a["dimension"] % len(x.shape)
        strides = list(x.strides) + [x.strides[d]]
        strides[d] *= a["step"]
        return View(x.buffer, tuple(shape), tuple(strides), x.offset)

    def op_unbind(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        d = a.get("dim", 0)
        return [self.op_select({"self": x, "dim": d, "index": i}, None, None, None)
                for i in range(x.shape[d])]

    def windows(self, x, dim, sizes):
        dim %= len(x.shape)
        views, start = [], 0
        for size in sizes:
            shape = list(x.shape)
            shape[dim] = size
            views.append(View(x.buffer, tuple(shape), x.strides,
                              x.offset + start * x.strides[dim]))
            start += size
        return views

    def op_split(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        d, size = a.get("dim", 0) % len(x.shape), a["split_size"]
        total = x.shape[d]
        return self.windows(x, d, [min(size, total - s) for s in range(0, total, size)])

    def op_split_with_sizes(self, a, shape, dtype, _):
        return self.windows(self.stored(a["self"]), a.get("dim", 0), a["split_sizes"])

    # --- movement ---

    def op_cat(self, a, shape, dtype, _):
        parts = [self.stored(p) for p in a["tensors"] if math.prod(p.shape) or len(p.shape) > 1]
        d = a.get("dim", 0) % len(shape)
        result = self.program.workspace(shape, dtype)
        ends, total = [], 0
        for part in parts:
            total += part.shape[d]
            ends.append(total)

        def expression(code, coords):
            name = code.fresh("v")
            kind = "Float" if is_float(dtype) else "Integer"
            code.add(f"{kind} {name} = 0;")
            start = 0
            for part, end in zip(parts, ends):
                at = list(coords)
                at[d] = f"(({coords[d]}) - {start}LL)"
                code.add(f"if (({coords[d]}) >= {start}LL && ({coords[d]}) < {end}LL) "
                         f"{name} = {part.load(code, at)};")
                start = end
            return name

        self.program.pointwise(result, tuple(shape), expression, "cat")
        return result

    def op_stack(self, a, shape, dtype, _):
        d = a.get("dim", 0) % len(shape)
        parts = [self.op_unsqueeze({"self": p, "dim": d}, None, None, None) for p in a["tensors"]]
        return self.op_cat({"tensors": parts, "dim": d}, shape, dtype, _)

    def op_constant_pad_nd(self, a, shape, dtype, _):
        x, pad = self.stored(a["self"]), a["pad"]
        before = [0] * len(shape)
        for i in range(len(pad) // 2):
            before[len(shape) - 1 - i] = pad[2 * i]
        value = number(float(a.get("value", 0)) if is_float(dtype) else int(a.get("value", 0)))

        def expression(code, coords):
            at = [c if not b else code.let(f"({c}) - ({b}LL)", "long long")
                  for c, b in zip(coords, before)]
            inside = " && ".join(f"({c}) >= 0 && ({c}) < {s}LL" for c, s in zip(at, x.shape))
            return f"({inside} ? {x.load(code, at)} : {value})"

        return Lazy(tuple(shape), dtype, expression)

    def op_flip(self, a, shape, dtype, _):
        x = a["self"]
        dims = {d % len(shape) for d in a["dims"]}
        return Lazy(tuple(shape), dtype, lambda code, coords: x.load(
            code, [f"({shape[i] - 1}LL - ({c}))" if i in dims else c
                   for i, c in enumerate(coords)]))

    def op_repeat(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        lead = len(shape) - len(x.shape)
        return Lazy(tuple(shape), dtype, lambda code, coords: x.load(
            code, [f"(({coords[lead + i]}) % {size}LL)" for i, size in enumerate(x.shape)]))

    def op_roll(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        dims = a.get("dims") or []
        if not dims:
            raise Unsupported("roll of the flattened tensor")
        shift = {d % len(shape): s for d, s in zip(dims, a["shifts"])}
        return Lazy(tuple(shape), dtype, lambda code, coords: x.load(
            code, [f"((({c}) + {(-shift[i]) % shape[i]}LL) % {shape[i]}LL)" if i in shift else c
                   for i, c in enumerate(coords)]))

    def op_gather(self, a, shape, dtype, _):
        x, index = self.stored(a["self"]), a["index"]
        d = a["dim"] % len(shape)

        def expression(code, coords):
            at = list(coords)
            at[d] = code.let(index.load(code, coords), "long long")
            return x.load(code, at)

        return Lazy(tuple(shape), dtype, expression)

    def op_index_select(self, a, shape, dtype, _):
        x, index = self.stored(a["self"]), self.stored(a["index"])
        d = a["dim"] % len(x.shape)

        def expression(code, coords):
            at = list(coords)
            at[d] = code.let(index.load(code, [coords[d]] if index.shape else []), "long long")
            return x.load(code, at)

        return Lazy(tuple(shape), dtype, expression)

    def op_embedding(self, a, shape, dtype, _):
        table, index = self.stored(a["weight"]), self.stored(a["indices"])

        def expression(code, coords):
            row = code.let(index.load(code, coords[:-1]), "long long")
            return table.load(code, [row, coords[-1]])

        return Lazy(tuple(shape), dtype, expression)

    def op_index(self, a, shape, dtype, _):
        x, indices = self.stored(a["self"]), list(a["indices"])
        used = [i for i, index in enumerate(indices) if index is not None]
        if not used or any(indices[i].dtype == torch.bool for i in used):
            raise Unsupported("indexing by a mask")
        if used != list(range(used[0], used[-1] + 1)):
            raise Unsupported("indexing by separated tensors")
        rank = max(len(indices[i].shape) for i in used)
        index_shape = tuple(shape[used[0]:used[0] + rank])

        def expression(code, coords):
            inner = coords[used[0]:used[0] + rank]
            at, position = [], 0
            for i in range(len(x.shape)):
                if i in used:
                    where = code.let(indices[i].load(code, broadcast(
                        inner, indices[i].shape, index_shape)), "long long")
                    at.append(f"({where} < 0 ? {where} + {x.shape[i]}LL : {where})")
                    if i == used[0]:
                        position += rank
                else:
                    at.append(coords[position])
                    position += 1
            return x.load(code, at)

        return Lazy(tuple(shape), dtype, expression)
