"""Runs exported Python files against fakes of PyTorch and CuPy and prints what they asked for.

  record_python.py cupy FILE...    every case of each file's plan, in the lines of recorder.h
  record_python.py torch FILE...   one JSON line per file
  record_python.py headers FILE [TOOLKIT...]   where a CuPy script finds headers among these toolkits, and
                                               without any where it looks for toolkits
"""
import ctypes
import importlib.util
import json
import os
import struct
import sys
from types import ModuleType, SimpleNamespace


def load(path):
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- CuPy ---
WORKSPACE = 100 << 40


class Array:
    def __init__(self, address):
        self.data = SimpleNamespace(ptr=address)


class FakeCupy(ModuleType):
    uint8 = "uint8"

    def __init__(self):
        super().__init__("cupy")
        attributes = {"MultiProcessorCount": 132, "MaxSharedMemoryPerBlockOptin": 232448, "L2CacheSize": 52428800}
        self.cuda = SimpleNamespace(
            get_current_stream=lambda: SimpleNamespace(ptr=0x77),
            Device=lambda: SimpleNamespace(attributes=attributes),
            device=SimpleNamespace(get_cublas_handle=lambda: 1))
        self.next = WORKSPACE

    def empty(self, size, dtype):
        array = Array(self.next)
        self.next += (size + 255) // 256 * 256
        return array

    def zeros(self, size, dtype):
        array = self.empty(size, dtype)
        print(f"memset {array.data.ptr:#x} 0 {size} stream 0x77")
        return array


class Recorder:
    """In the place of the driver."""

    def __init__(self):
        self.maps = 0
        self.kinds = []

    def call(self, name, *args):
        if name == "cuFuncGetAttribute":  # every kernel declares 2 KB itself
            assert args[1] == 1, args
            args[0]._obj.value = 2048
        elif name == "cuFuncSetAttribute":
            print(f"attribute {args[0].value or 0} {args[1]} {args[2].value}")
        elif name == "cuTensorMapEncodeTiled":
            encoded, kind, rank, address, dims, strides, box, steps, interleave, swizzle, promotion, fill = args
            self.maps += 1
            ctypes.memmove(encoded._obj, struct.pack("<q", self.maps), 8)
            assert ctypes.addressof(encoded._obj) % 64 == 0
            text = f"map {self.maps} type {kind} address {address.value:#x} modes {interleave} {swizzle} {promotion} {fill}"
            for i in range(rank):
                text += f" dim {dims[i]} box {box[i]} step {steps[i]}"
                if i + 1 < rank:
                    text += f" stride {strides[i]}"
            print(text)
        elif name == "cuLaunchKernelEx":
            self.launch(*args)
        else:
            print("unknown call", name)

    def launch(self, config, function, parameters, extra):
        c = config._obj
        text = (f"launch {function.value or 0} grid {c.gridx} {c.gridy} {c.gridz} block {c.blockx} {c.blocky} {c.blockz} "
                f"shared {c.shared} stream {c.stream:#x}")
        for i in range(c.attribute_count):
            a = c.attributes[i]
            if a.id == 4:
                text += f" cluster {a.value[0]} {a.value[1]} {a.value[2]}"
            elif a.id == 2:
                text += f" cooperative {a.value[0]}"
            elif a.id == 6:
                text += f" dependent {a.value[0]}"
        text += " args"
        for i, size in enumerate(self.kinds):
            text += " " + ctypes.string_at(parameters[i], min(size, 8)).hex()
        assert parameters[len(self.kinds)] is None
        print(text)


def gemm(handle, transa, transb, m, n, k, alpha, a, atype, lda, sa, b, btype, ldb, sb, beta, c, ctype, ldc, sc, batch,
         compute, algo):
    read = ctypes.c_double.from_address if compute == 70 else ctypes.c_float.from_address

    def hexadecimal(value):  # as printf's %a
        mantissa, exponent = float(value).hex().split("p")
        if "." in mantissa:
            mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{mantissa}p{exponent}"
    print("math 0")
    print(f"gemm {transa} {transb} {m} {n} {k} batch {batch} scale {hexadecimal(read(alpha).value)} "
          f"{hexadecimal(read(beta).value)} a {a:#x} {atype} {lda} {sa} b {b:#x} {btype} {ldb} {sb} "
          f"c {c:#x} {ctype} {ldc} {sc} compute {compute} {algo}")
    print("math 3")


def record_cupy(paths):
    cupy = FakeCupy()
    sys.modules["cupy"] = cupy
    for name in ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.libs"):
        sys.modules[name] = ModuleType(name)
    sys.modules["cupy_backends.cuda.libs"].cublas = SimpleNamespace(setStream=lambda *_: None,
                                                                   gemmStridedBatchedEx=gemm)
    recorder = Recorder()
    sizes = {"ptr": 8, "map": 128, "i32": 4, "i64": 8, "f32": 4, "f64": 8}
    for i, path in enumerate(paths):
        module = load(path)

        class Run(module.Run):
            def launch(self, kernel, grid, block, shared, cluster, cooperative, dependent, *args):
                recorder.kinds = [sizes[kind] for kind, _ in args]
                super().launch(kernel, grid, block, shared, cluster, cooperative, dependent, *args)

        for k, it in enumerate(module.CASES):
            print(f"== {i} {k}")
            assert "namespace dim {" in it.prelude
            cupy.next = WORKSPACE
            arrays = [Array((t + 1) << 40) for t in range(len(it.tensors))]
            module.plan(it, Run(it, module.KERNELS.index, arrays, recorder))
            print(f"workspace {cupy.next - WORKSPACE}")


def headers(arguments):
    cupy = FakeCupy()
    sys.modules["cupy"] = cupy
    cupy.__file__ = os.path.join(os.path.dirname(arguments[0]), "cupy", "__init__.py")
    cupy.cuda.get_cuda_path = lambda: "/cupy/toolkit"
    module = load(arguments[0])
    print(*(module._header_folders(arguments[1:]) if arguments[1:] else module._toolkits()))


# --- PyTorch ---
def record_torch(paths):
    asked = []

    class Extension:
        def run(self, inputs):
            return ["out"] * self.outputs + []

    def load_inline(name, cpp_sources, functions, cuda_sources=None, extra_cflags=None, extra_cuda_cflags=None,
                    extra_ldflags=None, with_cuda=None, no_implicit_headers=False):
        asked.append(dict(name=name, cpp=cpp_sources, cuda=cuda_sources, functions=functions, flags=extra_cuda_cflags,
                          libraries=extra_ldflags, with_cuda=with_cuda, bare=no_implicit_headers))
        extension = Extension()
        extension.outputs = cpp_outputs[0]
        return extension

    cpp_outputs = [1]

    class Tensor:
        def contiguous(self):
            return self

    torch = ModuleType("torch")
    torch.nn = SimpleNamespace(Module=object)
    torch.cuda = SimpleNamespace(get_device_capability=lambda: (9, 0), is_available=lambda: True)
    utils, extension = ModuleType("torch.utils"), ModuleType("torch.utils.cpp_extension")
    extension.load_inline = load_inline
    extension.CUDA_HOME = "/opt/cuda"
    utils.cpp_extension = extension
    torch.utils = utils
    sys.modules.update({"torch": torch, "torch.utils": utils, "torch.utils.cpp_extension": extension})
    for path in paths:
        del asked[:]
        module = load(path)
        assert not asked, "imports compile nothing"
        one = module.run(Tensor())
        cpp_outputs[0] = 2
        module._module.cache_clear()
        two = module.run(Tensor())
        cpp_outputs[0] = 1
        module._module.cache_clear()
        report = dict(asked[0], one=one, two=two)
        if hasattr(module, "ModelNew"):
            report["model"] = module.ModelNew(3, eps=1).forward(Tensor())
        if hasattr(module, "custom_kernel"):
            report["custom"] = [module.custom_kernel(Tensor()), module.custom_kernel((Tensor(), Tensor()))]
        print(json.dumps(report))


if __name__ == "__main__":
    {"cupy": record_cupy, "torch": record_torch, "headers": headers}[sys.argv[1]](sys.argv[2:])
