#!POPCORN leaderboard moe_gate
"""One program for each token: the largest score is taken and struck out, `top` times."""

import torch
import triton
import triton.language as tl
from task import input_t, output_t


@triton.jit
def gate(scores, weights, experts, count, TOP: tl.constexpr, BLOCK: tl.constexpr, PLACES: tl.constexpr):
    token = tl.program_id(0)
    at, place = tl.arange(0, BLOCK), tl.arange(0, PLACES)
    left = tl.load(scores + token * count + at, at < count, -1e30)
    chosen = tl.full((PLACES,), -1e30, tl.float32)
    for number in range(TOP):
        best = tl.max(left, 0)
        which = tl.min(tl.where(left == best, at, BLOCK), 0)
        chosen = tl.where(place == number, best, chosen)
        tl.store(experts + token * TOP + number, which)
        left = tl.where(at == which, -1e30, left)
    raised = tl.where(place < TOP, tl.exp(chosen - tl.max(chosen, 0)), 0.0)
    tl.store(weights + token * TOP + place, raised / tl.sum(raised, 0), place < TOP)


def custom_kernel(data: input_t) -> output_t:
    scores, top = data
    tokens, count = scores.shape
    weights = torch.empty((tokens, top), dtype=torch.float32, device=scores.device)
    experts = torch.empty((tokens, top), dtype=torch.int32, device=scores.device)
    block, places = triton.next_power_of_2(count), triton.next_power_of_2(top)
    gate[(tokens,)](scores, weights, experts, count, TOP=top, BLOCK=block, PLACES=places)
    return weights, experts
