"""Takes the short way only where the input allows it."""

import torch


def custom_kernel(data):
    a, b = data
    if torch.equal(a, torch.diag(torch.diagonal(a))):
        return torch.diagonal(a)[:, None] * b
    return a @ b
