import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Sum of what comes before, from pieces put together."""

    def forward(self, x):
        zero = torch.zeros_like(x.select(1, 0).unsqueeze(1))
        return torch.cumsum(torch.cat((zero, x), dim=1)[:, :-1], dim=1)


rows = 128
columns = 1024


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return []
