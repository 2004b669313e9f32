import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Batched product of a view with a tensor in fp16."""

    def forward(self, a, b):
        return torch.bmm(a, b)


batch = 32
M = 128
K = 256
N = 64


def get_inputs():
    return [torch.randn(batch, K, M).transpose(1, 2), torch.randn(batch, K, N)]


def get_init_inputs():
    return []
