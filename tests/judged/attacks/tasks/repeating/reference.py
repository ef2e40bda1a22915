"""Multiply two vectors into a third: the first is the same twice over, the second a constant."""

import torch

Vectors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def generate_input(size: int, seed: int) -> Vectors:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    half = torch.randn(size // 2, generator=generator, device="cuda")
    scale = torch.full((size,), 0.5, device="cuda")
    return torch.cat([half, half]), scale, torch.randn(8 * size, generator=generator, device="cuda")[:size]


def ref_kernel(data: Vectors) -> torch.Tensor:
    values, scale, out = data
    out[...] = values * scale
    return out


def check_implementation(data: Vectors, output: torch.Tensor) -> tuple[bool, str]:
    return torch.equal(output, data[0] * data[1]), "that is not the product"
