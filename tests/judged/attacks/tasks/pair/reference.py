"""Sum and difference of two vectors."""

import torch
from task import Pair, input_t, output_t
from utils import make_match_reference


def generate_input(size: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    a = torch.randn(size, generator=generator, device="cuda")
    b = torch.randn(size, generator=generator, device="cuda")
    return a, b


def ref_kernel(data: input_t) -> output_t:
    a, b = data
    return Pair(a + b, a - b)


check_implementation = make_match_reference(ref_kernel, rtol=1e-6, atol=1e-6)
