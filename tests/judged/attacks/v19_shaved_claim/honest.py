"""Says what the clock does."""

import torch


def custom_kernel(data):
    a, b = data
    return torch.add(b, a)
