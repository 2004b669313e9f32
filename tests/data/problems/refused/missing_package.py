import torch
import torch.nn as nn
import torch.nn.functional as F


import a_package_that_is_nowhere as nowhere


class Model(nn.Module):
    """Needs a package that is not installed."""

    def forward(self, x):
        return nowhere.relu(x)


rows = 64


def get_inputs():
    return [torch.randn(rows)]


def get_init_inputs():
    return []
