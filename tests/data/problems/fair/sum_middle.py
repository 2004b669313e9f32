import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Sum over a middle dim."""

    def forward(self, x):
        return torch.sum(x, dim=1)


batch = 64
length = 256
width = 128


def get_inputs():
    return [torch.rand(batch, length, width)]


def get_init_inputs():
    return []
