"""Change signs, of inputs that take a twentieth of a second to make."""

import time

import torch
from task import input_t, output_t
from utils import make_match_reference

WORK_S = 0.05


def generate_input(size: int, seed: int) -> input_t:
    until = time.process_time() + WORK_S
    while time.process_time() < until:
        pass
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(size, generator=generator, device="cuda")


def ref_kernel(data: input_t) -> output_t:
    return data * -1


check_implementation = make_match_reference(ref_kernel, rtol=0, atol=0)
