"""Uses a subclass inside and hands back a plain tensor."""

import torch


class Tagged(torch.Tensor):
    pass


def custom_kernel(data):
    a, b = data
    total = a.as_subclass(Tagged) + b
    return total.as_subclass(torch.Tensor)
