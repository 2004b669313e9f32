    """Compiles at the first call; PyTorch keeps the result on the disk."""
    arch = os.environ.get("GROVE_ARCH")
    if not arch:
        major, minor = torch.cuda.get_device_capability()
        arch = f"{major}{minor}" + ("a" if major >= 9 else "")
    options = {}
    # Older versions put PyTorch's headers in front of the CUDA source, which costs a minute.
    if "no_implicit_headers" in inspect.signature(load_inline).parameters:
        options["no_implicit_headers"] = True
    return load_inline(
        name="@@NAME@@",
        cpp_sources=[API + BINDING],
        cuda_sources=[API + CUDA],
        functions=["run"],
        extra_cflags=["-O2"],
        extra_cuda_cflags=["-O3", "-std=c++17", "--expt-relaxed-constexpr", "-diag-suppress=20012",
                           f"-gencode=arch=compute_{arch},code=sm_{arch}"@@NVCC_FLAGS@@],
        extra_ldflags=[@@LIBRARIES@@],
        **options)
