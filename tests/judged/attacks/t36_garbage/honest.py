"""Begins with equal probabilities and replaces them by the right ones."""

import torch


def custom_kernel(data):
    out = torch.full_like(data, 1 / data.shape[1])
    return torch.softmax(data, dim=1, out=out)
