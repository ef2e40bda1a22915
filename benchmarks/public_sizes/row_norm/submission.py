from __future__ import annotations

import torch


def custom_kernel(data):
    return data * torch.rsqrt(data.square().mean(dim=-1, keepdim=True) + 1e-6)
