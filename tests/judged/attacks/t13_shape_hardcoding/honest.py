"""Has a special way for four sizes and a general one for the rest."""

import torch


def custom_kernel(data):
    a, b = data
    if a.numel() in (33, 500, 1000, 4096):
        return torch.add(a, b)
    return a + b
