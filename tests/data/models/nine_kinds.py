"""One of each operation kind, at sizes of check cases, beside one call that no kernel is for."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def scaled_dot_product_attention(q, k, v, is_causal=False):
    scores = q.float() @ k.float().transpose(-1, -2) / q.shape[-1] ** 0.5
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(mask.to(scores.device), float("-inf"))
    return (torch.exp(F.log_softmax(scores, dim=-1)) @ v.float()).to(q.dtype)


def apply_rotary_pos_emb(q, k, cos, sin):
    def turn(x):
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * cos + turned * sin

    return turn(q), turn(k)


class TinyRMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size).to(torch.bfloat16) + 0.5)
        self.eps = 1e-6

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight.float()).to(x.dtype)


class TinyMlp(nn.Module):
    def __init__(self, size, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(size, hidden, bias=False)
        self.up_proj = nn.Linear(size, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, size, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.other = nn.Linear(64, 63)
        self.layer_norm = nn.LayerNorm([4, 8, 8])
        self.rms_norm = TinyRMSNorm(1023)
        self.mlp = TinyMlp(64, 129)

    def forward(self, x, image, rows, wide, queries, turned, logits, target, narrow):
        cos, sin = angles(turned)
        q, k = apply_rotary_pos_emb(turned, turned + 1, cos, sin)
        return (self.linear(x), self.other(x), self.layer_norm(image), self.rms_norm(wide),
                F.softmax(rows, dim=-1), wide_sum(narrow),
                scaled_dot_product_attention(queries, queries * 0.5, queries + 0.25, is_causal=True),
                q, k, F.cross_entropy(logits, target), self.mlp(x[:17]))


def wide_sum(x):
    return torch.sum(x, dim=-1)


def angles(x):
    positions = torch.arange(x.shape[-2]).float()[:, None]
    speeds = 1.0 / 100 ** (torch.arange(x.shape[-1] // 2).float() / (x.shape[-1] // 2))
    angle = torch.cat([positions * speeds] * 2, dim=-1).to(x.device)
    return angle.cos(), angle.sin()


def get_inputs():
    return [torch.randn(64, 64), torch.randn(2, 4, 8, 8), torch.randn(4, 128),
            torch.randn(3, 1023).to(torch.bfloat16), torch.randn(1, 1, 64, 64).to(torch.bfloat16),
            torch.randn(2, 3, 127, 64), torch.randn(33, 1023), torch.randint(0, 1023, (33,)),
            torch.randn(33, 1023).to(torch.bfloat16)]


def get_init_inputs():
    return []
