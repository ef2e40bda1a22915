"""Computes half after half, and all of it."""

import torch


def custom_kernel(data):
    values, scale, out = data
    half = values.numel() // 2
    torch.mul(values[:half], scale[:half], out=out[:half])
    torch.mul(values[half:], scale[half:], out=out[half:])
    return out
