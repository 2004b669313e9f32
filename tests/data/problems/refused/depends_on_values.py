import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """What is computed depends on the values."""

    def forward(self, x):
        return x * 2 if x.sum() > 0 else x - 1


rows = 64


def get_inputs():
    return [torch.randn(rows)]


def get_init_inputs():
    return []
