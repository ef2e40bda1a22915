"""One plan for each shape, as a kernel that is compiled for it would be."""

import torch

plans = {}


def custom_kernel(data):
    a, b = data
    if a.shape not in plans:
        plans[a.shape] = torch.arange(a.numel(), device="cuda")
    order = plans[a.shape]
    return a[order] + b[order]
