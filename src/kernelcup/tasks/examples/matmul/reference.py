"""Multiply two matrices: inputs, the reference, and the check."""

import math

import torch
from task import input_t, output_t
from utils import make_match_reference


def generate_input(m: int, n: int, k: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    a = torch.randn(m, k, generator=generator, device="cuda")
    b = torch.randn(k, n, generator=generator, device="cuda") / math.sqrt(k)
    return a.half(), b.half()


def ref_kernel(data: input_t) -> output_t:
    a, b = data
    return (a.float() @ b.float()).half()


# The product's elements are of size one. Leaving out one of 1024 terms changes most of them by
# 0.01 to 0.1, rounding the result to float16 by 0.0005 of their size.
check_implementation = make_match_reference(ref_kernel, rtol=5e-3, atol=5e-3)
