import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Max pooling with stride and padding."""

    def __init__(self, kernel):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel, stride=2, padding=1)

    def forward(self, x):
        return self.pool(x)


batch = 16
channels = 32
size = 128
kernel = 3


def get_inputs():
    return [torch.randn(batch, channels, size, size)]


def get_init_inputs():
    return [kernel]
