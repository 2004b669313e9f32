import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Weighted sums of windows that overlap in memory."""

    def forward(self, windows, weight):
        return (windows * weight).sum(dim=-1)


length = 4096
width = 32


def get_inputs():
    return [torch.randn(length + width - 1).unfold(0, width, 1), torch.rand(width)]


def get_init_inputs():
    return []
