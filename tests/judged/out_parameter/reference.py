"""A task whose output is one of its parameters: what a call returns is ignored."""

import torch

Parameters = tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]


def generate_input(size: int, seed: int) -> Parameters:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    a = torch.randn(size, device="cuda", generator=generator)
    b = torch.randn(size, device="cuda", generator=generator)
    return a, b, torch.empty(size, device="cuda"), size


def ref_kernel(data: Parameters) -> None:
    a, b, c, _size = data
    torch.add(a, b, out=c)


def check_implementation(data: Parameters, output: Parameters) -> bool:
    return torch.allclose(output[2], data[0] + data[1])
