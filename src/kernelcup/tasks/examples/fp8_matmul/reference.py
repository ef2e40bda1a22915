"""FP8 matrix product with block scales: inputs, the reference in float32, and the check."""

import torch
from task import BLOCK, input_t, output_t
from utils import make_match_reference


def generate_input(m: int, n: int, k: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    a, b = (torch.randn((rows, k), generator=generator, device="cuda") for rows in (m, n))
    shapes = ((m, k // BLOCK), (n // BLOCK, k // BLOCK))
    scales = (torch.rand(shape, generator=generator, device="cuda") + 0.5 for shape in shapes)
    return a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn), *scales


def ref_kernel(data: input_t) -> output_t:
    a, b, a_scale, b_scale = data
    left = a.float() * a_scale.repeat_interleave(BLOCK, dim=1)
    right = b.float() * b_scale.repeat_interleave(BLOCK, dim=0).repeat_interleave(BLOCK, dim=1)
    return (left @ right.T).bfloat16()


check_implementation = make_match_reference(ref_kernel, rtol=2e-2, atol=2e-1)
