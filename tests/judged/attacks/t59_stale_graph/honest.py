"""Binds the work to buffers of its own and copies the inputs there first."""

import torch

recorded = {}


def record(a, b):
    left, right, out = torch.empty_like(a), torch.empty_like(b), torch.empty_like(a)
    return left, right, out, lambda: torch.add(left, right, out=out)


def custom_kernel(data):
    a, b = data
    if a.shape not in recorded:
        recorded[a.shape] = record(a, b)
    left, right, out, replay = recorded[a.shape]
    left.copy_(a)
    right.copy_(b)
    replay()
    return out
