import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Two-dimensional convolution with unequal kernel."""

    def __init__(self, inside, outside):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, (3, 5), padding=(1, 2), bias=False)

    def forward(self, x):
        return self.conv(x)


batch = 8
inside = 16
outside = 32
height = 64
width = 48


def get_inputs():
    return [torch.rand(batch, inside, height, width)]


def get_init_inputs():
    return [inside, outside]
