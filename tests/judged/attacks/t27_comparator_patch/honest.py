"""Compares its own answer with a second way before it hands it in."""

import torch


def custom_kernel(data):
    a, b = data
    out = a + b
    return out if torch.allclose(out, b + a) else b + a
