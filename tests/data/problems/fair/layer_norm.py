import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Layer normalisation with parameters."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)

    def forward(self, x):
        return self.norm(x)


tokens = 2048
width = 512


def get_inputs():
    return [torch.randn(tokens, width)]


def get_init_inputs():
    return [width]
