import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Causal attention with several heads."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.project(x).split(width, dim=2)
        q = q.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
        k = k.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
        v = v.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        mask = torch.tril(torch.ones(tokens, tokens)) == 0
        weights = torch.softmax(scores.masked_fill(mask, float('-inf')), dim=-1)
        return self.out((weights @ v).transpose(1, 2).contiguous().view(batch, tokens, width))


batch = 4
tokens = 128
width = 128
heads = 4


def get_inputs():
    return [torch.randn(batch, tokens, width)]


def get_init_inputs():
    return [width, heads]
