import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """The output is so small that zeros would pass."""

    def forward(self, x):
        return x * 1e-30


rows = 64
columns = 128


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
