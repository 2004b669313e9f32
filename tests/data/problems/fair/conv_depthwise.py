import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Depthwise, then pointwise convolution."""

    def __init__(self, channels, outside):
        super().__init__()
        self.deep = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.point = nn.Conv2d(channels, outside, 1)

    def forward(self, x):
        return self.point(self.deep(x))


batch = 8
channels = 32
outside = 64
size = 56


def get_inputs():
    return [torch.rand(batch, channels, size, size)]


def get_init_inputs():
    return [channels, outside]
