"""Double a vector: an unfinished task."""

import torch


def generate_input(size: int, seed: int) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(size, generator=generator, device="cuda")


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError("there is no reference yet")


def check_implementation(data: torch.Tensor, output: torch.Tensor) -> bool:
    return torch.equal(output, ref_kernel(data))
