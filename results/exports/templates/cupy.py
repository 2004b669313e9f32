@@HEADER@@
import ctypes
import glob
import os
import sys
import tempfile
from types import SimpleNamespace

import cupy

F64, F32, F16, BF16, I64, I32, I8, U8, BOOL = range(9)
SIZES = (8, 4, 2, 2, 8, 4, 1, 1, 1)
# CuPy has no bfloat16: such arrays hold the bits.
DTYPES = ("float64", "float32", "float16", "uint16", "int64", "int32", "int8", "uint8", "bool")

SOURCE = @@SOURCE@@

# What is served from memory beside the toolkit's headers: NVRTC has no standard ones.
HEADERS = {@@HEADERS@@}


def _div(a, b):
    return -(-a // b) if (a < 0) != (b < 0) else a // b


def _mod(a, b):
    return a - b * _div(a, b)


def _ceil_div(a, b):
    return -(-a // b)


def _tensor(name, type, output, shape, distribution):
    return SimpleNamespace(name=name, type=type, output=output, shape=shape, distribution=distribution)


CASES = [
@@CASES@@]


def plan(it, run):
    """The launch plan: what is launched for case `it`, in order."""
@@PLAN@@

class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class _Config(ctypes.Structure):
    _fields_ = [(f"{what}{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"] + [
        ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint)]


class _Driver:
    """The CUDA driver: CuPy's own launch knows neither clusters nor tensor maps."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *args):
        code = getattr(self.library, name)(*args)
        if code != 0:
            raise RuntimeError(f"{name}: CUDA error {code}")


class Run:
    """One execution of a plan, on CuPy's current stream."""

    def __init__(self, it, kernels, arrays, driver):
        self.it, self.kernels, self.arrays, self.driver = it, kernels, arrays, driver
        self.stream = cupy.cuda.get_current_stream().ptr
        self.kept = []
        self.behind_kernel = False
        attributes = cupy.cuda.Device().attributes
        self.constants = {"sm_count": attributes["MultiProcessorCount"],
                          "max_shared": attributes["MaxSharedMemoryPerBlockOptin"],
                          "l2_bytes": attributes["L2CacheSize"]}

    def device(self, name):
        return self.constants[name]

    def tensor(self, index):
        return self.arrays[index].data.ptr

    def workspace(self, name, size, zero):
        self.kept.append((cupy.zeros if zero else cupy.empty)(size, dtype=cupy.uint8))
        return self.kept[-1].data.ptr

    def tensor_map(self, name, type, address, shape, box, element_strides, swizzle, interleave, promotion):
        types = (8, 7, 6, 9, 5, 3, 0, 0, 0)  # CUtensorMapDataType
        rank = len(shape)
        dims = (ctypes.c_uint64 * 5)(*reversed(shape))
        strides, stride = (ctypes.c_uint64 * 5)(), SIZES[type]
        for i in range(rank):
            stride *= dims[i]
            strides[i] = stride
        memory = ctypes.create_string_buffer(192)
        at = -ctypes.addressof(memory) % 64
        encoded = (ctypes.c_char * 128).from_buffer(memory, at)
        self.driver.call("cuTensorMapEncodeTiled", ctypes.byref(encoded), types[type], rank, ctypes.c_void_p(address),
                         dims, strides, (ctypes.c_uint32 * 5)(*reversed(box)),
                         (ctypes.c_uint32 * 5)(*reversed(element_strides)), interleave, swizzle, promotion, 0)
        self.kept.append(memory)
        return encoded

    def launch(self, kernel, grid, block, shared, cluster, cooperative, dependent, *args):
        function = ctypes.c_void_p(self.kernels(kernel))
        values = []
        for kind, value in args:
            if kind == "map":
                values.append(value)
            else:
                values.append({"ptr": ctypes.c_void_p, "i32": ctypes.c_int, "i64": ctypes.c_longlong,
                               "f32": ctypes.c_float, "f64": ctypes.c_double}[kind](value))
        parameters = (ctypes.c_void_p * (len(values) + 1))(*(ctypes.addressof(v) for v in values), None)
        # What the kernel declares itself counts too: both together are held to 48 KB until it opts in.
        fixed = ctypes.c_int()
        if shared > 0:
            self.driver.call("cuFuncGetAttribute", ctypes.byref(fixed), 1, function)
        if shared > 0 and shared + fixed.value > 48 * 1024:
            self.driver.call("cuFuncSetAttribute", function, 8, ctypes.c_int(shared))
        attributes = []
        if cluster[0] > 0:
            if cluster[0] * cluster[1] * cluster[2] > 8:
                self.driver.call("cuFuncSetAttribute", function, 14, ctypes.c_int(1))
            attributes.append((4, cluster))
        if cooperative:
            attributes.append((2, (1,)))
        # Not the first: it must not overlap what stood on the stream before.
        if dependent and self.behind_kernel:
            attributes.append((6, (1,)))
        array = (_Attribute * 3)()
        for slot, (number, value) in zip(array, attributes):
            slot.id = number
            for i, word in enumerate(value):
                slot.value[i] = word
        config = _Config(*grid, *block, shared, self.stream, array, len(attributes))
        self.driver.call("cuLaunchKernelEx", ctypes.byref(config), function, parameters, None)
        self.behind_kernel = True

    def gemm(self, m, n, k, batch, alpha, beta, compute, a, b, c):
        """Row-major c = alpha a b + beta c. cuBLAS is column-major: C^T = B^T A^T."""
        if m == 0 or n == 0 or batch == 0:
            return
        from cupy_backends.cuda.libs import cublas
        kinds = {F64: 1, F32: 0, F16: 2, BF16: 14}
        number = {"fp32": 69 if a[1] == F32 else 68, "tf32": 77, "fp16": 74, "bf16": 75, "bf16x9": 78,
                  "fp64": 70}[compute]
        scale = ctypes.c_double if compute == "fp64" else ctypes.c_float
        one, other = scale(alpha), scale(beta)
        handle = cupy.cuda.device.get_cublas_handle()
        cublas.setStream(handle, self.stream)
        cublas.gemmStridedBatchedEx(
            handle, int(b[5]), int(a[5]), n, m, k, ctypes.addressof(one), b[0] + b[2] * SIZES[b[1]], kinds[b[1]],
            b[3], b[4], a[0] + a[2] * SIZES[a[1]], kinds[a[1]], a[3], a[4], ctypes.addressof(other),
            c[0] + c[2] * SIZES[c[1]], kinds[c[1]], c[3], c[4], batch, number, -1)
        self.behind_kernel = False


def _toolkits():
    """Folders that may be a CUDA toolkit: CuPy's, the environment's, Python's wheels, the system's."""
    roots = [cupy.cuda.get_cuda_path(), os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    for package in sys.path:
        roots += sorted(glob.glob(os.path.join(package, "nvidia", "cu[0-9]*")), reverse=True)
        roots.append(os.path.join(package, "nvidia", "cuda_runtime"))
    return [root for root in roots if root] + ["/usr/local/cuda", "/usr"]


def _header_folders(toolkits):
    """The folders of headers that the first of these toolkits has.

    CCCL's (cooperative_groups.h includes its nv/target) may be missing there, since Python's wheels keep the two apart:
    then of the first that has them, or CuPy's own.
    """
    def find(folders, file):
        for folder in folders:
            if os.path.exists(os.path.join(folder, file)):
                return folder
        return None

    includes = [os.path.join(root, folder) for root in toolkits
                for folder in ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")]
    own = find(includes, "cuda_fp16.h")
    if own is None:
        return []
    cccl = find([f"{own}/cccl", own], "nv/target")
    if cccl is None:
        folders = [f"{include}/cccl" for include in includes]
        folders += [os.path.join(os.path.dirname(root), "cuda_cccl/include") for root in toolkits]
        folders += includes
        folders.append(os.path.join(os.path.dirname(cupy.__file__), "_core/include/cupy/_cccl/libcudacxx"))
        cccl = find(folders, "nv/target")
    return [own] + ([cccl] if cccl not in (None, own) else [])


def _compile(code):
    """Machine code, by NVRTC: the text and the options of the run that the kernel is from.

    CuPy's RawModule has options of its own and compiles for sm_90, not for sm_90a.
    """
    from cupy_backends.cuda.libs import nvrtc
    capability = cupy.cuda.Device().compute_capability
    options = [f"--gpu-architecture=sm_{capability}" + ("a" if int(capability) >= 90 else ""), @@OPTIONS@@]
    if nvrtc.getVersion()[0] >= 13:
        options.append("--no-cache")
    folders = _header_folders(_toolkits())
    options += [f"-I{folder}" for folder in folders]
    texts, names = [text.encode() for text in HEADERS.values()], [name.encode() for name in HEADERS]
    program = nvrtc.createProgram(code, "kernel.cu", texts, names)
    try:
        nvrtc.compileProgram(program, tuple(options))
    except nvrtc.NVRTCError as problem:
        log = nvrtc.getProgramLog(program)
        raise RuntimeError(f"{log}(headers of {' '.join(folders) or 'no toolkit: set CUDA_HOME'})") from problem
    return nvrtc.getCUBIN(program)


class Kernel:
    """The kernel compiled for one case."""

    def __init__(self, it):
        self.it, self.driver, self.functions = it, _Driver(), {}
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(_compile(it.prelude + SOURCE))
            file.flush()
            self.module = cupy.RawModule(path=file.name)
            self.module.get_function(KERNELS[0]).kernel  # loaded while the file is there

    def function(self, name):
        if name not in self.functions:
            self.functions[name] = self.module.get_function(name)
        return self.functions[name].kernel.ptr

    def __call__(self, *inputs):
        """The outputs, in the task's order. Inputs are C-contiguous arrays of the case's shapes."""
        arrays, given = [], iter(inputs)
        for tensor in self.it.tensors:
            if tensor.output:
                arrays.append(cupy.empty(tensor.shape, dtype=DTYPES[tensor.type]))
                continue
            array = next(given)
            if array.shape != tuple(tensor.shape) or array.dtype != DTYPES[tensor.type] or not array.flags.c_contiguous:
                raise ValueError(f"{tensor.name}: expected a C-contiguous {DTYPES[tensor.type]} array of shape "
                                 f"{tuple(tensor.shape)}, got {array.dtype} {array.shape}")
            arrays.append(array)
        plan(self.it, Run(self.it, self.function, arrays, self.driver))
        outputs = [array for array, tensor in zip(arrays, self.it.tensors) if tensor.output]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


KERNELS = @@KERNELS@@


def draw(tensor):
    """An input of the tensor's distribution."""
    kind, a, b = tensor.distribution
    shape = tuple(tensor.shape)
    if kind == "constant":
        value = cupy.full(shape, a)
    elif kind == "uniform":
        value = cupy.random.uniform(a, b, shape)
        if tensor.type in (I64, I32, I8, U8):
            value = cupy.floor(value)
    elif kind == "mixed":
        value = cupy.random.standard_normal(shape) * cupy.where(cupy.random.uniform(0, 1, shape) < 0.5, a, b)
    elif kind == "matrix":  # dense, columns falling over `a` decimal orders
        columns = cupy.arange(shape[-1]) / max(shape[-1] - 1, 1)
        value = cupy.random.standard_normal(shape) * 10.0 ** (-a * columns)
    else:
        value = cupy.random.standard_normal(shape) * b + a
        if kind == "tail":
            value[..., :shape[-1] - max(1, shape[-1] // 100)] = 0
    if tensor.type == BF16:
        return (value.astype(cupy.float32).view(cupy.uint32) >> 16).astype(cupy.uint16)
    return value.astype(DTYPES[tensor.type])


def measure(call, budget_ms=300.0):
    """Median in microseconds, cold: the L2 cache is written over before every call."""
    # Long enough to enqueue the call behind it: Python takes about 100 us for a launch.
    flush = cupy.empty(8 * cupy.cuda.Device().attributes["L2CacheSize"], dtype=cupy.uint8)
    samples = []
    while len(samples) < 10 or (sum(samples) < 1e3 * budget_ms and len(samples) < 100):
        flush.fill(len(samples) & 1)
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        samples.append(1e3 * cupy.cuda.get_elapsed_time(start, stop))
    return sorted(samples)[len(samples) // 2]


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else None
    for it in CASES:
        if only not in (None, it.name):
            continue
        kernel = Kernel(it)
        inputs = [draw(tensor) for tensor in it.tensors if not tensor.output]
        kernel(*inputs)
        cupy.cuda.Device().synchronize()
        print(f"{it.name:16} {measure(lambda: kernel(*inputs)):.2f} us cold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
