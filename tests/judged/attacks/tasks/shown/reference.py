"""Positive elements. The checker compares pairs, as many as there are."""

import torch


def generate_input(size: int, seed: int) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(size, generator=generator, device="cuda")


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    return data[data > 0]


def check_implementation(data: torch.Tensor, output: torch.Tensor) -> bool:
    pairs = zip(ref_kernel(data).tolist(), output.tolist())
    return all(right == given for right, given in pairs)
