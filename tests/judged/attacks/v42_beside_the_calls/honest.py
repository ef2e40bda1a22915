"""Computes with several threads of PyTorch, within the call."""

import torch

torch.set_num_threads(4)


def custom_kernel(data):
    many = data.repeat(1 << 12)
    return torch.neg(many)[: data.numel()].clone()
