"""Has one way for small inputs and another for large ones, both right."""

import torch


def custom_kernel(data):
    a, b = data
    if a.numel() < 1000:
        return a + b
    return torch.add(a, b)
