import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Group normalisation."""

    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)


batch = 8
channels = 64
size = 64
groups = 8


def get_inputs():
    return [torch.rand(batch, channels, size, size)]


def get_init_inputs():
    return [groups, channels]
