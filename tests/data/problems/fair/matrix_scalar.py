import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A matrix times a number that forward takes as an argument."""

    def forward(self, a, s):
        return a * s


M = 1024
N = 512


def get_inputs():
    return [torch.rand(M, N), 3.14]


def get_init_inputs():
    return []
