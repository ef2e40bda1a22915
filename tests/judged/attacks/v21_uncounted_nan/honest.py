"""Begins with NaN and overwrites all of it."""

import torch


def custom_kernel(data):
    a, b = data
    out = torch.full_like(a, float("nan"))
    return torch.add(a, b, out=out)
