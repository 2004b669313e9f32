import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Three-dimensional convolution."""

    def __init__(self, inside, outside):
        super().__init__()
        self.conv = nn.Conv3d(inside, outside, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


batch = 2
inside = 8
outside = 16
size = 32


def get_inputs():
    return [torch.randn(batch, inside, size, size, size)]


def get_init_inputs():
    return [inside, outside]
