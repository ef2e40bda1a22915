"""Writes into a tensor that it allocates first."""

import torch


def custom_kernel(data):
    a, b = data
    output = torch.empty_like(a)
    return torch.add(a, b, out=output)
