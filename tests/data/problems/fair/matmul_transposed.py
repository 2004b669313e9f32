import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Product of transposed matrices; inputs are views."""

    def forward(self, a, b):
        return torch.matmul(a.T, b.T)


M = 256
K = 512
N = 320


def get_inputs():
    return [torch.rand(K, M), torch.rand(N, K)]


def get_init_inputs():
    return []
