"""Counts calls to report them, in halves that are both computed."""

import torch

calls = {}


def custom_kernel(data):
    a, b = data
    calls[a.shape] = calls.get(a.shape, 0) + 1
    out = torch.zeros_like(a)
    half = a.numel() // 2
    torch.add(a[:half], b[:half], out=out[:half])
    torch.add(a[half:], b[half:], out=out[half:])
    return out
