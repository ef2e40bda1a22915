"""Multiply two matrices."""

import torch
from task import input_t, output_t
from utils import make_match_reference


def generate_input(m: int, n: int, k: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    a = torch.randn(m, k, generator=generator, device="cuda")
    b = torch.randn(k, n, generator=generator, device="cuda")
    return a, b


def ref_kernel(data: input_t) -> output_t:
    a, b = data
    return (a.double() @ b.double()).float()


check_implementation = make_match_reference(ref_kernel, rtol=1e-5, atol=1e-4)
