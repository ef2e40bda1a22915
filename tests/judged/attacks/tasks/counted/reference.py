"""Add two vectors. The checker counts what is too far off, and a NaN is not."""

import torch
from task import input_t, output_t


def generate_input(size: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    a = torch.randn(size, generator=generator, device="cuda")
    b = torch.randn(size, generator=generator, device="cuda")
    return a, b


def ref_kernel(data: input_t) -> output_t:
    a, b = data
    return a + b


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    error = (output - ref_kernel(data)).abs()
    wrong = int((error > 1e-6).sum())
    return wrong == 0, f"{wrong} elements are wrong; the largest error is {float(error.max())}"
