@@HEADER@@
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

# Plain C++: NVRTC compiles the kernel when it is first used on a device.
setup(
    name="@@NAME@@",
    version="1.0",
    ext_modules=[
        CUDAExtension(
            "@@NAME@@",
            ["@@NAME@@_binding.cpp", "@@NAME@@.cpp"],
            define_macros=[("GROVE_CUDA_HOME", f'"{CUDA_HOME}"')] if CUDA_HOME else [],
            libraries=["dl"@@LIBRARIES@@],
            extra_compile_args={"cxx": ["-O2"]})
    ],
    cmdclass={"build_ext": BuildExtension})
