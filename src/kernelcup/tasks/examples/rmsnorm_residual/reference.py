"""RMSNorm with a residual: inputs, the reference in float32, and the check."""

import torch
from task import EPSILON, input_t, output_t
from utils import make_match_reference


def generate_input(rows: int, hidden: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    shapes = ((rows, hidden), (rows, hidden), (hidden,))
    x, residual, weight = (torch.randn(shape, generator=generator, device="cuda") for shape in shapes)
    return x.bfloat16(), residual.bfloat16(), (1 + 0.1 * weight).bfloat16()


def ref_kernel(data: input_t) -> output_t:
    x, residual, weight = (each.float() for each in data)
    h = x + residual
    y = h * torch.rsqrt(h.square().mean(dim=-1, keepdim=True) + EPSILON) * weight
    return y.bfloat16(), h.bfloat16()


check_implementation = make_match_reference(ref_kernel, rtol=1.6e-2, atol=1e-2)
