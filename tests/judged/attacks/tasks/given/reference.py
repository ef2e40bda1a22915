"""Square a vector into memory that the generator asks for and does not fill."""

import torch

Vectors = tuple[torch.Tensor, torch.Tensor]


def generate_input(size: int, seed: int) -> Vectors:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    values = torch.randn(size, generator=generator, device="cuda")
    return values, torch.empty(size, device="cuda")


def ref_kernel(data: Vectors) -> torch.Tensor:
    values, out = data
    out[...] = values * values
    return out


def check_implementation(data: Vectors, output: torch.Tensor) -> tuple[bool, str]:
    return torch.equal(output, data[0] * data[0]), "that is not the square"
