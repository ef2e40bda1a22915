"""Keep the factors of each size, made once and before any input."""

import torch

FACTORS = {}


def prepare(size):
    if size in FACTORS:
        raise RuntimeError("prepared twice")
    FACTORS[size] = torch.arange(1, size + 1, device="cuda", dtype=torch.float32)


def custom_kernel(data):
    return data * FACTORS[data.shape[1]]
