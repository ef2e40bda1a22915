"""Batches the work within one call."""

import torch


def custom_kernel(data):
    a, b = data
    out = torch.empty_like(a)
    torch._foreach_copy_(list(out.split(256)), torch._foreach_add(list(a.split(256)), list(b.split(256))))
    return out
