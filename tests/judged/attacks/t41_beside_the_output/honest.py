"""Writes both answers into one larger allocation of its own and hands in what belongs to each."""

import torch
from task import Pair


def custom_kernel(data):
    a, b = data
    both = torch.full((2, a.numel() + 64), float("nan"), device="cuda")
    both[0, : a.numel()] = a + b
    both[1, : a.numel()] = a - b
    return Pair(both[0, : a.numel()].clone(), both[1, : a.numel()].clone())
