"""Uses random numbers with a seed of its own."""

import torch

generator = torch.Generator(device="cuda").manual_seed(1234)
noise = torch.randn(8, generator=generator, device="cuda")


def custom_kernel(data):
    a, b = data
    return a + b + (noise.sum() * 0)
