"""Compute with half of the bits: what is expected loses its fractions."""

import torch


def custom_kernel(data):
    return data.cumsum(0).to(torch.int32)
