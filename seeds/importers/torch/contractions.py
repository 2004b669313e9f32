"""Operations that sum over elements: reductions, norms, products, convolutions, pooling, losses."""

import math

import torch

from lower import Lazy, Unsupported, View, contiguous, is_float, split_index
from operations import Lowering as Pointwise

_LOWEST = "(-Infinity())"


class Lowering(Pointwise):
    # --- reductions over dims ---

    def dims_of(self, a, x, name="dim"):
        dims = a.get(name)
        if dims is None or dims == []:
            return list(range(len(x.shape)))
        dims = [dims] if isinstance(dims, int) else list(dims)
        return sorted(d % max(1, len(x.shape)) for d in dims)

    def fold(self, x, dims, targets, states, item, combine, finish, stem):
        """Folds x over dims into targets, whose elements are the other dims' in order."""
        outer = [s for i, s in enumerate(x.shape) if i not in dims]
        inner = [x.shape[d] for d in dims]

        def element(code, coords, at):
            where, o, n = [], iter(coords), iter(at)
            for i in range(len(x.shape)):
                where.append(next(n) if i in dims else next(o))
            return item(code, x.load(code, where), at)

        self.program.reduce(targets, outer, inner, element, states, combine, finish, stem)

    def simple(self, a, shape, dtype, initial, item, combine, finish, stem, kind="Float",
               dims=None):
        x = a["self"]
        target = self.program.workspace(shape, dtype)
        self.fold(x, self.dims_of(a, x) if dims is None else dims, [target], [(kind, initial)],
                  lambda code, v, at: [item(code, f"{kind}({v})")],
                  lambda s, v: [combine.format(s[0], v[0])],
                  lambda code, s: [finish(s[0])], stem)
        return target

    @staticmethod
    def kind(dtype):
        return "Float" if is_float(dtype) else "Integer"

    def op_sum(self, a, shape, dtype, _):
        return self.simple(a, shape, dtype, "0", lambda c, v: v, "{0} += {1};", lambda s: s, "sum",
                           self.kind(dtype))

    def op_mean(self, a, shape, dtype, _):
        x = a["self"]
        count = math.prod(x.shape[d] for d in self.dims_of(a, x))
        return self.simple(a, shape, dtype, "0", lambda c, v: v, "{0} += {1};",
                           lambda s: f"{s} / Float({max(count, 1)})", "mean")

    def op_prod(self, a, shape, dtype, _):
        return self.simple(a, shape, dtype, "1", lambda c, v: v, "{0} *= {1};", lambda s: s, "prod",
                           self.kind(dtype))

    def op_any(self, a, shape, dtype, _):
        return self.simple(a, shape, dtype, "false", lambda c, v: v, "{0} = {0} || {1};",
                           lambda s: s, "any", "bool")

    def op_all(self, a, shape, dtype, _):
        return self.simple(a, shape, dtype, "true", lambda c, v: v, "{0} = {0} && {1};",
                           lambda s: s, "all", "bool")

    def limit(self, dtype, largest):
        if is_float(dtype):
            return "Infinity()" if largest else _LOWEST
        return "9223372036854775807LL" if largest else "(-9223372036854775807LL - 1)"

    def op_amax(self, a, shape, dtype, _):
        return self.simple(a, shape, dtype, self.limit(dtype, False), lambda c, v: v,
                           "{0} = {0} > {1} || {0} != {0} ? {0} : {1};", lambda s: s, "max",
                           self.kind(dtype))

    def op_amin(self, a, shape, dtype, _):
        return self.simple(a, shape, dtype, self.limit(dtype, True), lambda c, v: v,
                           "{0} = {0} < {1} || {0} != {0} ? {0} : {1};", lambda s: s, "min",
                           self.kind(dtype))

    def ranked(self, a, sign, node_values):
        """Value and first index of the extreme along one dim."""
        x = a["self"]
        d = a["dim"] % max(1, len(x.shape))
        keep = a.get("keepdim", False)
        shape = [s for i, s in enumerate(x.shape) if i != d or keep]
        shape = [1 if keep and i == d else s for i, s in enumerate(shape)]
        values = self.program.workspace(shape, x.dtype)
        places = self.program.workspace(shape, torch.int64)
        kind = self.kind(x.dtype)
        better = (f"v1 >= 0 && (s1 < 0 || v0 {sign} s0 || (v0 == s0 && v1 < s1) || "
                  "(v0 != v0 && s0 == s0))")
        self.fold(x, [d], [values, places],
                  [(kind, self.limit(x.dtype, sign == "<")), ("long long", "-1")],
                  lambda code, v, at: [f"{kind}({v})", at[0]],
                  lambda s, v: [f"if ({better}) {{ s0 = v0; s1 = v1; }}"],
                  lambda code, s: s, "extreme")
        return values, places

    def op_max(self, a, shape, dtype, overload):
        if overload == "other":
            return self.op_maximum(a, shape, dtype, overload)
        return self.ranked(a, ">", None) if overload == "dim" else self.op_amax(
            {"self": a["self"]}, shape, dtype, overload)

    def op_min(self, a, shape, dtype, overload):
        if overload == "other":
            return self.op_minimum(a, shape, dtype, overload)
        return self.ranked(a, "<", None) if overload == "dim" else self.op_amin(
            {"self": a["self"]}, shape, dtype, overload)

    def op_argmax(self, a, shape, dtype, _, sign=">"):
        x = a["self"]
        if a.get("dim") is None:
            x = self.packed(x)
            x = View(x.buffer, (math.prod(x.shape),), (1,), x.offset)
            return self.ranked({"self": x, "dim": 0}, sign, None)[1]
        return self.ranked({**a, "self": x}, sign, None)[1]

    def op_argmin(self, a, shape, dtype, overload):
        return self.op_argmax(a, shape, dtype, overload, "<")

    def moments(self, x, dims, shape, correction):
        """(mean, variance) with kept or dropped dims as `shape` says; two passes."""
        x = self.stored(x)
        count = math.prod(x.shape[d] for d in dims)
        mean = self.program.workspace(shape, x.dtype, "m")
        self.fold(x, dims, [mean], [("Float", "0")], lambda c, v, at: [v],
                  lambda s, v: [f"{s[0]} += {v[0]};"],
                  lambda c, s: [f"{s[0]} / Float({count})"], "mean")
        kept = View(mean.buffer, tuple(1 if i in dims else s for i, s in enumerate(x.shape)),
                    contiguous([1 if i in dims else s for i, s in enumerate(x.shape)]), 0)
        centred = self.map(x.shape, x.dtype, lambda c, p: f"({p[0]} - {p[1]})", x, kept)
        variance = self.program.workspace(shape, x.dtype, "v")
        self.fold(centred, dims, [variance], [("Float", "0")],
                  lambda c, v, at: ["{0} * {0}".format(c.let(v))],
                  lambda s, v: [f"{s[0]} += {v[0]};"],
                  lambda c, s: [f"{s[0]} / Float({count - correction})"], "variance")
        return mean, variance

    def correction(self, a):
        if a.get("correction") is not None:
            return a["correction"]
        return 1 if a.get("unbiased", True) else 0

    def op_var(self, a, shape, dtype, _):
        return self.moments(a["self"], self.dims_of(a, a["self"]), shape, self.correction(a))[1]

    def op_std(self, a, shape, dtype, _):
        return self.unary("sqrt({0})", shape, dtype, self.op_var(a, shape, dtype, _))

    def op_var_mean(self, a, shape, dtype, _):
        x = a["self"]
        dims = self.dims_of(a, x)
        shape = [1 if i in dims else s for i, s in enumerate(x.shape)] if a.get("keepdim") else [
            s for i, s in enumerate(x.shape) if i not in dims]
        mean, variance = self.moments(x, dims, shape, self.correction(a))
        return variance, mean

    def op_norm(self, a, shape, dtype, _):
        p = a.get("p", 2)
        return self.op_linalg_vector_norm({"self": a["self"], "ord": 2 if p is None else p,
                                           "dim": a.get("dim"), "keepdim": a.get("keepdim")},
                                          shape, dtype, _)

    def op_linalg_vector_norm(self, a, shape, dtype, _):
        order = float(a.get("ord", 2))
        if order == math.inf or order == -math.inf or order == 0:
            value = self.unary("fabs({0})", a["self"].shape, dtype, a["self"])
            if order == 0:
                raise Unsupported("norm of order 0")
            return (self.op_amax if order > 0 else self.op_amin)(
                {"self": value, "dim": a.get("dim")}, shape, dtype, _)
        item = {1.0: lambda c, v: f"fabs({v})",
                2.0: lambda c, v: "{0} * {0}".format(c.let(v))}.get(
                    order, lambda c, v: f"pow(fabs({v}), Float({order!r}))")
        finish = {1.0: lambda s: s, 2.0: lambda s: f"sqrt({s})"}.get(
            order, lambda s: f"pow({s}, Float({1 / order!r}))")
        return self.simple(a, shape, dtype, "0", item, "{0} += {1};", finish, "norm")

    def op_logsumexp(self, a, shape, dtype, _):
        x = self.stored(a["self"])
        dims = self.dims_of(a, x)
        top = self.op_amax({"self": x, "dim": dims}, [s for i, s in enumerate(x.shape)
                                                      if i not in dims], dtype, _)
        total, top_kept = self.exponentials(x, dims, top)
        flat = View(top.buffer, tuple(shape), contiguous(shape), 0)
        total = View(total.buffer, tuple(shape), contiguous(shape), 0)
        return self.map(shape, dtype, lambda c, p: f"({p[0]} + log({p[1]}))", flat, total)

    def exponentials(self, x, dims, top):
        kept = tuple(1 if i in dims else s for i, s in enumerate(x.shape))
        top_kept = View(top.buffer, kept, contiguous(kept), 0)
        powers = self.map(x.shape, x.dtype, lambda c, p: f"exp({p[0]} - {p[1]})", x, top_kept)
        total = self.op_sum({"self": powers, "dim": list(dims)},
                            [s for i, s in enumerate(x.shape) if i not in dims], x.dtype, None)
        return View(total.buffer, kept, contiguous(kept), 0), top_kept

    def softmax(self, a, shape, dtype, form):
        x = self.stored(a["self"])
        d = [a["dim"] % max(1, len(x.shape))]
        top = self.op_amax({"self": x, "dim": d}, [s for i, s in enumerate(x.shape) if i not in d],
                           x.dtype, None)
        total, top = self.exponentials(x, d, top)
        return self.map(shape, dtype, lambda c, p: form.format(*p), x, top, total)

    def op__softmax(self, a, shape, dtype, _):
        return self.softmax(a, shape, dtype, "(exp({0} - {1}) / {2})")

    op_softmax = op__softmax

    def op__log_softmax(self, a, shape, dtype, _):
        return self.softmax(a, shape, dtype, "({0} - {1} - log({2}))")

    op_log_softmax = op__log_softmax

    def scan(self, a, shape, dtype, initial, step):
        """One thread per line: plain, as a reference should be."""
        x = self.stored(a["self"])
        d = a["dim"] % max(1, len(shape))
        target = self.program.workspace(shape, dtype)
        lines = [s for i, s in enumerate(shape) if i != d]
        count = math.prod(lines)
        code = self.program_code()
        code.add("const long long i = blockIdx.x * 32LL + threadIdx.x;",
                 f"if (i >= {count}LL) return;")
        coords = split_index(code, "i", lines)
        at = coords[:d] + ["j"] + coords[d:]
        kind = self.kind(dtype)
        code.add(f"{kind} sum = {initial};",
                 f"for (long long j = 0; j < {shape[d]}LL; ++j) {{")
        code.add(f"  sum = {step.format('sum', x.load(code, at))};")
        flat = " + ".join(f"({c}) * {s}LL" for c, s in zip(at, contiguous(shape)))
        self.program.put(code, target, flat, "sum")
        code.add("}")
        self.program.kernel("scan", code, [target], -(-count // 32), 32)
        return target

    def program_code(self):
        from lower import Code
        return Code(self.program)

    def op_cumsum(self, a, shape, dtype, _):
        return self.scan(a, shape, dtype, "0", "{0} + {1}")

    def op_cumprod(self, a, shape, dtype, _):
        return self.scan(a, shape, dtype, "1", "{0} * {1}")

    # --- products ---

    def product(self, shape, dtype, left, right, bias=None, alpha=1, beta=1):
        """shape = (batch..., M, N); left (batch..., M, K), right (batch..., K, N), both stored."""
        shape = tuple(shape)
        depth = left.shape[-1]
        target = self.program.workspace(shape, dtype)

        def expression(code, coords):
            name = code.fresh("sum")
            code.add(f"Float {name} = 0;", f"for (long long k = 0; k < {depth}LL; ++k) {{")
            u = left.load(code, coords[:-1] + ["k"])
            v = right.load(code, coords[:-2] + ["k", coords[-1]])
            code.add(f"  {name} += {u} * {v};", "}")
            result = name if alpha == 1 else f"Float({alpha!r}) * {name}"
            if bias is not None and beta != 0:
                from lower import broadcast
                added = bias.load(code, broadcast(coords, bias.shape, shape))
                result += f" + {added}" if beta == 1 else f" + Float({beta!r}) * {added}"
            return f"({result})"

        self.program.pointwise(target, shape, expression, "matmul")
        return target

    def op_mm(self, a, shape, dtype, _):
        return self.product(shape, dtype, self.stored(a["self"]), self.stored(a["mat2"]))

    op_bmm = op_mm

    def op_addmm(self, a, shape, dtype, _):
        return self.product(shape, dtype, self.stored(a["mat1"]), self.stored(a["mat2"]),
                            self.stored(a["self"]), a.get("alpha", 1), a.get("beta", 1))

    def op_baddbmm(self, a, shape, dtype, _):
        return self.product(shape, dtype, self.stored(a["batch1"]), self.stored(a["batch2"]),
                            self.stored(a["self"]), a.get("alpha", 1), a.get("beta", 1))

    def op_mv(self, a, shape, dtype, _):
        x, v = self.stored(a["self"]), self.stored(a["vec"])
        terms = self.map(x.shape, dtype, lambda c, p: f"({p[0]} * {p[1]})", x, v)
        return self.op_sum({"self": terms, "dim": [1]}, shape, dtype, _)

    def op_dot(self, a, shape, dtype, _):
        x, y = self.stored(a["self"]), self.stored(a["tensor"])
        terms = self.map(x.shape, dtype, lambda c, p: f"({p[0]} * {p[1]})", x, y)
        return self.op_sum({"self": terms, "dim": [0]}, shape, dtype, _)

    def op_addmv(self, a, shape, dtype, _):
        value = self.op_mv({"self": a["mat"], "vec": a["vec"]}, shape, dtype, _)
        return self.arithmetic("({1} * {3} + {0} * {2})", shape, dtype, value, a["self"],
                               a.get("alpha", 1), a.get("beta", 1))

    def op_linear(self, a, shape, dtype, _):
        x, w = self.stored(a["input"]), self.stored(a["weight"])
        turned = View(w.buffer, w.shape[::-1], w.strides[::-1], w.offset)
        lead = x.shape[:-1]
        wide = View(turned.buffer, lead[:-1] + turned.shape, (0,) * len(lead[:-1]) + turned.strides,
                    turned.offset)
        return self.product(shape, dtype, x, wide,
                            None if a.get("bias") is None else self.stored(a["bias"]))

    # --- convolution ---

    def op_convolution(self, a, shape, dtype, _):
        x, w = self.stored(a["input"]), self.stored(a["weight"])
        bias = None if a["bias"] is None else self.stored(a["bias"])
        rank = len(shape) - 2
        wide = lambda v: list(v) * rank if len(v) == 1 else list(v)
        stride, pad, dilation = wide(a["stride"]), wide(a["padding"]), wide(a["dilation"])
        groups, transposed = a["groups"], a["transposed"]
        kernel = w.shape[2:]
        per_group_in = x.shape[1] // groups
        per_group_out = shape[1] // groups
        target = self.program.workspace(shape, dtype)

        def expression(code, coords):
            name = code.fresh("sum")
            group = code.let(f"({coords[1]}) / {per_group_out}LL", "long long")
            code.add(f"Float {name} = 0;", f"for (long long c = 0; c < {per_group_in}LL; ++c) {{")
            for i in range(rank):
                code.add(f"for (long long k{i} = 0; k{i} < {kernel[i]}LL; ++k{i}) {{")
                if transposed:
                    code.add(f"const long long n{i} = ({coords[2 + i]}) + {pad[i]}LL - "
                             f"k{i} * {dilation[i]}LL;",
                             f"if (n{i} < 0 || n{i} % {stride[i]}LL != 0) continue;",
                             f"const long long p{i} = n{i} / {stride[i]}LL;",
                             f"if (p{i} >= {x.shape[2 + i]}LL) continue;")
                else:
                    code.add(f"const long long p{i} = ({coords[2 + i]}) * {stride[i]}LL - "
                             f"{pad[i]}LL + k{i} * {dilation[i]}LL;",
                             f"if (p{i} < 0 || p{i} >= {x.shape[2 + i]}LL) continue;")
            channel = f"({group} * {per_group_in}LL + c)"
            u = x.load(code, [coords[0], channel] + [f"p{i}" for i in range(rank)])
            if transposed:
                at = [channel, f"(({coords[1]}) % {per_group_out}LL)"]
            else:
                at = [coords[1], "c"]
            v = w.load(code, at + [f"k{i}" for i in range(rank)])
            code.add(f"{name} += {u} * {v};", "}" * (rank + 1))
            return f"({name} + {bias.load(code, [coords[1]])})" if bias is not None else name

        self.program.pointwise(target, tuple(shape), expression, "convolution")
        return target

    # --- pooling ---

    def pool_settings(self, a, rank, x):
        wide = lambda v: list(v) * rank if len(v) == 1 else list(v)
        kernel = wide(a["kernel_size"])
        stride = wide(a["stride"]) if a.get("stride") else kernel
        return kernel, stride, wide(a.get("padding") or [0]), wide(a.get("dilation") or [1])

    def window_loops(self, code, coords, x, rank, kernel, stride, pad, dilation):
        lead = len(x.shape) - rank
        for i in range(rank):
            code.add(f"for (long long k{i} = 0; k{i} < {kernel[i]}LL; ++k{i}) {{",
                     f"const long long p{i} = ({coords[lead + i]}) * {stride[i]}LL - {pad[i]}LL + "
                     f"k{i} * {dilation[i]}LL;",
                     f"if (p{i} < 0 || p{i} >= {x.shape[lead + i]}LL) continue;")
        return x.load(code, list(coords[:lead]) + [f"p{i}" for i in range(rank)])

    def max_pool(self, a, shape, dtype, rank):
        x = self.stored(a["self"])
        kernel, stride, pad, dilation = self.pool_settings(a, rank, x)
        if shape is None:
            shape = self.pooled_shape(x, rank, kernel, stride, pad, dilation, a.get("ceil_mode"))
        target = self.program.workspace(shape, x.dtype)

        def expression(code, coords):
            name = code.fresh("top")
            code.add(f"Float {name} = {_LOWEST};")
            value = self.window_loops(code, coords, x, rank, kernel, stride, pad, dilation)
            code.add(f"const Float v = {value};",
                     f"if (v > {name} || v != v) {name} = v;", "}" * rank)
            return name

        self.program.pointwise(target, tuple(shape), expression, "max_pool")
        return target

    def pooled_shape(self, x, rank, kernel, stride, pad, dilation, ceil_mode):
        lead = len(x.shape) - rank
        shape = list(x.shape[:lead])
        for i in range(rank):
            span = x.shape[lead + i] + 2 * pad[i] - dilation[i] * (kernel[i] - 1) - 1
            size = (-(-span // stride[i]) if ceil_mode else span // stride[i]) + 1
            if ceil_mode and (size - 1) * stride[i] >= x.shape[lead + i] + pad[i]:
                size -= 1
            shape.append(size)
        return shape

    def op_max_pool2d_with_indices(self, a, shape, dtype, _):
        return self.max_pool(a, None, dtype, 2), None

    def op_max_pool3d_with_indices(self, a, shape, dtype, _):
        return self.max_pool(a, None, dtype, 3), None

    def op_max_pool1d(self, a, shape, dtype, _):
        return self.max_pool(a, shape, dtype, 1)

    op_max_pool2d = lambda self, a, shape, dtype, _: self.max_pool(a, shape, dtype, 2)
    op_max_pool3d = lambda self, a, shape, dtype, _: self.max_pool(a, shape, dtype, 3)

    def avg_pool(self, a, shape, dtype, rank):
        x = self.stored(a["self"])
        kernel, stride, pad, dilation = self.pool_settings({**a, "dilation": None}, rank, x)
        lead = len(x.shape) - rank
        divisor, include = a.get("divisor_override"), a.get("count_include_pad", True)
        target = self.program.workspace(shape, dtype)

        def expression(code, coords):
            name, count = code.fresh("sum"), []
            for i in range(rank):
                start = code.let(f"({coords[lead + i]}) * {stride[i]}LL - {pad[i]}LL", "long long")
                end = code.let(f"{start} + {kernel[i]}LL < {x.shape[lead + i] + pad[i]}LL ? "
                               f"{start} + {kernel[i]}LL : {x.shape[lead + i] + pad[i]}LL",
                               "long long")
                if include:
                    count.append(f"({end} - {start})")
                else:
                    count.append(f"(({end} < {x.shape[lead + i]}LL ? {end} : "
                                 f"{x.shape[lead + i]}LL) - ({start} > 0 ? {start} : 0LL))")
            code.add(f"Float {name} = 0;")
            value = self.window_loops(code, coords, x, rank, kernel, stride, pad, dilation)
            code.add(f"{name} += {value};", "}" * rank)
            total = str(divisor) if divisor else " * ".join(count)
            return f"({name} / Float({total}))"

        self.program.pointwise(target, tuple(shape), expression, "avg_pool")
        return target

    op_avg_pool1d = lambda self, a, shape, dtype, _: self.avg_pool(a, shape, dtype, 1)
    op_avg_pool2d = lambda self, a, shape, dtype, _: self.avg_pool(a, shape, dtype, 2)
    op_avg_pool3d = lambda self, a, shape, dtype, _: self.avg_pool(a, shape, dtype, 3)

    def adaptive_pool(self, a, shape, dtype, rank):
        x = self.stored(a["self"])
        lead = len(x.shape) - rank
        target = self.program.workspace(shape, dtype)

        def expression(code, coords):
            name, sizes = code.fresh("sum"), []
            code.add(f"Float {name} = 0;")
            for i in range(rank):
                n, m = x.shape[lead + i], shape[lead + i]
                start = code.let(f"({coords[lead + i]}) * {n}LL / {m}LL", "long long")
                end = code.let(f"((({coords[lead + i]}) + 1) * {n}LL + {m - 1}LL) / {m}LL",
                               "long long")
                sizes.append((start, end))
            for i, (start, end) in enumerate(sizes):
                code.add(f"for (long long p{i} = {start}; p{i} < {end}; ++p{i}) {{")
            value = x.load(code, list(coords[:lead]) + [f"p{i}" for i in range(rank)])
            code.add(f"{name} += {value};", "}" * rank)
            count = " * ".join(f"({e} - {s})" for s, e in sizes)
            return f"({name} / Float({count}))"

        self.program.pointwise(target, tuple(shape), expression, "adaptive_pool")
        return target

    op_adaptive_avg_pool1d = lambda self, a, shape, dtype, _: self.adaptive_pool(a, shape, dtype, 1)
    op__adaptive_avg_pool2d = lambda self, a, shape, dtype, _: self.adaptive_pool(a, shape, dtype,
                                                                                 2)
    op__adaptive_avg_pool3d = lambda self, a, shape, dtype, _: self.adaptive_pool(a, shape, dtype,
                                                                                 3)

    def op_upsample_nearest2d(self, a, shape, dtype, _):
        x = self.stored(a["input"] if "input" in a else a["self"])
        return Lazy(tuple(shape), dtype, lambda code, c: x.load(code, [
            c[0], c[1], f"(({c[2]}) * {x.shape[2]}LL / {shape[2]}LL)",
            f"(({c[3]}) * {x.shape[3]}LL / {shape[3]}LL)"]))

    # --- norms ---

    def affine_norm(self, x, mean, variance, eps, weight, bias):
        def function(code, p):
            value = f"(({p[0]} - {p[1]}) / sqrt({p[2]} + Float({eps!r})))"
            rest = list(p[3:])
            if weight is not None:
                value = f"({value} * {rest.pop(0)})"
            if bias is not None:
                value = f"({value} + {rest.pop(0)})"
            return value
        operands = [v for v in (weight, bias) if v is not None]
        return self.stored(self.map(x.shape, x.dtype, function, x, mean, variance, *operands))

    def op_native_layer_norm(self, a, shape, dtype, _):
        x = self.stored(a["input"])
        dims = list(range(len(x.shape) - len(a["normalized_shape"]), len(x.shape)))
        kept = [1 if i in dims else s for i, s in enumerate(x.shape)]
        mean, variance = self.moments(x, dims, kept, 0)
        return (self.affine_norm(x, mean, variance, float(a["eps"]), a["weight"], a["bias"]),
                None, None)

    def op_native_group_norm(self, a, shape, dtype, _):
        x = self.packed(a["input"])
        n, c, groups = a["N"], a["C"], a["group"]
        grouped = (n, groups, c // groups, math.prod(x.shape[2:]))
        wide = View(x.buffer, grouped, contiguous(grouped), x.offset)
        mean, variance = self.moments(wide, [2, 3], (n, groups, 1, 1), 0)

        def per_channel(v):
            if v is None:
                return None
            v = self.stored(v)
            return View(v.buffer, (1, groups, c // groups, 1),
                        (0, (c // groups) * v.strides[0], v.strides[0], 0), v.offset)

        result = self.affine_norm(wide, mean, variance, float(a["eps"]), per_channel(a["weight"]),
                                  per_channel(a["bias"]))
        return View(result.buffer, tuple(x.shape), contiguous(x.shape), 0), None, None

    def op_native_batch_norm(self, a, shape, dtype, _):
        x = self.stored(a["input"])
        dims = [i for i in range(len(x.shape)) if i != 1]
        kept = tuple(s if i == 1 else 1 for i, s in enumerate(x.shape))

        def per_channel(v):
            if v is None:
                return None
            v = self.stored(v)
            return View(v.buffer, kept, tuple(v.strides[0] if i == 1 else 0
                                              for i in range(len(kept))), v.offset)

        if a.get("training", True):
            mean, variance = self.moments(x, dims, kept, 0)
        else:
            mean, variance = per_channel(a["running_mean"]), per_channel(a["running_var"])
        return (self.affine_norm(x, mean, variance, float(a["eps"]), per_channel(a["weight"]),
                                 per_channel(a["bias"])), None, None)

    op__native_batch_norm_legit = op_cudnn_batch_norm = op_native_batch_norm

    def op__native_batch_norm_legit_no_training(self, a, shape, dtype, _):
        return self.op_native_batch_norm({**a, "training": False}, shape, dtype, _)

    # --- losses ---

    def reduced(self, value, reduction, shape, dtype):
        if reduction == 0:
            return value
        every = {"self": value, "dim": None}
        return (self.op_mean if reduction == 1 else self.op_sum)(every, shape, dtype, None)

    def loss(self, form, a, shape, dtype, *scalars):
        x, y = a["self"], a["target"]
        full = x.shape if len(x.shape) >= len(y.shape) else y.shape
        value = self.map(full, x.dtype, lambda c, p: form.format(
            c.let(f"Float({p[0]})"), c.let(f"Float({p[1]})"), *(f"Float({s})" for s in p[2:])),
            x, y, *scalars)
        return self.reduced(value, a.get("reduction", 1), shape, dtype)

    def op_mse_loss(self, a, shape, dtype, _):
        return self.loss("(({0} - {1}) * ({0} - {1}))", a, shape, dtype)

    def op_l1_loss(self, a, shape, dtype, _):
        return self.loss("fabs({0} - {1})", a, shape, dtype)

    def op_smooth_l1_loss(self, a, shape, dtype, _):
        return self.loss("(fabs({0} - {1}) < {2} ? Float(0.5) * ({0} - {1}) * ({0} - {1}) / {2} : "
                         "fabs({0} - {1}) - Float(0.5) * {2})", a, shape, dtype,
                         float(a.get("beta", 1.0)))

    def op_huber_loss(self, a, shape, dtype, _):
        return self.loss("(fabs({0} - {1}) <= {2} ? Float(0.5) * ({0} - {1}) * ({0} - {1}) : "
                         "{2} * (fabs({0} - {1}) - Float(0.5) * {2}))", a, shape, dtype,
                         float(a.get("delta", 1.0)))

    def op_binary_cross_entropy(self, a, shape, dtype, _):
        if a.get("weight") is not None:
            raise Unsupported("binary_cross_entropy with weights")
        return self.loss("(-({1} * fmax(log({0}), Float(-100)) + "
                         "(Float(1) - {1}) * fmax(log1p(-{0}), Float(-100))))", a, shape, dtype)

    def op_binary_cross_entropy_with_logits(self, a, shape, dtype, _):
        if a.get("weight") is not None or a.get("pos_weight") is not None:
            raise Unsupported("binary_cross_entropy_with_logits with weights")
        return self.loss("((Float(1) - {1}) * {0} + fmax(-{0}, Float(0)) + log1p(exp(-fabs({0}))))",
                         a, shape, dtype)

    def op_nll_loss_forward(self, a, shape, dtype, _):
        x, target = self.stored(a["self"]), self.stored(a["target"])
        if a.get("weight") is not None:
            raise Unsupported("nll_loss with class weights")
        ignore, reduction = a.get("ignore_index", -100), a.get("reduction", 1)
        rows = target.shape
        count = max(1, math.prod(rows))

        def value(code, coords):
            label = code.let(target.load(code, coords), "long long")
            picked = x.load(code, list(coords[:1]) + [f"({label} == {ignore}LL ? 0LL : {label})"] +
                            list(coords[1:])) if rows else x.load(code, [label])
            return f"({label} == {ignore}LL ? Float(0) : -({picked}))"

        losses = Lazy(rows, x.dtype, value)
        if reduction == 0:
            return losses, None
        if reduction == 2:
            return self.op_sum({"self": losses, "dim": None}, (), x.dtype, None), None
        kept = Lazy(rows, x.dtype, lambda code, coords:
                    f"Float(({target.load(code, coords)}) != {ignore}LL)")
        total = self.op_sum({"self": losses, "dim": None}, (), x.dtype, None)
        number_kept = self.op_sum({"self": kept, "dim": None}, (), x.dtype, None)
        return self.map((), x.dtype, lambda c, p: f"({p[0]} / {p[1]})", total, number_kept), None

    op_nll_loss2d_forward = op_nll_loss_forward
