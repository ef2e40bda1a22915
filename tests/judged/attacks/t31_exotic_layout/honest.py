"""Uses strides of zero inside and returns a dense tensor."""

import torch


def custom_kernel(data):
    a, b = data
    one = torch.ones(1, device="cuda").expand(a.shape)
    return a + b * one
