    """Compiles the host side at the first call, without nvcc; PyTorch keeps the result on the disk.

    NVRTC compiles the kernel, when it is first used on a device.
    """
    if cpp_extension.CUDA_HOME:  # of one version with PyTorch's other extensions
        os.environ.setdefault("CUDA_HOME", cpp_extension.CUDA_HOME)
    if not torch.cuda.is_available():  # PyTorch asks the GPU for an architecture, which nothing here is compiled for
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")
    options = {}
    if "no_implicit_headers" in inspect.signature(load_inline).parameters:
        options["no_implicit_headers"] = True
    return load_inline(
        name="@@NAME@@",
        cpp_sources=[API + HOST + BINDING],
        functions=["run"],
        extra_cflags=["-O2"],
        extra_ldflags=["-ldl"@@LIBRARIES@@],
        with_cuda=True,
        **options)
