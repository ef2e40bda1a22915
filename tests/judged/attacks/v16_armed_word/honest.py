"""Does its work call by call, also while a graph is captured."""

import torch
from task import product


def custom_kernel(data):
    a, b, steps = data
    out = torch.empty_like(a)
    product(a, b, steps, out)
    return out
