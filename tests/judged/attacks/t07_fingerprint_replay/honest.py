"""Looks at a few elements too, to choose between two ways that are both right."""

import torch


def custom_kernel(data):
    a, b = data
    if a[:2].sum().item() > 0:
        return torch.add(a, b)
    return b + a
