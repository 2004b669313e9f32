"""Runs a module once and writes down the ATen operations it was made of."""

import operator
import tempfile

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from contractions import Lowering
from lower import NAMES, Buffer, Program, Unsupported, View, contiguous, source_head


class Traced:
    """graph, facts (shape and dtype per node), which node is which input or parameter."""

    def __init__(self, module, inputs, table):
        tensors = [v for v in inputs if isinstance(v, torch.Tensor)]
        for part in module.modules():
            # A counter that no output depends on; tracing its update fails in older releases.
            if isinstance(part, torch.nn.modules.batchnorm._NormBase) and part.momentum is not None:
                part.num_batches_tracked = None

        def call(*given):
            rest = iter(given)
            return module(*[next(rest) if isinstance(v, torch.Tensor) else v for v in inputs])

        with torch.no_grad():
            self.module = make_fx(call, decomposition_table=table)(*tensors)
        self.graph = self.module.graph
        self.graph.eliminate_dead_code()
        self.facts, self.constants = {}, {}
        facts, constants = self.facts, self.constants

        class Facts(torch.fx.Interpreter):
            def run_node(self, node):
                value = super().run_node(node)
                if isinstance(value, torch.Tensor):
                    facts[node] = (tuple(value.shape), value.dtype)
                    if node.op == "get_attr":
                        constants[node] = value
                return value

        with torch.no_grad():
            Facts(self.module).run(*[t.clone() for t in tensors])
        self.placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]


def warm_up():
    """What Python and PyTorch do once, and what newer releases look for a place in the file system
    for, is over before a fence stands: it is no module's doing."""
    tempfile.gettempdir()
    with torch.no_grad():
        make_fx(lambda x: torch.relu(x) + 1)(torch.zeros(2))


def trace(module, inputs):
    """The graph, with what `Lowering` does not know decomposed where torch knows how."""
    table = {}
    for _ in range(4):
        traced = Traced(module, inputs, table)
        missing = [n.target for n in traced.graph.nodes
                   if n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload) and
                   not known(n.target)]
        from torch._decomp import decomposition_table
        more = {op: decomposition_table[op] for op in missing
                if op in decomposition_table and op not in table}
        if not more:
            return traced
        table.update(more)
    return traced


def known(op):
    from operations import _COMPARE, _UNARY
    name = op._schema.name.split("::")[-1]
    if name.endswith("_") and not name.startswith("_"):
        name = name[:-1]
    return hasattr(Lowering, "op_" + name) or name in _UNARY or name in _COMPARE


def lower(traced, inputs, parameters, outputs, prefix, reference):
    """One variant of a program: (kernel texts, variant of the plan, types used).

    inputs, parameters: names of the task's tensors, in order of the placeholders and by
    `id` of the parameter tensor; outputs: names, dtypes of the task's outputs.
    """
    program = Program(prefix, reference)
    leaves = {}
    for node, name in zip(traced.placeholders, inputs):
        shape, dtype = traced.facts[node]
        leaves[node] = View(Buffer(name, dtype, "tensor", 1), shape, contiguous(shape), 0)
    for node, value in traced.constants.items():
        shape, dtype = traced.facts[node]
        name = parameters(value)
        leaves[node] = View(Buffer(name, dtype, "tensor", 1), shape, contiguous(shape), 0)
    lowering = Lowering(program, traced.facts)
    results = lowering.run(traced.graph, leaves)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    results = [r for r in results if hasattr(r, "shape")]
    for (name, _), value in zip(outputs, results):
        target = View(Buffer(name, value.dtype, "tensor", 1), tuple(value.shape),
                      contiguous(value.shape), 0)
        program.pointwise(target, tuple(value.shape), value.load, "store")
    variant = {"workspace": [{"name": w.name, "dtype": program.store_type(w.dtype),
                              "shape": [w.elements]} for w in program.workspaces],
               "launches": program.launches}
    types = {NAMES[d] for _, d in traced.facts.values() if d in NAMES}
    return program.kernels, variant, types


def source(kernels, reference, types):
    return source_head(reference, types) + "\n" + "\n".join(kernels)
