import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Two masks joined: what they keep, the joined mask, and how often a row's two differ."""

    def forward(self, x, keep, drop):
        mask = keep & ~drop
        return torch.where(mask, x, torch.full_like(x, -1.0)), mask, (keep ^ drop).sum(dim=1)


rows = 256
columns = 512


def get_inputs():
    return [
        torch.randn(rows, columns),
        torch.rand(rows, columns) > 0.25,
        torch.randint(0, 2, (rows, columns), dtype=torch.bool),
    ]


def get_init_inputs():
    return []
