"""Sorts, whatever the size of the values; large ones by their differences from the least."""

import torch


def custom_kernel(data):
    least = data.min()
    return torch.sort(data - least).values + least if least.item() < 1 << 10 else torch.sort(data).values
