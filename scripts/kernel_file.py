"""Kernels of ours as Python functions: tensors in the task's order in, outputs in the task's order out.

  FILE.py     defines run(*inputs): what `grove export` writes for PyTorch, or anything else that does
  FILE.json   what `grove compile` writes, with its .cubin: launched through the CUDA driver
  FILE.cu     with its .json plan: run by `grove emulate`, on a machine with no GPU
"""
import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "seeds",
                                "importers", "torch"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "share", "grove",
                                "importers", "torch"))
import safetensors_file

DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
          "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32, "i8": torch.int8,
          "u8": torch.uint8, "bool": torch.bool}


class BadKernel(Exception):
    """The kernel cannot be had or failed; the text says why."""


def load(path, task, case, grove, tasks=None):
    """`case` is one of `grove tasks show --json`."""
    if path.endswith(".py"):
        spec = importlib.util.spec_from_file_location("grove_kernel_" + str(abs(hash(path))), path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if not hasattr(module, "run"):
            raise BadKernel(f"{path}: defines no run(*inputs)")
        return lambda *inputs: _as_list(module.run(*inputs))
    if path.endswith(".json"):
        return Launcher(path)
    return Emulated(path, task, case, grove, tasks)


def _as_list(outputs):
    return [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)


class Emulated:
    """Executes the kernel itself, instruction by instruction, in `grove emulate`. What it computes is
    what a GPU would; how long it takes says nothing."""

    def __init__(self, path, task, case, grove, tasks):
        self.command = [grove] + (["--tasks", tasks] if tasks else []) + [
            "emulate", task, case["name"], path]
        self.inputs = [t for t in case["tensors"] if t["role"] == "input"]
        self.outputs = [t for t in case["tensors"] if t["role"] == "output"]

    def __call__(self, *inputs):
        with tempfile.TemporaryDirectory(prefix="grove-emulate-") as folder:
            given, made = os.path.join(folder, "in"), os.path.join(folder, "out")
            safetensors_file.save(given, {t["name"]: v.detach().cpu()
                                          for t, v in zip(self.inputs, inputs)})
            done = subprocess.run(self.command + ["--inputs", given, "--output", made],
                                  capture_output=True, text=True, timeout=600)
            if done.returncode != 0:
                raise BadKernel(" ".join(self.command[-3:]) + ": " + done.stderr.strip()[-400:])
            values = safetensors_file.load(made)
        return [values[t["name"]].to(inputs[0].device) for t in self.outputs]


class Launcher:
    """Launches a cubin on PyTorch's current stream. No host code is compiled."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.plan = json.load(file)
        with open(os.path.join(os.path.dirname(os.path.abspath(path)), self.plan["cubin"]), "rb") as file:
            cubin = file.read()
        torch.zeros(1, device="cuda")  # a context
        self.cuda = ctypes.CDLL("libcuda.so.1")
        module = ctypes.c_void_p()
        self._check(self.cuda.cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
        self.functions = {}
        for launch in self.plan["launches"]:
            if launch.get("cluster"):
                raise BadKernel(f"{path}: launches of clusters are for grove export")
            name = launch["kernel"]
            if name not in self.functions:
                function = ctypes.c_void_p()
                self._check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module,
                                                          name.encode()), name)
                self.functions[name] = function
            fixed = ctypes.c_int()  # what the kernel declares itself counts too
            self._check(self.cuda.cuFuncGetAttribute(ctypes.byref(fixed), 1, self.functions[name]), name)
            if launch["shared_bytes"] > 0 and launch["shared_bytes"] + fixed.value > 48 * 1024:
                self._check(self.cuda.cuFuncSetAttribute(self.functions[name], 8,
                                                         launch["shared_bytes"]), name)
        self.tensors = self.plan["tensors"]
        self.workspaces = [torch.zeros(max(1, w["bytes"]), dtype=torch.uint8, device="cuda")
                           for w in self.plan["workspaces"]]
        self.constants = [self._constants(launch) for launch in self.plan["launches"]]

    def _check(self, code, what):
        if code != 0:
            raise BadKernel(f"{what}: CUDA driver error {code}")

    @staticmethod
    def _constants(launch):
        """Scalar arguments as buffers, None for pointers."""
        return [ctypes.create_string_buffer(bytes.fromhex(arg["bytes"])) if "bytes" in arg else None
                for arg in launch["args"]]

    def __call__(self, *inputs):
        given = iter(inputs)
        device = inputs[0].device
        tensors = [next(given) if t["role"] == "input" else
                   torch.empty(t["shape"], dtype=DTYPES[t["dtype"]], device=device)
                   for t in self.tensors]
        for workspace, declared in zip(self.workspaces, self.plan["workspaces"]):
            if declared["zero"]:
                workspace.zero_()
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for launch, constants in zip(self.plan["launches"], self.constants):
            values = []
            for arg, constant in zip(launch["args"], constants):
                if constant is not None:
                    values.append(constant)
                    continue
                buffer = (tensors[arg["tensor"]] if "tensor" in arg
                          else self.workspaces[arg["workspace"]])
                values.append(ctypes.c_uint64(buffer.data_ptr()))
            pointers = (ctypes.c_void_p * max(1, len(values)))(
                *[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
            call = (self.cuda.cuLaunchCooperativeKernel if launch["cooperative"]
                    else self.cuda.cuLaunchKernel)
            arguments = [self.functions[launch["kernel"]], *launch["grid"], *launch["block"],
                         launch["shared_bytes"], stream, pointers]
            if not launch["cooperative"]:
                arguments.append(None)
            self._check(call(*arguments), launch["kernel"])
        return [t for t, declared in zip(tensors, self.tensors) if declared["role"] == "output"]
