

class ModelNew(torch.nn.Module):
    """In the place of KernelBench's Model: the same arguments, forward(@@INPUTS@@)."""

    def __init__(self, *args, **kwargs):
        super().__init__()
        # Built here, so that compiling is in no measured time.
        if torch.cuda.is_available():
            _module()

    def forward(self, *inputs):
        return run(*(value.contiguous() for value in inputs))
