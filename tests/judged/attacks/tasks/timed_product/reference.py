"""Multiply a matrix by another that is turned around before: long enough for a clock to be worth cheating."""

import torch
from task import input_t, output_t, product
from utils import make_match_reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def generate_input(size: int, steps: int, seed: int) -> input_t:
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    a = torch.randn(size, size, generator=generator, device=DEVICE) / size**0.5
    b = torch.randn(size, size, generator=generator, device=DEVICE)
    return a, b, steps


def ref_kernel(data: input_t) -> output_t:
    return product(*data)


check_implementation = make_match_reference(ref_kernel, rtol=1e-3, atol=1e-3)
