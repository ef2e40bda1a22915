"""Collects its parts in a list and returns one tensor."""

import torch


def custom_kernel(data):
    a, b = data
    parts = []
    for left, right in zip(a.split(100), b.split(100), strict=True):
        parts.append(left + right)
    return torch.cat(parts)
