"""Running totals: inputs, the reference, and the check."""

import torch
from task import input_t, output_t
from utils import make_match_reference


def generate_input(size: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(size, generator=generator, device="cuda")


def ref_kernel(data: input_t) -> output_t:
    return torch.cumsum(data.double(), dim=0).float()


# Totals of a million elements reach some thousands, where neighbouring float32 numbers are 0.0002
# apart. Sums in blocks err by 0.002, adding up one by one by 0.05 at most (measured over 20 inputs).
# A missing or additional element changes all totals after it by about 1, ten times the tolerance.
check_implementation = make_match_reference(ref_kernel, rtol=1e-5, atol=0.1)
