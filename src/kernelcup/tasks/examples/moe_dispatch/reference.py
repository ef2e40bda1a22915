"""Dispatch of a mixture of experts: the input of each GPU rank, the sum in float32, and the check."""

import torch
import torch.distributed as dist
from task import input_t, output_t
from utils import verbose_allclose


def generate_input(
    tokens: int, experts: int, top: int, dim: int, world_size: int, seed: int, rank: int
) -> input_t:
    generator = torch.Generator(device="cuda").manual_seed(seed + rank)
    x = torch.randn((tokens, dim), generator=generator, device="cuda").bfloat16()
    w = torch.randn((experts // world_size, dim, dim), generator=generator, device="cuda") / dim**0.5
    # Experts with large numbers are chosen more often, so ranks get different numbers of tokens.
    liking = torch.rand((tokens, experts), generator=generator, device="cuda")
    liking += torch.arange(experts, device="cuda") / (2 * experts)
    chosen = liking.topk(top, dim=-1).indices
    weights = torch.rand((tokens, top), generator=generator, device="cuda") + 0.5
    return x, chosen, weights, w.bfloat16()


def gathered(part: torch.Tensor) -> torch.Tensor:
    """Return a tensor of all ranks, of the same shape in each, below each other."""
    whole = torch.empty((dist.get_world_size() * len(part), *part.shape[1:]), dtype=part.dtype, device=part.device)
    dist.all_gather_into_tensor(whole, part)
    return whole


def ref_kernel(data: input_t) -> output_t:
    # Each rank has the tokens of all of them, and applies its own experts: nothing is sent to an expert.
    x, chosen, weights, w = data
    every_x, every_chosen, every_weight = gathered(x).float(), gathered(chosen), gathered(weights)
    total = torch.zeros_like(every_x)
    first = dist.get_rank() * len(w)
    for number, matrix in enumerate(w.float()):
        share = torch.where(every_chosen == first + number, every_weight, 0.0).sum(dim=-1)
        rows = share.nonzero()[:, 0]
        total[rows] += share[rows, None] * (every_x[rows] @ matrix)
    dist.all_reduce(total)
    begin = dist.get_rank() * len(x)
    return total[begin : begin + len(x)].bfloat16()


def check_implementation(data: input_t, output: output_t) -> str:
    """Return what is wrong, an empty text if nothing is."""
    return "\n".join(verbose_allclose(output.float(), ref_kernel(data).float(), rtol=2e-2, atol=4e-2))
