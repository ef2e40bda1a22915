"""Fills a buffer of its own before it is written."""

import torch


def custom_kernel(data):
    a, b = data
    out = torch.empty_like(a)
    out[:1].fill_(0)
    return torch.add(a, b, out=out)
