import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Transposed convolution with output padding and groups."""

    def __init__(self, inside, outside):
        super().__init__()
        self.conv = nn.ConvTranspose2d(inside, outside, 4, stride=2, padding=1, output_padding=1, groups=4)

    def forward(self, x):
        return self.conv(x)


batch = 4
inside = 32
outside = 16
size = 32


def get_inputs():
    return [torch.rand(batch, inside, size, size)]


def get_init_inputs():
    return [inside, outside]
