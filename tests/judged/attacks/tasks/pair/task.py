"""What goes in and what comes out."""

from typing import NamedTuple

import torch

input_t = tuple[torch.Tensor, torch.Tensor]


class Pair(NamedTuple):
    total: torch.Tensor
    difference: torch.Tensor


output_t = Pair
