#!/usr/bin/env python3
"""Times a kernel that `gpu_bench dump TASK FOLDER` wrote, with Triton's do_bench.

For comparing our cold timer with do_bench on the very same machine code. Needs torch, triton and
cupy. Usage: do_bench_cubin.py FOLDER/TASK.json; prints one line.
"""
import json
import pathlib
import sys

import cupy
import torch
from triton.testing import do_bench

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}


def main() -> int:
    path = pathlib.Path(sys.argv[1])
    meta = json.loads(path.read_text())
    module = cupy.RawModule(path=str(path.with_suffix(".cubin")))
    kernel = module.get_function(meta["kernel"])
    torch.manual_seed(0)
    tensors = {}
    for tensor in meta["tensors"]:
        make = torch.empty if tensor["output"] else torch.randn
        tensors[tensor["name"]] = make(tensor["shape"], dtype=DTYPES[tensor["dtype"]], device="cuda")
    args = tuple(tensors[name].data_ptr() for name in meta["args"])
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
    grid, block = tuple(meta["grid"]), tuple(meta["block"])

    def call() -> None:
        with stream:
            kernel(grid, block, args, shared_mem=meta["shared"])

    times = [1e3 * do_bench(call, warmup=25, rep=300, return_mode="median") for _ in range(3)]
    median = sorted(times)[1]
    ours = meta["grove_cold_us"]
    print(f"do_bench {path.stem}: {median:.2f} us (three runs {min(times):.2f} to {max(times):.2f}), "
          f"ours cold {ours:.2f} us, ours/do_bench {ours / median:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
