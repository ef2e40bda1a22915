"""Right, and long is the report."""

import torch


def custom_kernel(data):
    return torch.sort(data).values
