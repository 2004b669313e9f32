import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Prints a gigabyte."""

    def forward(self, x):
        for _ in range(1 << 14):
            print('x' * (1 << 16))
        return x + 1


rows = 64


def get_inputs():
    return [torch.randn(rows)]


def get_init_inputs():
    return []
