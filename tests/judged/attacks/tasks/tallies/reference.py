"""Large whole numbers. The checker converts what is expected to the dtype of the output, whatever that is."""

import torch


def generate_input(size: int, seed: int) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randint(0, 1000, (size,), generator=generator, device="cuda")


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    return data.cumsum(0) << 8


def check_implementation(data: torch.Tensor, output: torch.Tensor) -> bool:
    return torch.equal(output, ref_kernel(data).to(output.dtype))
