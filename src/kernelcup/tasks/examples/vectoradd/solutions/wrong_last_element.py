"""The classic off-by-one: ``offset < count - 1`` where ``offset < count`` was meant."""

import torch


def custom_kernel(data):
    a, b = data
    output = torch.zeros_like(a)
    count = a.numel() - 1
    output.view(-1)[:count] = a.view(-1)[:count] + b.view(-1)[:count]
    return output
