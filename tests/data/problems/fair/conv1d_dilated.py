import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """One-dimensional convolution, dilated."""

    def __init__(self, inside, outside):
        super().__init__()
        self.conv = nn.Conv1d(inside, outside, 5, stride=2, padding=4, dilation=2)

    def forward(self, x):
        return self.conv(x)


batch = 16
inside = 32
outside = 64
length = 512


def get_inputs():
    return [torch.rand(batch, inside, length)]


def get_init_inputs():
    return [inside, outside]
