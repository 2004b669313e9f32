import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Elementwise with a learned bias per column."""

    def __init__(self, columns):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        return x * torch.sigmoid(x) + self.bias


rows = 256
columns = 2048


def get_inputs():
    return [torch.rand(rows, columns) * 4 - 2]


def get_init_inputs():
    return [columns]
