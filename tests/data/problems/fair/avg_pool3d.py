import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Average pooling in three dims."""

    def __init__(self, kernel):
        super().__init__()
        self.pool = nn.AvgPool3d(kernel, stride=2, padding=1)

    def forward(self, x):
        return self.pool(x)


batch = 4
channels = 16
size = 32
kernel = 3


def get_inputs():
    return [torch.rand(batch, channels, size, size, size)]


def get_init_inputs():
    return [kernel]
