"""Do half of the work and leave NaN where the rest belongs."""

import torch


def custom_kernel(data):
    a, b = data
    out = torch.full_like(a, float("nan"))
    half = a.numel() // 2
    torch.add(a[:half], b[:half], out=out[:half])
    return out
