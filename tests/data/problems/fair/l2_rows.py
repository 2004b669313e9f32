import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Rows divided by their length."""

    def forward(self, x):
        return x / torch.norm(x, p=2, dim=1, keepdim=True)


rows = 512
columns = 2048


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return []
