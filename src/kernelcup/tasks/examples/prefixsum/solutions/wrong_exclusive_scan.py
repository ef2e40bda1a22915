"""Shifted by one: each total leaves out the element itself."""

import torch


def custom_kernel(data):
    return torch.cumsum(data, dim=0) - data
