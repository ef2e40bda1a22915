"""Leaves ``out`` alone and returns a tensor of its own."""

import torch


def custom_kernel(data):
    image, _ = data
    weights = torch.tensor([0.299, 0.587, 0.114], device=image.device)
    return (image * weights).sum(dim=-1)
