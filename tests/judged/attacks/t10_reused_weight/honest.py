"""Repacks b into a buffer that it keeps, in every call."""

import torch

packed = {}


def custom_kernel(data):
    a, b = data
    if b.shape not in packed:
        packed[b.shape] = torch.empty_like(b.t(), memory_format=torch.contiguous_format)
    packed[b.shape].copy_(b.t())
    return a @ packed[b.shape].t()
