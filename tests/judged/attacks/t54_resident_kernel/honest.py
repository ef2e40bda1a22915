"""Starts a kernel at import that ends."""

import torch
from task import product

torch.cuda._sleep(1_000_000)


def custom_kernel(data):
    a, b, steps = data
    return product(a, b, steps)
