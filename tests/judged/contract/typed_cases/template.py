#!POPCORN leaderboard contract-typed-cases
import torch
from task import input_t, output_t

ROUND = {"floor": torch.floor, "ceil": torch.ceil, "nearest": torch.round}


def custom_kernel(data: input_t) -> output_t:
    values, negate, rounding = data
    return ROUND[rounding](-values if negate else values)
