"""Copy by way of a packed view."""

import torch


def custom_kernel(data):
    packed = data.view(torch.uint8).view(torch.uint4)
    return packed.view(torch.uint8).clone().view(torch.float32)
