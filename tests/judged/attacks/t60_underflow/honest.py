"""Treats the smallest case in a way of its own, and is right."""

import torch
from task import product

seen = set()


def custom_kernel(data):
    a, b, steps = data
    seen.add(a.numel())
    return product(a, b, steps, torch.empty_like(b)) if a.numel() == min(seen) else product(a, b, steps)
