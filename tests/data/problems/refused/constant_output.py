import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Every element of the output is the same."""

    def forward(self, x):
        x = x - x.mean(dim=1, keepdim=True)
        return torch.softmax(x, dim=1).sum(dim=1) * 0 + 4


rows = 64
columns = 128


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
