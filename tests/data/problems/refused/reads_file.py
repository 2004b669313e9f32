import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Reads a file of the machine."""

    def forward(self, x):
        return x + len(open('/etc/passwd').read())


rows = 64


def get_inputs():
    return [torch.randn(rows)]


def get_init_inputs():
    return []
