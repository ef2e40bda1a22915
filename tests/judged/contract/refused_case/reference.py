import torch
from utils import difference


def generate_input(size: int, seed: int) -> torch.Tensor:
    if size < 0:
        raise ValueError(f"there is no vector of {size} elements")
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(size, generator=generator, device="cuda")


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    return data.clone()


def check_implementation(data: torch.Tensor, output: torch.Tensor) -> str:
    return difference(output, ref_kernel(data))
