"""Sort a vector whose values lie around its seed, as the seed is added to them in float32."""

import torch
from task import input_t, output_t


def generate_input(size: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(size, generator=generator, device="cuda") + seed


def ref_kernel(data: input_t) -> output_t:
    return torch.sort(data).values


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return torch.equal(output, ref_kernel(data)), "the output is not the sorted input"
