"""Causal attention: inputs, the reference in float32, and the check."""

import torch
from task import input_t, output_t
from utils import make_match_reference


def generate_input(batch: int, heads: int, length: int, dim: int, seed: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    shape = (batch, heads, length, dim)
    q, k, v = (torch.randn(shape, generator=generator, device="cuda", dtype=torch.float16) for _ in range(3))
    return q, k, v


def ref_kernel(data: input_t) -> output_t:
    length, dim = data[0].shape[-2:]
    later = torch.ones(length, length, dtype=torch.bool, device=data[0].device).triu(1)
    output = torch.empty_like(data[0])
    # One head at a time: the scores of all would take gigabytes.
    for place in range(data[0].shape[0] * data[0].shape[1]):
        q, k, v = (each.flatten(0, 1)[place].float() for each in data)
        scores = (q @ k.T / dim**0.5).masked_fill(later, float("-inf"))
        output.view(-1, length, dim)[place] = (scores.softmax(dim=-1) @ v).half()
    return output


check_implementation = make_match_reference(ref_kernel, rtol=1e-2, atol=5e-3)
