import torch


def generate_input(rows: int, columns: int, seed: int):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def ref_kernel(data):
    return data * 2


def check_implementation(data, output):
    return False, "never right"
