@@HEADER@@
import os

import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

arch = os.environ.get("GROVE_ARCH")
if not arch:
    major, minor = torch.cuda.get_device_capability()
    arch = f"{major}{minor}" + ("a" if major >= 9 else "")

setup(
    name="@@NAME@@",
    version="1.0",
    ext_modules=[
        CUDAExtension(
            "@@NAME@@",
            ["@@NAME@@_binding.cpp", "@@NAME@@.cu"],
            libraries=[@@LIBRARIES@@],
            extra_compile_args={
                "cxx": ["-O2"],
                "nvcc": ["-O3", "-std=c++17", "--expt-relaxed-constexpr", "-diag-suppress=20012",
                         f"-gencode=arch=compute_{arch},code=sm_{arch}"],
            })
    ],
    cmdclass={"build_ext": BuildExtension})
