"""All-reduce: the input of each GPU rank, the sum in float64, and the check."""

import torch
import torch.distributed as dist
from task import input_t, output_t


def generate_input(size: int, world_size: int, seed: int, rank: int) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed + rank)
    return torch.randn(size, generator=generator, device="cuda")


def ref_kernel(data: input_t) -> output_t:
    total = data.double()
    dist.all_reduce(total)
    return total.float()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    expected = ref_kernel(data)
    wrong = ~torch.isclose(output, expected, rtol=1e-5, atol=1e-5)
    if not bool(wrong.any()):
        return True, ""
    first = int(wrong.nonzero()[0])
    return False, f"element {first} is {output[first].item()}, expected {expected[first].item()}"
